"""The one websocket of a browser tab: what it says, and what it follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import msgspec
from channels.consumer import get_handler_name
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.core.exceptions import PermissionDenied
from django.http import Http404

from chat.core import metrics
from chat.core.errors import is_database_unavailable
from chat.live.access_monitor import GONE_ACCESS, GONE_SIGNED_OUT, access_monitor
from chat.live.handshake import Cursor, Subscribe, follow_run, identity_of, subscribe
from chat.live.viewer import CLOSE_SIGNED_OUT, Viewer, encode

logger = logging.getLogger(__name__)

CLOSE_BUSY = 1013
# Keys of the scope, as the server sets them (`project.server`): its own `send`, and a function that
# writes a message only if that needs no waiting.
RAW_SEND = "tributary.raw_send"
SEND_NOW = "tributary.send_now"


class Follow(Cursor, tag="follow"):
    """Goes on from there, beside the runs that the tab follows already."""


class Unfollow(msgspec.Struct, tag="unfollow"):
    run: UUID


class Acknowledge(msgspec.Struct, tag="ack"):
    runs: dict[str, int]


class Resync(msgspec.Struct, tag="resync"):
    run: UUID


Message = Subscribe | Follow | Unfollow | Acknowledge | Resync
_decoder = msgspec.json.Decoder(Message)


class LiveConsumer(AsyncWebsocketConsumer):
    """The one websocket of a browser tab. Frames go out from the viewer's own task; the
    handlers only subscribe and acknowledge."""

    viewer: Viewer | None = None
    sending: asyncio.Task[None] | None = None

    async def dispatch(self, message: Any) -> None:
        # Channels lets a thread look for old database connections before each message, which
        # costs more than an acknowledgement. No handler here has one: the readers have their own.
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        # A refused handshake would look like a network fault and be tried again for ever.
        await self.accept()
        identity = identity_of(self.scope)
        if identity is None:
            await self.send(encode({"gone": True, "reason": GONE_SIGNED_OUT}))
            await self.close(CLOSE_SIGNED_OUT)
            return
        if not access_monitor.has_room_for(identity.user_pk):
            # The tab tries again later; meanwhile it is a page that does not move.
            await self.close(CLOSE_BUSY)
            return
        send_now = self._say_now if SEND_NOW in self.scope else None
        self.viewer = Viewer(identity, self._say, self.close, send_now=send_now)
        self.sending = asyncio.create_task(self.viewer.run())
        access_monitor.add(self.viewer)

    async def _say(self, message: str) -> None:
        _count(message)
        await self.base_send({"type": "websocket.send", "text": message})

    def _say_now(self, message: str) -> bool:
        is_sent: bool = self.scope[SEND_NOW](message)
        if is_sent:
            _count(message)
        return is_sent

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Channels listens to its layer beside the socket, with a task for each message of either.
        # Nothing is ever said to a tab over the layer.
        self.scope = scope
        self.base_send = scope.get(RAW_SEND, send)
        try:
            while True:
                await self.dispatch(await receive())
        except StopConsumer:
            pass
        finally:
            # A handler that failed, or a server that ends us, comes past `disconnect`.
            await self._let_go()

    async def disconnect(self, code: int) -> None:
        await self._let_go()

    async def _let_go(self) -> None:
        if self.viewer is not None:
            access_monitor.remove(self.viewer)
            self.viewer.leave()
        if self.sending is not None:
            self.sending.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.sending

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.viewer is None or not text_data:
            return
        try:
            message = _decoder.decode(text_data)
        except (msgspec.DecodeError, RecursionError):
            # Old tabs may say what we no longer understand; they lose nothing by it.
            logger.info("viewer.unreadable viewer=%s", self.viewer.viewer_id)
            return
        try:
            await HANDLERS[type(message)](self, self.viewer, message)
        except Exception as error:
            if not is_database_unavailable(error):
                raise
            # The tab comes back in a moment, with what it has.
            logger.warning(
                "viewer.put_off viewer=%s error=%s", self.viewer.viewer_id, type(error).__name__
            )
            await self.close(CLOSE_BUSY)


def _count(message: str) -> None:
    size = len(message) if message.isascii() else len(message.encode())
    metrics.FRAMES_SENT.add(1, "websocket")
    metrics.BYTES_SENT.add(size, "websocket")


async def on_hello(consumer: LiveConsumer, viewer: Viewer, message: Subscribe) -> None:
    try:
        await subscribe(viewer, consumer.scope["user"], message)
    except (Http404, PermissionDenied):
        viewer.on_gone(GONE_ACCESS)
        return
    # So that a tab can tell a connection that carries nothing from one with nothing to say.
    viewer.send_heartbeat()
    access_monitor.check_now()


async def on_follow(consumer: LiveConsumer, viewer: Viewer, message: Follow) -> None:
    await follow_run(viewer, consumer.scope["user"], message)


async def on_unfollow(consumer: LiveConsumer, viewer: Viewer, message: Unfollow) -> None:
    viewer.unfollow(message.run)


async def on_acknowledge(consumer: LiveConsumer, viewer: Viewer, message: Acknowledge) -> None:
    for run, seq in message.runs.items():
        with suppress(ValueError):
            viewer.acknowledge(UUID(run), seq)


async def on_resync(consumer: LiveConsumer, viewer: Viewer, message: Resync) -> None:
    viewer.resync(message.run)


HANDLERS: dict[type, Callable[[LiveConsumer, Viewer, Any], Awaitable[None]]] = {
    Subscribe: on_hello,
    Follow: on_follow,
    Unfollow: on_unfollow,
    Acknowledge: on_acknowledge,
    Resync: on_resync,
}
