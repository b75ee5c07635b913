"""Generated ids of tool calls that came without one."""

import json

import pytest

from chat import dialects
from chat.events import ChatEnd, Result, ToolCallItem
from chat.wire.sse import Frame
from tests.dialects.decoding import decode

CHAT = dialects.get("openai_chat")


def answer_of(*choices: int, run_id: str) -> Result:
    """An answer of one call without an id per choice named."""
    call = {"function": {"name": "tide", "arguments": "{}"}}
    entry = {"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    chunks = [{"choices": [{"index": choice, **entry}]} for choice in choices]
    end = decode(CHAT, [Frame(None, json.dumps(chunk)) for chunk in chunks], run_id=run_id)[-1]
    assert isinstance(end, ChatEnd)
    return end.result


def ids_of(result: Result) -> list[str | None]:
    items = [*result.output, *(i for other in result.ext.alternatives for i in other.output)]
    return [item.call_id for item in items if isinstance(item, ToolCallItem)]


def test_generated_ids_differ_between_runs() -> None:
    assert ids_of(answer_of(0, run_id="1f")) == ["call_1f_0"]
    assert ids_of(answer_of(0, run_id="2e")) == ["call_2e_0"]


def test_generated_ids_differ_between_choices() -> None:
    assert ids_of(answer_of(0, 1, run_id="1f")) == ["call_1f_0", "call_1f_1_0"]


def test_native_turn_has_the_ids_of_the_items(subtests: pytest.Subtests) -> None:
    for run_id in ["1f", ""]:
        with subtests.test(run_id=run_id):
            result = answer_of(0, run_id=run_id)

            assert [call["id"] for call in result.ext.native["tool_calls"]] == ids_of(result)
