"""Sends one request to an upstream and returns its answer; errors are sentences for people."""

import asyncio
import functools
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import cast

import certifi
import httpx
import msgspec

from chat.dialects.base import Dialect, ModelInfo, UpstreamRequest, next_page
from chat.dialects.errors import read_error
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.answer_facts import Shape, facts_of, shape_of
from chat.upstreams.egress_proxy import EgressProxy
from chat.upstreams.failures import (
    UpstreamBroken,
    UpstreamError,
    UpstreamRefused,
    error_of,
    failure,
    was_never_sent,
)
from chat.upstreams.redaction import Redactor, credentials_of
from chat.upstreams.transport import WireTransport

# Bytes read of an error's body: as much as a person could read.
MAX_ERROR_BYTES = 64 * 1024
ERROR_BODY_SECONDS = 10.0
MAX_LIST_BYTES = 8 * 1024 * 1024
# Pages of a list that are read; missing names can be typed by hand.
MAX_LIST_PAGES = 10
# Time for a list that arrives slowly: longer than any proxy takes.
LIST_SECONDS = 60.0
# Statuses that say that the server has not started: too many requests, or busy.
NOT_BEGUN = (429, 503)

_HEADERS = {
    "Accept": "text/event-stream, application/json",
    # A compressed stream arrives in bursts, and a small one can expand without limit.
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}

# The name that other packages use for the type; httpx itself stays inside this package.
Client = httpx.AsyncClient

_NOT_IN_BASE_URL = re.compile(r"[\s?#\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamLimits:
    """How long each part of a request may take. The runner limits the whole run.

    ``head_seconds`` runs from the start to the first byte of the body, whatever arrives in between:
    a server may load a model first. ``idle_seconds`` is the longest silence after that.
    """

    connect_seconds: float = 10
    write_seconds: float = 30
    head_seconds: float = 900
    idle_seconds: float = 120


def open_client(
    policy: AddressPolicy,
    trust: ssl.SSLContext | None = None,
    *,
    proxy: str = "",
) -> httpx.AsyncClient:
    """A client for any number of upstreams on one event loop. Raises ``ValueError`` for an invalid
    proxy.

    It reads no proxy from the environment, follows no redirect and stores no cookie.
    """
    return client_over(
        WireTransport(
            ssl_context=trust or default_trust(),
            policy=policy,
            proxy=EgressProxy.parse(proxy) if proxy else None,
        )
    )


def client_over(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"User-Agent": "Tributary"},
        timeout=httpx.Timeout(connect=10, write=30, read=120, pool=None),
    )


@functools.cache
def default_trust(extra_file: str = "") -> ssl.SSLContext:
    """The certificate authorities of the system, of Mozilla (a slim image has no others), and of
    the operator."""
    trust = ssl.create_default_context()
    trust.load_verify_locations(certifi.where())
    if extra_file:
        trust.load_verify_locations(extra_file)
    return trust


class UpstreamAnswer:
    """A 2xx answer whose body has begun. Read it once, by ``chunks`` or by ``body``.

    ``facts`` are what its headers tell, as members of a ``meta.update``.
    """

    def __init__(self, response: httpx.Response, headers: Mapping[str, str], body: "_Body") -> None:
        self.status = response.status_code
        self.headers = headers
        self.facts = facts_of(headers)
        self.is_event_stream = False
        self._body = body
        self._begun = b""

    async def read_beginning(self) -> None:
        """Reads until the shape of the body is known. Raises ``UpstreamRefused`` if it is no
        answer."""
        shape: Shape | None = None
        content_type = self.headers.get("content-type", "")
        while shape is None:
            data = await self._body.read()
            self._begun += data
            if not self._begun:
                raise _refused("empty", status=self.status)
            shape = shape_of(content_type, self._begun, is_complete=not data)
        if shape == "page":
            raise _refused("page", status=self.status)
        self.is_event_stream = shape == "stream"

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives, without the credential. Raises ``UpstreamBroken`` after the data
        before the failure."""
        data, self._begun = self._begun, b""
        while data:
            yield data
            data = self._body.arrived() or await self._body.read()

    def arrived(self) -> bytes:
        """The data that has arrived since the last chunk, without waiting; for callers that stop
        reading here."""
        return self._body.arrived()

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises ``UpstreamBroken`` of kind ``too_large`` beyond ``limit``
        bytes."""
        pieces: list[bytes] = []
        size = 0
        async for data in self.chunks():
            pieces.append(data)
            size += len(data)
            if size > limit:
                raise UpstreamBroken(failure("too_large", status=self.status))
        return b"".join(pieces)


