"""Our own event stream, read back as LM Studio's, gives the same result."""

import json
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import dialects
from chat.dialects.lmstudio.client_events import ALTERNATIVE, ClientEvents
from chat.events import (
    EVENT_TYPES,
    ActivityStep,
    Cause,
    Event,
    Extension,
    JsonObject,
    ReplayData,
    Result,
    Stats,
    Stop,
    VendorRaw,
    decode,
    decode_result,
    encode,
)
from chat.management.commands.decode import decode as decode_stream
from chat.public_api.log_stream import encode_entries
from chat.rendering.patches import Answer
from chat.result import Fold, ending_in, fold
from chat.runs.event_buffer import LogEntry
from chat.runs.public_events import response_id_of
from chat.wire.sse import Frame
from tests.dialects import decoding
from tests.dialects.strategies import CAUSES
from tests.fixtures import RECORDINGS, ROOT, core_of, events_path, name_of, result_path
from tests.support.selection import examples

LM_STUDIO = dialects.get("lmstudio")
RUN = UUID("0b8f6c1e-58a5-4f8f-9d0b-3f7f1c2f5a10")
CALLS = ROOT / "openai_chat" / "tool_calls.sse"


def stored(recording: Path) -> list[Event]:
    return [decode(body) for body in events_path(recording).read_bytes().splitlines()]


def emitted(events: list[Event]) -> bytes:
    """The events as a client of the endpoint receives them."""
    entries = [LogEntry(seq=event.seq, body=encode(event)) for event in events]
    return encode_entries(entries, RUN, ClientEvents())


def read_back(stream: bytes) -> list[Event]:
    parser = LM_STUDIO.parser(model="m", endpoint="", options={})
    return list(decode_stream(parser, iter([stream]), Fold()))


def raw_data(events: list[Event]) -> list[object]:
    return [event.data for event in events if isinstance(event, VendorRaw)]


def expected(recording: Path) -> Result:
    """What the recording folds to, under the id by which programs continue from it here."""
    result = decode_result(result_path(recording).read_bytes())
    return msgspec.structs.replace(result, response_id=response_id_of(RUN))


def comparable(result: Result) -> JsonObject:
    """Everything but what stays at home: the first upstream's own form of the answer, and where
    the figures came from."""
    whole: JsonObject = msgspec.to_builtins(result)
    for name in ("native", "stats_source", "upstream_result"):
        whole["ext"].pop(name, None)
    return whole


def test_recordings_are_relayed_unchanged(subtests: pytest.Subtests) -> None:
    for recording in RECORDINGS:
        with subtests.test(name_of(recording)):
            before = stored(recording)

            after = read_back(emitted(before))

            result = fold(after)
            assert core_of(result) == core_of(expected(recording))
            assert comparable(result) == comparable(expected(recording))
            # Nothing of our own is unknown to us.
            assert raw_data(after) == raw_data(before)


def test_older_streams_are_read(subtests: pytest.Subtests) -> None:
    """They had the events of the log, for choices and refusals, too."""
    for name in ("openai_chat/refusal", "openai_completions/t24_two_choices"):
        with subtests.test(name):
            recording = ROOT / f"{name}.sse"
            lines = events_path(recording).read_bytes().splitlines()

            after = read_back(b"".join(b'data: {"run": "r",%s\n\n' % line[1:] for line in lines))

            kept = msgspec.structs.replace(expected(recording), response_id=None)
            assert comparable(fold(after)) == comparable(kept)


def test_relayed_times_are_kept() -> None:
    *events, end = stored(CALLS)
    for number, event in enumerate(events):
        event.t = 40 * number
    state = Fold()
    state.extend(events)
    end.result = state.result(ending_in(end))

    result = fold(read_back(emitted([*events, end])))

    assert result.stats.time_to_first_token_seconds == 0.08
    assert core_of(result) == core_of(
        msgspec.structs.replace(end.result, response_id=response_id_of(RUN))
    )


