"""The answer of a run at any moment, and the patches from there on, in batches.

The same `Answer` as on the live page makes it from the same events, with ids of its own, so that a
replay may be beside the answer itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from chat.events import Event, decode
from chat.live.snapshot import replay_id
from chat.models import Run
from chat.rendering.patches import Answer
from chat.run_details.log_pages import entries_behind, t_in
from chat.runs.segments import read_entries

# The limit of one request; the next one continues.
BATCH_FRAMES = 100
BATCH_EVENTS = 2000
BATCH_CHARACTERS = 256 * 1024
READ_BYTES = 256 * 1024
# To get to a moment all events before it are applied, without rendering: 20 µs each, so a second
# for this many. A later moment would take a page too long; the list of events still shows it.
MOST_EVENTS = 50_000
# Answers that are being watched, to continue from. One takes its text and a half of memory, so
# fewer large ones are kept, and of the largest only the last.
KEPT_ANSWERS = 8
KEPT_BYTES = 32 * 1024 * 1024


class TooFar(Exception):
    """The moment is after more events than one request applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFrame:
    """Patches from the frame before up to event ``seq``, ``t`` milliseconds after the request."""

    t: int
    seq: int
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """``seq``: the last event in it. ``is_over``: nothing is stored after that."""

    frames: list[ReplayFrame]
    seq: int
    is_over: bool


@dataclass(slots=True)
class Moment:
    """An answer, the time of its last event, and the size of the events that it was made of."""

    answer: Answer
    t: int = 0
    size_bytes: int = 0

    def apply(self, event: Event, size_bytes: int) -> None:
        self.answer.apply(event)
        self.t = max(self.t, event.t)
        self.size_bytes += size_bytes


# The run as it ended, which may differ in a restored backup, and the number of an event.
_Key = tuple[UUID, int, datetime | None, int]


class _Answers:
    """Answers at the moments where their viewers are. A viewer who takes one has it alone."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: OrderedDict[_Key, Moment] = OrderedDict()
        self._lock = threading.Lock()

    def pop_moment(self, key: _Key) -> Moment | None:
        with self._lock:
            return self._kept.pop(key, None)

    def put(self, key: _Key, kept: Moment) -> None:
        with self._lock:
            self._kept[key] = kept
            while len(self._kept) > 1 and self._is_too_much():
                self._kept.popitem(last=False)

    def _is_too_much(self) -> bool:
        size = sum(kept.size_bytes for kept in self._kept.values())
        return len(self._kept) > self._most or size > self._most_bytes


_answers = _Answers(KEPT_ANSWERS, KEPT_BYTES)


def moment_at(run: Run, seq: int) -> Moment:
    """The answer after event ``seq``, or after the last one before it. Raises `TooFar`."""
    moment = Moment(Answer(replay_id(run)))
    for entry in entries_behind(run.pk) if seq > 0 else ():
        if entry.seq > seq:
            break
        if entry.seq > MOST_EVENTS:
            raise TooFar(seq)
        moment.apply(decode(entry.body), len(entry.body))
    return moment


def keep(run: Run, moment: Moment) -> None:
    """Keeps a moment for the next batch, which may start at once, so the caller must not use it any
    more. A run that may still change is not kept."""
    if run.finished_at is not None:
        _answers.put(_key(run, moment.answer.seq), moment)


def _key(run: Run, seq: int) -> _Key:
    return run.public_id, run.last_seq, run.finished_at, seq


def seq_at(run: Run, milliseconds: int) -> int:
    """The last event up to that time; 0 before the first. No further than `moment_at` goes."""
    seq = 0
    for entry in entries_behind(run.pk):
        if t_in(entry.body) > milliseconds or seq > MOST_EVENTS:
            break
        seq = entry.seq
    return seq


def batch_after(run: Run, after: int, *, step_milliseconds: int, most: int = BATCH_FRAMES) -> Batch:
    """Frames after ``after``, at least a step apart, each with all events up to its time. Raises
    `TooFar`."""
    moment = _answers.pop_moment(_key(run, after)) or moment_at(run, after)
    answer = moment.answer
    frames: list[ReplayFrame] = []
    size = events = 0
    is_over = True
    for group in _groups(_events_behind(run, answer.seq), step_milliseconds):
        if len(frames) == most or events >= BATCH_EVENTS or size >= BATCH_CHARACTERS:
            is_over = False
            break
        before = answer.seq
        for event, size_bytes in group:
            moment.apply(event, size_bytes)
        events += len(group)
        frames.append(ReplayFrame(t=moment.t, seq=answer.seq, content=answer.patches_since(before)))
        size += len(frames[-1].content)
    batch = Batch(frames=frames, seq=answer.seq, is_over=is_over)
    keep(run, moment)
    return batch


# An event, and the size of its JSON.
_Sized = tuple[Event, int]


def _events_behind(run: Run, after: int) -> Iterator[_Sized]:
    while entries := read_entries(run.pk, after, limit_bytes=READ_BYTES):
        for entry in entries:
            yield decode(entry.body), len(entry.body)
        after = entries[-1].seq


def _groups(events: Iterator[_Sized], step_milliseconds: int) -> Iterator[list[_Sized]]:
    """Events that follow each other within a step; with a step of 0 each event is a group."""
    group: list[_Sized] = []
    began_t = 0
    for event, size_bytes in events:
        is_full = len(group) >= BATCH_EVENTS or not step_milliseconds
        if group and (is_full or event.t - began_t >= step_milliseconds):
            yield group
            group = []
        if not group:
            began_t = event.t
        group.append((event, size_bytes))
    if group:
        yield group
