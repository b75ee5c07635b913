"""The memory that the answers of one process hold until they end."""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext

from chat import events as canonical
from chat.runs.delta_merger import TEXT_MEMBERS
from chat.runs.event_buffer import LogEntry

# Bytes of an item or a card beside its JSON, such as for its Python objects.
ITEM_BYTES = 512
# Bytes of a string beside its characters. Pieces are joined, so that only their characters stay.
ASCII_HEADER_BYTES = sys.getsizeof("")
OTHER_HEADER_BYTES = sys.getsizeof("é") - 1
# Text that every answer may hold: a quarter of a million tokens.
LEAST_SHARE_BYTES = 1024 * 1024
# An answer with this much text, or for which the server has sent this much, ends in its turn: for a
# moment its result exists several times, as objects, as JSON and as values for the database.
LARGE_TEXT_BYTES = 256 * 1024
LARGE_BYTES = 4 * 1024 * 1024
# These events leave nothing in memory once they are in the log.
_PASSING = (
    canonical.MediaUpdate,
    canonical.ModelLoadProgress,
    canonical.PromptProcessingProgress,
    canonical.UsageUpdate,
)


class AnswerMemory:
    """Limits the total memory of a process's answers, each of which is in memory until it ends.

    Over the limit, each answer with more than an equal share must end. So a few endless answers end
    early, without effect on others. For use on one event loop.

    Answers have the keys of their runs: hashing a UUID for each segment is a call of Python.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[int, int] = {}
        self._held_bytes = 0
        self._turn = asyncio.Lock()

    @property
    def share_bytes(self) -> int:
        """The bytes of an equal share, at least `LEAST_SHARE_BYTES`."""
        return max(LEAST_SHARE_BYTES, self._limit_bytes // max(1, len(self._held)))

    def held(self, run_pk: int) -> int:
        return self._held.get(run_pk, 0)

    def add(self, run_pk: int, size_bytes: int) -> None:
        self._held[run_pk] = self._held.get(run_pk, 0) + size_bytes
        self._held_bytes += size_bytes

    def forget(self, run_pk: int) -> None:
        self._held_bytes -= self._held.pop(run_pk, 0)

    def must_end(self, run_pk: int) -> bool:
        return self._held_bytes > self._limit_bytes and self.held(run_pk) > self.share_bytes

    def turn(self, *, is_large: bool) -> AbstractAsyncContextManager[None]:
        """Entered to end an answer; large ones end one at a time."""
        return self._turn if is_large else nullcontext()


def return_memory() -> None:
    """Gives freed memory back to the system. A long answer leaves thousands of small gaps, which
    glibc would keep."""
    if _trim is not None:
        _trim(0)


# Other C libraries have no such function.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def held_bytes(events: Iterable[canonical.Event], entries: Iterable[LogEntry]) -> int:
    """The bytes that these events add to an answer in memory. A character can take up to four bytes."""
    size = 0
    for event, entry in zip(events, entries, strict=True):
        if member := TEXT_MEMBERS.get(type(event)):
            text = getattr(event, member)
            header = ASCII_HEADER_BYTES if text.isascii() else OTHER_HEADER_BYTES
            size += sys.getsizeof(text) - header
        elif not isinstance(event, _PASSING):
            size += len(entry.body) + ITEM_BYTES
    return size
