"""Compaction of the logs of ended runs, at the pace at which runs end."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from chat.core.errors import is_database_unavailable
from chat.core.prepared import IsOneOf, Prepared, fetch
from chat.core.threads import DatabaseThreads
from chat.models import Run
from chat.runs import queries
from chat.runs.log_compaction import compact, compact_raw

logger = logging.getLogger(__name__)

# Followers of a run that just ended still read its segments one by one.
COMPACT_AFTER_SECONDS = 30
# Runs that are due for longer than this are late: all are to be compacted within a minute of their end.
LATE_SECONDS = 10
# Time that compaction may take of one thread, the database's answers included. A log of 400 kB takes
# about 10 ms, so that a quarter is enough for 25 ended runs a second; half is for a slower machine.
SHARE = 0.25
LATE_SHARE = 0.5
# Log and raw frames that are replaced in a second; a small virtual machine's disk writes 100 MB.
BYTES_PER_SECOND = 16_000_000
# Other work of the same threads, and other writers on SQLite, wait this long for a slice, or for one run.
SLICE_SECONDS = 0.05
SLICE_BYTES = 4_000_000
# A runner picks the runs of one slice at random from this many that are due.
MOST_DUE = 200
RUNS_OF_SLICE = 30


_runs: Prepared[Run] = Prepared(
    lambda keys: Run.objects.filter(IsOneOf("pk", keys)).only(
        "pk", "public_id", "last_seq", "finished_at"
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The work of one slice, and whether some runs that are due have waited for too long."""

    spent_seconds: float
    size_bytes: int
    is_late: bool

    @property
    def rest_seconds(self) -> float:
        """The pause after the slice."""
        whole_seconds = self.spent_seconds / (LATE_SHARE if self.is_late else SHARE)
        return max(whole_seconds, self.size_bytes / BYTES_PER_SECOND) - self.spent_seconds


class Compactor:
    """Compacts in slices, each followed by a rest in proportion to it. One per runner.

    Any number of runners may do this at once: each picks due runs at random, and two that compact
    the same run do no harm.
    """

    def __init__(
        self,
        threads: DatabaseThreads,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._threads = threads
        self._clock = clock
        self._sleep = sleep
        # Runs with an unreadable log, which are not tried again.
        self.unreadable: set[int] = set()

    async def compact_due(self) -> None:
        """Returns when nothing is due. Raises when the database is away."""
        while (done := await self._threads.call(self._slice)) is not None:
            await self._sleep(done.rest_seconds)

    def _slice(self) -> Slice | None:
        started = self._clock()
        due = self._due()
        if not due:
            return None
        late = timezone.now() - timedelta(seconds=COMPACT_AFTER_SECONDS + LATE_SECONDS)
        is_late = any(run.finished_at and run.finished_at < late for run in due)
        size_bytes = 0
        for run in due:
            size_bytes += self._compact(run)
            if self._clock() - started >= SLICE_SECONDS or size_bytes >= SLICE_BYTES:
                break
        return Slice(spent_seconds=self._clock() - started, size_bytes=size_bytes, is_late=is_late)

    def _due(self) -> list[Run]:
        before = timezone.now() - timedelta(seconds=COMPACT_AFTER_SECONDS)
        found = fetch(queries.DUE_FOR_COMPACTION, [before, MOST_DUE + len(self.unreadable)])
        keys = [key for (key,) in found if key not in self.unreadable]
        random.shuffle(keys)
        due = _runs.all(keys=keys[:RUNS_OF_SLICE]) if keys else []
        # The database returns them in their order, which is the same for all runners.
        random.shuffle(due)
        return due

    def _compact(self, run: Run) -> int:
        """Compacts one log, and returns its size in bytes."""
        try:
            size_bytes = compact(run)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            logger.exception("run.unreadable run=%s", run.public_id)
            size_bytes = 0
        if not size_bytes:
            self.unreadable.add(run.pk)
            compact_raw(run)
        return size_bytes
