"""The most recent events of live runs, kept where their followers are."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

import msgspec

# Of each run. Its follower is a hub of this process that takes every flush as it comes, so a second of a
# usual answer is plenty; whoever is later reads the database.
TAIL_BYTES = 4 * 1024
# What an entry takes beside its JSON.
ENTRY_BYTES = 112
# So many times the limit of one run, what came with the last flush stays: its followers are about to
# come for it.
FLUSH_TIMES = 64
CHAT_END_PREFIX = b'{"type":"chat.end"'


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One committed event: its number, and its JSON as it lies in the log."""

    seq: int
    body: bytes

    @property
    def is_end(self) -> bool:
        return self.body.startswith(CHAT_END_PREFIX)


# Takes what follows on what it has, at once and on the event loop. False: it cannot just now.
Take = Callable[[list[Entry]], bool]


class Taking(NamedTuple):
    """A follower that takes what comes, and has it then that nothing comes for so long: only that ends
    its wait once it has taken something."""

    take: Take
    quiet_seconds: float


class LiveTail(Protocol):
    """An accelerator: whatever it forgets is in the segments."""

    def publish(self, run_id: UUID, entries: Sequence[Entry]) -> None:
        """Shows entries that are committed."""

    def read(self, run_id: UUID, after: int) -> list[Entry]:
        """The entries behind ``after`` without a gap; empty when it has none or does not know."""

    async def wait(
        self, run_id: UUID, after: int, *, timeout_seconds: float, taking: Taking | None = None
    ) -> int:
        """Returns when there may be something behind ``after``, or when the time is over.

        What comes is given to ``taking`` meanwhile, and ends the wait only if that refuses it. Returns
        the last number that was taken, or ``after``.
        """

    def forget(self, run_id: UUID) -> None:
        """Frees the memory of a run that has ended; late followers read the segments."""


class NoTail:
    """For a process in which nobody follows runs, and that has nobody to show them to."""

    def publish(self, run_id: UUID, entries: Sequence[Entry]) -> None:
        return

    def read(self, run_id: UUID, after: int) -> list[Entry]:
        return []

    async def wait(
        self, run_id: UUID, after: int, *, timeout_seconds: float, taking: Taking | None = None
    ) -> int:
        await asyncio.sleep(timeout_seconds)
        return after

    def forget(self, run_id: UUID) -> None:
        return


@dataclass(slots=True)
class Recent:
    """What is kept of one run: entries without a gap, the newest last."""

    entries: deque[Entry] = field(default_factory=deque)
    size_bytes: int = 0
    waiting: list[_Waiter] = field(default_factory=list)
    # When somebody of this process last wanted to know, by the loop's clock; 0 for nobody.
    asked_at: float = 0.0

    def behind(self, seq: int) -> list[Entry]:
        """What follows on that number; nothing if there is a gap."""
        if not self.entries or self.entries[0].seq > seq + 1:
            return []
        start = seq + 1 - self.entries[0].seq
        return [self.entries[index] for index in range(start, len(self.entries))]

    def tell(self) -> None:
        """Something has come."""
        for waiter in list(self.waiting):
            waiter.hear(self)

    def end_waiting(self) -> None:
        for waiter in self.waiting:
            waiter.end()


class _Waiter:
    """A follower that waits. What it takes wakes no task and sets no timer: that happens for each run and
    each commit, and would cost more than the taking."""

    __slots__ = ("_heard_at", "_loop", "_over", "_seconds", "_taking", "_timer", "seq")

    def __init__(self, seq: int, seconds: float, taking: Taking | None) -> None:
        self.seq = seq
        self._seconds = seconds
        self._taking = taking
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._look_at_time)

    async def wait(self) -> None:
        try:
            await self._over
        finally:
            self._timer.cancel()

    def hear(self, recent: Recent) -> None:
        # What comes late may be what the follower has from the log already: no reason to look there
        # again.
        if self._over.done() or not recent.entries or recent.entries[-1].seq <= self.seq:
            return
        taking = self._taking
        entries = [] if taking is None else recent.behind(self.seq)
        if taking is not None and entries and taking.take(entries):
            self.seq = entries[-1].seq
            self._heard_at = self._loop.time()
            self._seconds = taking.quiet_seconds
        else:
            self.end()

    def end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _look_at_time(self) -> None:
        left = self._heard_at + self._seconds - self._loop.time()
        if left <= 0:
            self.end()
        else:
            self._timer = self._loop.call_later(left, self._look_at_time)


class MemoryTail:
    """The tail of a process that executes runs itself. Used on its event loop only."""

    def __init__(self, *, limit_bytes: int = TAIL_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._runs: dict[UUID, Recent] = {}

    def publish(self, run_id: UUID, entries: Sequence[Entry]) -> None:
        recent = self._recent(run_id)
        self._keep(recent, entries)
        recent.tell()

    def _keep(self, recent: Recent, entries: Sequence[Entry]) -> None:
        for entry in entries:
            recent.entries.append(entry)
            recent.size_bytes += len(entry.body) + ENTRY_BYTES
        limit, kept = self._limit_bytes, recent.entries
        while len(kept) > 1 and recent.size_bytes > limit:
            if len(kept) <= len(entries) and recent.size_bytes <= limit * FLUSH_TIMES:
                break
            recent.size_bytes -= len(recent.entries.popleft().body) + ENTRY_BYTES

    def read(self, run_id: UUID, after: int) -> list[Entry]:
        recent = self._runs.get(run_id)
        return [] if recent is None else recent.behind(after)

    def _recent(self, run_id: UUID) -> Recent:
        recent = self._runs.get(run_id)
        if recent is None:
            recent = self._runs[run_id] = Recent()
        return recent

    async def wait(
        self, run_id: UUID, after: int, *, timeout_seconds: float, taking: Taking | None = None
    ) -> int:
        recent = self._recent(run_id)
        waiter = _Waiter(after, timeout_seconds, taking)
        recent.waiting.append(waiter)
        try:
            waiter.hear(recent)
            await waiter.wait()
        finally:
            recent.waiting.remove(waiter)
            self._tidy(run_id, recent)
        return waiter.seq

    def _tidy(self, run_id: UUID, recent: Recent) -> None:
        """A run that is executed elsewhere leaves nothing behind when its followers have gone."""
        if not recent.waiting and not recent.entries and self._runs.get(run_id) is recent:
            del self._runs[run_id]

    def forget(self, run_id: UUID) -> None:
        """Frees the memory of a run that has ended; late followers read the segments."""
        recent = self._runs.pop(run_id, None)
        if recent is not None:
            recent.end_waiting()

    def forget_all(self) -> None:
        for run_id in list(self._runs):
            self.forget(run_id)
