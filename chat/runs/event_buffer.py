"""Event buffer: the most recent events of live runs, in memory of the process that follows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

import msgspec

# Bytes kept for each run. Its follower is a broadcaster of this process that consumes every flush at
# once, so one second of a usual answer is enough. A follower that comes later reads the database.
BUFFER_BYTES = 4 * 1024
# Bytes of an entry beside its JSON.
ENTRY_BYTES = 112
# The last flush is kept up to this multiple of a run's limit, because its followers read it next.
FLUSH_TIMES = 64
CHAT_END_PREFIX = b'{"type":"chat.end"'


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One committed event: its number, and its JSON as it lies in the log."""

    seq: int
    body: bytes

    @property
    def is_end(self) -> bool:
        return self.body.startswith(CHAT_END_PREFIX)


# Consumes entries that continue what the consumer has, at once, on the event loop. False: not now.
Take = Callable[[list[LogEntry]], bool]


class Consumer(NamedTuple):
    """A follower that consumes entries as they are published. Once it has consumed some, its wait ends
    only after ``quiet_seconds`` without another."""

    take: Take
    quiet_seconds: float


class EventBuffer(Protocol):
    """A cache of recent events; the segments have all."""

    def publish(self, run_id: UUID, entries: Sequence[LogEntry]) -> None:
        """Adds committed entries and gives them to the consumers."""

    def read(self, run_id: UUID, after: int) -> list[LogEntry]:
        """The entries after ``after`` without a gap, or nothing."""

    async def wait(
        self, run_id: UUID, after: int, *, timeout_seconds: float, consumer: Consumer | None = None
    ) -> int:
        """Waits until there may be entries after ``after``, at most ``timeout_seconds``.

        Entries that are published meanwhile go to ``consumer``; the wait ends when it refuses them.
        Returns the last seq that was consumed, or ``after``.
        """

    def forget(self, run_id: UUID) -> None:
        """Frees the memory of a run that has ended; late followers read the segments."""


class NullEventBuffer:
    """A buffer that keeps nothing, for a runner without Redis: nobody in its process follows runs."""

    def publish(self, run_id: UUID, entries: Sequence[LogEntry]) -> None:
        return

    def read(self, run_id: UUID, after: int) -> list[LogEntry]:
        return []

    async def wait(
        self, run_id: UUID, after: int, *, timeout_seconds: float, consumer: Consumer | None = None
    ) -> int:
        await asyncio.sleep(timeout_seconds)
        return after

    def forget(self, run_id: UUID) -> None:
        return


@dataclass(slots=True)
class RunBuffer:
    """The entries of one run, without a gap, the newest last."""

    entries: list[LogEntry] = field(default_factory=list)
    size_bytes: int = 0
    waiting: list[_Waiter] = field(default_factory=list)
    # When a follower of this process last read it, by the loop's clock; 0 for never.
    asked_at: float = 0.0

    def behind(self, seq: int) -> list[LogEntry]:
        """The entries after ``seq``; nothing if there is a gap."""
        if not self.entries or self.entries[0].seq > seq + 1:
            return []
        return self.entries[seq + 1 - self.entries[0].seq :]

    def tell(self) -> None:
        """Wakes the waiters after new entries."""
        for waiter in list(self.waiting):
            waiter.hear(self)

    def end_waiting(self) -> None:
        for waiter in self.waiting:
            waiter.end_wait()


class _Waiter:
    """A waiting follower. Consuming wakes no task and sets no timer: for each run and commit that
    would cost more than the work itself."""

    __slots__ = ("_consumer", "_heard_at", "_loop", "_over", "_seconds", "_timer", "seq")

    def __init__(self, seq: int, seconds: float, consumer: Consumer | None) -> None:
        self.seq = seq
        self._seconds = seconds
        self._consumer = consumer
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._look_at_time)

    async def wait(self) -> None:
        try:
            await self._over
        finally:
            self._timer.cancel()

    def hear(self, run_buffer: RunBuffer) -> None:
        # Late entries may be those that the follower has already read from the log.
        if self._over.done() or not run_buffer.entries or run_buffer.entries[-1].seq <= self.seq:
            return
        consumer = self._consumer
        entries = [] if consumer is None else run_buffer.behind(self.seq)
        if consumer is not None and entries and consumer.take(entries):
            self.seq = entries[-1].seq
            self._heard_at = self._loop.time()
            self._seconds = consumer.quiet_seconds
        else:
            self.end_wait()

    def end_wait(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _look_at_time(self) -> None:
        left = self._heard_at + self._seconds - self._loop.time()
        if left <= 0:
            self.end_wait()
        else:
            self._timer = self._loop.call_later(left, self._look_at_time)


class MemoryEventBuffer:
    """The event buffer of a process that executes runs itself. For use on its event loop only."""

    def __init__(self, *, limit_bytes: int = BUFFER_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._runs: dict[UUID, RunBuffer] = {}

    def publish(self, run_id: UUID, entries: Sequence[LogEntry]) -> None:
        run_buffer = self._run_buffer(run_id)
        self._keep(run_buffer, entries)
        run_buffer.tell()

    def _keep(self, run_buffer: RunBuffer, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            run_buffer.entries.append(entry)
            run_buffer.size_bytes += len(entry.body) + ENTRY_BYTES
        limit, kept = self._limit_bytes, run_buffer.entries
        dropped = 0
        while len(kept) - dropped > 1 and run_buffer.size_bytes > limit:
            is_of_flush = len(kept) - dropped <= len(entries)
            if is_of_flush and run_buffer.size_bytes <= limit * FLUSH_TIMES:
                break
            run_buffer.size_bytes -= len(kept[dropped].body) + ENTRY_BYTES
            dropped += 1
        del kept[:dropped]

    def read(self, run_id: UUID, after: int) -> list[LogEntry]:
        run_buffer = self._runs.get(run_id)
        return [] if run_buffer is None else run_buffer.behind(after)

    def _run_buffer(self, run_id: UUID) -> RunBuffer:
        run_buffer = self._runs.get(run_id)
        if run_buffer is None:
            run_buffer = self._runs[run_id] = RunBuffer()
        return run_buffer

    async def wait(
        self, run_id: UUID, after: int, *, timeout_seconds: float, consumer: Consumer | None = None
    ) -> int:
        run_buffer = self._run_buffer(run_id)
        waiter = _Waiter(after, timeout_seconds, consumer)
        run_buffer.waiting.append(waiter)
        try:
            waiter.hear(run_buffer)
            await waiter.wait()
        finally:
            run_buffer.waiting.remove(waiter)
            self._tidy(run_id, run_buffer)
        return waiter.seq

    def _tidy(self, run_id: UUID, run_buffer: RunBuffer) -> None:
        """Drops the buffer of a run of another process after its last follower."""
        if (
            not run_buffer.waiting
            and not run_buffer.entries
            and self._runs.get(run_id) is run_buffer
        ):
            del self._runs[run_id]

    def forget(self, run_id: UUID) -> None:
        """Frees the memory of a run that has ended; late followers read the segments."""
        run_buffer = self._runs.pop(run_id, None)
        if run_buffer is not None:
            run_buffer.end_waiting()

    def forget_all(self) -> None:
        for run_id in list(self._runs):
            self.forget(run_id)
