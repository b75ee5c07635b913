"""The merged reader of a run's log: tail and segments, gap-free, ending with chat.end."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterable
from uuid import UUID

from django.db import connection

from chat import metrics
from chat.models.prepared import fetch
from chat.runs.database import DatabaseThreads, readers
from chat.runs.lookout import Found, RunGone, lookout
from chat.runs.segments import CHUNK_SEGMENTS, entries_of, read_entries
from chat.runs.tail import Entry, LiveTail, Take, Taking
from chat.runs.tails import live_tail

__all__ = ["RunGone", "check_of", "follow"]

# While a tail serves a run, its follower looks into the database only this often.
POLL_SECONDS = 1.0
# Without one it looks as often as this while the log moves, and ever less often while it does not.
FAST_SECONDS = 0.1
# Who has just read a log to its end listens first: what a run says first comes in these moments.
FIRST_SECONDS = 0.02
SLOWER = 1.5
# One step of a catch-up from the database, so that a long log does not stall its follower.
CATCH_UP_BYTES = 512 * 1024


async def follow(
    run_id: UUID,
    after: int = 0,
    *,
    tail: LiveTail = live_tail,
    threads: DatabaseThreads = readers,
    poll_seconds: float = POLL_SECONDS,
    take: Take | None = None,
) -> AsyncIterator[list[Entry]]:
    """Batches of committed entries behind ``after``, each number once and in order.

    What the tail brings while the follower waits goes to ``take``, if there is one; what that refuses
    is yielded instead. Ends after the batch that holds ``chat.end``. Raises ``RunGone``. Losing the
    tail, or never having one, costs up to ``poll_seconds`` of latency and nothing else; a database
    that is away is waited for. Cancellation is safe anywhere.
    """
    log = _Log(run_id, threads)
    taking = Taking(_counted(take), poll_seconds) if take is not None else None
    position = after
    fast = min(FAST_SECONDS, poll_seconds)
    pause = min(FIRST_SECONDS, poll_seconds)
    while True:
        entries = tail.read(run_id, position)
        is_served = bool(entries)
        if is_served:
            pause = poll_seconds
        else:
            found = await log.read(position)
            if found.is_over:
                return
            entries = found.entries
            pause = fast if entries else pause
        metrics.TAIL_READS.add(1, _where(entries, is_served))
        if entries:
            position = entries[-1].seq
            yield entries
            if entries[-1].is_end:
                return
        # Also after a tail has served: the next words are on their way here, and not yet in the log.
        if is_served or not log.is_behind:
            reached = await tail.wait(run_id, position, timeout_seconds=pause, taking=taking)
            if reached > position:
                pause = poll_seconds
            else:
                pause = fast if pause < fast else min(poll_seconds, pause * SLOWER)
            position = reached


def _counted(take: Take) -> Take:
    def counted(entries: list[Entry]) -> bool:
        is_taken = take(entries)
        if is_taken:
            metrics.TAIL_READS.add(1, "tail")
        return is_taken

    return counted


def _where(entries: list[Entry], is_served: bool) -> str:
    """Where a follower found something, for the figures."""
    if is_served:
        return "tail"
    return "database" if entries else "nowhere"


class _Log:
    """The database's side of one follower."""

    def __init__(self, run_id: UUID, threads: DatabaseThreads) -> None:
        self._run_id = run_id
        self._run_pk: int | None = None
        self._threads = threads
        # Whether there may be more than fits into one step.
        self.is_behind = True

    async def read(self, after: int) -> Found:
        if not self.is_behind and self._run_pk is not None:
            return await lookout.look(self._run_pk, after)
        # Not together with the others, who would wait for a long log.
        if self._run_pk is None:
            self._run_pk, entries = await self._threads.call_until_there(
                _begin, self._run_id, after
            )
        else:
            entries = await self._threads.call_until_there(
                read_entries, self._run_pk, after, limit_bytes=CATCH_UP_BYTES
            )
        # Not "there was something": a log that is being written grows with each look, and followers
        # who look again at once keep each other, and the tail, from ever catching up.
        is_cut = sum(len(entry.body) for entry in entries) >= CATCH_UP_BYTES
        self.is_behind = is_cut or len(entries) >= CHUNK_SEGMENTS
        return Found(entries=entries)


# As in `read_entries`, with the run's key: where nothing is behind ``after`` it comes alone.
_BEGINNING = """
    SELECT run.id, segment.first_seq, segment.is_compressed, segment.body
    FROM chat_run run LEFT JOIN chat_runsegment segment
        ON segment.run_id = run.id AND segment.last_seq > %s
        AND segment.first_seq >= COALESCE((
            SELECT MAX(earlier.first_seq) FROM chat_runsegment earlier
            WHERE earlier.run_id = run.id AND earlier.first_seq <= %s
        ), 0)
    WHERE run.public_id = %s
    ORDER BY segment.first_seq
    LIMIT %s
"""


def _begin(run_id: UUID, after: int) -> tuple[int, list[Entry]]:
    """The run's key, and the first step of its log."""
    is_postgres = connection.vendor == "postgresql"
    values = [after, after + 1, run_id if is_postgres else run_id.hex, CHUNK_SEGMENTS]
    rows = fetch(_BEGINNING, values)
    if not rows:
        raise RunGone(run_id)
    segments = [
        (first_seq, bool(is_compressed), body)
        for _, first_seq, is_compressed, body in rows
        if first_seq is not None
    ]
    return rows[0][0], entries_of(segments, after, CATCH_UP_BYTES)


def check_of(entries: Iterable[Entry], start: int = 0) -> int:
    """The checksum of a log, carried on from ``start`` over further entries.

    Two logs that agree up to a number have the same checksum there; a restored backup, or
    another run under an old number, does not.
    """
    check = start
    for entry in entries:
        check = zlib.crc32(entry.body, check)
    return check
