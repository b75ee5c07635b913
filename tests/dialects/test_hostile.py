"""No input raises, whatever ends it; all that comes out can be stored and ends exactly once."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat import dialects
from chat.dialects.base import Cause, Dialect
from chat.events import ChatEnd, ChatStart, ErrorInfo, Event, encode
from chat.result import Fold, finish, fold
from chat.wire.sse import Decoder, Frame
from tests.fixtures import STREAMS

# An escaped U+0000; behind an odd number of backslashes it is the text of an escape.
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
each_dialect = pytest.mark.parametrize("dialect", dialects.DIALECTS.values(), ids=lambda d: d.name)
causes = st.sampled_from(["eof", "stopped", "interrupted", "failed"])

WORDS = st.sampled_from(
    [
        *(
            "type",
            "error",
            "message",
            "content",
            "choices",
            "delta",
            "index",
            "id",
            "model",
            "usage",
        ),
        *("finish_reason", "tool_calls", "function", "name", "arguments", "reasoning_content"),
        *("reasoning_details", "reasoning", "refusal", "role", "images", "audio", "annotations"),
        *("image_url", "url", "logprobs", "token_logprobs", "result", "output", "stats", "tool"),
        *("provider_info", "metadata", "tool_name", "reason", "progress", "load_time_seconds"),
        *("chat.start", "message.delta", "tool_call.start", "tool_call.arguments", "chat.end"),
        *("tool_call.success", "tool_call.failure", "reasoning.delta", "stop", "length", "text"),
        *("function_call", "extra_content", "x_thing", "invalid_tool_call", "tool_call", "object"),
    ]
)
TEXTS = (
    WORDS
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(
        [
            "\ud83c",
            "\udf0a",
            "\x00",
            "<think>",
            "</think>",
            '{"a":1}',
            "{",
            "data:image/png;base64,x",
        ]
    )
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=12,
)
CALL = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 2) | JSON,
        "id": TEXTS | JSON,
        "function": st.fixed_dictionaries({}, optional={"name": TEXTS, "arguments": TEXTS | JSON})
        | JSON,
        "extra_content": JSON,
    },
)
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "content": TEXTS | JSON,
        "reasoning_content": TEXTS,
        "reasoning_details": JSON
        | st.lists(st.fixed_dictionaries({}, optional={"text": TEXTS, "data": JSON})),
        "tool_calls": st.lists(CALL, max_size=3) | JSON,
        "function_call": JSON,
        "refusal": TEXTS | JSON,
        "annotations": JSON,
        "images": JSON,
        "audio": JSON,
    },
)
CHUNK = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {"delta": DELTA},
                optional={
                    "index": st.integers(0, 2),
                    "finish_reason": st.sampled_from(
                        [None, "stop", "length", "null", "odd", "error"]
                    ),
                    "logprobs": JSON,
                },
            ),
            max_size=3,
        )
    },
    optional={"usage": JSON, "model": TEXTS, "system_fingerprint": JSON, "error": JSON},
)
LM_EVENT = st.fixed_dictionaries(
    {"type": WORDS},
    optional={
        "content": TEXTS,
        "tool": st.sampled_from(["a", "b"]) | TEXTS,
        "arguments": JSON,
        "output": JSON,
        "metadata": JSON,
        "provider_info": JSON,
        "result": st.fixed_dictionaries(
            {},
            optional={
                "output": st.lists(
                    JSON | st.fixed_dictionaries({"type": WORDS}, optional={"content": TEXTS}),
                    max_size=4,
                ),
                "stats": JSON,
                "response_id": JSON,
            },
        ),
    },
)
PAYLOADS = st.lists(CHUNK | LM_EVENT | JSON, max_size=10)


def run(dialect: Dialect, frames: list[Frame], cause: Cause) -> list[Event]:
    parser = dialect.parser(model="m", options={})
    state = Fold()
    events = [event for frame in frames for event in parser.feed(frame)]
    state.extend(events)
    error = ErrorInfo(message="ours", kind="timeout") if cause == "failed" else None
    return events + finish(parser, state, cause, error=error)


def check(events: list[Event]) -> None:
    """One start first, one end last, every item opened before and closed after its deltas."""
    bodies = [encode(event) for event in events]
    open_items: dict[tuple[object, object], bool] = {}
    for event in events:
        name = str(type(event).__struct_config__.tag)
        key = (getattr(event, "choice", 0), getattr(event, "item", None))
        if name in ("message.start", "reasoning.start", "tool_call.start"):
            assert key not in open_items
            open_items[key] = True
        if name in ("message.delta", "reasoning.delta", "tool_call.delta"):
            assert open_items[key]
        if name in ("message.end", "reasoning.end", "tool_call.failure", "tool_call.success"):
            assert open_items[key]
            open_items[key] = False
    assert not any(NUL.search(body) for body in bodies)
    assert isinstance(events[0], ChatStart)
    assert sum(isinstance(event, ChatEnd) for event in events) == 1
    end = events[-1]
    assert isinstance(end, ChatEnd)
    assert fold(events) == end.result


@each_dialect
@given(payloads=PAYLOADS, cause=causes)
@settings(max_examples=40, deadline=None)
def test_no_payload_raises(dialect: Dialect, payloads: list[object], cause: Cause) -> None:
    frames = [Frame(None, json.dumps(payload)) for payload in payloads]

    check(run(dialect, frames, cause))


@each_dialect
@given(data=st.binary(max_size=400), cause=causes)
def test_no_bytes_raise(dialect: Dialect, data: bytes, cause: Cause) -> None:
    decoder = Decoder()

    check(run(dialect, decoder.feed(b"data: " + data) + decoder.close(), cause))


@each_dialect
@given(
    recording=st.sampled_from(STREAMS),
    changes=st.lists(
        st.tuples(st.integers(0, 5000), st.binary(min_size=1, max_size=3)), max_size=5
    ),
    cause=causes,
)
@settings(max_examples=40, deadline=None)
def test_no_damaged_recording_raises(
    dialect: Dialect, recording: Path, changes: list[tuple[int, bytes]], cause: Cause
) -> None:
    data = bytearray(recording.read_bytes())
    for place, change in changes:
        data[place % len(data) : place % len(data) + len(change)] = change
    decoder = Decoder()

    check(run(dialect, decoder.feed(bytes(data)) + decoder.close(), cause))


@each_dialect
@given(
    body=st.binary(max_size=200) | (CHUNK | LM_EVENT | JSON).map(lambda v: json.dumps(v).encode()),
    cause=causes,
)
@settings(max_examples=40, deadline=None)
def test_no_complete_answer_raises(dialect: Dialect, body: bytes, cause: Cause) -> None:
    parser = dialect.parser(model="m", options={})
    state = Fold()

    events = parser.feed_body(body)
    state.extend(events)

    check(events + finish(parser, state, cause))


@each_dialect
@pytest.mark.parametrize(
    ("cause", "status"),
    [("eof", "cut"), ("stopped", "stopped"), ("interrupted", "interrupted"), ("failed", "failed")],
)
def test_nothing_at_all_ends_by_its_cause(dialect: Dialect, cause: Cause, status: str) -> None:
    end = run(dialect, [], cause)[-1]

    assert isinstance(end, ChatEnd)
    assert end.result.ext.status == status


@each_dialect
def test_connection_cut_by_our_side_counts_as_cut(dialect: Dialect) -> None:
    parser = dialect.parser(model="m", options={})

    events = parser.close("failed", error=ErrorInfo(message="reset", kind="cut"))

    assert parser.ending is not None
    assert parser.ending.status == "cut"
    assert parser.close() == []
    assert len(events) == 2


@each_dialect
@pytest.mark.parametrize(
    "data", ["[" * 100_000, '{"a":' * 100_000, '{"type":"message.delta","content":' + "[" * 3000]
)
def test_depth_bomb_becomes_a_raw_event(dialect: Dialect, data: str) -> None:
    events = run(dialect, [Frame(None, data)], "eof")

    assert [type(event).__name__ for event in events][:2] == ["ChatStart", "VendorRaw"]
