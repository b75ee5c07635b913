"""Ids of tool calls that came without one: made once, unlike those of every other run."""

import json

import pytest

from chat import dialects
from chat.dialects.base import Dialect
from chat.events import Result, ToolCallItem
from chat.result import Fold, finish
from chat.wire.sse import Frame

CHAT = dialects.get("openai_chat")


def answer_of(dialect: Dialect, *choices: int, **options: object) -> Result:
    """An answer of one call without an id per choice named, from a server that names nothing."""
    parser = dialect.parser(model="m", options=options)
    state = Fold()
    for choice in choices:
        call = {"function": {"name": "tide", "arguments": "{}"}}
        entry = {"index": choice, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        state.extend(parser.feed(Frame(None, json.dumps({"choices": [entry]}))))
    finish(parser, state)
    return state.result()


def ids_of(result: Result) -> list[str | None]:
    items = [*result.output, *(i for other in result.ext.alternatives for i in other.output)]
    return [item.call_id for item in items if isinstance(item, ToolCallItem)]


def test_ids_of_two_runs_differ() -> None:
    first = answer_of(CHAT, 0, run_id="1f")
    second = answer_of(CHAT, 0, run_id="2e")

    assert ids_of(first) == ["call_1f_0"]
    assert ids_of(second) == ["call_2e_0"]


def test_ids_of_two_choices_differ() -> None:
    assert ids_of(answer_of(CHAT, 0, 1, run_id="1f")) == ["call_1f_0", "call_1f_1_0"]


@pytest.mark.parametrize("run_id", ["1f", ""])
def test_native_turn_names_a_call_as_the_item_does(run_id: str) -> None:
    result = answer_of(CHAT, 0, run_id=run_id)

    assert [call["id"] for call in result.ext.native["tool_calls"]] == ids_of(result)
