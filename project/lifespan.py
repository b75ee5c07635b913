"""What begins and ends with a server process, beside answering requests."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from django.conf import settings

from chat.doorbell import doorbell
from chat.health.checks import checks
from chat.health.process import process
from chat.live.hub import hubs
from chat.live.watch import watch
from chat.programs.database import threads as programs
from chat.runs import embedded
from chat.runs.bystander import watching_runners
from chat.runs.database import readers
from chat.runs.lookout import lookout
from chat.runs.tails import live_tail, working
from chat.runs.waiting import end
from project import VERSION

_listening: asyncio.Task[None] | None = None
_open = AsyncExitStack()


async def start() -> None:
    """Listens for the doorbell; executes runs here, where settings say so, or else looks after
    those whose runner is lost."""
    global _listening
    process.begins("web", VERSION)
    _listening = asyncio.create_task(doorbell.listen(), name="doorbell")
    await _open.enter_async_context(working(live_tail))
    if settings.RUNNER == "embedded":
        await embedded.start()
    else:
        await _open.enter_async_context(watching_runners())
    process.serves()


async def stop() -> None:
    """Lets runs end or interrupts them, then lets go of everything."""
    process.drains()
    await embedded.stop(settings.DRAIN_SECONDS)
    await watch.close()
    await hubs.close()
    await lookout.close()
    await _open.aclose()
    if _listening is not None:
        await end(_listening)
    await readers.close()
    await programs.close()
    await checks.close()
    await process.ends()
