"""The follower of a run's log: event buffer and segments without gaps, up to `chat.end`."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from django.db import connection

from chat.core import metrics
from chat.core.prepared import fetch
from chat.core.threads import DatabaseThreads, readers
from chat.models.run import LIVE_STATUSES
from chat.runs import queries
from chat.runs.configured_buffer import event_buffer
from chat.runs.event_buffer import Consumer, EventBuffer, LogEntry, Take
from chat.runs.segments import CHUNK_SEGMENTS, entries_of, read_entries

logger = logging.getLogger(__name__)

# Requests that arrive within this window share one query. Without it, 500 live runs would cost 5,000
# queries a second.
BATCH_WINDOW_SECONDS = 0.02
# Bytes read by one query for all its requests; the rest comes with the next one.
BATCH_BYTES = 4 * 1024 * 1024
# Each request has three values, and SQLite's oldest limit is 999 in a statement. A power of two.
REQUESTS_PER_BATCH = 256


class RunGone(Exception):
    """The run's row does not exist, or was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntries:
    """The entries after a follower's position. ``is_over``: the run has ended before it."""

    entries: list[LogEntry] = field(default_factory=list)
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class _Request:
    run_pk: int
    after: int
    answer: asyncio.Future[NewEntries]


class BatchedLogReader:
    """Reads the logs of many runs with one query (one instance per process, on the event loop)."""

    def __init__(self, threads: DatabaseThreads = readers) -> None:
        self._threads = threads
        self._requests: list[_Request] = []
        self._task: asyncio.Task[None] | None = None

    async def read_after(self, run_pk: int, after: int) -> NewEntries:
        """The committed entries after ``after``. Raises ``RunGone``. Waits for a database that is
        unavailable. Cancellation is safe."""
        request = _Request(run_pk, after, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._answer(), name="log-reader")
        return await request.answer

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _answer(self) -> None:
        requests: list[_Request] = []
        try:
            while self._requests:
                await asyncio.sleep(BATCH_WINDOW_SECONDS)
                requests, self._requests = self._requests, []
                requests = [each for each in requests if not each.answer.done()]
                for start in range(0, len(requests), REQUESTS_PER_BATCH):
                    await self._answer_together(requests[start : start + REQUESTS_PER_BATCH])
        finally:
            for each in (*requests, *self._requests):
                each.answer.cancel()
            self._requests = []

    async def _answer_together(self, requests: Sequence[_Request]) -> None:
        wanted = [(each.run_pk, each.after) for each in requests]
        for request, answer in zip(requests, await self._find(wanted), strict=True):
            if request.answer.done():
                continue
            if isinstance(answer, Exception):
                request.answer.set_exception(answer)
            else:
                request.answer.set_result(answer)

    async def _find(self, wanted: Sequence[tuple[int, int]]) -> Sequence[NewEntries | Exception]:
        """An error of one request does not fail the others: they are read one by one then."""
        try:
            return await self._threads.call_until_there(read_many, wanted)
        except Exception as error:
            if len(wanted) == 1:
                return [error]
            return [answer for one in wanted for answer in await self._find([one])]


log_reader = BatchedLogReader()


# --- in a database thread ---------------------------------------------------------------------


def read_many(wanted: Sequence[tuple[int, int]]) -> list[NewEntries | Exception]:
    """The entries after each (run, seq), or the error of reading that log."""
    rows = _read(wanted)
    return [
        _new_entries(rows[at], after) if at in rows else RunGone(run_pk)
        for at, (run_pk, after) in enumerate(wanted)
    ]


# A run's status, its last number, and a segment, or nothing in place of one.
_Row = tuple[str, int, int | None, bool | None, bytes | None]


def _new_entries(rows: list[_Row], after: int) -> NewEntries | Exception:
    segments = [
        (first_seq, bool(is_compressed), body)
        for _, _, first_seq, is_compressed, body in rows
        if first_seq is not None and body is not None
    ]
    if not segments:
        status, last_seq, *_ = rows[0]
        return NewEntries(is_over=status not in LIVE_STATUSES and after >= last_seq)
    try:
        return NewEntries(entries=entries_of(segments, after))
    except Exception as error:
        return error


def _read(wanted: Sequence[tuple[int, int]]) -> dict[int, list[_Row]]:
    """The rows by place in ``wanted``, without runs that don't exist."""
    if connection.vendor == "postgresql":
        runs, numbers = [run_pk for run_pk, _ in wanted], [after for _, after in wanted]
        rows = fetch(
            queries.ENTRIES_BEHIND_IN_POSTGRES,
            [list(range(len(wanted))), runs, numbers, BATCH_BYTES],
        )
    else:
        # Filled up to a power of two with rows of no run, because SQLite's connection keeps the
        # statements of 128 different lengths.
        size = 1 << (len(wanted) - 1).bit_length()
        places = "VALUES " + ", ".join(["(%s,%s,%s)"] * size)
        values: list[int | None] = [
            value for at, request in enumerate(wanted) for value in (at, *request)
        ]
        values += [None] * 3 * (size - len(wanted))
        rows = fetch(queries.ENTRIES_BEHIND.format(wanted=places), [*values, BATCH_BYTES])
    found: defaultdict[int, list[_Row]] = defaultdict(list)
    for place, *row in rows:
        found[place].append(tuple(row))
    for segments in found.values():
        segments.sort(key=_first_seq)
    return dict(found)


