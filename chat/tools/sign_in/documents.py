"""Requests to servers that people sign in at, over `chat.upstreams`: each bounded in bytes and time, without redirects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec
from django.utils.translation import gettext_noop

from chat.events import JsonObject
from chat.tools.sign_in.metadata import SignInFailed
from chat.upstreams.client import Client
from chat.upstreams.exchange import (
    ExchangedResponse,
    ExchangeTimes,
    Headers,
    UpstreamError,
    exchange,
)
from chat.upstreams.failures import UpstreamRefused

DOCUMENT_BYTES = 64 * 1024
# The time of one request, from the connection to the last byte.
REQUEST_SECONDS = 10.0
_TIMES = ExchangeTimes(connect_seconds=5, write_seconds=5, silence_seconds=REQUEST_SECONDS)

UNREACHABLE = gettext_noop("The sign-in server couldn’t be reached. Try again later.")
FORM = "application/x-www-form-urlencoded"


class NotSent(SignInFailed):
    """The request never reached the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``document`` is empty if the body is no JSON object."""

    status: int
    headers: Headers = ()
    document: JsonObject

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


async def get(client: Client, url: str, *, authorization: str = "") -> Answer:
    """Raises ``SignInFailed`` without an answer."""
    headers = {"Authorization": authorization} if authorization else {}
    return await _request(client, "GET", url, headers, b"")


async def post_json(
    client: Client, url: str, document: Mapping[str, object], *, accept: str = "application/json"
) -> Answer:
    """Raises ``SignInFailed`` without an answer."""
    headers = {"Content-Type": "application/json", "Accept": accept}
    return await _request(client, "POST", url, headers, msgspec.json.encode(document))


async def post_form(
    client: Client, url: str, fields: Mapping[str, str], *, authorization: str = ""
) -> Answer:
    """Raises ``NotSent`` if the server never got the request, else ``SignInFailed`` without an answer."""
    headers = {"Content-Type": FORM}
    if authorization:
        headers["Authorization"] = authorization
    return await _request(client, "POST", url, headers, urlencode(fields).encode())


async def _request(
    client: Client, method: str, url: str, headers: Mapping[str, str], body: bytes
) -> Answer:
    named = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "Tributary",
        **headers,
    }
    pairs = [(name.encode(), value.encode()) for name, value in named.items()]
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            response = await exchange(
                client, method=method, url=url, headers=pairs, body=body, times=_TIMES
            )
            try:
                return await _answer(response)
            finally:
                await response.aclose()
    except UpstreamRefused as refused:
        raise (NotSent if refused.never_accepted else SignInFailed)(UNREACHABLE) from None
    except (UpstreamError, TimeoutError):
        raise SignInFailed(UNREACHABLE) from None


async def _answer(response: ExchangedResponse) -> Answer:
    pieces: list[bytes] = []
    size = 0
    # An event stream has no end, and its status says enough.
    headers = {name.lower(): value for name, value in response.headers}
    if not headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
        async for data in response.chunks():
            size += len(data)
            if size > DOCUMENT_BYTES:
                raise SignInFailed(UNREACHABLE)
            pieces.append(data)
    return Answer(
        status=response.status, headers=response.headers, document=_object(b"".join(pieces))
    )


def _object(body: bytes) -> JsonObject:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
