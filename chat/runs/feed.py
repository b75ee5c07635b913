"""The merged reader of a run's log: tail and segments, gap-free, ending with chat.end."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterable
from uuid import UUID

from chat import metrics
from chat.models import Run
from chat.runs.database import DatabaseThreads, readers
from chat.runs.lookout import Found, RunGone, lookout
from chat.runs.segments import read_entries
from chat.runs.tail import Entry, LiveTail
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
) -> AsyncIterator[list[Entry]]:
    """Batches of committed entries behind ``after``, each number once and in order.

    Ends after the batch that holds ``chat.end``. Raises ``RunGone``. Losing the tail, or never
    having one, costs up to ``poll_seconds`` of latency and nothing else; a database that is away
    is waited for. Cancellation is safe anywhere.
    """
    log = _Log(await threads.call_until_there(_key_of, run_id), threads)
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
            await tail.wait(run_id, position, timeout_seconds=pause)
            pause = fast if pause < fast else min(poll_seconds, pause * SLOWER)


def _where(entries: list[Entry], is_served: bool) -> str:
    """Where a follower found something, for the figures."""
    if is_served:
        return "tail"
    return "database" if entries else "nowhere"


class _Log:
    """The database's side of one follower."""

    def __init__(self, run_pk: int, threads: DatabaseThreads) -> None:
        self._run_pk = run_pk
        self._threads = threads
        # Whether there may be more than fits into one step.
        self.is_behind = True

    async def read(self, after: int) -> Found:
        if self.is_behind:
            # Not together with the others, who would wait for a long log.
            entries = await self._threads.call_until_there(
                read_entries, self._run_pk, after, limit_bytes=CATCH_UP_BYTES
            )
            self.is_behind = bool(entries)
            return Found(entries=entries)
        return await lookout.look(self._run_pk, after)


def _key_of(run_id: UUID) -> int:
    key = Run.objects.filter(public_id=run_id).values_list("pk", flat=True).first()
    if key is None:
        raise RunGone(run_id)
    return key


def check_of(entries: Iterable[Entry], start: int = 0) -> int:
    """The checksum of a log, carried on from ``start`` over further entries.

    Two logs that agree up to a number have the same checksum there; a restored backup, or
    another run under an old number, does not.
    """
    check = start
    for entry in entries:
        check = zlib.crc32(entry.body, check)
    return check
