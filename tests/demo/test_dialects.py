"""The demo's scenes, read with LM Studio's dialect and with chat completions."""

import posixpath

import msgspec
import pytest

from chat import dialects, result
from chat.demo.fake import FakeUpstream
from chat.demo.models import DEMO_SERVERS
from chat.dialects.base import AssistantTurn, Turn
from chat.events import Result
from tests.demo.answers import answer_to, connect, make_prompt, native

STATUSES = {
    "hello": "completed",
    "long": "completed",
    "code": "completed",
    "think": "completed",
    "table": "completed",
    "unicode": "completed",
    "slow": "completed",
    "load": "completed",
    "error": "failed",
    "cut": "cut",
}
EXPECTED = [
    *(("lmstudio", scene, status) for scene, status in STATUSES.items()),
    *(("openai_chat", scene, status) for scene, status in STATUSES.items()),
    ("lmstudio", "tool", "completed"),
    ("lmstudio", "tool fail", "completed"),
    ("lmstudio", "refuse", "completed"),
    ("openai_chat", "tool", "completed"),
    ("openai_chat", "refuse", "incomplete"),
]


async def answer(fake: FakeUpstream, dialect: str, *turns: Turn | str, **members: object) -> Result:
    prompt = make_prompt(*turns, model="tributary/demo-reasoner", **members)
    return await answer_to(fake, dialect, prompt)


async def test_scenes_have_their_ending(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for dialect, scene, status in EXPECTED:
        with subtests.test(dialect=dialect, scene=scene):
            found = await answer(fake, dialect, scene)

            assert found.ext.status == status
            assert found.ext.vendor == []


async def test_lm_studio_fold_equals_its_result(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for scene in ["hello", "tool", "tool fail", "unicode", "think", "error"]:
        with subtests.test(scene):
            found = await answer(fake, "lmstudio", scene)

            theirs = found.ext.upstream_result
            ours = msgspec.to_builtins(found)
            assert theirs
            for item, twin in zip(ours["output"], theirs["output"], strict=True):
                assert {name: item[name] for name in twin} == twin
            assert ours["response_id"] == theirs["response_id"]


async def test_sent_history_is_understood(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for dialect in ("lmstudio", "openai_chat"):
        with subtests.test(dialect):
            first = await answer(fake, dialect, "show code")
            earlier = AssistantTurn(result=first)

            found = await answer(fake, dialect, "show code", earlier, "a table")

            text = result.plain_text(found)
            assert "turn 2 of our conversation; before that you asked: “show code”" in text
            assert "Plan for the team day" in text


async def test_stored_history_is_continued(fake: FakeUpstream) -> None:
    first = await answer(fake, "lmstudio", "first")

    found = await answer(
        *(fake, "lmstudio", "first", native(first), "second"),
        previous_response_id=first.response_id,
    )

    assert "turn 2 of our conversation; before that you asked: “first”" in result.plain_text(found)


async def test_model_lists_hold_chat_models(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for name in ("lmstudio", "openai_chat"):
        with subtests.test(name):
            dialect = dialects.get(name)
            async with connect(fake, name) as client:
                response = await client.get(dialect.models_path)

            models = dialect.read_models(response.content)
            assert [model.id for model in models][:3] == [
                "tributary/demo-reasoner",
                "tributary/demo-writer",
                "tributary/demo-coder",
            ]


async def test_demo_servers_have_their_models(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for server in DEMO_SERVERS:
        dialect = dialects.get(server.dialect)
        if not dialect.models_path:
            continue
        with subtests.test(dialect.name):
            path = posixpath.normpath(f"{server.path}/{dialect.models_path}")
            async with connect(fake) as client:
                response = await client.get(
                    path, headers={**dialect.headers("sk-demo"), "anthropic-version": "2023-06-01"}
                )

            listed = {model.id for model in dialect.read_models(response.content)}
            assert {model.id for model in server.models} <= listed
