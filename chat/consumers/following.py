"""A run's log on its way to one client: a little ahead of it, with a beat where nothing comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from chat import events
from chat.runs.feed import RunGone, follow
from chat.runs.tail import Entry

logger = logging.getLogger(__name__)

# Batches that wait for a client; the feed waits then, too.
BATCHES_AHEAD = 4


class Following:
    """The batches of one run, from a number on. Made by `following`."""

    def __init__(self) -> None:
        self._batches: asyncio.Queue[list[Entry] | None] = asyncio.Queue(BATCHES_AHEAD)

    async def next(self, seconds: float) -> list[Entry] | None:
        """The next batch; an empty one after so long without any, or when `wake` was called;
        ``None`` at the end, after which nothing must be asked."""
        try:
            async with asyncio.timeout(seconds):
                return await self._batches.get()
        except TimeoutError:
            return []

    def wake(self) -> None:
        """Something else is to be said. Where batches wait, whoever reads is awake already."""
        if self._batches.empty():
            self._batches.put_nowait([])

    async def fill(self, run_id: UUID, after: int) -> None:
        """However the feed ends, this ends too: a stream that only beats would wait for ever."""
        try:
            async for batch in follow(run_id, after):
                await self._batches.put(batch)
        except RunGone:
            pass
        except Exception:
            logger.exception("events.broken run=%s", run_id)
        await self._batches.put(None)


@asynccontextmanager
async def following(run_id: UUID, after: int = 0) -> AsyncIterator[Following]:
    """Moves the feed into a short queue: a slow client slows this down, and nobody else."""
    batches = Following()
    reading = asyncio.create_task(batches.fill(run_id, after))
    try:
        yield batches
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


def type_of(entry: Entry) -> str:
    event = events.decode(entry.body)
    return str(type(event).__struct_config__.tag)
