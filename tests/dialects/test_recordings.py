"""Every recording gives its checked-in events and result, however its bytes arrive."""

import json
from pathlib import Path

import msgspec
import pytest

from chat.events import ChatEnd, ChatStart, Event, decode, encode
from chat.result import Fold, fold
from tests.fixtures import (
    RECORDINGS,
    STREAMS,
    core_of,
    decode_chunks,
    decode_recording,
    events_path,
    frames_of,
    name_of,
    parser_of,
    result_path,
)

each_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=name_of)
each_stream = pytest.mark.parametrize("recording", STREAMS, ids=name_of)
# Recordings in which the complete answer at the end says something else than the stream did.
DIFFERING = ("lmstudio/t35_final_differs", "lmstudio/bad_frames")
each_complete_lmstudio = pytest.mark.parametrize(
    "recording",
    [
        path
        for path in RECORDINGS
        if path.parent.name == "lmstudio"
        and name_of(path) not in DIFFERING
        and "upstream_result" in result_path(path).read_text()
    ],
    ids=name_of,
)
LM_STUDIO_EVENTS = [
    *("chat.start", "model_load.start", "model_load.progress", "model_load.end"),
    *("prompt_processing.start", "prompt_processing.progress", "prompt_processing.end"),
    *("reasoning.start", "reasoning.delta", "reasoning.end"),
    *("tool_call.start", "tool_call.arguments", "tool_call.success", "tool_call.failure"),
    *("message.start", "message.delta", "message.end", "error", "chat.end"),
]


def lines(events: list[Event]) -> list[bytes]:
    return [encode(event) for event in events]


def contents(events: list[Event]) -> list[object]:
    """The events without their numbers."""
    return [msgspec.structs.replace(event, seq=0) for event in events]


@each_recording
def test_events_are_the_expected_ones(recording: Path) -> None:
    expected = events_path(recording).read_bytes().splitlines()

    assert lines(decode_recording(recording)) == expected


@each_recording
def test_result_is_the_expected_one(recording: Path) -> None:
    expected = json.loads(result_path(recording).read_text())

    assert json.loads(encode(fold(decode_recording(recording)))) == expected


@each_recording
def test_byte_by_byte_gives_the_same_events(recording: Path) -> None:
    data = recording.read_bytes()

    events = decode_chunks(recording, (data[i : i + 1] for i in range(len(data))))

    assert lines(events) == lines(decode_recording(recording))


@each_stream
def test_cut_at_every_frame_gives_the_same_events(recording: Path) -> None:
    events = decode_chunks(recording, (frame.raw for frame in frames_of(recording)))

    assert lines(events) == lines(decode_recording(recording))


@each_recording
def test_life_of_every_item_is_kept(recording: Path) -> None:
    events = decode_recording(recording)
    opened: set[tuple[int, int]] = set()
    closed: set[tuple[int, int]] = set()

    for event in events:
        key = (getattr(event, "choice", 0), getattr(event, "item", -1))
        name = type(event).__struct_config__.tag
        if name in ("message.start", "reasoning.start", "tool_call.start"):
            assert key not in opened
            opened.add(key)
        elif name in ("message.delta", "reasoning.delta", "tool_call.delta"):
            assert key in opened - closed
        elif name in ("message.end", "reasoning.end", "tool_call.success", "tool_call.failure"):
            assert key in opened - closed
            closed.add(key)

    assert isinstance(events[0], ChatStart)
    assert [isinstance(event, ChatEnd) for event in events].index(True) == len(events) - 1


@each_stream
def test_any_prefix_ends_in_one_chat_end(recording: Path) -> None:
    data = recording.read_bytes()

    for length in range(0, len(data), max(1, len(data) // 150)):
        events = decode_chunks(recording, [data[:length]])
        ends = [event for event in events if isinstance(event, ChatEnd)]
        assert ends == events[-1:], length
        assert isinstance(events[0], ChatStart)


@each_stream
def test_prefix_at_a_frame_begins_the_same_log(recording: Path) -> None:
    whole = contents(decode_recording(recording))
    frames = frames_of(recording)

    for count in range(len(frames)):
        parser = parser_of(recording)
        events = [event for frame in frames[:count] for event in parser.feed(frame)]
        assert contents(events) == whole[: len(events)]


@each_recording
def test_fold_goes_on_where_it_stopped(recording: Path) -> None:
    events = decode_recording(recording)
    whole = fold(events)

    for quarters in range(5):
        cut = len(events) * quarters // 4
        state = Fold()
        state.extend(events[:cut])
        state.result()
        state.extend(events[cut:])

        assert state.result() == whole


@each_recording
def test_stored_events_read_back_and_fold_to_what_chat_end_carries(recording: Path) -> None:
    events = decode_recording(recording)
    stored = [decode(encode(event)) for event in events]
    end = stored[-1]

    assert stored == events
    assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
    assert isinstance(end, ChatEnd)
    assert fold(stored) == end.result


@each_complete_lmstudio
def test_fold_agrees_with_the_final_object_of_lm_studio(recording: Path) -> None:
    events = decode_recording(recording)
    upstream = fold(events).ext.upstream_result

    ours = core_of(fold(events))

    assert ours["output"] == upstream["output"]
    assert ours["stats"] == upstream["stats"]
    assert ours.get("response_id") == upstream.get("response_id")
    assert ours["model_instance_id"] == upstream["model_instance_id"]


@each_complete_lmstudio
def test_fold_takes_no_text_from_the_final_object(recording: Path) -> None:
    events = decode_recording(recording)
    for event in events:
        if "upstream_result" in getattr(event, "values", {}):
            event.values["upstream_result"] = {"output": [{"type": "message", "content": "forged"}]}

    assert fold(events).output == fold(decode_recording(recording)).output


@each_stream
def test_quick_way_gives_what_the_general_way_gives(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = lines(decode_recording(recording))
    monkeypatch.setattr(type(parser_of(recording)), "has_quick_way", False)

    assert lines(decode_recording(recording)) == quick


@pytest.mark.parametrize("name", LM_STUDIO_EVENTS)
def test_recordings_cover_the_events_of_lm_studio(name: str) -> None:
    recordings = [path for path in RECORDINGS if path.parent.name == "lmstudio"]

    assert any(f'"type":"{name}"' in events_path(path).read_text() for path in recordings)
