"""The websocket of a browser tab: its messages, and the consumer that answers them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
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
from chat.live.handshake import (
    Cursor,
    Subscribe,
    follow_run,
    identity_of,
    reader_of,
    subscribe,
)
from chat.live.messages import encode
from chat.live.posts import Answer, Post, PostQueue, Visitor, respond_to
from chat.live.viewer import CLOSE_SIGNED_OUT, Viewer

logger = logging.getLogger(__name__)

CLOSE_BUSY = 1013
# Keys of the scope, as the server sets them (`project.server`): its own `send`, and a function that
# writes a message only if that needs no waiting.
RAW_SEND = "tributary.raw_send"
SEND_NOW = "tributary.send_now"


class Follow(Cursor, tag="follow"):
    """Follow one more run, from this cursor."""


class Unfollow(msgspec.Struct, tag="unfollow"):
    run: UUID


class Acknowledge(msgspec.Struct, tag="ack"):
    runs: dict[str, int]


class Resync(msgspec.Struct, tag="resync"):
    run: UUID


class Said(msgspec.Struct, tag="channels"):
    """Something for the features of channels (`chat.live.channels`), by the channel's name."""

    channels: dict[str, msgspec.Raw]


Message = Subscribe | Follow | Unfollow | Acknowledge | Resync | Said | Post
_decoder = msgspec.json.Decoder(Message)


class LiveConsumer(AsyncWebsocketConsumer):
    """One websocket per tab. A task of the viewer sends frames, and another one answers forms; the handlers
    only subscribe and acknowledge, so that a message of the client never waits for one to it."""

    viewer: Viewer | None = None
    sending: asyncio.Task[None] | None = None
    posts: PostQueue | None = None

    async def dispatch(self, message: Any) -> None:
        # Channels looks for old database connections in a thread before each message, which costs more
        # than an acknowledgement. No handler here uses one; the readers have their own.
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        # A browser reports a refused handshake like a network fault and would try again forever.
        await self.accept()
        try:
            identity = await identity_of(self.scope)
        except Exception as error:
            await self._put_off(error)
            return
        if identity is None:
            await self.send(encode({"gone": True, "reason": GONE_SIGNED_OUT}))
            await self.close(CLOSE_SIGNED_OUT)
            return
        if not access_monitor.has_room_for(identity.user_pk):
            # The tab tries again later and shows the page without updates meanwhile.
            await self.close(CLOSE_BUSY)
            return
        send_now = self._send_text_now if SEND_NOW in self.scope else None
        self.viewer = Viewer(
            identity,
            self._send_text,
            self.close,
            send_now=send_now,
            reader=reader_of(identity, self.scope),
        )
        self.sending = asyncio.create_task(self.viewer.run())
        self.posts = PostQueue(partial(self._answer, self.viewer))
        access_monitor.add(self.viewer)

    async def _send_text(self, message: str) -> None:
        _count(message)
        await self.base_send({"type": "websocket.send", "text": message})

    def _send_text_now(self, message: str) -> bool:
        is_sent: bool = self.scope[SEND_NOW](message)
        if is_sent:
            _count(message)
        return is_sent

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Channels would also listen to its layer, with a task for each message. Tabs get no messages
        # over the layer.
        self.scope = scope
        self.base_send = scope.get(RAW_SEND, send)
        try:
            while True:
                await self.dispatch(await receive())
        except StopConsumer:
            pass
        finally:
            # After a handler failed, or when the server stops, Channels does not call `disconnect`.
            await self._detach()

    async def disconnect(self, code: int) -> None:
        await self._detach()

    async def _detach(self) -> None:
        if self.viewer is not None:
            access_monitor.remove(self.viewer)
            self.viewer.leave()
        if self.posts is not None:
            await self.posts.close()
        if self.sending is not None:
            self.sending.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.sending

    async def _answer(self, viewer: Viewer, post: Post) -> None:
        if viewer.is_gone:
            # Nobody would get the answer; the page sends the form again where it still may.
            return
        try:
            answer = await respond_to(post, Visitor(identity=viewer.identity, scope=self.scope))
        except Exception:
            logger.exception("post.failed viewer=%s", viewer.viewer_id)
            answer = Answer(status=500)
        begun = answer.begun if viewer.may_begin(answer.begun) else None
        viewer.tell(answer.message(post.id, follows=begun.run_id if begun else None))
        if begun is not None:
            viewer.follow_begun(begun)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.viewer is None or not text_data:
            return
        try:
            message = _decoder.decode(text_data)
        except (msgspec.DecodeError, RecursionError):
            # A tab of an older version may send messages that no longer exist; it loses nothing.
            logger.info("viewer.unreadable viewer=%s", self.viewer.viewer_id)
            return
        try:
            await HANDLERS[type(message)](self, self.viewer, message)
        except Exception as error:
            await self._put_off(error)

    async def _put_off(self, error: Exception) -> None:
        """During a database outage the tab reconnects in a moment with its cursors. Raises any other error."""
        if not is_database_unavailable(error):
            raise error
        viewer = self.viewer.viewer_id if self.viewer else ""
        logger.warning("viewer.postponed viewer=%s error=%s", viewer, type(error).__name__)
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
    # With it a tab can tell a connection without news from one that does not work.
    viewer.send_heartbeat()
    access_monitor.check_now(viewer)


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


async def on_post(consumer: LiveConsumer, viewer: Viewer, message: Post) -> None:
    assert consumer.posts is not None
    if viewer.is_gone:
        return
    if not consumer.posts.add(message):
        viewer.tell(Answer(status=429).message(message.id))


async def on_said(consumer: LiveConsumer, viewer: Viewer, message: Said) -> None:
    viewer.receive(message.channels)


HANDLERS: dict[type, Callable[[LiveConsumer, Viewer, Any], Awaitable[None]]] = {
    Subscribe: on_hello,
    Follow: on_follow,
    Unfollow: on_unfollow,
    Acknowledge: on_acknowledge,
    Resync: on_resync,
    Post: on_post,
    Said: on_said,
}
