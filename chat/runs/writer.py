"""Group commit: writes the events of all runs of this process in one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import NamedTuple

from chat.core import metrics
from chat.core.threads import DatabaseThreads
from chat.runs import segments
from chat.runs.pg_writer import AsyncSegmentWriter, has_async_writer
from chat.runs.segments import SegmentWrite

# The longest pause between two commits: 50 ms is below what a reader notices. Under light load the
# pause is ten times the cost of the last commit, so that committing takes at most a tenth of the time.
# RUN_SECONDS is the cost of one run besides the commit: waking it here and rendering it elsewhere.
FLUSH_SECONDS = 0.05
COMMIT_SHARE = 10
RUN_SECONDS = 0.0005
# With many runs a pause has up to three commits, each for a share of the runs. If two hundred runs were
# committed together, every delta would wait until all of them are parsed, committed and rendered.
# Measured: with three shares half of the deltas arrive 5 ms earlier, at no visible cost of CPU.
TURNS = 3
TURN_RUNS = 25


class CommitScheduler:
    """Decides how many runs the next commit takes and how long to wait after it. Runs are given by key;
    times are those of the event loop, in seconds."""

    def __init__(self) -> None:
        # Start and runs of each commit within the last pause.
        self._recent: deque[tuple[float, Collection[int]]] = deque()
        self._turns = 1

    def share(self, waiting: Iterable[int], now: float) -> int:
        """How many of the ``waiting`` runs the commit that starts ``now`` takes."""
        while self._recent and self._recent[0][0] <= now - FLUSH_SECONDS:
            self._recent.popleft()
        # Runs of the last commit may be waiting again.
        busy = len({*waiting, *chain.from_iterable(runs for _, runs in self._recent)})
        self._turns = max(1, min(TURNS, busy // TURN_RUNS))
        return -(-busy // self._turns)

    def pause(self, runs: Collection[int], began: float, spent: float) -> float:
        """The pause after a commit of these runs that ``began`` then and took ``spent`` seconds."""
        self._recent.append((began, runs))
        cost = spent + len(runs) * RUN_SECONDS
        return max(0.0, min(FLUSH_SECONDS, cost * COMMIT_SHARE) / self._turns - spent)


logger = logging.getLogger(__name__)

# Pauses between retries while the database is unavailable: 0.1 s, doubling to 2 s, without an end.
RETRY_SECONDS = (0.1, 2.0)
CLOSE_SECONDS = 10.0
# Limit of one transaction, which takes several times as much memory here and in the database (four times
# with SQLite). Only after an outage of the database, or when servers send without end, there is more.
COMMIT_BYTES = 4 * 1024 * 1024
# Encoding more than this for the server on the event loop would block it too long.
ASYNC_WRITER_BYTES = 512 * 1024

# Returns what one run has to write at this moment, or nothing.
TakeWrite = Callable[[], SegmentWrite | None]
# Done when the write is committed, with the write.
_Committed = asyncio.Future[SegmentWrite | None]


class _WaitingRun(NamedTuple):
    run_pk: int
    take_write: TakeWrite
    committed: _Committed


class SegmentWriter:
    """Commits the writes of all runs of this process, many of them in one transaction: at once after a
    quiet moment, otherwise after the pause that `CommitScheduler` gives.
    """

    def __init__(self) -> None:
        self._threads = DatabaseThreads("write", size=1)
        self._async_writer = AsyncSegmentWriter() if has_async_writer() else None
        self._waiting: deque[_WaitingRun] = deque()
        self._wanted = asyncio.Event()
        self._scheduler = CommitScheduler()
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name="segment-writer")

    async def close(self) -> None:
        """Commits what is waiting, then ends. Gives up after ``CLOSE_SECONDS`` without the database."""
        self._is_closing = True
        self._wanted.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._async_writer is not None:
            await self._async_writer.close()
        await self._threads.close()

    async def append(self, write: SegmentWrite) -> None:
        """Returns when ``write`` is committed. Raises ``OwnershipLost``, or the database's error for this
        write. A caller that is cancelled does not know whether it was committed."""
        await self.append_at_commit(write.run_pk, lambda: write)

    async def append_at_commit(self, run_pk: int, take_write: TakeWrite) -> SegmentWrite | None:
        """Appends like `append`, but ``take_write`` is called right before the commit, so that events that arrive
        during the pause are included. Returns its write. Also raises what ``take_write`` raises."""
        committed = asyncio.get_running_loop().create_future()
        self._waiting.append(_WaitingRun(run_pk, take_write, committed))
        self._wanted.set()
        write: SegmentWrite | None = await committed
        return write

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        while not (self._is_closing and not self._waiting):
            await self._wanted.wait()
            self._wanted.clear()
            began = loop.time()
            batch = self._take(
                self._scheduler.share((waiting.run_pk for waiting in self._waiting), began)
            )
            if not batch:
                continue
            started = loop.time()
            await self._commit(batch)
            spent = loop.time() - started
            metrics.COMMIT_SECONDS.observe(spent)
            metrics.COMMIT_RUNS.observe(len(batch))
            await asyncio.sleep(
                self._scheduler.pause([write.run_pk for write, _ in batch], began, spent)
            )

    def _take(self, most: int) -> list[tuple[SegmentWrite, _Committed]]:
        """The ``most`` writes that wait longest, or as many as fit into one transaction."""
        batch: list[tuple[SegmentWrite, _Committed]] = []
        size = 0
        while self._waiting:
            if len(batch) == most:
                self._wanted.set()
                break
            waiting = self._waiting.popleft()
            write = _write_of(waiting)
            if write is None:
                continue
            size += write.size_bytes
            if batch and size > COMMIT_BYTES:
                self._waiting.appendleft(waiting._replace(take_write=partial(_same, write)))
                self._wanted.set()
                break
            batch.append((write, waiting.committed))
        return batch

    async def _commit(self, batch: list[tuple[SegmentWrite, _Committed]]) -> None:
        writes = [write for write, _ in batch]
        outcomes = await self._until_committed(writes)
        for (write, committed), outcome in zip(batch, outcomes, strict=True):
            if committed.done():
                continue
            if outcome is None:
                committed.set_result(write)
            else:
                committed.set_exception(outcome)

    async def _until_committed(self, writes: list[SegmentWrite]) -> list[Exception | None]:
        pause, longest = RETRY_SECONDS
        while True:
            try:
                return await self._commit_once(writes)
            except Exception as error:
                # The database is unavailable, or no thread can be started. Events are kept until they
                # can be written, whatever the error is; otherwise no run could end.
                metrics.COMMIT_FAILURES.inc()
                logger.warning(
                    "log.unavailable runs=%d error=%s", len(writes), type(error).__name__
                )
                await asyncio.sleep(pause)
                pause = min(longest, pause * 2)

    async def _commit_once(self, writes: list[SegmentWrite]) -> list[Exception | None]:
        """Uses the asynchronous connection for what it can express. The thread commits the others, and
        finds those that were committed in spite of an error."""
        kept = await self._commit_on_loop(writes)
        left = [write for write in writes if write.run_pk not in kept]
        outcomes = iter(await self._threads.call(segments.commit, left) if left else ())
        return [None if write.run_pk in kept else next(outcomes) for write in writes]

    async def _commit_on_loop(self, writes: list[SegmentWrite]) -> set[int]:
        """Returns the runs whose write was committed: plain ones in one statement, each end in one of
        its own."""
        kept: set[int] = set()
        if self._async_writer is None or not self._async_writer.is_usable:
            return kept
        plain = [write for write in writes if not write.is_end]
        ends = [write for write in writes if segments.is_plain_end(write)]
        try:
            if plain and segments.is_plain(plain) and _are_small(plain):
                kept |= set(await self._async_writer.first_column(*segments.statement(plain)))
            for write in ends:
                if _are_small([write]):
                    statement = segments.end_statement(write)
                    kept |= set(await self._async_writer.first_column(*statement))
        except Exception as error:
            logger.info("log.async_writer error=%s", type(error).__name__)
        return kept


def _are_small(writes: list[SegmentWrite]) -> bool:
    return sum(write.size_bytes for write in writes) <= ASYNC_WRITER_BYTES


def _write_of(waiting: _WaitingRun) -> SegmentWrite | None:
    """The write of a waiting run. A run without one, or with an error, is answered at once."""
    try:
        write = waiting.take_write()
    except Exception as error:
        if not waiting.committed.done():
            waiting.committed.set_exception(error)
        return None
    if write is None and not waiting.committed.done():
        waiting.committed.set_result(None)
    return write


def _same(write: SegmentWrite) -> SegmentWrite:
    return write
