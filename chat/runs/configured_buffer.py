"""Which tail a process uses: the one place that asks whether there is a Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings

from chat.runs.event_buffer import LiveTail, MemoryTail, NoTail
from chat.runs.redis_event_buffer import RedisTail


def _of_server() -> MemoryTail:
    """Of a process with followers, and perhaps a runner of its own."""
    if not settings.REDIS_URL:
        return MemoryTail()
    return RedisTail(
        settings.REDIS_URL,
        secret=settings.SECRET_KEY,
        keeps_own=settings.RUNNER == "embedded",
        listens=True,
    )


def tail_of_runner() -> LiveTail:
    """Of a process that only executes runs."""
    if not settings.REDIS_URL:
        return NoTail()
    return RedisTail(settings.REDIS_URL, secret=settings.SECRET_KEY, keeps_own=False, listens=False)


@asynccontextmanager
async def working(tail: LiveTail) -> AsyncIterator[None]:
    """Connects the tail to Redis, if it is of that kind, for as long as the block lasts."""
    if not isinstance(tail, RedisTail):
        yield
        return
    await tail.start()
    try:
        yield
    finally:
        await tail.close()


live_tail = _of_server()
