"""The fake upstream of the tests: the demo without pauses, with scripts, records and waiting."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Self

from chat.demo.control import Record
from chat.demo.script import Script
from chat.demo.server import DemoUpstream

# Longer than anything that goes right; what goes wrong should not hold up a test run.
WAIT_SECONDS = 30.0


class FakeUpstream(DemoUpstream):
    """An upstream for tests, on a port of its own.

    In an event loop: ``async with FakeUpstream() as fake:``. From synchronous code:
    ``fake = FakeUpstream.start_in_thread()`` and at the end ``fake.stop()``.
    Scripts are used up in order by the requests that they fit; a request that no script fits gets
    a scene, as in the demo.
    """

    def __init__(self, *, speed: float = 0.0, required_key: str = "", port: int = 0) -> None:
        super().__init__(speed=speed, required_key=required_key, port=port, has_control=True)
        self._thread: threading.Thread | None = None
        self._stopping: Callable[[], object] | None = None

    # --- scripting -----------------------------------------------------------------------------

    def script(self, *scripts: Script) -> None:
        """Queue what happens to the next requests."""
        self.control.add(*scripts)

    def release(self, gate: str) -> None:
        """Open a gate for good."""
        self.control.release(gate)

    def clear(self) -> None:
        """Forget scripts, gates, counts and records."""
        self.control.clear()

    # --- what happened ---------------------------------------------------------------------------

    @property
    def requests(self) -> deque[Record]:
        return self.control.requests

    @property
    def posts(self) -> int:
        return self.control.posts

    @property
    def disconnects(self) -> int:
        """How many clients left before their answer was complete."""
        return self.control.disconnects

    @property
    def waiting(self) -> list[str]:
        """The gates at which an answer waits just now."""
        return self.control.waiting

    async def until(self, holds: Callable[[Self], bool], *, timeout: float = WAIT_SECONDS) -> None:
        """Wait until ``holds(fake)``, from any event loop. Raises ``TimeoutError``."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        with self.control.watched(lambda: loop.call_soon_threadsafe(changed.set)):
            async with asyncio.timeout(timeout):
                while not holds(self):
                    await changed.wait()
                    changed.clear()

    def wait_until(self, holds: Callable[[Self], bool], *, timeout: float = WAIT_SECONDS) -> None:
        """Wait until ``holds(fake)``, from a thread that is not the fake's. Raises ``TimeoutError``."""
        changed = threading.Event()
        with self.control.watched(changed.set):
            while not holds(self):
                if not changed.wait(timeout):
                    raise TimeoutError("the fake upstream did not get there")
                changed.clear()

    # --- in a thread -----------------------------------------------------------------------------

    @classmethod
    def start_in_thread(cls, *, speed: float = 0.0, required_key: str = "") -> Self:
        """A fake with an event loop in a thread of its own; it listens when this returns."""
        fake = cls(speed=speed, required_key=required_key)
        is_ready = threading.Event()
        fake._thread = threading.Thread(
            target=lambda: asyncio.run(fake._serve(is_ready)), name="fake-upstream", daemon=True
        )
        fake._thread.start()
        if not is_ready.wait(WAIT_SECONDS) or fake._stopping is None:
            raise RuntimeError("the fake upstream could not start")
        return fake

    def stop(self) -> None:
        """End a fake that runs in a thread, and wait for the thread."""
        if self._stopping and self._thread:
            self._stopping()
            self._thread.join(WAIT_SECONDS)

    async def _serve(self, is_ready: threading.Event) -> None:
        loop = asyncio.get_running_loop()
        end = asyncio.Event()
        try:
            await self.open()
            self._stopping = lambda: loop.call_soon_threadsafe(end.set)
        finally:
            is_ready.set()
        await end.wait()
        await self.aclose()