@asynccontextmanager
async def stream(
    client: httpx.AsyncClient,
    *,
    base_url: str,
    request: UpstreamRequest,
    headers: Mapping[str, str],
    limits: UpstreamLimits,
    redactor: Redactor,
) -> AsyncIterator[UpstreamAnswer]:
    """Sends one request, once. ``headers`` contain the credential and are passed to nothing else.

    Enters when the body of a 2xx answer has begun, and does not hold the request then; raises
    ``UpstreamRefused`` before that. Leaving it, also by cancellation at any point, closes the
    connection.
    """
    deadline = time.monotonic() + limits.head_seconds
    http_request = _build(client, base_url, request, headers, limits)
    response = await _send(client, http_request, deadline)
    # The body is a whole conversation, perhaps with pictures, and the answer can take minutes.
    response.request = httpx.Request(http_request.method, http_request.url)
    del request, http_request
    async with aclosing(_Body(response, deadline, limits, redactor)) as body:
        yield await _accept(response, body, redactor)


async def _accept(response: httpx.Response, body: "_Body", redactor: Redactor) -> UpstreamAnswer:
    headers = {name: redactor.text(value) for name, value in response.headers.items()}
    status = response.status_code
    if not 200 <= status < 300:
        raise await _refusal(status, headers, body, redactor)
    if not body.is_plain:
        raise _refused("encoded", status=status)
    answer = UpstreamAnswer(response, headers, body)
    try:
        async with asyncio.timeout(body.seconds_to_begin()):
            await answer.read_beginning()
    except TimeoutError as error:
        raise _refused("head_timeout", status=status) from error
    except UpstreamBroken as broken:  # Too few bytes arrived to recognise the shape.
        raise UpstreamRefused(broken.info, never_accepted=False) from broken
    return answer


async def list_models(
    client: httpx.AsyncClient,
    *,
    base_url: str,
    dialect: Dialect,
    key: str,
    options: Mapping[str, object] | None = None,
    limits: UpstreamLimits | None = None,
) -> list[ModelInfo]:
    """The upstream's own list of its models, at most a few pages of it; empty if the dialect has no
    such request. Raises ``UpstreamError`` if the first page fails; a later failure ends the
    list."""
    path = dialect.models_path
    headers = dialect.headers(key, options)
    redactor = Redactor(credentials_of(dialect, key, options or {}))
    models: dict[str, ModelInfo] = {}
    try:
        async with asyncio.timeout(LIST_SECONDS):
            for number in range(MAX_LIST_PAGES if path else 0):
                try:
                    body = await _fetch_list(client, base_url, path, headers, limits, redactor)
                    page = _read_models(dialect, body, redactor)
                except UpstreamError:
                    if number == 0:
                        raise
                    break
                is_news = any(model.id not in models for model in page)
                models |= {model.id: model for model in page}
                path = next_page(dialect.models_path, body)
                if not path or not is_news:
                    break
    except TimeoutError as error:
        if not models:
            raise _refused("head_timeout") from error
    return list(models.values())


