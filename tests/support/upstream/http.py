"""A small HTTP/1.1 server: requests in, answers out byte by byte, and a client's leaving seen at once."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

import httptools

logger = logging.getLogger(__name__)

Framing = Literal["chunked", "length", "close"]
# How an exchange stands: ``left`` means that the client went before the answer was complete.
Outcome = Literal["open", "finished", "closed", "reset", "left", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    keeps_alive: bool

    def header(self, name: str) -> str:
        """The first header of that name (lower case), or an empty string."""
        return next((value for key, value in self.headers if key == name), "")


class Exchange:
    """One request and its answer, written piece by piece.

    Every write waits until the kernel has taken the bytes. When the client leaves, ``outcome``
    becomes ``left`` and then the handler is cancelled. ``on_change`` is called when ``outcome``
    changes, which it does once.
    """

    def __init__(self, request: Request, connection: "HttpConnection") -> None:
        self.request = request
        self.outcome: Outcome = "open"
        self.has_head = False
        self.on_change: Callable[[], None] | None = None
        self._connection = connection
        self._framing: Framing = "close"

    @property
    def keeps_alive(self) -> bool:
        return self.outcome == "finished" and self._framing != "close" and self.request.keeps_alive

    async def head(
        self,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        *,
        framing: Framing = "chunked",
        length: int = 0,
    ) -> None:
        """Send the status line and headers. ``length`` counts where the framing is by length."""
        self._framing = framing
        self.has_head = True
        await self.raw(_head_bytes(status, headers or {}, framing, length, self.request))

    async def write(self, data: bytes) -> None:
        """Send a piece of the body, framed as the head promised."""
        if data:
            await self.raw(self._frame(data))

    async def raw(self, data: bytes) -> None:
        """Send bytes exactly as they are, outside of all framing."""
        await self._connection.send(data)

    async def finish(self, last: bytes = b"") -> None:
        """Send ``last`` and the proper end in one write, so that nobody can leave in between."""
        end = b"0\r\n\r\n" if self._framing == "chunked" else b""
        data = (self._frame(last) if last else b"") + end
        if data:
            await self.raw(data)
        self.settle("finished")

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer whose length is known."""
        await self.head(status, headers, framing="length", length=len(body))
        await self.finish(body)

    def close(self) -> None:
        """End the connection in good manners, whether or not the answer is complete."""
        self.settle("closed")
        self._connection.close()

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self.settle("reset")
        self._connection.reset()

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome, unless there is one."""
        if self.outcome != "open":
            return
        self.outcome = outcome
        if self.on_change:
            self.on_change()

    def _frame(self, data: bytes) -> bytes:
        if self._framing == "chunked":
            return b"%x\r\n%b\r\n" % (len(data), data)
        return data


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _head_bytes(
    status: int, headers: Mapping[str, str], framing: Framing, length: int, request: Request
) -> bytes:
    lines = [f"HTTP/1.1 {status} {_phrase(status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
    if framing == "length":
        lines.append(f"Content-Length: {length}")
    stays = framing != "close" and request.keeps_alive
    lines.append("Connection: keep-alive" if stays else "Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


Handler = Callable[[Exchange], Awaitable[None]]


class HttpConnection(asyncio.Protocol):
    """One client's socket: parses requests and runs the handler on one after the other."""

    def __init__(self, server: "HttpServer") -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._queue: deque[Request] = deque()
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    # --- the socket -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # No bytes in a buffer of ours: what was written has reached the kernel, and is counted.
        transport.set_write_buffer_limits(high=0)
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def eof_received(self) -> bool:
        self._client_left()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)
        self._client_left()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # --- what the parser reports --------------------------------------------------

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._queue.append(self._request())
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._serve())

    def _request(self) -> Request:
        url = httptools.parse_url(self._url)
        return Request(
            method=self._parser.get_method().decode("ascii"),
            path=(url.path or b"/").decode("latin-1"),
            query=(url.query or b"").decode("latin-1"),
            headers=tuple(self._headers),
            body=b"".join(self._body),
            keeps_alive=self._parser.should_keep_alive(),
        )

    # --- answers ----------------------------------------------------------------------

    async def _serve(self) -> None:
        """Answer the queued requests in order. Cancelled when the client leaves."""
        try:
            while self._queue and not self._transport.is_closing():
                await self._serve_one(self._queue.popleft())
        finally:
            self._task = None
            self._exchange = None

    async def _serve_one(self, request: Request) -> None:
        exchange = self._exchange = Exchange(request, self)
        try:
            await self._server.handler(exchange)
        except Exception:
            logger.exception("fake upstream failed method=%s path=%s", request.method, request.path)
            exchange.settle("failed")
        if not exchange.keeps_alive:
            self.close()

    async def send(self, data: bytes) -> None:
        """Write and wait until the kernel took it; never returns once the client has left."""
        self._transport.write(data)
        if self._writable:
            await self._writable

    def close(self) -> None:
        self._transport.close()

    def reset(self) -> None:
        with contextlib.suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        self._transport.abort()

    def shut_down(self) -> asyncio.Task[None] | None:
        """End the connection from our side; gives the handler's task, which is being cancelled."""
        if self._exchange:
            self._exchange.settle("closed")
        if self._task:
            self._task.cancel()
        self._transport.abort()
        return self._task

    def _client_left(self) -> None:
        if self._exchange:
            self._exchange.settle("left")
        if self._task and (self._exchange is None or self._exchange.outcome == "left"):
            self._task.cancel()


class HttpServer:
    """Listens on one address. ``stop`` ends every connection and waits for every handler."""

    def __init__(self, handler: Handler, *, port: int = 0) -> None:
        self.handler = handler
        self.connections: set[HttpConnection] = set()
        self._port = port
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Raises ``OSError`` where the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: HttpConnection(self), "127.0.0.1", self._port, backlog=1024
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server:
            self._server.close()
        tasks = [connection.shut_down() for connection in list(self.connections)]
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)
        # A socket is closed one turn of the loop after its connection was aborted.
        await asyncio.sleep(0)
        if self._server:
            await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"
