"""Requests of every dialect: parameters, options, credentials."""

from itertools import product

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from chat import dialects
from chat.dialects import DIALECTS
from chat.dialects.base import PARTS_LEFT_OUT, Audio, Document, Image, Prompt, Text, UserTurn
from chat.dialects.openai.request_members import SERVERS
from chat.dialects.openai_completions.prompt_templates import TEMPLATES
from chat.dialects.parameters import FOLDER, SHARED, declared, read_options
from chat.events import MessageItem
from tests.dialects.prompts import HELLO, MORE, SAID, body_of, make_answer, make_call, make_prompt
from tests.dialects.strategies import json_values
from tests.support.selection import examples

LM = dialects.get("lmstudio")
OPENAI = dialects.get("openai_chat")
BITSEEK = dialects.get("bitseek")
# Stands for the largest value that a dialect allows.
HIGHEST = object()


def choices_of(dialect: str, name: str) -> list[str]:
    (option,) = (each for each in dialects.get(dialect).options if each.name == name)
    return list(option.choices)


def test_declared_choices_agree_with_the_code() -> None:
    assert choices_of("openai_chat", "extras") == list(SERVERS)
    assert choices_of("openai_completions", "prompt_template") == [*TEMPLATES, "custom"]


def test_declared_tables_are_all_listed(subtests: pytest.Subtests) -> None:
    for path in sorted(FOLDER.rglob("*.toml")):
        name = path.relative_to(FOLDER).as_posix()
        if name == SHARED or name.endswith(("servers.toml", "templates.toml")):
            continue
        with subtests.test(name):
            found = declared(name, "openai_chat/parameters.toml")

            assert found.own <= {each.name for each in (*found.parameters, *found.options)}


BOUNDED = [
    ("temperature", 0.3, 0.3, 0),
    ("temperature", "0.3", 0.3, 0),
    ("temperature", 7, HIGHEST, 1),
    ("temperature", -1, 0, 1),
    ("temperature", "hot", None, 1),
    ("temperature", float("nan"), None, 1),
    ("temperature", "", None, 0),
    ("temperature", None, None, 0),
    ("top_p", 1, 1, 0),
    ("no_such_thing", 1, None, 1),
]


def test_parameters_are_typed_and_bounded(subtests: pytest.Subtests) -> None:
    for (dialect, highest), (name, value, expected, notes) in product(
        [(LM, 1), (OPENAI, 2)], BOUNDED
    ):
        with subtests.test(dialect=dialect.name, name=name, value=value):
            request = dialect.request(make_prompt(parameters={name: value}))

            assert body_of(request).get(name) == (highest if expected is HIGHEST else expected)
            assert len(request.notes) == notes


TYPED = [
    (LM, "reasoning", "high", "high"),
    (LM, "reasoning", "extreme", None),
    (LM, "max_output_tokens", "12", 12),
    (LM, "max_output_tokens", 0, 1),
    (OPENAI, "reasoning_effort", "low", "low"),
    (OPENAI, "seed", 42.0, 42),
    (OPENAI, "frequency_penalty", 3, 2),
]


def test_parameter_of_each_type(subtests: pytest.Subtests) -> None:
    for dialect, name, value, expected in TYPED:
        with subtests.test(dialect=dialect.name, name=name, value=value):
            assert (
                body_of(dialect.request(make_prompt(parameters={name: value}))).get(name)
                == expected
            )


def test_options_have_defaults_and_read_form_values() -> None:
    options = read_options(
        OPENAI.options, {"stream_options": "off", "inline_think": "x", "other": 1}
    )

    assert options["stream_options"] is False
    assert options["inline_think"] == "auto"
    assert "other" not in options


@given(text=st.text(st.characters()), system=st.text(st.characters()))
def test_no_text_raises(text: str, system: str) -> None:
    turns = (UserTurn.of(text), make_answer(MessageItem(content=text)), MORE)
    for dialect in dialects.DIALECTS.values():
        note(dialect.name)
        body_of(dialect.request(make_prompt(*turns, system=system)))


JSON = json_values(
    st.sampled_from(["c1", "assistant", "id", "x"]),
    st.sampled_from(["role", "content", "tool_calls", "id", "function", "name", "text"]),
)
NATIVES = JSON | st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={"content": JSON, "tool_calls": JSON, "reasoning_details": JSON},
)


@given(native=NATIVES)
@examples(120)
def test_no_native_turn_raises(native: object) -> None:
    turns = (HELLO, make_answer(SAID, make_call("high"), native=native), MORE)
    for dialect, is_legacy in product((OPENAI, BITSEEK), (False, True)):
        note(f"{dialect.name}, legacy functions: {is_legacy}")
        options = {"legacy_functions": is_legacy, "tool_call_ids": "nine_letters"}
        body_of(dialect.request(make_prompt(*turns, options=options)))


def test_credential_is_only_in_the_headers(subtests: pytest.Subtests) -> None:
    for dialect in dialects.DIALECTS.values():
        with subtests.test(dialect.name):
            without_key = dialect.headers("")
            added = dialect.headers("sk-1").items() - without_key.items()

            assert dict(added) == {"Authorization": "Bearer sk-1"}
            assert "authorization" not in {name.lower() for name in without_key}
            assert "sk-1" not in repr(dialect.request(make_prompt()))


def test_request_without_turns_does_not_raise(subtests: pytest.Subtests) -> None:
    for dialect in dialects.DIALECTS.values():
        with subtests.test(dialect.name):
            body_of(dialect.request(Prompt(model="m", turns=())))


def test_unknown_dialect_error_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no dialect 'nope'.*lmstudio, openai_chat"):
        dialects.get("nope")


@pytest.mark.parametrize("name", DIALECTS)
def test_what_a_dialect_does_not_take_is_named(name: str) -> None:
    dialect = DIALECTS[name]
    kinds = {
        kind: kind(media_type="x/y", data="aGk=", name="report")
        for kind in (Image, Audio, Document)
    }
    prompt = Prompt(model="m", turns=(UserTurn.of("See", *kinds.values()),))

    notes = dialect.request(prompt).notes

    refused = [words for kind, words in PARTS_LEFT_OUT.items() if kind not in dialect.takes_parts]
    assert [note for note in notes if note in PARTS_LEFT_OUT.values()] == refused
    assert Text in dialect.takes_parts