async def _fetch_list(
    client: httpx.AsyncClient,
    base_url: str,
    path: str,
    headers: Mapping[str, str],
    limits: UpstreamLimits | None,
    redactor: Redactor,
) -> bytes:
    async with stream(
        client,
        base_url=base_url,
        request=UpstreamRequest(path=path, body=b"", method="GET"),
        headers=headers,
        limits=limits or UpstreamLimits(head_seconds=30, idle_seconds=30),
        redactor=redactor,
    ) as answer:
        return await answer.body(MAX_LIST_BYTES)


async def fetch_file(
    client: httpx.AsyncClient,
    *,
    base_url: str,
    path: str,
    headers: Mapping[str, str],
    redactor: Redactor,
    limit_bytes: int,
    seconds: float,
) -> bytes:
    """The bytes of one file, within a size and a time. ``path`` is percent-encoded. Redirects are
    not followed, and nothing is decoded or guessed. Raises ``UpstreamError``."""
    request = UpstreamRequest(path=path, body=b"", method="GET", headers={"Accept": "*/*"})
    limits = UpstreamLimits(connect_seconds=seconds, head_seconds=seconds, idle_seconds=seconds)
    http_request = _build(client, base_url, request, headers, limits)
    deadline = time.monotonic() + seconds
    try:
        async with asyncio.timeout(seconds):
            response = await _send(client, http_request, deadline)
            async with aclosing(_Body(response, deadline, limits, redactor)) as body:
                return await _read_file(response, body, redactor, limit_bytes)
    except TimeoutError as error:
        raise _refused("head_timeout") from error


async def _read_file(
    response: httpx.Response, body: "_Body", redactor: Redactor, limit_bytes: int
) -> bytes:
    status = response.status_code
    if status != 200:
        raise await _refusal(status, response.headers, body, redactor)
    if not body.is_plain:
        raise _refused("encoded", status=status)
    pieces: list[bytes] = []
    size = 0
    while data := await body.read():
        pieces.append(data)
        size += len(data)
        if size > limit_bytes:
            raise UpstreamBroken(failure("too_large", status=status))
    return b"".join(pieces)


def _read_models(dialect: Dialect, body: bytes, redactor: Redactor) -> list[ModelInfo]:
    """The list. Raises the reason if it is none: servers answer 200 for unknown paths."""
    if models := dialect.read_models(body):
        return models
    try:
        data = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise _refused("unreadable") from error
    if isinstance(data, dict) and data.get("error"):
        info = redactor.error(read_error(None, {}, body))
        raise UpstreamRefused(info, never_accepted=False)
    return []


def join_url(base_url: str, path: str) -> str:
    """``path`` below the base URL. Raises ``UpstreamRefused`` for a URL with a credential, which
    would reach logs, or with a query, which would end up in the middle."""
    base_url = base_url.strip()
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise _refused("bad_url", never_accepted=True) from error
    is_usable = url.scheme in ("http", "https") and url.host and not url.userinfo
    if not is_usable or _NOT_IN_BASE_URL.search(base_url):
        raise _refused("bad_url", never_accepted=True)
    return f"{base_url.rstrip('/')}/{path.lstrip('/')}"


def _build(
    client: httpx.AsyncClient,
    base_url: str,
    request: UpstreamRequest,
    credential: Mapping[str, str],
    limits: UpstreamLimits,
) -> httpx.Request:
    if not all(map(_is_sendable, (*request.headers.values(), *credential.values()))):
        raise _refused("bad_header", never_accepted=True)
    headers = httpx.Headers(_HEADERS)
    headers.update(request.headers)
    headers.update(credential)
    try:
        return client.build_request(
            request.method,
            join_url(base_url, request.path),
            headers=headers,
            content=request.body or None,
            # The deadlines for reading are ours, because the transport has one for head and body
            # together.
            timeout=httpx.Timeout(
                connect=limits.connect_seconds, write=limits.write_seconds, read=None, pool=None
            ),
        )
    except httpx.InvalidURL as error:
        raise _refused("bad_url", never_accepted=True) from error


