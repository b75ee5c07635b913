"""Responses streams that nobody should send: nothing raises, and nothing costs more than it says."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat import dialects
from chat.dialects.base import Cause
from chat.dialects.responses_parser import HANDLERS
from chat.wire.sse import Frame
from tests.dialects.test_hostile import JSON, TEXTS, causes, check, run
from tests.dialects.test_linear_cost import FEW, MANY, MOST, calls_of, lines_of

RESPONSES = dialects.get("openai_responses")
NAME = "openai_responses"

KINDS = st.sampled_from(
    [
        *("message", "reasoning", "function_call", "custom_tool_call", "mcp_call", "compaction"),
        *("mcp_list_tools", "mcp_approval_request", "web_search_call", "code_interpreter_call"),
        *("image_generation_call", "shell_call", "shell_call_output", "function_call_output"),
        *("tool_output", "tool_search_call", "local_shell_call", "computer_call", "weather_call"),
    ]
)
IDS = st.sampled_from(["", "a", "b", "call"])
PART = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["output_text", "refusal", "reasoning_text", "summary_text", "logs", "image", "x"]
        )
    },
    optional={"text": TEXTS, "refusal": TEXTS, "annotations": JSON, "logprobs": JSON, "url": TEXTS},
)
ITEM = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        "id": IDS,
        "call_id": IDS,
        "tool_call_id": IDS,
        "name": TEXTS,
        "arguments": TEXTS | JSON,
        "input": TEXTS | JSON,
        "code": TEXTS,
        "content": st.lists(PART, max_size=3) | JSON,
        "summary": st.lists(PART, max_size=3) | JSON,
        "encrypted_content": TEXTS | JSON,
        "output": TEXTS | JSON,
        "outputs": st.lists(PART, max_size=2) | JSON,
        "action": JSON,
        "operation": JSON,
        "mcp": JSON,
        "error": JSON,
        "tools": JSON,
        "result": TEXTS | JSON,
        "queries": JSON,
        "status": st.sampled_from(["completed", "incomplete", "failed", "in_progress"]) | JSON,
        "environment": st.just({"type": "local"}) | JSON,
        "execution": st.sampled_from(["client", "server"]),
    },
)
RESPONSE = st.fixed_dictionaries(
    {},
    optional={
        "id": IDS | JSON,
        "model": TEXTS | JSON,
        "status": st.sampled_from(["completed", "incomplete", "failed", "cancelled", "queued"]),
        "output": st.lists(ITEM, max_size=4) | JSON,
        "usage": JSON,
        "error": JSON,
        "incomplete_details": JSON,
        "reasoning": JSON,
    },
)
EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(sorted(HANDLERS))},
    optional={
        "item_id": IDS,
        "output_index": st.integers(0, 3) | JSON,
        "content_index": st.integers(0, 2),
        "summary_index": st.integers(0, 2),
        "command_index": st.integers(0, 2),
        "sequence_number": st.integers(-1, 30),
        "delta": TEXTS | JSON,
        "text": TEXTS | JSON,
        "refusal": TEXTS,
        "arguments": TEXTS | JSON,
        "name": TEXTS,
        "input": TEXTS | JSON,
        "code": TEXTS | JSON,
        "command": TEXTS | JSON,
        "part": PART | JSON,
        "item": ITEM | JSON,
        "annotation": JSON,
        "logprobs": JSON,
        "output": JSON,
        "response": RESPONSE | JSON,
        "partial_image_b64": TEXTS | JSON,
    },
)
# The last event ends everything, so that what is after it would never be looked at.
ONGOING = EVENT.filter(
    lambda event: event["type"].split(".")[-1] in ("added", "delta", "done", "created")
)


@given(events=st.lists(ONGOING | EVENT, max_size=8), end=EVENT, cause=causes)
@settings(max_examples=40, deadline=None)
def test_no_events_raise(events: list[object], end: object, cause: Cause) -> None:
    check(run(RESPONSES, [Frame(None, json.dumps(event)) for event in [*events, end]], cause))


@given(response=RESPONSE, cause=causes)
@settings(max_examples=40, deadline=None)
def test_no_complete_answer_raises(response: object, cause: Cause) -> None:
    body = json.dumps({"object": "response", **response}).encode()  # type: ignore[dict-item]
    parser = RESPONSES.parser(model="m", options={})

    events = parser.feed_body(body)

    assert parser.feed(Frame(None, "{}")) == []
    assert len([*events, *parser.close(cause)]) >= 1


# --- cost -------------------------------------------------------------------------------


def line(name: str, **members: object) -> bytes:
    return b"data: " + json.dumps({"type": f"response.{name}", **members}).encode() + b"\n\n"


def completed(output: list[object] | None = None) -> bytes:
    return line("completed", response={"status": "completed", "output": output or []})


def delta(text: str, number: int = 0, **members: object) -> bytes:
    place = {"item_id": f"m{number}", "output_index": number, "content_index": 0}
    return line("output_text.delta", delta=text, **place, **members)


def numbered_text(count: int) -> bytes:
    return b"".join(delta("word ", sequence_number=n) for n in range(count)) + completed()


def general_way(count: int) -> bytes:
    return delta("word ", mood="calm") * count + completed()


def surrogates(count: int) -> bytes:
    return (delta("\ud83c") + delta("\udf0a")) * (count // 2) + completed()


def many_messages(count: int) -> bytes:
    return b"".join(delta("word", number) for number in range(count)) + completed()


def repeated_wholes(count: int) -> bytes:
    place = {"item_id": "m0", "output_index": 0, "content_index": 0}
    return delta("word " * 40) * count + line("output_text.done", text="word", **place) * count


def reasoning_parts(count: int) -> bytes:
    return b"".join(
        line("reasoning_summary_text.delta", item_id="r", summary_index=n, delta="a")
        + line("reasoning_summary_text.done", item_id="r", summary_index=n, text="ab")
        for n in range(count // 2)
    )


def many_calls_and_results(count: int) -> bytes:
    items = (
        line("output_item.done", item={"type": "mcp_call", "id": f"c{n}", "arguments": "{}"})
        + line("output_item.done", item={"type": "tool_output", "id": f"o{n}", "output": "x"})
        for n in range(count // 2)
    )
    return b"".join(items) + completed()


def final_with_other_ids(count: int) -> bytes:
    wholes: list[object] = [
        {"type": "message", "id": f"x{n}", "content": [{"type": "output_text", "text": "word"}]}
        for n in range(count // 2)
    ]
    return b"".join(delta("word", number) for number in range(count // 2)) + completed(wholes)


def arguments(count: int) -> bytes:
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": "t", "arguments": ""}
    piece = line("function_call_arguments.delta", item_id="f", output_index=0, delta="1,")
    return line("output_item.added", output_index=0, item=item) + piece * count + completed()


def annotations(count: int) -> bytes:
    return b"".join(
        line("output_text.annotation.added", item_id="m", annotation_index=n, annotation={})
        for n in range(count)
    )


def gaps(count: int) -> bytes:
    return b"".join(delta("word ", sequence_number=2 * n) for n in range(count)) + completed()


def unknown_events(count: int) -> bytes:
    return line("tide.rising", height=1) * count + completed()


STREAMS: list[Callable[[int], bytes]] = [
    numbered_text,
    general_way,
    surrogates,
    many_messages,
    repeated_wholes,
    reasoning_parts,
    many_calls_and_results,
    final_with_other_ids,
    arguments,
    annotations,
    gaps,
    unknown_events,
]
each_stream = pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)


@each_stream
def test_calls_grow_with_the_events(stream: Callable[[int], bytes]) -> None:
    assert calls_of(NAME, stream(MANY)) <= MOST * calls_of(NAME, stream(FEW))


@each_stream
def test_lines_grow_with_the_events(stream: Callable[[int], bytes]) -> None:
    assert lines_of(NAME, stream(MANY)) <= MOST * lines_of(NAME, stream(FEW))
