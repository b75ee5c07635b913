"""Startup and shutdown of a server process: notifications, the embedded runner, and the reaper."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextlib import AsyncExitStack

from django.conf import settings

from chat.core.notify import change_notifier
from chat.core.process import process
from chat.core.threads import readers
from chat.health.checks import checks
from chat.identity.providers import adopt_environment
from chat.live.access_monitor import access_monitor
from chat.live.broadcaster import broadcasters
from chat.live.writes import tab_writes
from chat.public_api import answer_stream as programs
from chat.runs import runner
from chat.runs.configured_buffer import connected, event_buffer
from chat.runs.log_follower import log_reader
from chat.runs.reaper import reap_forever
from chat.web import posts
from project import VERSION

logger = logging.getLogger(__name__)

# After the drain. Shorter than the server's own limit, which only cancels the hook.
STUCK_SECONDS = 18.0
# Time for the last messages to viewers, which need less.
GOODBYE_SECONDS = 10.0

_open = AsyncExitStack()


async def start() -> None:
    """Stores the sign-in providers of the settings, and subscribes to notifications. Starts the embedded runner if the
    settings say so, otherwise the reaper, which ends the runs of lost runners."""
    await readers.call(adopt_environment)
    process.begins("web", VERSION)
    await _open.enter_async_context(connected(change_notifier, event_buffer))
    if settings.RUNNER == "embedded":
        await runner.start()
    else:
        await _open.enter_async_context(reap_forever())
    process.serves()


async def stop() -> None:
    """Lets runs finish or interrupts them, then releases all resources. A thread that hangs in the
    database can't prevent the end of the process."""
    process.drains()
    releasing = asyncio.create_task(_release_resources(), name="release-resources")
    await asyncio.wait({releasing}, timeout=settings.DRAIN_SECONDS + STUCK_SECONDS)
    if releasing.done():
        releasing.result()
        return
    logger.error("server.stuck")
    releasing.cancel()
    # A daemon thread, because the interpreter waits for all other threads before it exits.
    leaving = threading.Timer(GOODBYE_SECONDS, os._exit, [1])
    leaving.daemon = True
    leaving.start()


async def _release_resources() -> None:
    await runner.stop(settings.DRAIN_SECONDS)
    await access_monitor.close()
    await tab_writes.close()
    await broadcasters.close()
    await log_reader.close()
    await _open.aclose()
    await posts.threads.close()
    await readers.close()
    await programs.threads.close()
    await programs.stopping.close()
    await checks.close()
    await process.ends()
