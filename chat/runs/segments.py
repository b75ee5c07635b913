"""Segments: the log of runs in the database, written, read and compacted."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from uuid import UUID

from django.db import (
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from django.db.models import Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from psycopg.types.numeric import Int8

from chat import events as canonical
from chat.core.prepared import fetch
from chat.models import Run, RunSegment
from chat.runs import queries
from chat.runs.attempts import AttemptOutcome, record_outcome_of, values_of
from chat.runs.event_buffer import LogEntry
from chat.runs.outcomes import (
    PreparedOutcome,
    ending_rows,
    has_consequences,
    record_outcome,
    touch_room,
)

# Most rows of a log that a follower gets at once.
CHUNK_SEGMENTS = 200
# SQLite keeps the values of the last execution of each statement. Writes larger than this leave none.
LARGE_BYTES = 1024 * 1024


class OwnershipLost(Exception):
    """Another process has ended the run or reaped the runner. Nothing may be written any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWrite:
    """The entries that one run adds to the log at once. ``columns`` are set on its row; with
    ``is_end`` they end it."""

    run_pk: int
    runner: UUID
    entries: Sequence[LogEntry]
    raw: bytes = b""
    columns: dict[str, object] = field(default_factory=dict)
    is_end: bool = False
    # With `is_end`: the run's result, and what the outcome steps have prepared for it.
    result: canonical.Result | None = None
    prepared: PreparedOutcome = field(default_factory=dict)
    # With `is_end`: what became of the last attempt.
    attempt: AttemptOutcome | None = None
    conversation_pk: int = 0
    # Counted once: the log, the writer and the database's thread each ask for it.
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        size_bytes = len(self.raw) + sum([len(entry.body) for entry in self.entries])
        object.__setattr__(self, "size_bytes", size_bytes)


# --- writing, in the thread of a `chat.runs.writer` ----------------------------------


def commit(writes: Sequence[SegmentWrite]) -> list[Exception | None]:
    """Commits all writes together; tells for each whether it was kept.

    A write that alone breaks the transaction (a value that the database or its driver refuses)
    must not take the others with it: then each is tried by itself.
    """
    try:
        return _commit_together(writes)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        if len(writes) == 1:
            return [_refusal(writes[0], error)]
        return [outcome for write in writes for outcome in commit([write])]


def _refusal(write: SegmentWrite, error: Exception) -> Exception:
    """The last segment cannot be inserted, because another process has written it."""
    if write.is_end and isinstance(error, IntegrityError):
        return OwnershipLost(write.run_pk)
    return error


def _commit_together(writes: Sequence[SegmentWrite]) -> list[Exception | None]:
    with nullcontext() if _is_one_statement(writes) else transaction.atomic():
        kept = _append([write for write in writes if not write.is_end])
        # Conversations are locked in one order everywhere, so that runners cannot deadlock.
        for write in sorted(writes, key=lambda write: write.conversation_pk):
            if write.is_end and _end(write):
                kept.add(write.run_pk)
        kept |= _kept_earlier([write for write in writes if write.run_pk not in kept])
    _forget_values(sum(write.size_bytes for write in writes))
    return [None if write.run_pk in kept else OwnershipLost(write.run_pk) for write in writes]


def _forget_values(size_bytes: int) -> None:
    """SQLite keeps the values of a statement until it is executed again: after large ones the
    connection is closed, which costs a millisecond."""
    if (
        size_bytes > LARGE_BYTES
        and connection.vendor == "sqlite"
        and not connection.in_atomic_block
    ):
        connection.close()


def _is_one_statement(writes: Sequence[SegmentWrite]) -> bool:
    """Returns whether everything fits into one statement, which is a transaction by itself."""
    if connection.vendor != "postgresql":
        return False
    if any(write.is_end for write in writes):
        return len(writes) == 1 and is_plain_end(writes[0])
    return is_plain(writes)


def is_plain_end(write: SegmentWrite) -> bool:
    """Returns whether `end_statement` can express this end."""
    return write.is_end and not _has_consequences(write)


def is_plain(writes: Sequence[SegmentWrite]) -> bool:
    """Returns whether `statement` can express all of these writes."""
    return not any(write.is_end or write.columns.keys() - TIMES for write in writes)


# Columns that the inserting statement can set as well.
TIMES = {"first_event_at", "first_token_at"}


def _append(writes: Sequence[SegmentWrite]) -> set[int]:
    """Inserts the segments of the runs that still are their writer's, with what came beside them;
    returns those runs.

    One statement for all: runs that the reaper has ended, and runs whose segment collides with the
    reaper's or would leave a gap (a backup was restored below a live runner), are left out; the
    others are written.
    """
    if not writes:
        return set()
    if connection.vendor == "postgresql":
        kept = {run_pk for (run_pk,) in fetch(*statement(writes))}
        others = [write for write in writes if not write.columns.keys() <= TIMES]
    else:
        kept = _insert_segments(writes)
        others = [write for write in writes if write.columns]
    for write in others:
        if write.run_pk in kept:
            names, values = _assignments(write.columns)
            text = queries.SET_COLUMNS.format(assignments=names)
            fetch(text, [*values, write.run_pk])
    return kept


