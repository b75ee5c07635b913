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

# 50 ms: below what a reader notices. Under light load the pause is shorter, ten times what the last
# commit has cost, so that committing takes a tenth of the time at most. Beside its own time it
# costs about so much for each run: to be read and woken here, and to be shown by a web process.
FLUSH_SECONDS = 0.05
COMMIT_SHARE = 10
RUN_SECONDS = 0.0005
# Many runs are committed by turns, each still once in a pause: of two hundred at once every word
# would wait until those of all are parsed, committed, sent and shown. A turn costs a commit: with a
# third one half of the words come 5 ms earlier, for no more of the processors' time than can be seen.
TURNS = 3
TURN_RUNS = 25


class CommitScheduler:
    """Tells a writer how to go on. Runs are their keys; times are the loop's, in seconds."""

    def __init__(self) -> None:
        # When a commit was begun, and which runs it took; those of the last pause.
        self._recent: deque[tuple[float, Collection[int]]] = deque()
        self._turns = 1

    def share(self, waiting: Iterable[int], now: float) -> int:
        """How many of the runs that are ``waiting`` go into the commit that begins ``now``."""
        while self._recent and self._recent[0][0] <= now - FLUSH_SECONDS:
            self._recent.popleft()
        # Whoever was in the last turn may be waiting again.
        busy = len({*waiting, *chain.from_iterable(runs for _, runs in self._recent)})
        self._turns = max(1, min(TURNS, busy // TURN_RUNS))
        return -(-busy // self._turns)

    def pause(self, runs: Collection[int], began: float, spent: float) -> float:
        """How long to wait behind a commit of these runs that ``began`` then and has ``spent`` so
        much."""
        self._recent.append((began, runs))
        cost = spent + len(runs) * RUN_SECONDS
        return max(0.0, min(FLUSH_SECONDS, cost * COMMIT_SHARE) / self._turns - spent)


# The group commit: what all runs of a process have ready goes into the log together.

logger = logging.getLogger(__name__)

# The database is away: tried again after 0.1 s, doubling to 2 s, for as long as it takes.
RETRY_SECONDS = (0.1, 2.0)
CLOSE_SECONDS = 10.0
# In one transaction, which takes several times as much memory here and in the database. Only what
# was held back while the database was away is larger.
COMMIT_BYTES = 16 * 1024 * 1024
# To make more ready than this for the server would hold up the event loop.
LINE_BYTES = 512 * 1024

# Gives what one run has ready at this moment; nothing if there is nothing.
Ask = Callable[[], SegmentWrite | None]


class _Turn(NamedTuple):
    """A run that waits for its turn."""

    run_pk: int
    ask: Ask
    committed: asyncio.Future[None]


class SegmentWriter:
    """Commits what the runs of this process have ready, many of them in one transaction.

    At once when nothing was committed for a moment, else when the pause is over; see `CommitScheduler`.
    """

    def __init__(self) -> None:
        self._threads = DatabaseThreads("write", size=1)
        self._line = AsyncSegmentWriter() if has_async_writer() else None
        self._waiting: deque[_Turn] = deque()
        self._wanted = asyncio.Event()
        self._pace = CommitScheduler()
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name="segment-writer")

    async def close(self) -> None:
        """Commits what is waiting, then ends; a database that stays away is given up on."""
        self._is_closing = True
        self._wanted.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._line is not None:
            await self._line.close()
        await self._threads.close()

    async def append(self, write: SegmentWrite) -> None:
        """Returns when ``write`` is committed. Raises ``OwnershipLost``, or what the database says
        of this write alone. A caller that is cancelled does not know whether it was committed."""
        await self.append_when_asked(write.run_pk, lambda: write)

    async def append_when_asked(self, run_pk: int, ask: Ask) -> None:
        """As `append`, of what ``ask`` gives at the moment of the commit: what comes during the
        pause before it need not wait for the next one. Raises also what ``ask`` raises."""
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Turn(run_pk, ask, committed))
        self._wanted.set()
        await committed

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        while not (self._is_closing and not self._waiting):
            await self._wanted.wait()
            self._wanted.clear()
            began = loop.time()
            batch = self._take(self._pace.share((turn.run_pk for turn in self._waiting), began))
            if not batch:
                continue
            started = loop.time()
            await self._commit(batch)
            spent = loop.time() - started
            metrics.COMMIT_SECONDS.observe(spent)
            metrics.COMMIT_RUNS.observe(len(batch))
            await asyncio.sleep(
                self._pace.pause([write.run_pk for write, _ in batch], began, spent)
            )

    def _take(self, most: int) -> list[tuple[SegmentWrite, asyncio.Future[None]]]:
        """The writes of those who wait longest, ``most`` of them, or as many as one transaction should
        carry."""
        batch: list[tuple[SegmentWrite, asyncio.Future[None]]] = []
        size = 0
        while self._waiting:
            if len(batch) == most:
                self._wanted.set()
                break
            turn = self._waiting.popleft()
            write = _answer(turn)
            if write is None:
                continue
            size += write.size_bytes
            if batch and size > COMMIT_BYTES:
                self._waiting.appendleft(turn._replace(ask=partial(_same, write)))
                self._wanted.set()
                break
            batch.append((write, turn.committed))
        return batch

    async def _commit(self, batch: list[tuple[SegmentWrite, asyncio.Future[None]]]) -> None:
        writes = [write for write, _ in batch]
        outcomes = await self._until_committed(writes)
        for (_, committed), outcome in zip(batch, outcomes, strict=True):
            if committed.done():
                continue
            if outcome is None:
                committed.set_result(None)
            else:
                committed.set_exception(outcome)

    async def _until_committed(self, writes: list[SegmentWrite]) -> list[Exception | None]:
        pause, longest = RETRY_SECONDS
        while True:
            try:
                return await self._commit_once(writes)
            except Exception as error:
                # The database is away, or the machine has no thread for us. Whatever it is: what
                # was read is kept until it can be written, or nobody's runs would ever end.
                metrics.COMMIT_FAILURES.inc()
                logger.warning(
                    "log.unavailable runs=%d error=%s", len(writes), type(error).__name__
                )
                await asyncio.sleep(pause)
                pause = min(longest, pause * 2)

    async def _commit_once(self, writes: list[SegmentWrite]) -> list[Exception | None]:
        """By the line where it can say all of it; what it does not keep is looked at by the thread,
        which finds what was committed nevertheless."""
        if self._line is not None and self._line.is_usable and _fits_async_writer(writes):
            try:
                kept = await self._line.first_column(*segments.statement(writes))
            except Exception as error:
                logger.info("log.line error=%s", type(error).__name__)
            else:
                if len(kept) == len(writes):
                    return [None] * len(writes)
        return await self._threads.call(segments.commit, writes)


def _fits_async_writer(writes: list[SegmentWrite]) -> bool:
    return segments.is_plain(writes) and sum(write.size_bytes for write in writes) <= LINE_BYTES


def _answer(turn: _Turn) -> SegmentWrite | None:
    """What is to be committed; who has nothing, or fails, hears of it at once."""
    try:
        write = turn.ask()
    except Exception as error:
        if not turn.committed.done():
            turn.committed.set_exception(error)
        return None
    if write is None and not turn.committed.done():
        turn.committed.set_result(None)
    return write


def _same(write: SegmentWrite) -> SegmentWrite:
    return write
