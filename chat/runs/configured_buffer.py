"""The event buffer that the settings choose: in memory, or shared through Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings

from chat.runs.event_buffer import EventBuffer, MemoryEventBuffer, NullEventBuffer
from chat.runs.redis_event_buffer import RedisEventBuffer


def _of_server() -> MemoryEventBuffer:
    """For a web process, with or without a runner of its own."""
    if not settings.REDIS_URL:
        return MemoryEventBuffer()
    return RedisEventBuffer(
        settings.REDIS_URL,
        secret=settings.SECRET_KEY,
        keeps_own=settings.RUNNER == "embedded",
        listens=True,
    )


def buffer_of_runner() -> EventBuffer:
    """For a process that only executes runs."""
    if not settings.REDIS_URL:
        return NullEventBuffer()
    return RedisEventBuffer(
        settings.REDIS_URL, secret=settings.SECRET_KEY, keeps_own=False, listens=False
    )


@asynccontextmanager
async def connected(buffer: EventBuffer) -> AsyncIterator[None]:
    """Connects the buffer to Redis, if it uses Redis, while the block runs."""
    if not isinstance(buffer, RedisEventBuffer):
        yield
        return
    await buffer.start()
    try:
        yield
    finally:
        await buffer.close()


event_buffer = _of_server()
