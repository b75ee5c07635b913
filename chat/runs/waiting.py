"""Waits for an event with a limit, and for a task that is to end, whatever becomes of a cancellation."""

from __future__ import annotations

import asyncio

CANCEL_SECONDS = 0.5


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Whether ``event`` was set in time.

    Not ``asyncio.wait_for``: before Python 3.12 it returns normally when the event is set in
    the same turn in which the caller is cancelled, and the cancellation is lost.
    """
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def end(task: asyncio.Task[None]) -> None:
    """Cancels ``task`` until it is over. Once is not enough: the same trap lies in libraries, such
    as the sending of the Redis client, and a loop around it would go on."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_SECONDS)
