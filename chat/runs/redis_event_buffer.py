"""The event buffer that processes share: committed events in one stream of the lossy channel.

Every flush of a process is one message with the new entries of all its runs: a message for each run
would cost fifty times the CPU, on both sides (docs/decisions/0005-one-stream-for-all-runs.md). The
buffer only makes delivery faster; no run depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

import msgspec

from chat.core.lossy_channel import LossyChannel
from chat.core.waiting import LoopShare
from chat.runs.event_buffer import Consumer, LogEntry, MemoryEventBuffer, RunBuffer

logger = logging.getLogger(__name__)

STREAM = "events"
# Bytes kept for a Redis that does not answer. They are out of date after a second, so few are kept.
OUTBOX_BYTES = 4 * 1024 * 1024
# The limit of one message; a flush after an outage of the database is larger.
MESSAGE_BYTES = 256 * 1024
# Entries of a run that nobody has read for this long are no longer collected.
LINGER_SECONDS = 10.0


class News(msgspec.Struct, array_like=True, frozen=True):
    """Committed events of one run: its id, the number of the first, and their JSON."""

    run: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    first_seq: int
    bodies: list[bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[News]).decode


@dataclass(slots=True)
class _Outbox:
    news: list[News]
    size_bytes: int = 0


class RedisEventBuffer(MemoryEventBuffer):
    """The event buffer of one event loop, shared over a channel.

    A process that only executes runs neither ``keeps_own`` nor ``listens``.
    """

    def __init__(self, *, keeps_own: bool, listens: bool) -> None:
        super().__init__()
        self._channel: LossyChannel | None = None
        self._keeps_own = keeps_own
        self._listens = listens
        self._outbox = _Outbox([])
        # The followed runs, by their ids as they are in messages.
        self._followed: dict[bytes, RunBuffer] = {}
        self._own: set[UUID] = set()
        # The loop's time from which it looks for runs that are not followed any more.
        self._sweep_at = 0.0

    def start(self, channel: LossyChannel) -> None:
        """Shares entries over ``channel``, before it connects."""
        self._channel = channel
        channel.add_stream(STREAM, self._take_outbox, self._receive if self._listens else None)

    # --- what other tasks of this process see -----------------------------------------------

    def publish(self, run_id: UUID, entries: Sequence[LogEntry]) -> None:
        """Never waits, and never keeps more than ``OUTBOX_BYTES``."""
        if self._keeps_own:
            self._own.add(run_id)
            super().publish(run_id, entries)
        if not entries:
            return
        outbox = self._outbox
        size = sum(len(entry.body) for entry in entries)
        if outbox.size_bytes + size > OUTBOX_BYTES:
            # Followers have read this from the database by now, or soon will.
            self._outbox = outbox = _Outbox([])
        outbox.news.append(News(run_id.bytes, entries[0].seq, [entry.body for entry in entries]))
        outbox.size_bytes += size
        if self._channel is not None:
            self._channel.send_soon()

    def read(self, run_id: UUID, after: int) -> list[LogEntry]:
        self._follow(run_id)
        return super().read(run_id, after)

    async def wait(
        self, run_id: UUID, after: int, *, timeout_seconds: float, consumer: Consumer | None = None
    ) -> int:
        self._follow(run_id)
        return await super().wait(run_id, after, timeout_seconds=timeout_seconds, consumer=consumer)

    def forget(self, run_id: UUID) -> None:
        self._own.discard(run_id)
        self._followed.pop(run_id.bytes, None)
        super().forget(run_id)

    def _follow(self, run_id: UUID) -> None:
        if self._listens:
            run_buffer = self._run_buffer(run_id)
            if not run_buffer.asked_at:
                self._followed[run_id.bytes] = run_buffer
            run_buffer.asked_at = asyncio.get_running_loop().time()

    def _tidy(self, run_id: UUID, run_buffer: RunBuffer) -> None:
        """Does nothing: a follower that stops waiting is about to come back."""

    # --- out ---------------------------------------------------------------------------------

    def _take_outbox(self) -> Generator[bytes, None, None]:
        outbox, self._outbox = self._outbox, _Outbox([])
        if outbox.news:
            yield from (_encode(part) for part in parts_of(outbox.news))

    # --- in ----------------------------------------------------------------------------------

    async def _receive(self, messages: Sequence[bytes]) -> None:
        """Keeps entries of runs that are followed here, and tells the followers, who may consume what
        has arrived at once."""
        changed: dict[bytes, RunBuffer] = {}
        for message in messages:
            changed |= self._take(message)
        # A message has entries of many runs.
        turn = LoopShare(asyncio.get_running_loop().time)
        for run_buffer in changed.values():
            run_buffer.tell()
            await turn.go_on()
        self._sweep()

    def _take(self, message: bytes) -> dict[bytes, RunBuffer]:
        """The runs with new entries."""
        try:
            received = _decode(message)
        except (msgspec.DecodeError, ValueError):
            logger.debug("event_buffer.unreadable")
            return {}
        changed: dict[bytes, RunBuffer] = {}
        for news in received:
            run_buffer = self._followed.get(news.run)
            if run_buffer is not None and news.bodies:
                self._arrived(run_buffer, news)
                changed[news.run] = run_buffer
        return changed

    def _arrived(self, run_buffer: RunBuffer, news: News) -> None:
        """Adds entries that continue those that are here. Other entries replace them: entries
        behind a gap could not be read, and a follower that has read further finds nothing here
        until it fits again."""
        if run_buffer.entries and run_buffer.entries[-1].seq + 1 != news.first_seq:
            run_buffer.entries.clear()
            run_buffer.size_bytes = 0
        numbered = enumerate(news.bodies, start=news.first_seq)
        self._keep(run_buffer, [LogEntry(seq, body) for seq, body in numbered])

    def _sweep(self) -> None:
        """Drops what is collected of runs that nobody follows any more."""
        now = asyncio.get_running_loop().time()
        if now < self._sweep_at:
            return
        self._sweep_at = now + LINGER_SECONDS / 2
        before = now - LINGER_SECONDS
        for run_id, run_buffer in list(self._runs.items()):
            if run_buffer.waiting or not 0 < run_buffer.asked_at < before:
                continue
            run_buffer.asked_at = 0.0
            del self._followed[run_id.bytes]
            if run_id not in self._own:
                del self._runs[run_id]


def parts_of(news: Sequence[News]) -> list[list[News]]:
    """``news`` in messages of a limited size; one batch of a run is never divided."""
    parts: list[list[News]] = [[]]
    size = 0
    for one in news:
        weight = sum(map(len, one.bodies))
        if parts[-1] and size + weight > MESSAGE_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += weight
    return parts
