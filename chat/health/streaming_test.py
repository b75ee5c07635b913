"""The streaming self-test: small events at a steady pace, over both transports of the live page.

The browser measures when they arrive (static/health/streaming_test.js). They contain no one's data.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import QueryDict
from django.utils.translation import gettext, gettext_noop

from chat.core.errors import is_database_unavailable
from chat.live.handshake import identity_of
from chat.live.sse import STREAM_HEADERS, Refused, Stream
from chat.live.viewer import CLOSE_LATER, CLOSE_SIGNED_OUT
from chat.wire.sse import encode_frame

# A page needs two, and may be open in two tabs.
AT_ONCE = 4
TOO_MANY = gettext_noop("This test is already running. Wait for it to finish.")


@dataclass(frozen=True, slots=True)
class Pace:
    events: int
    interval_seconds: float


PACES = {
    # The pace of an answer. A proxy that buffers delivers in bursts, or everything at the end.
    "answer": Pace(20, 0.1),
    # The interval of heartbeats, which must be shorter than a proxy's timeout for idle connections.
    "quiet": Pace(7, 15.0),
}


class Running:
    """How many tests each user has running in this process."""

    def __init__(self) -> None:
        self._by_person: Counter[int] = Counter()

    def reserve_place(self, user_pk: int) -> bool:
        """Returns whether one more may start. If so, the caller must `release_place`."""
        if self._by_person[user_pk] >= AT_ONCE:
            return False
        self._by_person[user_pk] += 1
        return True

    def release_place(self, user_pk: int) -> None:
        self._by_person[user_pk] -= 1
        self._by_person += Counter()


running = Running()


def pace_of(scope: dict[str, Any]) -> Pace:
    asked = QueryDict(scope["query_string"]).get("pace", "")
    return PACES.get(asked, PACES["answer"])


async def events_at(pace: Pace) -> AsyncIterator[bytes]:
    """Each event has its number, the total, and the time since the first was sent."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(pace.events):
        await asyncio.sleep(began + number * pace.interval_seconds - loop.time())
        sent_ms = round((loop.time() - began) * 1000, 1)
        yield msgspec.json.encode({"number": number + 1, "of": pace.events, "sent_ms": sent_ms})


class PacedStream(Stream):
    """``GET /live/test/``: the events as server-sent events."""

    has_place = False

    async def stream(self) -> None:
        self.has_place = running.reserve_place(self.identity.user_pk)
        if not self.has_place:
            raise Refused(429, "too_many", gettext(TOO_MANY))
        await self.send_headers(status=200, headers=STREAM_HEADERS)
        async for event in events_at(pace_of(self.scope)):
            await self.send_body(encode_frame(None, None, event), more_body=True)
        await self.send_body(b"")

    def release(self) -> None:
        if self.has_place:
            running.release_place(self.identity.user_pk)


class PacedSocket(AsyncWebsocketConsumer):
    """The same events on a websocket."""

    sending: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        await self.accept()
        try:
            identity = await identity_of(self.scope)
        except Exception as error:
            if not is_database_unavailable(error):
                raise
            await self.close(CLOSE_LATER)
            return
        if identity is None:
            await self.close(CLOSE_SIGNED_OUT)
        elif not running.reserve_place(identity.user_pk):
            await self.close(CLOSE_LATER)
        else:
            self.sending = asyncio.create_task(self._send_all())
            self.sending.add_done_callback(lambda _: running.release_place(identity.user_pk))

    async def _send_all(self) -> None:
        async for event in events_at(pace_of(self.scope)):
            await self.send(event.decode())
        await self.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self.sending is not None:
                self.sending.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await self.sending
