"""What our own endpoint emits is LM Studio's stream with additions: read back, it says the same."""

import json
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat import dialects
from chat.consumers.run_events import _encode_now
from chat.events import (
    EVENT_TYPES,
    Cause,
    Event,
    JsonObject,
    ReplayData,
    Result,
    VendorRaw,
    decode,
    decode_result,
    encode,
)
from chat.management.commands.decode import decode as decode_stream
from chat.result import Fold, ending_in, fold
from chat.runs.public import response_id_of
from chat.runs.tail import Entry
from chat.wire.sse import Frame
from tests.dialects.test_hostile import causes, check, run
from tests.fixtures import RECORDINGS, ROOT, core_of, events_path, name_of, result_path

RUN = UUID("0b8f6c1e-58a5-4f8f-9d0b-3f7f1c2f5a10")
CALLS = ROOT / "openai_chat" / "tool_calls.sse"
each_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=name_of)


def emitted(recording: Path) -> bytes:
    """The recording's events as a client of the endpoint receives them."""
    entries = []
    for body in events_path(recording).read_bytes().splitlines():
        event = decode(body)
        entries.append(Entry(seq=event.seq, body=body))
    return _encode_now(entries, RUN)


def read_back(stream: bytes) -> list[Event]:
    parser = dialects.get("lmstudio").parser(model="m", endpoint="", options={})
    return list(decode_stream(parser, iter([stream]), Fold()))


def expected(recording: Path) -> Result:
    """What the recording folds to, under the id by which programs continue from it here."""
    result = decode_result(result_path(recording).read_bytes())
    return msgspec.structs.replace(result, response_id=response_id_of(RUN))


def comparable(result: Result) -> JsonObject:
    """Everything but what stays at home: what goes back to the first upstream alone, and where
    the figures came from."""
    whole: JsonObject = msgspec.to_builtins(result)
    for name in ("native", "stats_source"):
        whole["ext"].pop(name, None)
    return whole


@each_recording
def test_own_stream_gives_the_same_result(recording: Path) -> None:
    before = [decode(body) for body in events_path(recording).read_bytes().splitlines()]

    after = read_back(emitted(recording))

    result = fold(after)
    assert core_of(result) == core_of(expected(recording))
    assert comparable(result) == comparable(expected(recording))
    # Nothing of our own is unknown to us.
    assert [e.data for e in after if isinstance(e, VendorRaw)] == [
        e.data for e in before if isinstance(e, VendorRaw)
    ]


def test_times_that_were_measured_there_are_kept() -> None:
    *events, end = [decode(body) for body in events_path(CALLS).read_bytes().splitlines()]
    for number, event in enumerate(events):
        event.t = 40 * number
    state = Fold()
    state.extend(events)
    end.result = state.result(ending_in(end))
    entries = [Entry(seq=event.seq, body=encode(event)) for event in (*events, end)]

    result = fold(read_back(_encode_now(entries, RUN)))

    assert result.stats.time_to_first_token_seconds == 0.08
    assert core_of(result) == core_of(
        msgspec.structs.replace(end.result, response_id=response_id_of(RUN))
    )


def test_own_stream_that_is_cut_counts_as_cut() -> None:
    stream = emitted(CALLS)

    events = read_back(stream[: len(stream) // 2])

    assert fold(events).ext.status == "cut"


def test_own_stream_from_the_middle_on_is_read_too() -> None:
    lines = emitted(CALLS).split(b"\n\n")

    result = fold(read_back(b"\n\n".join(lines[4:])))

    assert result.ext.status == expected(CALLS).ext.status
    assert result.stats == expected(CALLS).stats


@pytest.mark.parametrize(
    "members",
    [
        {"type": "message.delta", "item": 0, "content": 7},
        {"type": "message.end", "item": 9},
        {"type": "reasoning.delta", "item": 0, "content": "not what was opened"},
        {"type": "tool_call.delta", "item": 0, "fragment": "{}"},
        {"type": "citation.add", "item": 9, "citation": {"kind": "x"}},
        {"type": "media.update", "item": 0, "media_id": "a", "media_type": "image/png"},
        {"type": "tool_call.success", "item": 0, "tool": "t", "arguments": [], "output": ""},
    ],
)
def test_event_like_ours_that_cannot_be_read_is_kept(members: JsonObject) -> None:
    opening = {"type": "message.start", "item": 0}
    frames = [{"run": "r", "seq": 1, **opening}, {"run": "r", "seq": 2, **members}]
    stream = b"".join(b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames)

    events = read_back(stream)

    assert [e.data for e in events if isinstance(e, VendorRaw)] == [frames[1]]


def test_what_goes_back_to_another_server_does_not_come_from_a_relay() -> None:
    frame = {"run": "r", "seq": 1, "type": "replay.data", "kind": "native", "data": {"role": "x"}}

    events = read_back(b"data: " + msgspec.json.encode(frame) + b"\n\n")

    assert fold(events).ext.native is None
    assert not any(isinstance(event, ReplayData) for event in events)


NUMBERS = st.integers(0, 2)
RELAYED = st.fixed_dictionaries(
    {
        "run": st.just("r"),
        "seq": NUMBERS,
        "type": st.sampled_from(sorted(set(EVENT_TYPES) - {"chat.end"})),
        "item": NUMBERS,
        "content": st.sampled_from(["a", "\ud83c", "\x00", "{}"]),
        "fragment": st.sampled_from(['{"a":', "1}", "\udf0a"]),
        "tool": st.sampled_from(["s", "t"]),
        "arguments": st.sampled_from([{}, {"a": 1}, []]),
        "output": st.just("o"),
        "reason": st.just("why"),
        "metadata": st.sampled_from([{"type": "execution_failed", "tool_name": "t"}, {}]),
    },
    optional={
        "choice": NUMBERS,
        "kind": st.sampled_from(["full", "hidden", "native", "other"]),
        "data": st.just({"a": 1}),
        "media_id": st.just("m"),
        "media_type": st.just("image/png"),
        "error": st.just({"type": "unknown", "message": "m"}),
        "tokens": st.just([1]),
    },
)


@given(payloads=st.lists(RELAYED, max_size=14), cause=causes)
@settings(max_examples=120, deadline=None)
def test_no_event_like_ours_raises(payloads: list[JsonObject], cause: Cause) -> None:
    frames = [Frame(payload["type"], json.dumps(payload)) for payload in payloads]

    check(run(dialects.get("lmstudio"), frames, cause))
