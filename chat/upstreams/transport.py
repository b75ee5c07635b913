"""An httpx transport over asyncio and httptools, with one connection for each request.

Its advantages over httpx's own: a stop closes the socket at once, an error tells whether a request
may have been accepted, connections go to checked addresses only, and an event costs a third of the
CPU.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import httptools
import httpx

from chat.upstreams.addresses import AddressPolicy, AddressRefused, literal
from chat.upstreams.egress_proxy import EgressProxy

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)

# With more unread body than this the socket is not read, so that the server is slowed down instead
# of our memory filled.
MAX_QUEUED_BYTES = 256 * 1024
# Head, chunk headers and trailers: bytes that may arrive without a byte of body.
MAX_OVERHEAD_BYTES = 64 * 1024
# The parser gets pieces of this size, so that the limit above is checked as often.
PIECE_BYTES = 64 * 1024
# 100, 102 and 103 come once or twice; a server that sends more will not answer.
MAX_INFORMATIONAL = 16
# asyncio's own limit for a handshake must be longer than ours, or it looks like another error.
HANDSHAKE_SECONDS = 3600.0

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LINE_BREAK = re.compile(rb"[\r\n\0]")
_TARGET = re.compile(rb"[!-~\x80-\xff]+")


class CutShort(httpx.RemoteProtocolError):
    """The peer closed the connection before the response was complete."""


class WireTransport(httpx.AsyncBaseTransport):
    """``httpx.ConnectError`` and ``ConnectTimeout`` mean that nothing was sent. After any other
    error the server may have accepted the request."""

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext,
        policy: AddressPolicy,
        proxy: EgressProxy | None = None,
    ) -> None:
        self._ssl_context = ssl_context
        self._policy = policy
        self._proxy = proxy

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        timeouts = request.extensions.get("timeout", {})
        message = self._head(request) + await request.aread()
        exchange = await self._connect(request, timeouts.get("connect"))
        try:
            await exchange.send(message, timeouts.get("write"))
            await exchange.wait_for_head(timeouts.get("read"))
        except BaseException:  # CancelledError, too: nothing else has the socket yet.
            exchange.abort()
            raise
        return httpx.Response(
            exchange.status,
            headers=exchange.headers,
            stream=_Body(exchange, timeouts.get("read")),
            extensions={
                "http_version": b"HTTP/" + exchange.http_version.encode("ascii"),
                "reason_phrase": b"".join(exchange.reason),
                "arrived": exchange.take_arrived,
            },
        )

    async def _connect(self, request: httpx.Request, seconds: float | None) -> "WireExchange":
        url = request.url
        if url.scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol("only http and https are spoken here")
        is_tls = url.scheme == "https"
        host, port = url.raw_host.decode("ascii"), url.port or (443 if is_tls else 80)
        ssl_context = self._ssl_context if is_tls else None
        if self._proxy is not None:
            return await self._connect_through(
                self._proxy, request.method, host, port, ssl_context, seconds
            )
        return await connect(
            lambda: WireExchange(request.method),
            host,
            port,
            resolve=self._policy.resolve,
            ssl_context=ssl_context,
            seconds=seconds,
        )

    async def _connect_through(
        self,
        proxy: EgressProxy,
        method: str,
        host: str,
        port: int,
        ssl_context: ssl.SSLContext | None,
        seconds: float | None,
    ) -> "WireExchange":
        """The proxy resolves names, so only an address that stands in the URL is checked here."""
        async with _connecting(seconds):
            if address := literal(host):
                self._policy.check(str(address), port)
            if ssl_context is None:
                return await _open(lambda: WireExchange(method), proxy.host, proxy.port)
            tunnel = await _open(lambda: WireExchange("CONNECT"), proxy.host, proxy.port)
            try:
                await tunnel.ask_for_tunnel(proxy.connect_head(host, port))
                return await tunnel.start_tls(WireExchange(method), ssl_context, host)
            except BaseException:  # CancelledError, too: nothing else has the socket yet.
                tunnel.abort()
                raise

    def _head(self, request: httpx.Request) -> bytes:
        if self._proxy is None or request.url.scheme == "https":
            return _request_head(request, request.url.raw_path)
        url = request.url
        whole = url.raw_scheme + b"://" + url.netloc + url.raw_path
        return _request_head(request, whole, self._proxy.headers)


@asynccontextmanager
async def _connecting(seconds: float | None) -> AsyncIterator[None]:
    """Raises ``httpx.ConnectError`` or ``httpx.ConnectTimeout``; the reason is its cause."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise httpx.ConnectTimeout("no connection in time") from error
    except AddressRefused as error:
        raise httpx.ConnectError(str(error)) from error
    except OSError as error:
        raise httpx.ConnectError("no connection") from error


