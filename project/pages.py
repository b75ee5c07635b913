"""Django's pages, so many at a time: the others stand in line instead of taking turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import IO, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.http import FileResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

# Threads where no bound is set; they are made as they are needed.
MOST_THREADS = 64

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[Any]]


class Pages(ASGIHandler):
    """Every request has a thread, and all threads of a process share one lock. Fifty people who
    send at once would all be answered last, while the event loop, with every live connection, has
    a fiftieth of the time; and each of them holds a database connection.

    Bodies are received, and answers sent, outside the line: a slow client keeps nobody waiting.
    ``at_once`` 0 sets no bound.

    The threads stay, and a request goes to one of them once: its signals, all its middleware and
    its view. Django makes a thread for each request, and goes to and fro between that and the event
    loop half a dozen times, which costs more than most of our views.
    """

    def __init__(self, at_once: int) -> None:
        super().__init__()
        self._at_once = at_once
        self._turns: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        threads = ThreadPoolExecutor(at_once or MOST_THREADS, thread_name_prefix="pages")
        self._make_in_thread = sync_to_async(self._make, thread_sensitive=False, executor=threads)
        self._close_in_thread = sync_to_async(_close, thread_sensitive=False, executor=threads)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"a {scope['type']} connection is not for pages")
        with suppress(RequestAborted):
            body = await self.read_body(receive)
            with body:
                await self._answer(scope, body, receive, send)

    async def _answer(self, scope: Any, body: IO[bytes], receive: Receive, send: Send) -> None:
        set_script_prefix(get_script_prefix(scope))
        request, refusal = self.create_request(scope, body)
        if request is None:
            await self.send_response(refusal, send)
            return
        # Whoever goes away need not be answered; a thread that is at work on it is not disturbed.
        leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
        answering = asyncio.ensure_future(self._make_and_send(request, send))
        try:
            await asyncio.wait({leaving, answering}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (leaving, answering):
                task.cancel()
            await asyncio.wait({leaving, answering})
        if not answering.cancelled():
            answering.result()

    async def _make_and_send(self, request: ASGIRequest, send: Send) -> None:
        response = await self.run_get_response(request)
        if not response.streaming:
            await self.send_response(response, send)
            return
        try:
            # What is read on the way is read in a thread of its own.
            async with ThreadSensitiveContext():
                await self.send_response(response, send)
        finally:
            await self._close_in_thread(response)

    async def run_get_response(self, request: ASGIRequest) -> HttpResponseBase:
        async with self._turn():
            return await self._make_in_thread(request)

    def _make(self, request: ASGIRequest) -> HttpResponseBase:
        """From the beginning of a request to its end, but for what is sent piece by piece."""
        signals.request_started.send(sender=type(self), scope=request.scope)
        response = self.get_response(request)
        response._handler_class = type(self)
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            _close(response)
        return response

    def _turn(self) -> AbstractAsyncContextManager[None]:
        if not self._at_once:
            return nullcontext()
        loop = asyncio.get_running_loop()
        if loop not in self._turns:
            # One loop for the life of a process; tests come with several.
            self._turns = {loop: asyncio.Semaphore(self._at_once)}
        return self._turns[loop]


def _close(response: HttpResponseBase) -> None:
    """Lets go of uploaded files, and of the thread's database connection."""
    response.close()