def statement(writes: Sequence[SegmentWrite]) -> tuple[str, list[object]]:
    """The statement that inserts these segments in PostgreSQL, with their times, and its values."""
    if any(write.columns.keys() & TIMES for write in writes):
        return queries.APPEND_WITH_TIMES, [*_arrays(writes), *_times(writes)]
    if len(writes) == 1:
        return queries.APPEND_ONE, [values[0] for values in _arrays(writes)]
    return queries.APPEND_MANY, [*_arrays(writes)]


def _arrays(writes: Sequence[SegmentWrite]) -> list[list[object]]:
    return [
        # The same type for any size, because other types make another statement for the server.
        [Int8(write.run_pk) for write in writes],
        [write.runner for write in writes],
        [Int8(write.entries[0].seq) for write in writes],
        [Int8(write.entries[-1].seq) for write in writes],
        [_body(write.entries) for write in writes],
        [write.raw for write in writes],
    ]


def _times(writes: Sequence[SegmentWrite]) -> list[list[object]]:
    return [
        [write.columns.get("first_event_at") for write in writes],
        [write.columns.get("first_token_at") for write in writes],
    ]


# SQLite's oldest limit is 999 values in a statement.
_MOST_ROWS = 128


def _insert_segments(writes: Sequence[SegmentWrite]) -> set[int]:
    """Does what ``statement`` does, for a database without arrays.

    The number of rows is a power of two, because SQLite prepares a statement for each number. Its
    connection keeps 128 of them, with the values of their last execution: 10 MB with 100 runs.
    """
    kept: set[int] = set()
    while writes:
        count = min(_MOST_ROWS, 1 << (len(writes).bit_length() - 1))
        values: list[int | UUID | bytes | None] = []
        for write in writes[:count]:
            values += [write.run_pk, write.runner, *_segment(write)]
        rows = ", ".join(["(%s, %s, %s, %s, %s, %s)"] * count)
        text = queries.APPEND_IN_SQLITE.format(rows=rows)
        kept.update(run_pk for (run_pk,) in fetch(text, values))
        writes = writes[count:]
    return kept


def _segment(write: SegmentWrite) -> list[int | bytes | None]:
    """First and last seq, body, raw frames."""
    first, last = write.entries[0].seq, write.entries[-1].seq
    return [first, last, _body(write.entries), write.raw or None]


def _kept_earlier(writes: Sequence[SegmentWrite]) -> set[int]:
    """The runs whose very same segment is there: a try before this one had committed it, and its
    answer was lost with the connection."""
    if not writes:
        return set()
    rows = RunSegment.objects.filter(
        run_id__in=[write.run_pk for write in writes],
        first_seq__in=[write.entries[0].seq for write in writes],
    )
    there = {(row.run_id, row.first_seq): bytes(row.body) for row in rows}
    return {
        write.run_pk
        for write in writes
        if there.get((write.run_pk, write.entries[0].seq)) == _body(write.entries)
    }


def _has_consequences(write: SegmentWrite) -> bool:
    return write.result is not None and has_consequences(write.result, write.prepared)


def _end(write: SegmentWrite) -> bool:
    """Ends a run: its status, result and last segment, or nothing of them."""
    is_postgres = connection.vendor == "postgresql"
    if not (_end_at_once(write) if is_postgres else _end_step_by_step(write)):
        return False
    if write.result is not None:
        record_outcome(write.run_pk, write.result, write.prepared)
    return True


def _end_at_once(write: SegmentWrite) -> bool:
    return bool(fetch(*end_statement(write)))


def end_statement(write: SegmentWrite) -> tuple[str, list[object]]:
    """The statement that ends a run in PostgreSQL, and its values. It returns the run's key, or
    nothing if the run is not its writer's any more."""
    names, values = _assignments(write.columns)
    first, last = write.entries[0].seq, write.entries[-1].seq
    rows = ending_rows(write.prepared)
    clauses = "".join(f", {each.name} AS ({each.clause})" for each, _ in rows)
    text = queries.END_AT_ONCE.format(
        end=queries.END_RUN.format(assignments=names), attempt=queries.RECORD_ATTEMPT, rows=clauses
    )
    return text, [
        *values,
        *(Int8(write.run_pk), write.runner, Int8(first)),
        *(Int8(first), Int8(last), _body(write.entries), write.raw),
        *values_of(write.attempt),
        *(timezone.now(), Int8(write.conversation_pk)),
        *(value for each, prepared in rows for value in each.values(prepared)),
    ]


