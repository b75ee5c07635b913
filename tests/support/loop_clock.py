"""The clock of an event loop, which a test can move forward instead of waiting."""

import asyncio
from collections.abc import Awaitable


async def settle() -> None:
    """Lets the event loop deliver what has been sent, and do what follows from it."""
    for _ in range(3):
        await asyncio.sleep(0.001)


class LoopClock:
    """The clock of the running event loop, and so of all its time-outs."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        read = loop.time
        self._skipped_seconds = 0.0
        loop.time = lambda: read() + self._skipped_seconds  # type: ignore[method-assign]

    async def advance(self, seconds: float) -> None:
        await settle()
        self._skipped_seconds += seconds

    async def advance_until(self, done: Awaitable[object], *, limit_seconds: float) -> None:
        """Passes as much time as it takes until this has happened, within the limit."""
        task = asyncio.ensure_future(done)
        passed = 0.0
        while not task.done():
            assert passed < limit_seconds, "nothing ended it"
            await self.advance(30)
            passed += 30
        await task
