"""A pool that handles a limited number of Django requests at once; the others are queued, and messages
come first."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.http import FileResponse, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from chat.core.deadline import database_deadline
from chat.core.request_queue import Overloaded, RequestQueue

# Number of threads if there is no limit; they are created on demand.
MOST_THREADS = 64

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[Any]]
Refuse = Callable[[ASGIRequest, int], HttpResponseBase]


class RequestPool(ASGIHandler):
    """Every request needs a thread, and all threads of a process share the GIL. Without a limit,
    fifty requests at once would all finish late, the event loop with every live connection would
    get a fiftieth of the time, and each request would hold a database connection.

    Request bodies are received and responses are sent outside the pool, so a slow client does not
    occupy a thread. ``queue`` says how many requests are handled at once. A request waits for the
    database for at most ``database_seconds`` in total.

    A POST whose whole path matches ``message_urls`` comes before other requests of the queue; if too many
    wait, ``refuse(request, seconds)`` makes the response, in the event loop.

    The threads are reused, and each request is handed to a thread once, with its signals,
    middleware and view. Django itself creates a thread for each request and switches between it and
    the event loop half a dozen times, which costs more than most of our views.
    """

    def __init__(
        self,
        queue: RequestQueue,
        *,
        message_urls: str = "",
        refuse: Refuse | None = None,
        database_seconds: float | None = None,
    ) -> None:
        super().__init__()
        self._database_seconds = database_seconds
        self._queue = queue
        threads = ThreadPoolExecutor(queue.most_at_once or MOST_THREADS, thread_name_prefix="pages")
        self._make_in_thread = sync_to_async(self._make, thread_sensitive=False, executor=threads)
        self._close_in_thread = sync_to_async(_close, thread_sensitive=False, executor=threads)
        self._message_urls = re.compile(message_urls)
        self._refuse = refuse or _refuse

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
        # If the client disconnects, the response is dropped; a thread that works on it is not
        # interrupted.
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
            # A streaming response may read in a thread of its own.
            async with ThreadSensitiveContext():
                await self.send_response(response, send)
        finally:
            await self._close_in_thread(response)

    async def run_get_response(self, request: ASGIRequest) -> HttpResponseBase:
        request.came_at = time.monotonic()
        try:
            is_message = self._is_message(request)
            sender = _sender_of(request) if is_message else ""
            async with self._queue.place(is_message=is_message, sender=sender):
                return await self._make_in_thread(request)
        except Overloaded as error:
            return self._refuse(request, error.seconds)

    def _is_message(self, request: ASGIRequest) -> bool:
        is_known = self._message_urls.fullmatch(request.path_info) is not None
        return is_known and request.method == "POST"

    def _make(self, request: ASGIRequest) -> HttpResponseBase:
        """Handles a whole request in this thread, except for the sending of a streaming
        response."""
        signals.request_started.send(sender=type(self), scope=request.scope)
        waited = time.monotonic() - request.came_at
        with database_deadline(self._database_seconds, waited_seconds=waited):
            response = self.get_response(request)
        response._handler_class = type(self)
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            _close(response)
            _clear(request)
        return response


def _sender_of(request: ASGIRequest) -> str:
    """The session or the token of a request, before anybody has looked whether it is valid."""
    session = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    return session or request.META.get("HTTP_AUTHORIZATION") or ""


def _clear(request: ASGIRequest) -> None:
    """Breaks the reference cycles between a request and what middleware attaches to it (user,
    messages, headers). Otherwise about 20 kB per request would wait for the garbage collector, and
    this memory would never be returned to the system."""
    vars(request).clear()


def _refuse(request: ASGIRequest, seconds: int) -> HttpResponseBase:
    return HttpResponse(status=503, headers={"Retry-After": str(seconds)})


def _close(response: HttpResponseBase) -> None:
    """Closes uploaded files and returns the thread's database connection."""
    response.close()
