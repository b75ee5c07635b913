"""A run's log as a recording: counted by type, read a page at a time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from chat.events import EventBase, decode
from chat.models import RunSegment
from chat.runs.event_buffer import LogEntry
from chat.runs.segments import read_entries

__all__ = [
    "LogEntry",
    "Page",
    "counts_of",
    "entries_behind",
    "entry_at",
    "last_entry",
    "page_after",
    "page_before",
    "t_in",
    "type_in",
    "type_of",
]

# Lines of a page: about three screens, and a few milliseconds to render.
PAGE_LINES = 100
# How many segments of a run that is not compacted yet are read at once.
CHUNK_BYTES = 1024 * 1024
# How every event that our codec wrote begins; the rest need not be parsed.
_BEGINNING = b'{"type":"'


class _Clock(msgspec.Struct):
    t: int = 0


_clock = msgspec.json.Decoder(_Clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Entries in order. ``has_earlier`` and ``has_later`` say whether more match."""

    entries: list[LogEntry]
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


def page_after(run_pk: int, after: int, *, types: Collection[str] = ()) -> Page:
    """The first events after ``after``; with ``types`` only those."""
    found: list[LogEntry] = []
    for entry in entries_behind(run_pk, after):
        if not types or type_in(entry.body) in types:
            if len(found) == PAGE_LINES:
                return Page(entries=found, has_earlier=after > 0, has_later=True)
            found.append(entry)
    return Page(entries=found, has_earlier=after > 0, has_later=False)


def page_before(run_pk: int, before: int, *, types: Collection[str] = ()) -> Page:
    """The last events before ``before``; with ``types`` only those."""
    before = min(before, _last_seq(run_pk) + 1)
    start = 0 if types else max(0, before - PAGE_LINES - 2)
    found: deque[LogEntry] = deque(maxlen=PAGE_LINES + 1)
    has_later = False
    for entry in entries_behind(run_pk, start):
        if types and type_in(entry.body) not in types:
            continue
        if entry.seq >= before:
            has_later = True
            break
        found.append(entry)
    has_earlier = len(found) > PAGE_LINES
    return Page(entries=list(found)[has_earlier:], has_earlier=has_earlier, has_later=has_later)


def entry_at(run_pk: int, seq: int) -> LogEntry | None:
    entries = read_entries(run_pk, seq - 1, limit_bytes=1) if seq > 0 else []
    return entries[0] if entries and entries[0].seq == seq else None


def last_entry(run_pk: int) -> LogEntry | None:
    """The end of the log as of now."""
    return entry_at(run_pk, _last_seq(run_pk))


def _last_seq(run_pk: int) -> int:
    segments = RunSegment.objects.filter(run_id=run_pk).order_by("-first_seq")
    return segments.values_list("last_seq", flat=True).first() or 0
