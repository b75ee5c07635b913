"""Django's pages, so many at a time: the others stand in line instead of taking turns."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http.response import HttpResponseBase


class Pages(ASGIHandler):
    """Every request has a thread of its own, and all threads of a process share one lock. Fifty
    people who send at once would all be answered last, while the event loop, with every live
    connection, has a fiftieth of the time; and each of them holds a database connection.

    Bodies are received, and answers sent, outside the line: a slow client keeps nobody waiting.
    ``at_once`` 0 sets no bound.
    """

    def __init__(self, at_once: int) -> None:
        super().__init__()
        self._at_once = at_once
        self._turns: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    async def run_get_response(self, request: ASGIRequest) -> HttpResponseBase:
        async with self._turn():
            return await super().run_get_response(request)

    def _turn(self) -> AbstractAsyncContextManager[None]:
        if not self._at_once:
            return nullcontext()
        loop = asyncio.get_running_loop()
        if loop not in self._turns:
            # One loop for the life of a process; tests come with several.
            self._turns = {loop: asyncio.Semaphore(self._at_once)}
        return self._turns[loop]
