"""An HTTP server that does whatever a test tells it to, and counts what it saw."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

HEAD = b"HTTP/1.1 200 OK\r\n"
STREAM_HEAD = HEAD + b"Content-Type: text/event-stream\r\n"
CHUNKED_HEAD = STREAM_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
UNFRAMED_HEAD = STREAM_HEAD + b"\r\n"
# A deadline for what should happen at once, on a machine that has other things to do.
PATIENCE_SECONDS = 60


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(
    body: bytes, content_type: str = "application/json", status: str = "200 OK", headers: str = ""
) -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{headers}\r\n"
    ).encode() + body


async def end_all(tasks: set[asyncio.Task[None]]) -> None:
    """Ends the handlers, and lets the transports that they aborted close their sockets."""
    for task in (ending := list(tasks)):
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
    for _ in range(5):
        await asyncio.sleep(0)


@dataclass
class Request:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return found[0] if found else None


@dataclass
class Peer:
    """The server's end of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: "HostileServer"

    async def request(self) -> Request:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = [
            (name, value.strip()) for name, _, value in (line.partition(":") for line in lines)
        ]
        method, target, _ = first.split(" ")
        request = Request(method, target, headers, b"")
        self.server.requests.append(request)
        request.body = await self.reader.readexactly(int(request.header("content-length") or 0))
        return request

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def flood(self, data: bytes, times: int) -> None:
        for _ in range(times):
            await self.send(data)

    def reset(self) -> None:
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def wait_gone(self) -> None:
        try:
            while await self.reader.read(65536):
                pass
        except (ConnectionError, ssl.SSLError):
            pass

    async def finish(self) -> None:
        self.writer.close()


Behaviour = Callable[[Peer], Awaitable[None]]


def replying(data: bytes, then: Behaviour = Peer.finish) -> Behaviour:
    """Reads the request, sends these bytes, and then closes (or does what ``then`` says)."""

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)
        await then(peer)

    return behave


async def hang(peer: Peer) -> None:
    await peer.wait_gone()


async def reset(peer: Peer) -> None:
    peer.reset()


async def speak_plainly(peer: Peer) -> None:
    """Answers a TLS handshake with plain HTTP."""
    await peer.reader.read(10)
    await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@dataclass
class HostileServer:
    """Runs ``behave`` for each connection, then waits until the client is gone."""

    behave: Behaviour
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    gone: int = 0
    port: int = 0
    # Set by a behaviour that has got to the place of which a test waits.
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    # Set by a test: a behaviour that waits for it goes on.
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._left = asyncio.Condition()

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"

    @property
    def posts(self) -> int:
        return sum(request.method == "POST" for request in self.requests)

    async def wait_gone(self, count: int = 1) -> None:
        """Until that many clients have closed or reset their connection."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._left:
            await self._left.wait_for(lambda: self.gone >= count)

    async def wait_reached(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.reached.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._handle, self.host, 0, ssl=self.tls, backlog=512
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await end_all(self._tasks)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        self.connections += 1
        peer = Peer(reader, writer, self)
        try:
            await self.behave(peer)
            await peer.wait_gone()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        except asyncio.CancelledError:
            return
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
        async with self._left:
            self.gone += 1
            self._left.notify_all()


class FreezingRelay:
    """A TCP relay that can freeze: it then passes nothing on, but sees the client leave."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.frozen = asyncio.Event()
        self.client_left = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await end_all(self._tasks)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        up = asyncio.create_task(self._pump(reader, back))
        down = asyncio.create_task(self._pump(there, writer))
        try:
            await up
            self.client_left.set()
        except asyncio.CancelledError:
            pass
        finally:
            up.cancel()
            down.cancel()
            writer.transport.abort()
            back.transport.abort()
            self._tasks.discard(task)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if not self.frozen.is_set():
                    sink.write(data)
                    await sink.drain()
        except ConnectionError:
            pass
