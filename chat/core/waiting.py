"""Waits for events with a limit, for a task that is to end, whatever becomes of a cancellation, and
for the others that want the event loop, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

CANCEL_SECONDS = 0.5
# How long one works on the event loop before the others have their turn: so long at least, and as long
# as they have just taken, but no longer than that.
TURN_SECONDS = 0.005
LONGEST_TURN_SECONDS = 0.1


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Returns whether ``event`` was set in time.

    Not ``asyncio.wait_for``: before Python 3.12 it returns normally when the event is set in
    the same turn in which the caller is cancelled, and the cancellation is lost.
    """
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


class Signal:
    """An event that is waited for with a limit many times a second, at a third of what
    `asyncio.Event` and `wait_at_most` cost. Used on one event loop."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[asyncio.Future[bool]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        # Mostly nobody waits: a log is told of each read, and looks when it has committed the last ones.
        if self._waiting:
            self.pulse()

    def clear(self) -> None:
        self._is_set = False

    def pulse(self) -> None:
        """Wakes the tasks that wait now, and none later."""
        for waiter in self._waiting:
            _settle(waiter, True)

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits until the signal is set, and returns False after ``seconds``. If the task is
        cancelled in the same loop iteration, CancelledError wins."""
        if self._is_set:
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, _settle, waiter, False)
        self._waiting.append(waiter)
        try:
            return await waiter
        finally:
            self._waiting.remove(waiter)
            if timer is not None:
                timer.cancel()


class LoopShare:
    """The pace of long work that can stop anywhere: it gets half of the event loop's time. With turns of one
    length it would get a tenth, where each turn of fifty people's requests takes 45 ms.
    Begins when it is made; ``clock`` in seconds."""

    __slots__ = ("_clock", "_until")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = clock() + TURN_SECONDS

    async def go_on(self) -> None:
        """Returns at once, or when the others have had theirs."""
        left = self._clock()
        if left < self._until:
            return
        await asyncio.sleep(0)
        back = self._clock()
        self._until = back + min(max(TURN_SECONDS, back - left), LONGEST_TURN_SECONDS)


def _settle(waiter: asyncio.Future[bool], is_in_time: bool) -> None:
    if not waiter.done():
        waiter.set_result(is_in_time)


async def cancel_task(task: asyncio.Task[None]) -> None:
    """Cancels ``task`` until it is over. Once is not enough: the same trap lies in libraries, such
    as the sending of the Redis client, and a loop around it would go on."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_SECONDS)