async def connect(
    factory: Callable[[], ProtocolT],
    host: str,
    port: int,
    *,
    resolve: Resolve,
    ssl_context: ssl.SSLContext | None,
    seconds: float | None,
) -> ProtocolT:
    """Connects to one of the addresses that ``resolve`` returned; the name is used for certificate
    and SNI. ``seconds`` covers lookup, connect and handshake together. Raises
    ``httpx.ConnectError`` or ``httpx.ConnectTimeout``; the reason is its cause."""
    async with _connecting(seconds):
        addresses = await resolve(host, port)
        return await _dial(factory, addresses, host, port, ssl_context, seconds)


async def _dial(
    factory: Callable[[], ProtocolT],
    addresses: list[str],
    host: str,
    port: int,
    ssl_context: ssl.SSLContext | None,
    seconds: float | None,
) -> ProtocolT:
    # An address that does not respond leaves time for the ones after it.
    share = seconds / len(addresses) if seconds else None
    for address in addresses[:-1]:
        try:
            async with asyncio.timeout(share):
                return await _open(factory, address, port, host, ssl_context)
        except ssl.SSLError:
            raise  # The server was reached, so another address would not be more trustworthy.
        except OSError:
            continue
    return await _open(factory, addresses[-1], port, host, ssl_context)


async def _open(
    factory: Callable[[], ProtocolT],
    address: str,
    port: int,
    host: str = "",
    ssl_context: ssl.SSLContext | None = None,
) -> ProtocolT:
    loop = asyncio.get_running_loop()
    if ssl_context is None:
        _, protocol = await loop.create_connection(factory, address, port)
        return protocol
    _, protocol = await loop.create_connection(
        factory,
        address,
        port,
        ssl=ssl_context,
        server_hostname=host,
        ssl_handshake_timeout=HANDSHAKE_SECONDS,
    )
    return protocol


def _request_head(
    request: httpx.Request, target: bytes, proxy_headers: Iterable[bytes] = ()
) -> bytes:
    if "transfer-encoding" in request.headers:
        raise httpx.LocalProtocolError("a request body is sent whole, with its length")
    if not _NAME.fullmatch(request.method.encode("utf-8")) or not _TARGET.fullmatch(target):
        raise httpx.LocalProtocolError("the request line cannot be sent")
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), target), *proxy_headers]
    for name, value in request.headers.raw:
        if not _NAME.fullmatch(name) or _LINE_BREAK.search(value):
            # The value is not repeated, because it may be the key.
            raise httpx.LocalProtocolError("a header cannot be sent: it holds a line break")
        if name.lower() != b"connection":
            lines.append(b"%s: %s" % (name, value))
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


class _Body(httpx.AsyncByteStream):
    def __init__(self, exchange: "WireExchange", seconds: float | None) -> None:
        self._exchange = exchange
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self._exchange.read(self._seconds):
            yield data

    async def aclose(self) -> None:
        self._exchange.abort()


