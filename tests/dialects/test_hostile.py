"""Hostile input never raises, and every log can be stored and ends exactly once."""

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from chat.dialects import DIALECTS
from chat.events import Cause, ChatEnd, ErrorInfo
from chat.result import Fold, finish
from chat.wire.sse import Frame
from tests.dialects.decoding import check_log, decode, frames_in
from tests.dialects.strategies import CAUSES, JSON, TEXTS, WORDS
from tests.fixtures import STREAMS
from tests.support.selection import examples

FUNCTION = st.fixed_dictionaries({}, optional={"name": TEXTS, "arguments": TEXTS | JSON})
CALL = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 2) | JSON,
        "id": TEXTS | JSON,
        "function": FUNCTION | JSON,
        "extra_content": JSON,
    },
)
DETAIL = st.fixed_dictionaries({}, optional={"text": TEXTS, "data": JSON})
DELTA = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(["function_call", "annotations", "images", "audio"], JSON),
        **dict.fromkeys(["content", "refusal"], TEXTS | JSON),
        "reasoning_content": TEXTS,
        "reasoning_details": JSON | st.lists(DETAIL),
        "tool_calls": st.lists(CALL, max_size=3) | JSON,
    },
)
FINISH_REASONS = st.sampled_from([None, "stop", "length", "null", "odd", "error"])
CHOICE = st.fixed_dictionaries(
    {"delta": DELTA},
    optional={"index": st.integers(0, 2), "finish_reason": FINISH_REASONS, "logprobs": JSON},
)
CHUNK = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, max_size=3)},
    optional={"usage": JSON, "model": TEXTS, "system_fingerprint": JSON, "error": JSON},
)
LM_OUTPUT = JSON | st.fixed_dictionaries({"type": WORDS}, optional={"content": TEXTS})
LM_RESULT = st.fixed_dictionaries(
    {}, optional={"output": st.lists(LM_OUTPUT, max_size=4), "stats": JSON, "response_id": JSON}
)
LM_EVENT = st.fixed_dictionaries(
    {"type": WORDS},
    optional={
        **dict.fromkeys(["arguments", "output", "metadata", "provider_info"], JSON),
        "content": TEXTS,
        "tool": st.sampled_from(["a", "b"]) | TEXTS,
        "result": LM_RESULT,
    },
)
PAYLOADS = st.lists(CHUNK | LM_EVENT | JSON, max_size=10)
BODIES = st.binary(max_size=200) | (CHUNK | LM_EVENT | JSON).map(lambda v: json.dumps(v).encode())
CHANGES = st.lists(st.tuples(st.integers(0, 5000), st.binary(min_size=1, max_size=3)), max_size=5)


STATUSES: dict[Cause, str] = {
    "eof": "cut",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "failed": "failed",
}
DEPTH_BOMBS = ("[" * 100_000, '{"a":' * 100_000, '{"type":"message.delta","content":' + "[" * 3000)


def check_every_dialect(frames: list[Frame], cause: Cause) -> None:
    for dialect in DIALECTS.values():
        note(dialect.name)
        check_log(decode(dialect, frames, cause))


@given(payloads=PAYLOADS, cause=CAUSES)
@examples(120)
def test_no_payload_raises(payloads: list[object], cause: Cause) -> None:
    check_every_dialect([Frame(None, json.dumps(payload)) for payload in payloads], cause)


@given(data=st.binary(max_size=400), cause=CAUSES)
def test_no_bytes_raise(data: bytes, cause: Cause) -> None:
    check_every_dialect(frames_in(b"data: " + data), cause)


@given(recording=st.sampled_from(STREAMS), changes=CHANGES, cause=CAUSES)
@examples(120)
def test_no_damaged_recording_raises(
    recording: Path, changes: list[tuple[int, bytes]], cause: Cause
) -> None:
    data = bytearray(recording.read_bytes())
    for place, change in changes:
        data[place % len(data) : place % len(data) + len(change)] = change

    check_every_dialect(frames_in(bytes(data)), cause)


@given(body=BODIES, cause=CAUSES)
@examples(120)
def test_no_complete_answer_raises(body: bytes, cause: Cause) -> None:
    for dialect in DIALECTS.values():
        note(dialect.name)
        parser = dialect.parser(model="m", options={})
        state = Fold()

        events = parser.feed_body(body)
        state.extend(events)

        check_log(events + finish(parser, state, cause))


def test_empty_stream_ends_by_its_cause(subtests: pytest.Subtests) -> None:
    for dialect, (cause, status) in product(DIALECTS.values(), STATUSES.items()):
        with subtests.test(dialect=dialect.name, cause=cause):
            end = decode(dialect, [], cause)[-1]

            assert isinstance(end, ChatEnd)
            assert end.result.ext.status == status


def test_connection_reset_counts_as_cut(subtests: pytest.Subtests) -> None:
    for dialect in DIALECTS.values():
        with subtests.test(dialect=dialect.name):
            parser = dialect.parser(model="m", options={})

            events = parser.close("failed", error=ErrorInfo(message="reset", kind="cut"))

            assert parser.ending is not None
            assert parser.ending.status == "cut"
            assert parser.close() == []
            assert len(events) == 2


def test_depth_bomb_becomes_a_raw_event(subtests: pytest.Subtests) -> None:
    for dialect, data in product(DIALECTS.values(), DEPTH_BOMBS):
        with subtests.test(dialect=dialect.name, data=data[:40]):
            events = decode(dialect, [Frame(None, data)])

            assert [type(event).__name__ for event in events][:2] == ["ChatStart", "VendorRaw"]
