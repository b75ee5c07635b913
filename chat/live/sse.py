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

from chat import access
from chat.core import metrics
from chat.core.errors import is_database_unavailable
from chat.events import JsonObject
from chat.live.access_monitor import Identity, access_monitor
from chat.live.handshake import Subscribe, identity_of, subscribe
from chat.live.viewer import HEARTBEAT, Viewer, encode, new_viewer_id
from chat.wire.sse import encode_comment, encode_frame

logger = logging.getLogger(__name__)

# Opened in a tab, it is text and nothing else. Django's middleware does not reach these answers.
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


AWAY = "The database does not answer. Try again in a moment."
BROKEN = "Something went wrong here. Try again, and tell an administrator if it goes on."


class Refused(Exception):
    """The request is answered with this status and sentence, and with nothing else."""

    def __init__(self, status: int, code: str, sentence: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.sentence = sentence


class Stream(AsyncHttpConsumer):
    """A ``GET`` of a signed-in person from our own pages, or from no page.

    `stream` runs in a task of its own: `http_request` returns at once, so that the client's
    leaving is noticed when it happens. `let_go` is called once, however the stream ends.
    """

    identity: Identity
    streaming: asyncio.Task[None] | None = None
    # What the log and the figures call it.
    transport = "events"
    # A client that does not read holds `send` up instead.
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

    def let_go(self) -> None:
        """Gives back what `stream` has taken."""

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
            # The right to look has ended, or the client has left.
            with suppress(Exception):
                await self.send_body(b"")
        except Exception as error:
            if not is_database_unavailable(error):
                logger.exception("stream.broken path=%s", self.scope["path"])
            await self._break_off(error)
        finally:
            self.let_go()

    async def _break_off(self, error: Exception) -> None:
        """A client that was told nothing yet learns that nothing comes, and why."""
        if self.has_begun:
            with suppress(Exception):
                await self.send_body(b"")
        elif is_database_unavailable(error):
            await self.refuse(Refused(503, "away", AWAY))
        else:
            await self.refuse(Refused(500, "broken", BROKEN))

    async def admitted(self) -> Identity:
        """Who asks. Raises `Refused`."""
        if self.scope["method"] != "GET":
            raise Refused(405, "method_not_allowed", "Only GET is possible here.")
        if self.header(b"sec-fetch-site") in ("cross-site", "same-site") or not self._is_ours():
            raise Refused(403, "cross_site", "Another site cannot read this.")
        identity = identity_of(self.scope)
        if identity is None:
            raise Refused(401, "signed_out", "Sign in first.")
        return identity

    def _is_ours(self) -> bool:
        """Browsers name the page that asks only where it is another one's."""
        origin = self.header(b"origin")
        try:
            return not origin or bool(_origins().valid_origin(urlparse(origin)))
        except ValueError:
            # The port is no number.
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


# A tab's live connection as server-sent events, for where websockets are blocked.

# Some filters look at the first kilobytes of an answer before they pass any of it on.
PADDING = encode_comment(" " * 2048)
GREETING = encode(HEARTBEAT)
# Below the minute after which proxies give up on an answer that does not begin.
LONGEST_WAIT_SECONDS = 25

_decoder = msgspec.json.Decoder(Subscribe)


class TabStream(Stream):
    """``GET /live/stream/?hello=…``: the messages of the tab's websocket, until the tab leaves.

    With ``&wait=N`` the answer ends with the first of them, or without one after so many seconds:
    that gets through whatever collects answers before it passes them on.

    The address says everything that the tab would say on its websocket, and nothing is said
    later: any process can answer. A tab that follows other answers opens another stream from where
    it stands. Nothing is acknowledged: `send` waits while the client does not read.
    """

    viewer: Viewer | None = None
    transport = "sse"

    async def stream(self) -> None:
        query = QueryDict(self.scope["query_string"])
        hello, wait_seconds = _hello_of(query), _wait_of(query)
        if not access_monitor.has_room_for(self.identity.user_pk):
            raise Refused(429, "too_many", "You have too many connections open.")
        if wait_seconds is not None:
            self.transport = "poll"
        self.viewer = viewer = Viewer(
            self.identity,
            self._say,
            self._end,
            is_acknowledged=False,
            transport=self.transport,
        )
        # Before anything is read: a right that ends meanwhile is noticed.
        access_monitor.add(viewer)
        try:
            await subscribe(viewer, self.scope["user"], hello)
        except (Http404, PermissionDenied):
            raise Refused(404, "not_found", access.NOT_HERE) from None
        access_monitor.check_now()
        await self.send_headers(status=200, headers=STREAM_HEADERS)
        await self.send_body(PADDING + encode_frame(None, None, GREETING), more_body=True)
        if wait_seconds is None:
            await viewer.run()
        else:
            await viewer.run_once(wait_seconds)
        await self.send_body(b"")

    def let_go(self) -> None:
        if self.viewer is not None:
            access_monitor.remove(self.viewer)
            self.viewer.leave()

    async def _say(self, message: str) -> None:
        await self.send_body(encode_frame(None, None, message), more_body=True)

    async def _end(self, code: int) -> None:
        """A stream has no close codes: what the tab must know was said before."""


def _hello_of(query: QueryDict) -> Subscribe:
    try:
        return _decoder.decode(query.get("hello", "{}"))
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise Refused(400, "unreadable", "This page is too old. Reload it.") from None


def _wait_of(query: QueryDict) -> int | None:
    """``None``: for as long as the tab stays."""
    asked = query.get("wait")
    if asked is None:
        return None
    if not (asked.isascii() and asked.isdigit()):
        return 0
    return min(int(asked[:4]), LONGEST_WAIT_SECONDS)