def _is_sendable(value: str) -> bool:
    """Returns whether the value can be in a header. Libraries would quote it in their error."""
    return value.isascii() and value.isprintable() and value == value.strip()


def _refused(
    code: str, *, status: int | None = None, never_accepted: bool = False
) -> UpstreamRefused:
    return UpstreamRefused(failure(code, status=status), never_accepted=never_accepted)


async def _send(
    client: httpx.AsyncClient, request: httpx.Request, deadline: float
) -> httpx.Response:
    try:
        async with asyncio.timeout(max(0, deadline - time.monotonic())):
            return await client.send(request, stream=True)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise UpstreamRefused(
            error_of(error, has_output=False), never_accepted=was_never_sent(error)
        ) from error


async def _refusal(
    status: int, headers: Mapping[str, str], body: "_Body", redactor: Redactor
) -> UpstreamRefused:
    """The error for a status, with as much of its body as could be read."""
    if status < 400:
        return _refused("redirect" if status >= 300 else "not_http", status=status)
    text = redactor.text((await _error_body(body)).decode("utf-8", "replace"))
    info = redactor.error(read_error(status, headers, text.encode("utf-8")))
    return UpstreamRefused(info, never_accepted=status in NOT_BEGUN, facts=facts_of(headers))


async def _error_body(body: "_Body") -> bytes:
    pieces: list[bytes] = []
    size = 0
    # The status is known; the body only explains it, so a slow one is not waited for.
    with suppress(UpstreamError, TimeoutError):
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            while body.is_plain and size < MAX_ERROR_BYTES and (data := await body.read()):
                pieces.append(data)
                size += len(data)
    return b"".join(pieces)[:MAX_ERROR_BYTES]


class _Body:
    """The raw body with its deadlines: errors become ``UpstreamError``, the credential is
    removed."""

    def __init__(
        self, response: httpx.Response, deadline: float, limits: UpstreamLimits, redactor: Redactor
    ) -> None:
        encoding = response.headers.get("content-encoding", "identity")
        self.is_plain = encoding.strip().lower() in ("", "identity")
        self._response = response
        self._raw = cast(AsyncGenerator[bytes], response.aiter_raw())
        # Our transport can return what it has received; httpx's own cannot.
        self._take: Callable[[], bytes] = response.extensions.get("arrived", bytes)
        self._deadline = deadline
        self._idle_seconds = limits.idle_seconds
        self._redactor = redactor
        self._has_output = False
        self._is_over = False
        self._error: UpstreamError | None = None

    async def read(self) -> bytes:
        """The next bytes, empty at the end. Bytes before an error are returned first."""
        while not self._is_over:
            data = await self._receive()
            self._is_over = not data
            clean = self._redactor.chunk(data) if data else self._redactor.flush()
            if clean:
                return clean
        if self._error:
            raise self._error
        return b""

    def arrived(self) -> bytes:
        """The data that can be read without waiting, without errors and the end."""
        data = self._take()
        if not data:
            return b""
        self._has_output = True
        return self._redactor.chunk(data)

    async def aclose(self) -> None:
        try:
            await self._raw.aclose()
        finally:
            await self._response.aclose()

    async def _receive(self) -> bytes:
        try:
            async with asyncio.timeout(self._seconds()):
                data = await anext(self._raw, b"")
        except (httpx.HTTPError, TimeoutError) as error:
            self._error = self._in_words(error)
            return b""
        self._has_output = self._has_output or bool(data)
        return data

    def seconds_to_begin(self) -> float:
        return max(0, self._deadline - time.monotonic())

    def _seconds(self) -> float:
        return self._idle_seconds if self._has_output else self.seconds_to_begin()

    def _in_words(self, error: Exception) -> UpstreamError:
        info = error_of(error, has_output=self._has_output)
        if self._has_output:
            return UpstreamBroken(info)
        return UpstreamRefused(info, never_accepted=False)