def _end_step_by_step(write: SegmentWrite) -> bool:
    names, values = _assignments(write.columns)
    mine = [write.run_pk, write.runner, write.entries[0].seq]
    if not fetch(queries.END_RUN.format(assignments=names), [*values, *mine]):
        return False
    fetch(queries.INSERT_SEGMENT, [write.run_pk, *_segment(write)])
    touch_room(write.conversation_pk)
    if write.attempt is not None:
        record_outcome_of(write.run_pk, write.attempt)
    for rows, prepared in ending_rows(write.prepared):
        rows.store(write.run_pk, prepared)
    return True


_FIELDS = {field.attname: field for field in Run._meta.concrete_fields}


def _assignments(columns: Mapping[str, object]) -> tuple[str, list[object]]:
    """The assignments for these columns of a run, and the values for the database."""
    fields = [_FIELDS[name] for name in columns]
    names = ", ".join(f'"{field.column}" = %s' for field in fields)
    pairs = zip(fields, columns.values(), strict=True)
    return names, [field.get_db_prep_save(value, connection) for field, value in pairs]


def _body(entries: Sequence[LogEntry]) -> bytes:
    return canonical.join_bodies(entry.body for entry in entries)


# --- reading --------------------------------------------------------------------------


def read_entries(run_pk: int, after: int = 0, *, limit_bytes: int = 0) -> list[LogEntry]:
    """Committed events after ``after``, in order and without a gap.

    With ``limit_bytes`` the list ends after the segment that passes the limit, or after some
    segments. It also ends at a gap, should there ever be one: a number is never skipped.
    """
    found = RunSegment.objects.filter(run_id=run_pk, last_seq__gt=after)
    if after:
        # The segment with the next seq is the last one that starts at or before it. The index
        # finds it in a log of any length.
        earlier = RunSegment.objects.filter(run_id=run_pk, first_seq__lte=after + 1)
        start = earlier.order_by("-first_seq").values("first_seq")[:1]
        found = found.filter(first_seq__gte=Coalesce(Subquery(start), 0))
    rows = found.order_by("first_seq").values_list("first_seq", "is_compressed", "body")
    # No iterator: for it PostgreSQL would create a cursor, with three round trips.
    return entries_of(rows[:CHUNK_SEGMENTS] if limit_bytes else rows, after, limit_bytes)


def read_logs(run_pks: Sequence[int]) -> dict[int, list[LogEntry]]:
    """The whole committed logs of several runs, in one query."""
    rows: dict[int, list[tuple[int, bool, bytes]]] = {run_pk: [] for run_pk in run_pks}
    if run_pks:
        found = RunSegment.objects.filter(run_id__in=run_pks).order_by("first_seq")
        columns = found.values_list("run_id", "first_seq", "is_compressed", "body")
        for run_pk, first_seq, is_compressed, body in columns:
            rows[run_pk].append((first_seq, is_compressed, bytes(body)))
    return {run_pk: entries_of(segments) for run_pk, segments in rows.items()}


def entries_of(
    rows: Iterable[tuple[int, bool, bytes | memoryview]], after: int = 0, limit_bytes: int = 0
) -> list[LogEntry]:
    """The events after ``after`` in these segments, up to the first gap. Raises whatever a body
    that is none of ours makes of itself."""
    entries: list[LogEntry] = []
    size = 0
    for first_seq, is_compressed, body in rows:
        if first_seq > (entries[-1].seq if entries else after) + 1:
            break
        plain = zlib.decompress(body) if is_compressed else bytes(body)
        numbered = enumerate(canonical.split_bodies(plain), start=first_seq)
        entries += [LogEntry(seq, text) for seq, text in numbered if seq > after]
        size += len(plain)
        if limit_bytes and size >= limit_bytes:
            break
    return entries


def read_events(run: Run, after: int = 0) -> list[canonical.Event]:
    return [canonical.decode(entry.body) for entry in read_entries(run.pk, after)]


def read_raw(run: Run, *, limit_bytes: int = 0) -> bytes:
    """The raw bytes that the upstream sent, if they are still stored: all, or the first ``limit_bytes``."""
    pieces: list[bytes] = []
    size = 0
    for is_compressed, stored in fetch(
        queries.READ_FRAMES, [run.pk, run.pk, limit_bytes or ALL_BYTES]
    ):
        left = limit_bytes - size if limit_bytes else 0
        body = bytes(stored)
        pieces.append(zlib.decompressobj().decompress(body, left) if is_compressed else body)
        size += len(pieces[-1])
        if limit_bytes and size >= limit_bytes:
            return b"".join(pieces)[:limit_bytes]
    return b"".join(pieces)


# A limit above the size of any log.
ALL_BYTES = 1 << 62


def bodies_of(events: Iterable[canonical.Event]) -> list[LogEntry]:
    """Entries of numbered events."""
    return [LogEntry(event.seq, canonical.encode(event)) for event in events]
