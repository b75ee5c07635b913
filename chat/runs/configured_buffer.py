"""The event buffer that the settings choose, in memory or shared through Redis, and the connection of a
process to the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings

from chat.core.lossy_channel import LossyChannel
from chat.core.notify import ChangeNotifier
from chat.runs.event_buffer import EventBuffer, MemoryEventBuffer, NullEventBuffer
from chat.runs.redis_event_buffer import RedisEventBuffer


def _of_server() -> MemoryEventBuffer:
    """The buffer of a web process, with or without a runner of its own."""
    if not settings.REDIS_URL:
        return MemoryEventBuffer()
    return RedisEventBuffer(keeps_own=settings.RUNNER == "embedded", listens=True)


def buffer_of_runner() -> EventBuffer:
    """The buffer of a process that only executes runs."""
    if not settings.REDIS_URL:
        return NullEventBuffer()
    return RedisEventBuffer(keeps_own=False, listens=False)


@asynccontextmanager
async def connected(notifier: ChangeNotifier, buffer: EventBuffer) -> AsyncIterator[None]:
    """Connects notifications and events to the other processes while the block runs, if the
    installation has Redis."""
    if not settings.REDIS_URL:
        notifier.start()
        yield
        return
    channel = LossyChannel(settings.REDIS_URL, secret=settings.SECRET_KEY)
    # Notifications come first: an event is worth less than what somebody waits for.
    notifier.start(channel)
    if isinstance(buffer, RedisEventBuffer):
        buffer.start(channel)
    async with channel:
        yield


event_buffer = _of_server()
