"""Every recording gives its checked-in events and result, however its bytes arrive."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from chat.events import ActivityStep, ChatEnd, ChatStart, Event, decode, encode
from chat.result import Fold, fold
from tests.dialects.decoding import check_log
from tests.fixtures import (
    RECORDINGS,
    core_of,
    decode_chunks,
    decode_recording,
    events_path,
    frames_of,
    name_of,
    parser_of,
    result_path,
)
from tests.support.selection import sample

# Recordings in which the complete answer at the end says something else than the stream did.
DIFFERING = (
    *("lmstudio/t35_final_differs", "lmstudio/bad_frames"),
    *("lmstudio/t35_final_calls_differ", "lmstudio/t35_final_model_differs"),
    # It has thinking in its text.
    *("lmstudio/t22_think_in_text", "lmstudio/t22_think_before_a_call"),
)
# Recordings of Responses whose stream has an event that nobody knows.
UNKNOWN = ("openai_responses/t47_unknown", "openai_responses/unknown_event_with_an_error")
LM_STUDIO_EVENTS = [
    *("chat.start", "model_load.start", "model_load.progress", "model_load.end"),
    *("prompt_processing.start", "prompt_processing.progress", "prompt_processing.end"),
    *("reasoning.start", "reasoning.delta", "reasoning.end"),
    *("tool_call.start", "tool_call.arguments", "tool_call.success", "tool_call.failure"),
    *("message.start", "message.delta", "message.end", "error", "chat.end"),
]


@dataclass(frozen=True)
class Recorded:
    """A recording and the events that it decodes to as a whole, which no property may change."""

    path: Path
    data: bytes
    events: list[Event]

    @property
    def lines(self) -> list[bytes]:
        return lines_of(self.events)


Property = Callable[[Recorded], None]


def lines_of(events: list[Event]) -> list[bytes]:
    return [encode(event) for event in events]


def unnumbered(events: list[Event]) -> list[object]:
    return [msgspec.structs.replace(event, seq=0) for event in events]


# --- properties of every recording ---


def events_are_expected(recorded: Recorded) -> None:
    assert recorded.lines == events_path(recorded.path).read_bytes().splitlines()


def result_is_expected(recorded: Recorded) -> None:
    expected = json.loads(result_path(recorded.path).read_text())

    assert json.loads(encode(fold(recorded.events))) == expected


def single_bytes_give_the_same_events(recorded: Recorded) -> None:
    data = recorded.data

    events = decode_chunks(recorded.path, (data[i : i + 1] for i in range(len(data))))

    assert lines_of(events) == recorded.lines


def items_open_before_and_close_after_their_deltas(recorded: Recorded) -> None:
    check_log(recorded.events)


def fold_continues_from_any_point(recorded: Recorded) -> None:
    events = recorded.events
    whole = fold(events)

    for quarters in range(5):
        cut = len(events) * quarters // 4
        state = Fold()
        state.extend(events[:cut])
        state.result()
        state.extend(events[cut:])

        assert state.result() == whole


def stored_events_read_back_unchanged(recorded: Recorded) -> None:
    stored = [decode(encode(event)) for event in recorded.events]
    end = stored[-1]

    assert stored == recorded.events
    assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
    assert isinstance(end, ChatEnd)
    assert fold(stored) == end.result


# --- properties of streams ---


def frames_give_the_same_events(recorded: Recorded) -> None:
    events = decode_chunks(recorded.path, (frame.raw for frame in frames_of(recorded.path)))

    assert lines_of(events) == recorded.lines


def any_prefix_ends_in_one_chat_end(recorded: Recorded) -> None:
    size = len(recorded.data)

    for length in sample(range(0, size, max(1, size // 150)), 6):
        events = decode_chunks(recorded.path, [recorded.data[:length]])
        ends = [event for event in events if isinstance(event, ChatEnd)]
        assert ends == events[-1:], length
        assert isinstance(events[0], ChatStart)


def prefix_of_frames_begins_the_same_log(recorded: Recorded) -> None:
    whole = unnumbered(recorded.events)
    frames = frames_of(recorded.path)

    for count in sample(range(len(frames)), 6):
        parser = parser_of(recorded.path)
        events = [event for frame in frames[:count] for event in parser.feed(frame)]
        assert unnumbered(events) == whole[: len(events)]


def fast_path_agrees_with_the_general_path(recorded: Recorded) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(parser_of(recorded.path)), "has_fast_path", False, raising=False)

        assert lines_of(decode_recording(recorded.path)) == recorded.lines


# --- properties of one dialect ---


def fold_agrees_with_the_final_object(recorded: Recorded) -> None:
    result = fold(recorded.events)
    upstream = result.ext.upstream_result

    ours = core_of(result)

    assert ours["output"] == upstream["output"]
    assert ours["stats"] == upstream["stats"]
    assert ours.get("response_id") == upstream.get("response_id")
    assert ours["model_instance_id"] == upstream["model_instance_id"]


def fold_takes_no_text_from_the_final_object(recorded: Recorded) -> None:
    events = decode_recording(recorded.path)
    for event in events:
        if "upstream_result" in getattr(event, "values", {}):
            event.values["upstream_result"] = {"output": [{"type": "message", "content": "forged"}]}

    assert fold(events).output == fold(recorded.events).output


def known_events_leave_nothing_unknown(recorded: Recorded) -> None:
    vendor = fold(recorded.events).ext.vendor
    unknown = [entry for entry in vendor if "item" not in str(entry.get("event"))]

    assert (unknown != []) == (name_of(recorded.path) in UNKNOWN)


def started_steps_are_ended(recorded: Recorded) -> None:
    steps = [event for event in recorded.events if isinstance(event, ActivityStep)]
    started = {(s.family, s.step, s.ref) for s in steps if s.phase == "start"}
    ended = {(s.family, s.step, s.ref) for s in steps if s.phase in ("done", "failed")}

    assert started <= ended


def properties_of(recording: Path) -> Iterator[Property]:
    yield events_are_expected
    yield result_is_expected
    yield single_bytes_give_the_same_events
    yield items_open_before_and_close_after_their_deltas
    yield fold_continues_from_any_point
    yield stored_events_read_back_unchanged
    if recording.suffix == ".sse":
        yield frames_give_the_same_events
        yield any_prefix_ends_in_one_chat_end
        yield prefix_of_frames_begins_the_same_log
        yield fast_path_agrees_with_the_general_path
    match recording.parent.name:
        case "lmstudio" if has_trusted_final_object(recording):
            yield fold_agrees_with_the_final_object
            yield fold_takes_no_text_from_the_final_object
        case "openai_responses":
            yield known_events_leave_nothing_unknown
        case "xerotier":
            yield started_steps_are_ended


def has_trusted_final_object(recording: Path) -> bool:
    return (
        name_of(recording) not in DIFFERING
        and "upstream_result" in result_path(recording).read_text()
    )


@pytest.mark.parametrize("recording", RECORDINGS, ids=name_of)
def test_recording(recording: Path, subtests: pytest.Subtests) -> None:
    recorded = Recorded(recording, recording.read_bytes(), decode_recording(recording))

    for holds in properties_of(recording):
        with subtests.test(holds.__name__):
            holds(recorded)


def test_recordings_cover_the_events_of_lm_studio(subtests: pytest.Subtests) -> None:
    mine = [path for path in RECORDINGS if path.parent.name == "lmstudio"]
    logs = [events_path(path).read_text() for path in mine]

    for name in LM_STUDIO_EVENTS:
        with subtests.test(name):
            assert any(f'"type":"{name}"' in log for log in logs)
