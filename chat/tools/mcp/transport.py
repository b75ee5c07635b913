"""The HTTP of the MCP client: an httpx2 transport over the client of `chat.upstreams`.

There a name is resolved once, every address is checked, and the checked one is used; certificates, the egress
proxy and stopping work as for all other requests. Here the requests of one connection are bounded and kept at
the address that was configured.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
import msgspec

from chat.tools.kinds import RECORDED_BYTES, Recording
from chat.tools.sign_in.metadata import missing_scopes
from chat.upstreams.client import Client
from chat.upstreams.exchange import (
    ExchangedResponse,
    ExchangeTimes,
    UpstreamError,
    exchange,
)
from chat.upstreams.failures import UpstreamBroken, UpstreamRefused, failure
from chat.upstreams.redaction import MARK, Redactor

# A server may cut a stream again and again, and the client reads on with a request each time.
MOST_REQUESTS = 100
# Telling the end of a call or of a session is a courtesy, and a stopped call must not wait for it.
GOODBYES = ("DELETE", "notifications/cancelled")
GOODBYE_SECONDS = 2.0
# The stream of a session for messages that belong to no response, and how long a call waits until it is open: what a
# server sends before is lost. Both take the same way, so a stream that was asked for earlier is there first, also at a
# server that keeps back the head of its response until there is a message.
LISTEN = "listen"
LISTEN_SECONDS = 0.25
_BESIDE = (*GOODBYES, LISTEN)
# The longest silence of a server, except during the call itself.
SILENCE_SECONDS = 30.0
# JSON values of a response. A million of them take half a gigabyte, and the event loop for seconds.
MOST_VALUES = 100_000

CALL = "tools/call"
SUBSCRIPTION = "subscriptions/listen"
# The messages of a call that its receipt shows.
RECORDED = (CALL, "tasks/get", "tasks/update")
# The state that a server wants kept, and the id of its task: a reader who has one may be able to act for us.
_HANDLES = re.compile(r'("(?:requestState|taskId)"\s*:\s*)"(?:[^"\\]|\\.)*(?:"|\\?$)')
# The version without sessions names the method in a header, and has arguments in headers with this prefix.
METHOD_HEADER = "mcp-method"
ARGUMENT_HEADER = "mcp-param-"
_MESSAGES = (b"application/json", b"text/event-stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server, and what one connection to it may use. ``headers`` are credentials: they are added to each
    request here, so that the library never has them. ``call_headers`` go with a call of the version without sessions,
    unless the library has read the definition of the tool meanwhile. ``before_call`` is awaited before a call is sent.
    ``listens``: a server with sessions may send requests beside the response to a call, in a stream of their own."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    call_headers: Mapping[str, str] = field(default_factory=dict)
    most_bytes: int
    before_call: Callable[[], Awaitable[None]] | None = None
    listens: bool = False


@dataclass(slots=True, kw_only=True)
class Traffic:
    """The course of a connection. ``was_sent``: a call may have reached the server. ``failure`` is the last error below
    the protocol; ``status`` that of the last response, and ``has_message`` whether it can be one of the protocol. As
    soon as a call was sent, both are only about the response to it."""

    failure: UpstreamError | None = None
    # The reason of the caller for not sending it.
    refusal: Exception | None = None
    status: int = 0
    has_message: bool = False
    was_sent: bool = False
    wants_sign_in: bool = False
    # The scopes that the last response wants of the account in addition.
    missing_scopes: Sequence[str] = ()
    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    total_bytes: int = 0
    # The beginnings of the last recorded message and of the response to it, without credentials, and those before.
    sent: str = ""
    received: bytearray = field(default_factory=bytearray)
    recorded: list[Recording] = field(default_factory=list)

    def record_sent(self, body: bytes, secrets: Redactor) -> None:
        self.recorded = self.recordings()
        self.sent = secrets.text(body[:RECORDED_BYTES].decode("utf-8", "replace"))
        self.received.clear()

    def record_received(self, data: bytes) -> None:
        """The data of the response so far, without credentials."""
        self.received += data[: max(0, RECORDED_BYTES - len(self.received))]

    def recordings(self) -> list[Recording]:
        if not self.sent:
            return self.recorded
        received = self.received.decode("utf-8", "replace")
        last = Recording(sent=_without_handles(self.sent), received=_without_handles(received))
        return [*self.recorded, last]


class _Message(msgspec.Struct):
    method: str = ""


class ValueCounter:
    """Counts the JSON values of a body that comes in chunks, without reading it: what begins or separates values outside
    of strings, and lines."""

    # A string ends with its line at the latest, in JSON and in an event stream.
    _string = re.compile(rb'"[^"\r\n]*(?:"|(?=[\r\n]))')

    def __init__(self) -> None:
        self._count = 0
        self._rest = b""

    def add(self, data: bytes) -> int:
        """The number of values so far."""
        text = (self._rest + data).replace(b"\\\\", b"")
        # An escaped character, or a string, that goes on in the next chunk.
        escape = b"\\" if text.endswith(b"\\") else b""
        text = self._string.sub(b"", text.removesuffix(escape).replace(b'\\"', b""))
        outside, quote, _ = text.partition(b'"')
        self._rest = quote + escape
        self._count += sum(map(outside.count, (b"{", b"[", b",", b"\n", b"\r")))
        return self._count


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of one connection to one server."""

    def __init__(self, client: Client, endpoint: Endpoint, traffic: Traffic) -> None:
        self.traffic = traffic
        self._client = client
        self._endpoint = endpoint
        self._origin = _origin_of(httpx2.URL(endpoint.url))
        self._secrets = [secret for value in endpoint.headers.values() for secret in _parts(value)]
        # The task of the library that has opened the stream of the session.
        self._listener: asyncio.Task[object] | None = None
        self._is_listening = asyncio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        message = _method_of(body) or request.method
        if message == "GET" and not self._is_resumption(request):
            if self._listener is not None or not self._endpoint.listens:
                return httpx2.Response(405)
            self._listener, message = asyncio.current_task(), LISTEN
        is_call = message == CALL
        if is_call and self._listener is not None:
            await self._until_listening()
        if message in RECORDED:
            self.traffic.record_sent(body, Redactor(self._secrets))
        try:
            response = await self._send(request, body, message)
        except UpstreamError as error:
            if message not in _BESIDE:
                self.traffic.failure = error
            raise httpx2.ConnectError("the request failed", request=request) from error
        finally:
            if message == LISTEN:
                self._is_listening.set()
        if message not in _BESIDE and (is_call or not self.traffic.was_sent):
            self._note(response)
        return httpx2.Response(
            response.status,
            headers=list(response.headers),
            stream=_Body(self._read(response, message), response),
        )

    def _is_resumption(self, request: httpx2.Request) -> bool:
        """Returns whether it asks for the rest of the response to a request. The stream of the session is opened once: a
        server that closes it again and again would use up the requests of the connection."""
        is_listener = asyncio.current_task() is self._listener
        return "last-event-id" in request.headers and not is_listener

    async def _until_listening(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_SECONDS):
                await self._is_listening.wait()

    async def _send(self, request: httpx2.Request, body: bytes, message: str) -> ExchangedResponse:
        is_call = message == CALL
        self.traffic.requests += 1
        if _origin_of(request.url) != self._origin:
            raise UpstreamRefused(failure("redirect"), never_accepted=True)
        if self.traffic.requests > MOST_REQUESTS:
            raise UpstreamRefused(failure("cut"), never_accepted=True)
        if is_call:
            await self._begin_call(body)
        try:
            return await exchange(
                self._client,
                method=request.method,
                url=str(request.url),
                headers=self._headers(request, is_call=is_call),
                body=body,
                times=_times(message),
            )
        except UpstreamRefused as refused:
            if is_call and refused.never_accepted:
                self.traffic.was_sent = False
            raise

    async def _begin_call(self, body: bytes) -> None:
        self.traffic.request_bytes = len(body)
        self.traffic.response_bytes = 0
        if self._endpoint.before_call is not None:
            try:
                await self._endpoint.before_call()
            except Exception as error:
                self.traffic.refusal = error
                raise
        self.traffic.status, self.traffic.has_message = 0, False
        # From here a cancellation leaves a call that may have reached the server.
        self.traffic.was_sent = True

    def _headers(self, request: httpx2.Request, *, is_call: bool) -> list[tuple[bytes, bytes]]:
        own = {name.lower() for name in self._endpoint.headers}
        arguments = self._argument_headers(request) if is_call else []
        kept = [
            (name, value)
            for name, value in [*request.headers.raw, *arguments]
            if name.decode("ascii").lower() not in (own | {"accept-encoding", "user-agent"})
        ]
        credentials = [
            (name.encode("ascii", "replace"), value.encode("utf-8"))
            for name, value in self._endpoint.headers.items()
        ]
        ours = [(b"Accept-Encoding", b"identity"), (b"User-Agent", b"Tributary")]
        return [*kept, *ours, *credentials]

    def _argument_headers(self, request: httpx2.Request) -> list[tuple[bytes, bytes]]:
        is_modern = METHOD_HEADER in request.headers
        if not is_modern or any(name.startswith(ARGUMENT_HEADER) for name in request.headers):
            return []
        return [
            (name.encode("ascii"), value.encode("ascii"))
            for name, value in self._endpoint.call_headers.items()
        ]

    def _note(self, response: ExchangedResponse) -> None:
        self.traffic.status = response.status
        headers = {name.lower(): value for name, value in response.headers}
        kind = headers.get(b"content-type", b"").lower()
        self.traffic.has_message = response.status != 202 and kind.startswith(_MESSAGES)
        self.traffic.wants_sign_in = response.status == 401 and b"www-authenticate" in headers
        self.traffic.missing_scopes = missing_scopes(response.status, response.headers)

    async def _read(self, response: ExchangedResponse, message: str) -> AsyncGenerator[bytes, None]:
        """The body without the credentials, within the limits. Raises ``httpx2.ReadError``."""
        redactor = Redactor(self._secrets)
        values = ValueCounter()
        try:
            async for data in response.chunks():
                self.traffic.total_bytes += len(data)
                if message == CALL:
                    self.traffic.response_bytes += len(data)
                is_too_long = self.traffic.total_bytes > self._endpoint.most_bytes
                if is_too_long or values.add(data) > MOST_VALUES:
                    raise UpstreamBroken(failure("too_large"))
                if clean := redactor.chunk(data):
                    if message in RECORDED:
                        self.traffic.record_received(clean)
                    yield clean
        except UpstreamError as error:
            if message not in _BESIDE:
                self.traffic.failure = error
            raise httpx2.ReadError("the response broke") from error
        if rest := redactor.flush():
            if message in RECORDED:
                self.traffic.record_received(rest)
            yield rest


