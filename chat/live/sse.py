"""Live connections as server-sent events, where websockets are blocked."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any
from urllib.parse import urlparse

import msgspec
from asgiref.typing import HTTPDisconnectEvent, HTTPRequestEvent
from channels.exceptions import StopConsumer
from channels.generic.http import AsyncHttpConsumer
from channels.security.websocket import OriginValidator
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.core import metrics
from chat.core.errors import is_database_unavailable
from chat.events import JsonObject
from chat.live.access_monitor import Identity, access_monitor
from chat.live.handshake import Subscribe, identity_of, reader_of, subscribe
from chat.live.messages import encode
from chat.live.viewer import HEARTBEAT, Viewer, new_viewer_id
from chat.wire.sse import encode_comment, encode_frame

logger = logging.getLogger(__name__)

# Django's middleware does not reach responses of consumers. In a tab the response is only text.
DATA_HEADERS = [
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Content-Security-Policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"Referrer-Policy", b"same-origin"),
]
STREAM_HEADERS = [
    (b"Content-Type", b"text/event-stream; charset=utf-8"),
    (b"Cache-Control", b"no-cache, no-transform"),
    (b"X-Accel-Buffering", b"no"),
    *DATA_HEADERS,
]


AWAY = gettext_lazy("The database isn’t responding. Try again in a moment.")
BROKEN = gettext_lazy(
    "Something went wrong. Try again, or tell an administrator if it keeps happening."
)


class Refused(Exception):
    """The request is refused with this status, code and sentence."""

    def __init__(self, status: int, code: str, sentence: str | Promise) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.sentence = str(sentence)


class Stream(AsyncHttpConsumer):
    """A streaming response to a ``GET`` of a signed-in person, from our pages or from no page.

    `stream` runs in its own task, because a consumer whose `http_request` has not returned is not told
    that the client has disconnected. `release` is called once, however the stream ends.
    """

    identity: Identity
    streaming: asyncio.Task[None] | None = None
    # The name in logs and metrics.
    transport = "events"
    # `send` waits for a client that does not read, so the client cannot fall behind.
    is_behind = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.viewer_id = new_viewer_id()
        self.has_begun = False

    async def send_headers(self, **kwargs: Any) -> None:
        self.has_begun = True
        await super().send_headers(**kwargs)

    async def send_body(self, body: bytes, *, more_body: bool = False) -> None:
        metrics.FRAMES_SENT.add(1, self.transport)
        metrics.BYTES_SENT.add(len(body), self.transport)
        await super().send_body(body, more_body=more_body)

    async def stream(self) -> None:
        """Writes the answer; raises `Refused` before it has written anything."""
        raise NotImplementedError

    def release(self) -> None:
        """Releases what `stream` has acquired."""

    async def http_request(self, message: HTTPRequestEvent) -> None:
        if self.streaming is None:
            self.streaming = asyncio.create_task(self._answer())

    async def http_disconnect(self, message: HTTPDisconnectEvent) -> None:
        if self.streaming is not None:
            self.streaming.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.streaming
        raise StopConsumer

    async def _answer(self) -> None:
        try:
            self.identity = await self.admitted()
            await self.stream()
        except Refused as refusal:
            await self.refuse(refusal)
        except asyncio.CancelledError:
            # Access has ended, or the client has disconnected.
            with suppress(Exception):
                await self.send_body(b"")
        except Exception as error:
            if not is_database_unavailable(error):
                logger.exception("stream.broken path=%s", self.scope["path"])
            await self._break_off(error)
        finally:
            self.release()

    async def _break_off(self, error: Exception) -> None:
        """Answers with an error if no response has begun; otherwise ends the response."""
        if self.has_begun:
            with suppress(Exception):
                await self.send_body(b"")
        elif is_database_unavailable(error):
            await self.refuse(Refused(503, "away", AWAY))
        else:
            await self.refuse(Refused(500, "broken", BROKEN))

    async def admitted(self) -> Identity:
        """The person who is signed in. Raises `Refused`."""
        if self.scope["method"] != "GET":
            raise Refused(405, "method_not_allowed", gettext("Only GET requests are allowed."))
        if self.header(b"sec-fetch-site") in ("cross-site", "same-site") or not self._is_ours():
            raise Refused(403, "cross_site", gettext("Cross-site requests aren’t allowed."))
        identity = await identity_of(self.scope)
        if identity is None:
            raise Refused(401, "signed_out", gettext("Sign in first."))
        return identity

    def _is_ours(self) -> bool:
        """Returns whether the request comes from our pages. Browsers send an origin only with some requests."""
        origin = self.header(b"origin")
        try:
            return not origin or bool(_origins().valid_origin(urlparse(origin)))
        except ValueError:
            # The port is not a number.
            return False

    def header(self, name: bytes) -> str:
        return next(
            (value.decode("latin-1") for key, value in self.scope["headers"] if key == name), ""
        )

    def error_of(self, refusal: Refused) -> JsonObject:
        return {"code": refusal.code, "message": refusal.sentence}

    async def refuse(self, refusal: Refused) -> None:
        body = msgspec.json.encode({"error": self.error_of(refusal)})
        headers = [
            (b"Content-Type", b"application/json"),
            (b"Cache-Control", b"no-store"),
            *DATA_HEADERS,
        ]
        if refusal.status in (429, 503):
            headers.append((b"Retry-After", b"5"))
        if refusal.status == 405:
            headers.append((b"Allow", b"GET"))
        with suppress(Exception):
            await self.send_response(refusal.status, body, headers=headers)


def _origins() -> OriginValidator:
    return OriginValidator(None, settings.LIVE_ORIGINS)


# Some proxies buffer the first kilobytes of a response before they pass anything on.
PADDING = encode_comment(" " * 2048)
GREETING = encode(HEARTBEAT)
# Proxies give up after a minute without a byte.
LONGEST_WAIT_SECONDS = 25

_decoder = msgspec.json.Decoder(Subscribe)


class TabStream(Stream):
    """``GET /live/stream/?hello=…``: the messages of the tab's websocket, until the tab disconnects.

    With ``&wait=N`` the response ends with the first message, or without one after N seconds (at most
    `LONGEST_WAIT_SECONDS`): long polling for proxies that buffer whole responses.

    The address holds everything that a tab sends over its websocket, so any process can answer. A tab that
    wants to follow other runs opens another stream with its cursors. There are no acknowledgements: `send`
    waits while the client does not read.
    """

    viewer: Viewer | None = None
    transport = "sse"

    async def stream(self) -> None:
        query = QueryDict(self.scope["query_string"])
        hello, wait_seconds = _hello_of(query), _wait_of(query)
        if not access_monitor.has_room_for(self.identity.user_pk):
            raise Refused(429, "too_many", gettext("Too many open connections. Close other tabs."))
        if wait_seconds is not None:
            self.transport = "poll"
        self.viewer = viewer = Viewer(
            self.identity,
            self._send_text,
            self._end,
            is_acknowledged=False,
            transport=self.transport,
            reader=reader_of(self.identity, self.scope),
        )
        # Before anything is read, so that access that ends meanwhile is noticed.
        access_monitor.add(viewer)
        try:
            await subscribe(viewer, self.scope["user"], hello)
        except (Http404, PermissionDenied):
            raise Refused(404, "not_found", access.NOT_HERE) from None
        access_monitor.check_now(viewer)
        await self.send_headers(status=200, headers=STREAM_HEADERS)
        await self.send_body(PADDING + encode_frame(None, None, GREETING), more_body=True)
        if wait_seconds is None:
            await viewer.run()
        else:
            await viewer.run_once(wait_seconds)
        await self.send_body(b"")

    def release(self) -> None:
        if self.viewer is not None:
            access_monitor.remove(self.viewer)
            self.viewer.leave()

    async def _send_text(self, message: str) -> None:
        await self.send_body(encode_frame(None, None, message), more_body=True)

    async def _end(self, code: int) -> None:
        """Server-sent events have no close codes; the tab gets the reason as a message before."""


def _hello_of(query: QueryDict) -> Subscribe:
    try:
        return _decoder.decode(query.get("hello", "{}"))
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise Refused(400, "unreadable", gettext("This page is out of date. Reload it.")) from None


def _wait_of(query: QueryDict) -> int | None:
    """Seconds of long polling; ``None`` for a stream that stays open."""
    asked = query.get("wait")
    if asked is None:
        return None
    if not (asked.isascii() and asked.isdigit()):
        return 0
    return min(int(asked[:4]), LONGEST_WAIT_SECONDS)
