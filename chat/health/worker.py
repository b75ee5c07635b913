"""A thread of its own for questions that may never be answered."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any


class Worker:
    """Does one call after the other. A daemon: a call that hangs in a database that is frozen does
    not keep the process from ending, as a thread of a pool would."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """The function's value, some time. ``function`` must not raise."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def work() -> None:
            value = function()
            try:
                loop.call_soon_threadsafe(_settle, answer, value)
            except RuntimeError:
                # The loop has ended meanwhile; nobody waits any more.
                return

        self._calls.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        return answer

    def close(self, last: Callable[[], None]) -> None:
        """Ends the thread after ``last``, whenever that will be; nobody waits for it."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.put(last)
            self._calls.put(None)

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            work()


def _settle(answer: asyncio.Future[Any], value: Any) -> None:
    if not answer.done():
        answer.set_result(value)
