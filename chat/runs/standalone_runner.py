"""The runner as a process of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import FrameType

from django.conf import settings

from chat.core.notify import change_notifier
from chat.runs.configured_buffer import buffer_of_runner, connected
from chat.runs.runner import Runner

logger = logging.getLogger(__name__)

# After the drain: runs that end when they are interrupted, and a last commit on a slow database.
DRAIN_MARGIN_SECONDS = 20.0

# A service that runs beside the runner, such as the server for its metrics.
Beside = Callable[[Runner], AbstractAsyncContextManager[object]]


async def execute_until_told(*, is_alone: bool, beside: Sequence[Beside] = ()) -> None:
    """Executes runs until SIGTERM or SIGINT; then lets them go on for ``DRAIN_SECONDS``, interrupts
    the rest and writes down what there is. A second signal ends the process on the spot.

    ``is_alone``: the caller knows that no other process executes runs of this database.
    """
    told = _signals()
    buffer = buffer_of_runner()
    runner = Runner(buffer=buffer, is_alone=is_alone)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(connected(change_notifier, buffer))
        for enter in beside:
            await stack.enter_async_context(enter(runner))
        # A message that is sent as soon as this process says it is ready must not wait for a poll.
        await change_notifier.until_subscribed()
        await _start(runner, told)
        await told.wait()
        await _drain(runner)


def _signals() -> asyncio.Event:
    """An event that the first signal sets."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    is_told = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal is_told
        if is_told:
            os._exit(128 + number)
        is_told = True
        loop.call_soon_threadsafe(told.set)

    # Python's own handlers: a stuck event loop would never run the second signal's.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return told


async def _start(runner: Runner, told: asyncio.Event) -> None:
    """Starts the runner, or is told to stop before that is done."""
    starting = asyncio.create_task(runner.start())
    stopping = asyncio.create_task(told.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        try:
            starting.result()
        except BaseException:
            await _drain(runner)
            raise
        return
    starting.cancel()
    await asyncio.wait({starting})


async def _drain(runner: Runner) -> None:
    try:
        async with asyncio.timeout(settings.DRAIN_SECONDS + DRAIN_MARGIN_SECONDS):
            await runner.drain(settings.DRAIN_SECONDS)
    except TimeoutError:
        # A thread that hangs in the database would keep the process for ever.
        logger.error("runner.stuck runner=%s", runner.uuid)
        os._exit(1)
