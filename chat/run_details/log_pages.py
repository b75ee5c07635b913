"""A run's log as a recording: counted by type, read a page at a time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

import msgspec

from chat.events import EventBase, decode
from chat.models import RunSegment
from chat.runs.event_buffer import LogEntry
from chat.runs.segments import read_entries

__all__ = [
    "LogEntry",
    "Page",
    "Row",
    "counts_of",
    "entries_behind",
    "entries_between",
    "entry_at",
    "last_entry",
    "page_after",
    "page_before",
    "t_in",
    "type_in",
    "type_of",
]

# Rows of a page: about three screens, and a few milliseconds to render.
PAGE_ROWS = 100
# Events that one row stands for at most: those behind it are rendered at once when it is opened.
FOLDED_EVENTS = 200
# Types of which a long answer has many in a row.
_FOLDED = (".delta", ".progress")
# How many segments of a run that is not compacted yet are read at once.
CHUNK_BYTES = 1024 * 1024
# How every event that our codec wrote begins; the rest need not be parsed.
_BEGINNING = b'{"type":"'


class _Clock(msgspec.Struct):
    t: int = 0


_clock = msgspec.json.Decoder(_Clock)


# One entry, or several of one type that follow each other.
Row = list[LogEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rows in order. ``has_earlier`` and ``has_later`` say whether more match."""

    rows: list[Row]
    has_earlier: bool
    has_later: bool


def type_in(body: bytes) -> str:
    """The type of an encoded event, without decoding it."""
    if body.startswith(_BEGINNING):
        return body[len(_BEGINNING) : body.index(b'"', len(_BEGINNING))].decode()
    return type_of(decode(body))


def type_of(event: EventBase) -> str:
    return str(event.__struct_config__.tag)


def t_in(body: bytes) -> int:
    """Milliseconds since the request was sent."""
    return _clock.decode(body).t


def entries_behind(run_pk: int, after: int = 0) -> Iterator[LogEntry]:
    """The log after ``after``, in chunks as stored."""
    while entries := read_entries(run_pk, after, limit_bytes=CHUNK_BYTES):
        yield from entries
        after = entries[-1].seq


def counts_of(run_pk: int) -> dict[str, int]:
    """How many events there are of each type, in the order of their first occurrence."""
    return Counter(type_in(entry.body) for entry in entries_behind(run_pk))


def rows_of(entries: Iterable[LogEntry], *, is_folded: bool) -> Iterator[Row]:
    """The entries one by one; with ``is_folded`` deltas and progress that follow each other are one row."""
    row: Row = []
    before = ""
    for entry in entries:
        kind = type_in(entry.body)
        continues = is_folded and kind == before and kind.endswith(_FOLDED)
        if row and not (continues and len(row) < FOLDED_EVENTS):
            yield row
            row = []
        row.append(entry)
        before = kind
    if row:
        yield row


def page_after(
    run_pk: int, after: int, *, types: Collection[str] = (), is_folded: bool = False
) -> Page:
    """The first rows after ``after``; with ``types`` only events of those."""
    found: list[Row] = []
    for row in rows_of(_entries(run_pk, after, types), is_folded=is_folded):
        if len(found) == PAGE_ROWS:
            return Page(rows=found, has_earlier=after > 0, has_later=True)
        found.append(row)
    return Page(rows=found, has_earlier=after > 0, has_later=False)


def page_before(
    run_pk: int, before: int, *, types: Collection[str] = (), is_folded: bool = False
) -> Page:
    """The last rows before ``before``; with ``types`` only events of those."""
    before = min(before, _last_seq(run_pk) + 1)
    # Without a filter this many events are rows enough, so that the beginning of a long log need
    # not be read.
    most = PAGE_ROWS * (FOLDED_EVENTS if is_folded else 1) + 1
    start = 0 if types else max(0, before - 1 - most)
    entries = takewhile(lambda entry: entry.seq < before, _entries(run_pk, start, types))
    found = deque(rows_of(entries, is_folded=is_folded), maxlen=PAGE_ROWS + 1)
    has_earlier = len(found) > PAGE_ROWS or start > 0
    has_later = next(_entries(run_pk, before - 1, types), None) is not None
    return Page(rows=list(found)[-PAGE_ROWS:], has_earlier=has_earlier, has_later=has_later)


def entries_between(run_pk: int, after: int, until: int) -> Row:
    """The events behind a folded row."""
    until = min(until, after + FOLDED_EVENTS)
    return list(takewhile(lambda entry: entry.seq <= until, entries_behind(run_pk, after)))


def _entries(run_pk: int, after: int, types: Collection[str]) -> Iterator[LogEntry]:
    entries = entries_behind(run_pk, after)
    return (entry for entry in entries if not types or type_in(entry.body) in types)


def entry_at(run_pk: int, seq: int) -> LogEntry | None:
    entries = read_entries(run_pk, seq - 1, limit_bytes=1) if seq > 0 else []
    return entries[0] if entries and entries[0].seq == seq else None


def last_entry(run_pk: int) -> LogEntry | None:
    """The end of the log as of now."""
    return entry_at(run_pk, _last_seq(run_pk))


def _last_seq(run_pk: int) -> int:
    segments = RunSegment.objects.filter(run_id=run_pk).order_by("-first_seq")
    return segments.values_list("last_seq", flat=True).first() or 0
