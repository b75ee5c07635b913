"""The HTTP of the MCP client: an httpx2 transport over the client of `chat.upstreams`.

There a name is resolved once, every address is checked, and the checked one is used; certificates, the egress
proxy and stopping work as for all other requests. Here the requests of one connection are bounded and kept at
the address that was configured.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
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
# The longest silence of a server, except during the call itself.
SILENCE_SECONDS = 30.0
# JSON values of a response. A million of them take half a gigabyte, and the event loop for seconds.
MOST_VALUES = 100_000

CALL = "tools/call"
LISTEN = "subscriptions/listen"
# The messages of a call that its receipt shows.
RECORDED = (CALL, "tasks/get", "tasks/update")
# The state that a server wants kept, and the id of its task: whoever has one may be able to act for us.
_HANDLES = re.compile(r'("(?:requestState|taskId)"\s*:\s*)"(?:[^"\\]|\\.)*(?:"|\\?$)')
_MESSAGES = (b"application/json", b"text/event-stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server, and what one connection to it may use. ``headers`` are credentials: they are added to each
    request here, so that the library never has them. ``before_call`` is awaited before a call is sent."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    most_bytes: int
    before_call: Callable[[], Awaitable[None]] | None = None


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
    # The beginnings of the last recorded message and of the response to it, without credentials.
    sent: str = ""
    received: bytearray = field(default_factory=bytearray)

    def record_sent(self, body: bytes, secrets: Redactor) -> None:
        self.sent = secrets.text(body[:RECORDED_BYTES].decode("utf-8", "replace"))
        self.received.clear()

    def record_received(self, data: bytes) -> None:
        """The data of the response so far, without credentials."""
        self.received += data[: max(0, RECORDED_BYTES - len(self.received))]

    def recording(self) -> Recording:
        received = self.received.decode("utf-8", "replace")
        return Recording(sent=_without_handles(self.sent), received=_without_handles(received))


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

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET" and "last-event-id" not in request.headers:
            # The stream for messages of the server that belong to no request: none of them is used.
            return httpx2.Response(405)
        body = await request.aread()
        message = _method_of(body) or request.method
        is_call = message == CALL
        if message in RECORDED:
            self.traffic.record_sent(body, Redactor(self._secrets))
        try:
            response = await self._send(request, body, message)
        except UpstreamError as error:
            if message not in GOODBYES:
                self.traffic.failure = error
            raise httpx2.ConnectError("the request failed", request=request) from error
        if message not in GOODBYES and (is_call or not self.traffic.was_sent):
            self._note(response)
        return httpx2.Response(
            response.status,
            headers=list(response.headers),
            stream=_Body(self._read(response, message), response),
        )

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
                headers=self._headers(request),
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

    def _headers(self, request: httpx2.Request) -> list[tuple[bytes, bytes]]:
        own = {name.lower() for name in self._endpoint.headers}
        kept = [
            (name, value)
            for name, value in request.headers.raw
            if name.decode("ascii").lower() not in (own | {"accept-encoding", "user-agent"})
        ]
        credentials = [
            (name.encode("ascii", "replace"), value.encode("utf-8"))
            for name, value in self._endpoint.headers.items()
        ]
        ours = [(b"Accept-Encoding", b"identity"), (b"User-Agent", b"Tributary")]
        return [*kept, *ours, *credentials]

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
            if message not in GOODBYES:
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
    is_long = message in (CALL, LISTEN)
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
