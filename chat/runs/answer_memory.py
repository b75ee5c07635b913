"""What the answers of one process hold in memory until they end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from uuid import UUID

from chat import events as canonical
from chat.runs.event_buffer import LogEntry

# What an item or a card takes beside its JSON, such as for its Python objects.
ITEM_BYTES = 512
# An answer from this size on ends in its turn: for a moment its result exists several times, as
# objects, as JSON and as values for the database. It is made in a thread.
LARGE_BYTES = 1024 * 1024


class AnswerMemory:
    """Limits the answers of a process together, because each is in memory as a whole until it ends.

    Over the limit an answer that has more than an equal share of it must end. So a few endless
    answers end early, and the others are not affected. For use on one event loop.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._held: dict[UUID, int] = {}
        self._held_bytes = 0
        self._turn = asyncio.Lock()

    def add(self, run_id: UUID, size_bytes: int) -> None:
        self._held[run_id] = self._held.get(run_id, 0) + size_bytes
        self._held_bytes += size_bytes

    def forget(self, run_id: UUID) -> None:
        self._held_bytes -= self._held.pop(run_id, 0)

    def must_end(self, run_id: UUID) -> bool:
        """Whether the answers hold too much, and this one more than its share."""
        if self._held_bytes <= self.limit_bytes:
            return False
        return self._held.get(run_id, 0) > self.limit_bytes // len(self._held)

    def is_large(self, run_id: UUID) -> bool:
        return self._held.get(run_id, 0) >= LARGE_BYTES

    def turn(self, run_id: UUID) -> AbstractAsyncContextManager[None]:
        """Entered to end an answer: of the large ones one at a time."""
        return self._turn if self.is_large(run_id) else nullcontext()


def held_bytes(
    events: Iterable[canonical.Event], entries: Iterable[LogEntry], text_members: dict[type, str]
) -> int:
    """What these events add to an answer in memory. A character can take up to four bytes."""
    size = 0
    for event, entry in zip(events, entries, strict=True):
        member = text_members.get(type(event))
        size += sys.getsizeof(getattr(event, member)) if member else len(entry.body) + ITEM_BYTES
    return size