class WireExchange(asyncio.Protocol):
    """One request and its response on one connection. Used by one task: ``send``,
    ``wait_for_head``, then ``read`` until it returns nothing.

    Data that arrived before an error is returned before the error is raised, except after a reset
    over TLS while the reader is more than ``MAX_QUEUED_BYTES`` behind: bytes that asyncio has not
    decrypted by then are lost.
    """

    def __init__(self, method: str) -> None:
        self.status = 0
        self.reason: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._queue: list[bytes] = []
        self._queued_bytes = 0
        self._overhead_bytes = 0
        self._informational = 0
        self._is_head_request = method == "HEAD"
        self._is_tunnel = method == "CONNECT"
        self._has_head = False
        self._is_framed = False
        self._is_done = False
        self._is_reading_paused = False
        self._is_writing_paused = False
        self._error: httpx.TransportError | None = None

    @property
    def http_version(self) -> str:
        return self._parser.get_http_version()

    # --- what the task calls -------------------------------------------------------

    async def send(self, message: bytes, seconds: float | None) -> None:
        """Writes the request piece by piece; ``seconds`` is the longest that one piece may take.

        It ends early if a response arrives or the connection is lost: a server may refuse a large
        body before it has read it, and the response matters more.
        """
        view = memoryview(message)
        for start in range(0, len(view), PIECE_BYTES):
            if self._is_settled:
                return
            assert self._transport is not None
            self._transport.write(view[start : start + PIECE_BYTES])
            if self._is_writing_paused:
                await self._drain(seconds)

    async def wait_for_head(self, seconds: float | None) -> None:
        while not self._has_head:
            if self._error:
                raise self._error
            await self._wait_for_data(seconds)

    async def ask_for_tunnel(self, head: bytes) -> None:
        """Has the proxy connect to the server. Raises ``httpx.ProxyError``: nothing was sent to it."""
        try:
            await self.send(head, None)
            await self.wait_for_head(None)
        except httpx.TransportError as error:
            raise httpx.ProxyError("the proxy closed the connection") from error
        if not 200 <= self.status < 300:
            raise httpx.ProxyError(f"the proxy refused to connect ({self.status})")

    async def start_tls(
        self, inner: "WireExchange", ssl_context: ssl.SSLContext, host: str
    ) -> "WireExchange":
        """Begins TLS with the server behind the tunnel, for another exchange on this connection."""
        assert self._transport is not None
        transport = await self._loop.start_tls(
            self._transport,
            inner,
            ssl_context,
            server_hostname=host,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        assert transport is not None
        inner.connection_made(transport)
        return inner

    async def read(self, seconds: float | None) -> bytes:
        """Everything that has arrived since the last call; empty at the end of the body."""
        while not self._queue:
            if self._error:
                raise self._error
            if self._is_done:
                return b""
            await self._wait_for_data(seconds)
        return self.take_arrived()

    def take_arrived(self) -> bytes:
        """Everything that has arrived since the last call, without waiting. Empty does not mean the
        end."""
        if not self._queue:
            return b""
        data = self._queue[0] if len(self._queue) == 1 else b"".join(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._resume_reading()
        return data

    def abort(self) -> None:
        """Closes the socket now, without notice to the peer. May be called at any time."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def _is_settled(self) -> bool:
        return self._has_head or self._error is not None

    async def _drain(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self._is_writing_paused and not self._is_settled:
                    await self._wait()
        except TimeoutError as error:
            raise httpx.WriteTimeout("the server does not read the request") from error

    async def _wait_for_data(self, seconds: float | None) -> None:
        if seconds is None:
            await self._wait()
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wait()
        except TimeoutError as error:
            raise httpx.ReadTimeout("no data in time") from error

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _resume_reading(self) -> None:
        if self._is_reading_paused and self._transport is not None:
            self._is_reading_paused = False
            self._transport.resume_reading()

    # --- what asyncio calls ----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Without a write buffer, a write that the peer does not accept is noticed at once. It is
        # one and not zero, because asyncio's TLS pauses at "high or more": at zero it would pause
        # while empty.
        transport.set_write_buffer_limits(high=1, low=0)

    def data_received(self, data: bytes) -> None:
        if len(data) <= PIECE_BYTES:
            if not (self._is_done or self._error):
                self._parse(data)
        else:
            self._parse_pieces(memoryview(data))
        if self._queued_bytes > MAX_QUEUED_BYTES and not self._is_reading_paused:
            self._pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_done and self._error is None:
            self._settle_lost(error)
        self._wake()

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._wake()

    def _settle_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._error = httpx.ReadError("the connection was reset")
            self._error.__cause__ = error
        elif self._has_head and not self._is_framed:
            # This does not prove that the response is complete; the dialect's last event does.
            self._is_done = True
        else:
            self._error = CutShort("closed before the response was complete")

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _parse_pieces(self, view: memoryview) -> None:
        for start in range(0, len(view), PIECE_BYTES):
            if self._is_done or self._error:
                return
            self._parse(view[start : start + PIECE_BYTES])

    def _parse(self, piece: bytes | memoryview) -> None:
        self._overhead_bytes += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserError as error:
            self._fail("the answer is not valid HTTP", error)
        if self._overhead_bytes > MAX_OVERHEAD_BYTES:
            self._fail("too much that is not body")

    def _fail(self, text: str, cause: Exception | None = None) -> None:
        if self._is_done or self._error:
            return
        self._error = httpx.RemoteProtocolError(text)
        self._error.__cause__ = cause
        self.abort()

    # --- what the parser calls; an exception in here ends the parsing -------------------

    def on_message_begin(self) -> None:
        if self._has_head:
            raise _StopParsing  # Bytes after the end: a second response that was not requested.
        self.headers = []
        self.reason = []

    def on_status(self, text: bytes) -> None:
        self.reason.append(text)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # Header lines after this are trailers.
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status == 101:
            self._refuse("switches to a protocol that was not asked for")
        if status < 200:
            self._informational += 1
            if self._informational > MAX_INFORMATIONAL:
                self._refuse("too many informational answers")
            return
        self.status = status
        if self._is_tunnel:
            # The connection stays, and what follows belongs to the server.
            self._has_head = self._is_done = True
            raise _StopParsing
        self._is_framed = self._read_framing()
        self._has_head = True
        if self._is_head_request:
            self._finish()

    def on_body(self, data: bytes) -> None:
        self._overhead_bytes = 0
        self._queue.append(data)
        self._queued_bytes += len(data)

    def on_message_complete(self) -> None:
        if self._has_head:  # An informational response ends, too.
            self._finish()

    def _read_framing(self) -> bool:
        """Returns whether the response itself says where it ends."""
        lengths = [value for name, value in self.headers if name.lower() == b"content-length"]
        codings = [value for name, value in self.headers if name.lower() == b"transfer-encoding"]
        if codings and (lengths or [coding.lower() for coding in codings] != [b"chunked"]):
            self._refuse("length and transfer coding do not agree")
        return bool(lengths or codings) or self.status in (204, 304)

    def _refuse(self, text: str) -> None:
        self._fail(text)
        raise _StopParsing

    def _finish(self) -> None:
        self._is_done = True
        self.abort()


class _StopParsing(Exception):
    """Leaves the parser; the reason is recorded on the exchange."""