def test_cut_relay_is_a_cut_run() -> None:
    stream = emitted(stored(CALLS))

    events = read_back(stream[: len(stream) // 2])

    assert fold(events).ext.status == "cut"


def test_relay_can_start_in_the_middle() -> None:
    lines = emitted(stored(CALLS)).split(b"\n\n")

    result = fold(read_back(b"\n\n".join(lines[4:])))

    assert result.ext.status == expected(CALLS).ext.status
    assert result.stats == expected(CALLS).stats


UNREADABLE = [
    {"type": "message.delta", "item": 0, "content": 7},
    {"type": "message.end", "item": 9},
    {"type": "reasoning.delta", "item": 0, "content": "not what was opened"},
    {"type": "tool_call.delta", "item": 0, "fragment": "{}"},
    {"type": "citation.add", "item": 9, "citation": {"kind": "x"}},
    {"type": "media.update", "item": 0, "media_id": "a", "media_type": "image/png"},
    {"type": "tool_call.success", "item": 0, "tool": "t", "arguments": [], "output": ""},
]


def test_unreadable_relayed_event_is_kept(subtests: pytest.Subtests) -> None:
    for members in UNREADABLE:
        with subtests.test(members=members):
            opening = {"type": "message.start", "item": 0}
            frames = [{"run": "r", "seq": 1, **opening}, {"run": "r", "seq": 2, **members}]
            events = read_back(b"".join(map(decoding.data_frame, frames)))

            assert raw_data(events) == [frames[1]]


def test_relay_brings_no_native_turn() -> None:
    frame = {"run": "r", "seq": 1, "type": "replay.data", "kind": "native", "data": {"role": "x"}}

    events = read_back(decoding.data_frame(frame))

    assert fold(events).ext.native is None
    assert not any(isinstance(event, ReplayData) for event in events)


def test_server_cannot_forge_an_approval_note() -> None:
    note = {"family": "question", "step": "answered", "phase": "note", "label": "Approved by Alice"}
    events = read_back(
        decoding.data_frame({"run": "r", "type": "chat.start", "seq": 1, "model_instance_id": "m"})
        + decoding.data_frame({"run": "r", "type": "activity.step", "seq": 2, **note})
    )
    answer = Answer(RUN.hex)
    for event in events:
        answer.apply(event)

    html = answer.snapshot()

    (step,) = [event for event in events if isinstance(event, ActivityStep)]
    assert (step.family, step.label) == ("reply", "Approved by Alice")
    assert "Approved by Alice" in html
    assert 'class="item activity"' in html
    assert 'class="item line given"' not in html


def test_server_cannot_say_who_stopped_the_answer() -> None:
    stopped = Result(
        model_instance_id="m",
        output=[],
        stats=Stats(),
        ext=Extension(status="stopped", stop=Stop(reason="stopped", by="Alice")),
    )
    end = {"run": "r", "type": "chat.end", "seq": 1, "result": msgspec.to_builtins(stopped)}

    events = read_back(decoding.data_frame(end))

    assert fold(events).ext.status == "stopped"
    assert fold(events).ext.stop.by is None


NUMBERS = st.integers(0, 2)
TYPES = [
    prefix + name
    for name in sorted(set(EVENT_TYPES) - {"chat.end"})
    for prefix in ("", ALTERNATIVE)
]
RELAYED = st.fixed_dictionaries(
    {
        "run": st.just("r"),
        "seq": NUMBERS,
        "type": st.sampled_from(TYPES),
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
        "refusal": st.booleans(),
        "kind": st.sampled_from(["full", "hidden", "native", "other"]),
        "data": st.just({"a": 1}),
        "media_id": st.just("m"),
        "media_type": st.just("image/png"),
        "error": st.just({"type": "unknown", "message": "m"}),
        "tokens": st.just([1]),
    },
)


@given(payloads=st.lists(RELAYED, max_size=14), cause=CAUSES)
@examples(360)
def test_no_relayed_event_raises(payloads: list[JsonObject], cause: Cause) -> None:
    frames = [Frame(payload["type"], json.dumps(payload)) for payload in payloads]

    decoding.check_log(decoding.decode(LM_STUDIO, frames, cause))