def _first_seq(row: _Row) -> int:
    return row[2] or 0


# While the buffer serves a run, its follower reads the database only this often.
POLL_SECONDS = 1.0
# Without it, a follower polls this often while the log grows, and ever less often while it does not.
FAST_SECONDS = 0.1
# The first wait after a log was read to its end: the first events of a run come in this time.
FIRST_SECONDS = 0.02
SLOWER = 1.5
# Bytes of one step of a catch-up from the database, so that a long log does not stall its follower.
CATCH_UP_BYTES = 512 * 1024


async def follow_log(
    run_id: UUID,
    after: int = 0,
    *,
    buffer: EventBuffer = event_buffer,
    threads: DatabaseThreads = readers,
    poll_seconds: float = POLL_SECONDS,
    take: Take | None = None,
    new_run_pk: int | None = None,
) -> AsyncIterator[list[LogEntry]]:
    """Batches of committed entries after ``after``, each seq once and in order.

    Entries that the buffer receives during a wait go to ``take``, if given; those that it refuses
    are yielded instead. Ends after the batch with ``chat.end``. Raises ``RunGone``. A lost or
    missing buffer costs up to ``poll_seconds`` of latency and nothing else. Waits for a database
    that is unavailable. Cancellation is safe anywhere.

    ``new_run_pk`` is the key of a run that was queued a moment ago: its log is read after a first
    wait only.
    """
    log = _Log(run_id, threads, new_run_pk)
    consumer = Consumer(_counted(take), poll_seconds) if take is not None else None
    position = after
    is_due = new_run_pk is None
    fast = min(FAST_SECONDS, poll_seconds)
    pause = min(FIRST_SECONDS, poll_seconds)
    while True:
        entries = buffer.read(run_id, position)
        is_served = bool(entries)
        if is_served:
            pause = poll_seconds
        elif is_due:
            found = await log.read(position)
            if found.is_over:
                return
            entries = found.entries
            pause = fast if entries else pause
        metrics.LOG_READS.add(1, _where(entries, is_served))
        if entries:
            position = entries[-1].seq
            yield entries
            if entries[-1].is_end:
                return
        # Waits on the buffer after it has served, too: the next entries reach it before the log.
        if is_served or not log.is_behind:
            reached = await buffer.wait(run_id, position, timeout_seconds=pause, consumer=consumer)
            if reached > position:
                pause = poll_seconds
            else:
                pause = fast if pause < fast else min(poll_seconds, pause * SLOWER)
            position = reached
        is_due = True


def _counted(take: Take) -> Take:
    def counted(entries: list[LogEntry]) -> bool:
        is_taken = take(entries)
        if is_taken:
            metrics.LOG_READS.add(1, "buffer")
        return is_taken

    return counted


def _where(entries: list[LogEntry], is_served: bool) -> str:
    """The place where a follower found entries, for the metrics."""
    if is_served:
        return "buffer"
    return "database" if entries else "nowhere"


class _Log:
    """The database reads of one follower."""

    def __init__(
        self, run_id: UUID, threads: DatabaseThreads, new_run_pk: int | None = None
    ) -> None:
        self._run_id = run_id
        self._run_pk = new_run_pk
        self._threads = threads
        # True if there may be more than fits into one step.
        self.is_behind = new_run_pk is None

    async def read(self, after: int) -> NewEntries:
        if not self.is_behind and self._run_pk is not None:
            return await log_reader.read_after(self._run_pk, after)
        # A follower that is far behind reads alone, so that the others don't wait for a long log.
        if self._run_pk is None:
            self._run_pk, entries = await self._threads.call_until_there(
                _begin, self._run_id, after
            )
        else:
            entries = await self._threads.call_until_there(
                read_entries, self._run_pk, after, limit_bytes=CATCH_UP_BYTES
            )
        # Only a full read means "behind". A log that is being written grows with each read, and
        # followers that read again at once keep each other, and the buffer, from catching up.
        is_cut = sum(len(entry.body) for entry in entries) >= CATCH_UP_BYTES
        self.is_behind = is_cut or len(entries) >= CHUNK_SEGMENTS
        return NewEntries(entries=entries)


def _begin(run_id: UUID, after: int) -> tuple[int, list[LogEntry]]:
    """The run's key, and the first step of its log."""
    is_postgres = connection.vendor == "postgresql"
    values = [after, after + 1, run_id if is_postgres else run_id.hex, CHUNK_SEGMENTS]
    rows = fetch(queries.FIRST_ENTRIES, values)
    if not rows:
        raise RunGone(run_id)
    segments = [
        (first_seq, bool(is_compressed), body)
        for _, first_seq, is_compressed, body in rows
        if first_seq is not None
    ]
    return rows[0][0], entries_of(segments, after, CATCH_UP_BYTES)
