"""The merger alone: what it merges, and that nothing is lost, moved or counted twice."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import events as canonical
from chat.result import Fold
from chat.runs import delta_merger
from chat.runs.delta_merger import EVENT_BYTES, TEXT_MEMBERS, DeltaMerger
from tests.fixtures import STREAMS, decode_recording
from tests.support.selection import examples

TEXTS = st.text(alphabet="ab ü", max_size=4)
NUMBERS = st.integers(0, 1)
NAMES = st.sampled_from([None, "x"])
EVENTS = st.one_of(
    st.builds(canonical.MessageDelta, item=NUMBERS, choice=NUMBERS, content=TEXTS),
    st.builds(canonical.ReasoningDelta, item=NUMBERS, choice=NUMBERS, content=TEXTS),
    st.builds(canonical.RefusalDelta, item=NUMBERS, content=TEXTS, category=NAMES),
    st.builds(canonical.ToolCallDelta, item=NUMBERS, fragment=TEXTS, call_id=NAMES),
    st.builds(canonical.MessageStart, item=NUMBERS),
    st.builds(canonical.PromptProcessingProgress, progress=st.floats(0, 1)),
)
STORIES = st.lists(EVENTS, max_size=30)
# Members by which deltas belong to different places, besides their type.
PLACE = ("item", "choice", "category", "call_id")


def text_of(event: canonical.Event) -> str:
    return getattr(event, TEXT_MEMBERS[type(event)])


def place_of(numbered: tuple[int, canonical.Event]) -> Hashable:
    """Equal for adjacent events that become one."""
    number, event = numbered
    if isinstance(event, canonical.PromptProcessingProgress):
        return type(event)
    if type(event) not in TEXT_MEMBERS:
        return number
    return (type(event), *(getattr(event, name, None) for name in PLACE))


def merged_by_groups(events: Sequence[canonical.Event]) -> list[canonical.Event]:
    """What the merger does, said with whole lists: the first event with all texts, else the last."""
    found = []
    for _, group in groupby(enumerate(events), key=place_of):
        same = [event for _, event in group]
        member = TEXT_MEMBERS.get(type(same[0]))
        text = {} if member is None else {member: "".join(map(text_of, same))}
        found.append(msgspec.structs.replace(same[0] if member else same[-1], **text))
    return found


@given(portions=st.lists(STORIES, max_size=5))
@examples(200)
def test_adjacent_deltas_of_a_place_become_one(portions: list[list[canonical.Event]]) -> None:
    events = [event for portion in portions for event in portion]
    expected = merged_by_groups(events)
    deltas = [event for event in events if type(event) in TEXT_MEMBERS]
    characters = sum(len(text_of(event)) for event in deltas)
    merger = DeltaMerger()

    for portion in portions:
        merger.add(portion)

    counts = (merger.event_count, merger.delta_count, merger.size_bytes)
    assert counts == (len(events), len(deltas), characters + EVENT_BYTES * len(expected))
    assert merger.pop_events() == expected


@given(first=STORIES, second=STORIES)
@examples(100)
def test_popped_events_are_gone(
    first: list[canonical.Event], second: list[canonical.Event]
) -> None:
    expected = merged_by_groups(second)
    merger = DeltaMerger()
    merger.add(first)
    merger.pop_events()

    assert (merger.event_count, merger.delta_count, merger.size_bytes) == (0, 0, 0)
    merger.add(second)

    assert merger.pop_events() == expected
    assert merger.pop_events() == []


@given(recording=st.sampled_from(STREAMS), commits=st.sets(st.integers(0, 200), max_size=8))
@examples(150)
def test_merged_answer_folds_to_the_same_result(recording: Path, commits: set[int]) -> None:
    *events, end = decode_recording(recording)
    assert isinstance(end, canonical.ChatEnd)
    ending = canonical.Ending(status=end.result.ext.status, stop=end.result.ext.stop)
    merger, fold = DeltaMerger(), Fold()

    for number, event in enumerate(events):
        merger.add([event])
        if number in commits:
            fold.extend(merger.pop_events())
    fold.extend(merger.pop_events())

    assert fold.result(ending) == end.result


def test_merged_delta_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_merger, "MERGED_CHARACTERS", 10)
    merger = DeltaMerger()

    merger.add([canonical.MessageDelta(item=0, content="1234") for _ in range(7)])

    assert [text_of(event) for event in merger.pop_events()] == ["1234" * 3, "1234" * 3, "1234"]


def test_start_alone_is_told_apart() -> None:
    merger, found = DeltaMerger(), []

    for event in (canonical.ChatStart(model_instance_id="m"), canonical.MessageStart(item=0)):
        merger.add([event])
        found.append(merger.has_only_start)

    assert found == [True, False]