class _Body(httpx2.AsyncByteStream):
    def __init__(self, chunks: AsyncGenerator[bytes, None], response: ExchangedResponse) -> None:
        self._chunks = chunks
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            yield chunk

    async def aclose(self) -> None:
        try:
            await self._chunks.aclose()
        finally:
            await self._response.aclose()


def open_client(transport: GuardedTransport) -> httpx2.AsyncClient:
    """The client that the library gets: without proxies of the environment, cookies and redirects."""
    return httpx2.AsyncClient(
        transport=transport,
        trust_env=False,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=None,
    )


def _without_handles(text: str) -> str:
    return _HANDLES.sub(rf'\1"{MARK}"', text)


def _times(message: str) -> ExchangeTimes:
    if message in GOODBYES:
        return ExchangeTimes(
            connect_seconds=GOODBYE_SECONDS,
            write_seconds=GOODBYE_SECONDS,
            silence_seconds=GOODBYE_SECONDS,
        )
    # A tool may work for minutes without a word; the caller has a limit for it.
    is_long = message in (CALL, LISTEN, SUBSCRIPTION)
    return ExchangeTimes(silence_seconds=None if is_long else SILENCE_SECONDS)


def _method_of(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Message).method
    except (msgspec.DecodeError, RecursionError):
        return ""


def _origin_of(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _parts(value: str) -> list[str]:
    """A header's value, and without its scheme: ``Bearer abc`` gives ``abc`` as well."""
    return [value, *value.split(" ", 1)[1:]]
