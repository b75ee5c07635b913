"""An answer that goes on: who may have it, and the task of its own that writes it."""

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

from chat import metrics
from chat.actions.errors import is_away
from chat.consumers.identity import identity_of
from chat.events import JsonObject
from chat.live.viewer import new_viewer_id
from chat.live.watch import Identity

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
            if not is_away(error):
                logger.exception("stream.broken path=%s", self.scope["path"])
            await self._break_off(error)
        finally:
            self.let_go()

    async def _break_off(self, error: Exception) -> None:
        """A client that was told nothing yet learns that nothing comes, and why."""
        if self.has_begun:
            with suppress(Exception):
                await self.send_body(b"")
        elif is_away(error):
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
