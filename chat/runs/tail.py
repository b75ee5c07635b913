"""The most recent events of live runs, kept where their followers are."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

import msgspec

from chat.runs.waiting import Signal

# Of each run. Its follower is a hub of this process that comes with every flush, so some seconds of a usual
# answer are plenty; whoever is later reads the database.
TAIL_BYTES = 32 * 1024
# What an entry takes beside its JSON.
ENTRY_BYTES = 112
# So many times the limit of one run, what came with the last flush stays: its followers are about to
# come for it.
FLUSH_TIMES = 8
CHAT_END_PREFIX = b'{"type":"chat.end"'


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One committed event: its number, and its JSON as it lies in the log."""

    seq: int
    body: bytes

    @property
    def is_end(self) -> bool:
        return self.body.startswith(CHAT_END_PREFIX)


class LiveTail(Protocol):
    """An accelerator: whatever it forgets is in the segments."""

    def publish(self, run_id: UUID, entries: Sequence[Entry]) -> None:
        """Shows entries that are committed."""

    def read(self, run_id: UUID, after: int) -> list[Entry]:
        """The entries behind ``after`` without a gap; empty when it has none or does not know."""

    async def wait(self, run_id: UUID, after: int, *, timeout_seconds: float) -> None:
        """Returns when there may be something behind ``after``, or when the time is over."""

    def forget(self, run_id: UUID) -> None:
        """Frees the memory of a run that has ended; late followers read the segments."""


class NoTail:
    """For a process in which nobody follows runs, and that has nobody to show them to."""

    def publish(self, run_id: UUID, entries: Sequence[Entry]) -> None:
        return

    def read(self, run_id: UUID, after: int) -> list[Entry]:
        return []

    async def wait(self, run_id: UUID, after: int, *, timeout_seconds: float) -> None:
        await asyncio.sleep(timeout_seconds)

    def forget(self, run_id: UUID) -> None:
        return


@dataclass(slots=True)
class Recent:
    """What is kept of one run: entries without a gap, the newest last."""

    entries: deque[Entry] = field(default_factory=deque)
    size_bytes: int = 0
    changed: Signal = field(default_factory=Signal)
    waiting: int = 0
    # When somebody of this process last wanted to know, by the loop's clock; 0 for nobody.
    asked_at: float = 0.0


class MemoryTail:
    """The tail of a process that executes runs itself. Used on its event loop only."""

    def __init__(self, *, limit_bytes: int = TAIL_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._runs: dict[UUID, Recent] = {}

    def publish(self, run_id: UUID, entries: Sequence[Entry]) -> None:
        self._keep(self._recent(run_id), entries)

    def _keep(self, recent: Recent, entries: Sequence[Entry]) -> None:
        for entry in entries:
            recent.entries.append(entry)
            recent.size_bytes += len(entry.body) + ENTRY_BYTES
        limit, kept = self._limit_bytes, recent.entries
        while len(kept) > 1 and recent.size_bytes > limit:
            if len(kept) <= len(entries) and recent.size_bytes <= limit * FLUSH_TIMES:
                break
            recent.size_bytes -= len(recent.entries.popleft().body) + ENTRY_BYTES
        recent.changed.pulse()

    def read(self, run_id: UUID, after: int) -> list[Entry]:
        recent = self._runs.get(run_id)
        if recent is None or not recent.entries or recent.entries[0].seq > after + 1:
            return []
        start = after + 1 - recent.entries[0].seq
        return [recent.entries[index] for index in range(start, len(recent.entries))]

    def _recent(self, run_id: UUID) -> Recent:
        recent = self._runs.get(run_id)
        if recent is None:
            recent = self._runs[run_id] = Recent()
        return recent

    async def wait(self, run_id: UUID, after: int, *, timeout_seconds: float) -> None:
        recent = self._recent(run_id)
        recent.waiting += 1
        loop = asyncio.get_running_loop()
        over_at = loop.time() + timeout_seconds
        try:
            # What comes late may be what the follower has from the log already: no reason to look there
            # again.
            while not (recent.entries and recent.entries[-1].seq > after):
                left = over_at - loop.time()
                if left <= 0 or self._runs.get(run_id) is not recent:
                    return
                await recent.changed.wait(left)
        finally:
            recent.waiting -= 1
            self._tidy(run_id, recent)

    def _tidy(self, run_id: UUID, recent: Recent) -> None:
        """A run that is executed elsewhere leaves nothing behind when its followers have gone."""
        if not recent.waiting and not recent.entries and self._runs.get(run_id) is recent:
            del self._runs[run_id]

    def forget(self, run_id: UUID) -> None:
        """Frees the memory of a run that has ended; late followers read the segments."""
        recent = self._runs.pop(run_id, None)
        if recent is not None:
            recent.changed.pulse()

    def forget_all(self) -> None:
        for run_id in list(self._runs):
            self.forget(run_id)
