"""What is read of the exports of each product, in the shapes of several years."""

from __future__ import annotations

from types import ModuleType

import pytest

from chat.imports.conversations import Unreadable
from chat.imports.formats import FORMATS, detect
from tests.imports import (
    examples_chatgpt,
    examples_claude,
    examples_librechat,
    examples_open_webui,
)
from tests.imports.outline import outline

EXAMPLES: dict[str, ModuleType] = {
    "chatgpt": examples_chatgpt,
    "claude": examples_claude,
    "librechat": examples_librechat,
    "open_webui": examples_open_webui,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_read(name: str, subtests: pytest.Subtests) -> None:
    examples = EXAMPLES[name]

    def member(name_or_id: str) -> str:
        return examples.MEMBERS.get(name_or_id, "")

    assert len(examples.EXAMPLES) >= 8
    for title, value, lines, problems, left_out in examples.EXAMPLES:
        with subtests.test(title):
            found = detect([value])
            assert found is FORMATS[name]

            conversation = found.read(value, member)

            assert outline(conversation) == lines
            assert (len(conversation.problems), len(conversation.left_out)) == (problems, left_out)
            assert found.name_of(value)[0] == conversation.source_id == "c1"


@pytest.mark.parametrize("name", EXAMPLES)
def test_unreadable_conversation_says_why(name: str) -> None:
    for value in EXAMPLES[name].UNREADABLE:
        with pytest.raises(Unreadable, match="No messages"):
            FORMATS[name].read(value, lambda _: "")


def test_nobody_claims_what_others_export() -> None:
    for name, examples in EXAMPLES.items():
        for _, value, *_ in examples.EXAMPLES:
            assert [each.name for each in FORMATS.values() if each.recognizes(value)] == [name]


def test_first_readable_conversation_tells_the_format() -> None:
    damaged = {"title": "Corrupted entry", "id": "x"}

    assert detect([7, None, damaged, examples_claude.chat()]) is FORMATS["claude"]
    assert detect([damaged, []]) is None


def test_times_and_instructions_are_read() -> None:
    chatgpt = FORMATS["chatgpt"].read(
        examples_chatgpt.chat({"u": ("", examples_chatgpt.message("user", "?", time=1.7e9 + 0.5))}),
        lambda _: "",
    )
    milliseconds = examples_open_webui.record(
        examples_open_webui.message("u", "user", "?"),
        timestamp=1_700_000_000_000,
        params={"system": "Be brief."},
    )
    del milliseconds["created_at"]
    open_webui = FORMATS["open_webui"].read(milliseconds, lambda _: "")
    librechat = FORMATS["librechat"].read(
        examples_librechat.chat(
            examples_librechat.ask(createdAt="2024-05-28T18:08:55.014Z"),
            examples_librechat.message("a", "!", "u", createdAt="2024-05-29T18:08:55.014Z"),
            options={"promptPrefix": "Be kind."},
        ),
        lambda _: "",
    )

    assert str(chatgpt.created_at) == "2023-11-14 22:13:20+00:00"
    assert str(chatgpt.turns[0].created_at) == "2023-11-14 22:13:20.500000+00:00"
    assert str(open_webui.created_at) == "2023-11-14 22:13:20+00:00"
    assert open_webui.system_prompt == "Be brief."
    assert str(librechat.created_at) == "2024-05-28 18:08:55.014000+00:00"
    assert str(librechat.updated_at) == "2024-05-29 18:08:55.014000+00:00"
    assert librechat.system_prompt == "Be kind."


def test_digest_follows_the_content_alone() -> None:
    def digest(**more: object) -> str:
        value = examples_claude.chat(examples_claude.message("u", "human", "Why?"), **more)
        return FORMATS["claude"].read(value, lambda _: "").digest

    assert digest() == digest(updated_at="2026-01-01T00:00:00Z", project_uuid="p")
    assert digest() != digest(name="Other")
