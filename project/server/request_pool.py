"""Django's pages, so many at a time: the others stand in line instead of taking turns."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import IO, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.http import FileResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from chat.core.deadline import database_deadline

# Threads where no bound is set; they are made as they are needed.
MOST_THREADS = 64
# Urgent ones at a time, in threads of their own. Under load 4 ms of a stop are work, and ten times as
# much is waiting: for the database, and after that for the interpreter, of which a busy event loop
# lets go every 5 ms.
PRIORITY_THREADS = 4
# While something urgent is under way a page does not begin, for as long as this: threads share the
# processor alike, so beside four pages an urgent request would take many times as long.
GIVE_WAY_SECONDS = 0.5
# Anybody may ask for an urgent address, also without pause: pages give way for a tenth of the time,
# and twenty seconds longer where it did not happen for a while: hundreds of people who press it one
# after the other still pass. After six the last of 200 waited twice as long.
MOST_PATIENCE_SECONDS = 20.0
PATIENCE_BACK_PER_SECOND = 0.1

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[Any]]


class RequestPool(ASGIHandler):
    """Every request has a thread, and all threads of a process share one lock. Fifty people who
    send at once would all be answered last, while the event loop, with every live connection, has
    a fiftieth of the time; and each of them holds a database connection.

    Bodies are received, and answers sent, outside the line: a slow client keeps nobody waiting.
    ``at_once`` 0 sets no bound. For answers of the database a page waits ``database_seconds``.

    What is short and cannot wait passes all of them: addresses that match ``priority_urls`` as a
    whole have a line and threads of their own, and pages that were about to begin give way.

    The threads stay, and a request goes to one of them once: its signals, all its middleware and
    its view. Django makes a thread for each request, and goes to and fro between that and the event
    loop half a dozen times, which costs more than most of our views.
    """

    def __init__(
        self, at_once: int, *, priority_urls: str = "", database_seconds: float | None = None
    ) -> None:
        super().__init__()
        self._database_seconds = database_seconds
        self._lane = _Worker("pages", at_once, self._make)
        self._priority_worker = _PriorityWorker("urgent", PRIORITY_THREADS, self._make)
        self._priority_urls = re.compile(priority_urls)

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
            await self._lane_of(request).close_in_thread(response)

    async def run_get_response(self, request: ASGIRequest) -> HttpResponseBase:
        lane = self._lane_of(request)
        request.came_at = time.monotonic()
        async with lane.turn():
            if lane is not self._priority_worker:
                await self._priority_worker.give_way()
            return await lane.make_in_thread(request)

    def _lane_of(self, request: ASGIRequest) -> _Worker:
        if self._priority_urls.fullmatch(request.path_info):
            return self._priority_worker
        return self._lane

    def _make(self, request: ASGIRequest) -> HttpResponseBase:
        """From the beginning of a request to its end, but for what is sent piece by piece."""
        signals.request_started.send(sender=type(self), scope=request.scope)
        waited = time.monotonic() - request.came_at
        with database_deadline(self._database_seconds, waited_seconds=waited):
            response = self.get_response(request)
        response._handler_class = type(self)
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            _close(response)
            _let_go(request)
        return response


class _Worker:
    """A line, and the threads that those at its head are given to."""

    def __init__(
        self, name: str, at_once: int, make: Callable[[ASGIRequest], HttpResponseBase]
    ) -> None:
        self._at_once = at_once
        self._turns: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        threads = ThreadPoolExecutor(at_once or MOST_THREADS, thread_name_prefix=name)
        self.make_in_thread = sync_to_async(make, thread_sensitive=False, executor=threads)
        self.close_in_thread = sync_to_async(_close, thread_sensitive=False, executor=threads)

    def turn(self) -> AbstractAsyncContextManager[None]:
        if not self._at_once:
            return nullcontext()
        loop = asyncio.get_running_loop()
        if loop not in self._turns:
            # One loop for the life of a process; tests come with several.
            self._turns = {loop: asyncio.Semaphore(self._at_once)}
        return self._turns[loop]


class _PriorityWorker(_Worker):
    """Knows who is in it, and tells those who gave way when it is empty or their patience ends."""

    def __init__(
        self, name: str, at_once: int, make: Callable[[ASGIRequest], HttpResponseBase]
    ) -> None:
        super().__init__(name, at_once, make)
        self._inside = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self._patience = MOST_PATIENCE_SECONDS
        self._counted_at = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        self._inside += 1
        try:
            async with super().turn():
                yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._let_go()

    def _let_go(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def give_way(self) -> None:
        """Returns when nobody is in the lane, after ``GIVE_WAY_SECONDS``, or when pages have given
        way for long enough."""
        if not self._inside or self._count_patience() <= 0:
            return
        is_empty: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(is_empty)
        try:
            await asyncio.wait({is_empty}, timeout=min(GIVE_WAY_SECONDS, self._patience))
        finally:
            self._count_patience()
            self._waiting.discard(is_empty)

    def _count_patience(self) -> float:
        """Seconds that are left. They are used up while anybody waits, however many do."""
        moment = asyncio.get_running_loop().time()
        passed = moment - self._counted_at
        self._counted_at = moment
        change = -passed if self._waiting else passed * PATIENCE_BACK_PER_SECOND
        self._patience = min(MOST_PATIENCE_SECONDS, self._patience + change)
        return self._patience


def _let_go(request: ASGIRequest) -> None:
    """What middleware hangs on a request holds the request: its person, its messages, its headers. Some
    20 kB of each would wait for the collector of garbage, and the memory for them is never given back."""
    vars(request).clear()


def _close(response: HttpResponseBase) -> None:
    """Lets go of uploaded files, and of the thread's database connection."""
    response.close()
