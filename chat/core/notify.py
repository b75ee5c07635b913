"""Lossy change notifications, within a process and over the lossy channel between processes.

A notification carries a topic and no data. Subscribers read the database when one arrives, and
about once a second without one, so a lost notification delays an update and never loses it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from uuid import UUID

import msgspec
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction

from chat.core import metrics
from chat.core.lossy_channel import LossyChannel

logger = logging.getLogger(__name__)

STREAM = "notifications"
# Topics: a run was queued; somebody requested the stop of a run.
QUEUED = "queued"
STOPS = "stops"
# A change in any conversation, for subscribers that watch many of them.
ROOMS = "rooms"
_ROOM = "room:"

_decode = msgspec.msgpack.Decoder(list[str]).decode

# Topics that wait for a Redis without an answer. Subscribers poll, so they are out of date after a
# second.
MOST_UNSENT = 1000


def room_topic(conversation_id: UUID) -> str:
    return f"{_ROOM}{conversation_id.hex}"


def rooms_of(topics: Iterable[str]) -> set[UUID]:
    """The conversations among the topics."""
    return {UUID(topic.removeprefix(_ROOM)) for topic in topics if topic.startswith(_ROOM)}


class Subscription(asyncio.Event):
    """Set when a subscribed topic is published."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: set[str] = set()

    def add(self, topic: str) -> None:
        self._topics.add(topic)
        self.set()

    def take_topics(self) -> set[str]:
        """The topics since the last call; clears the event."""
        topics, self._topics = self._topics, set()
        self.clear()
        return topics


class ChangeNotifier:
    """Publishes and receives notifications for one process.

    ``publish`` may be called from any thread: it hands the topic to the event loop. Redis may hang or
    be unavailable at any time, so the number of unsent topics is bounded.
    """

    def __init__(self) -> None:
        self._subscriptions: defaultdict[str, set[Subscription]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channel: LossyChannel | None = None
        # Topics for the other processes, in order. A topic that waits already is not added again.
        self._unsent: dict[str, None] = {}

    def start(self, channel: LossyChannel | None = None) -> None:
        """Publishes from now on with this event loop, and over ``channel``, before it connects."""
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        if channel is not None:
            channel.add_stream(STREAM, self._take_unsent, self._receive)

    async def until_subscribed(self) -> None:
        """Returns when notifications of other processes arrive, or after a while without Redis."""
        if self._channel is not None:
            await self._channel.until_listening()

    def subscribe(self, topic: str) -> Subscription:
        """An event that is set when ``topic`` is published. Clear it before reading the database,
        or a change in between is missed."""
        subscription = Subscription()
        self._subscriptions[topic].add(subscription)
        return subscription

    def unsubscribe(self, topic: str, subscription: Subscription) -> None:
        subscriptions = self._subscriptions.get(topic)
        if subscriptions is None:
            return
        subscriptions.discard(subscription)
        if not subscriptions:
            del self._subscriptions[topic]

    def dispatch(self, topic: str) -> None:
        """Sets the subscriptions of this process."""
        subscriptions = self._subscriptions.get(topic, set())
        if topic.startswith(_ROOM):
            subscriptions = subscriptions | self._subscriptions.get(ROOMS, set())
        for subscription in subscriptions:
            subscription.add(topic)

    # --- between processes -------------------------------------------------------------------

    async def _receive(self, messages: Sequence[bytes]) -> None:
        for message in messages:
            try:
                topics = _decode(message)
            except msgspec.MsgspecError:
                continue
            metrics.NOTIFICATIONS_RECEIVED.inc()
            for topic in topics:
                self.dispatch(topic)

    def _take_unsent(self) -> Generator[bytes, None, None]:
        """All topics that wait, as one message."""
        topics, self._unsent = list(self._unsent), {}
        if not topics:
            return
        result = "lost"
        try:
            yield msgspec.msgpack.encode(topics)
            result = "sent"
        finally:
            metrics.NOTIFICATIONS_SENT.labels(result).inc(len(topics))

    # --- publishing --------------------------------------------------------------------------

    def publish(self, topic: str) -> None:
        """Publishes a topic, from any thread. Never raises and never waits for an answer."""
        loop = self._loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self._publish_in_loop, topic)
        elif settings.REDIS_URL:
            _publish_without_loop(topic)

    def _publish_in_loop(self, topic: str) -> None:
        self.dispatch(topic)
        if self._channel is None:
            return
        if len(self._unsent) >= MOST_UNSENT:
            metrics.NOTIFICATIONS_SENT.labels("lost").inc(len(self._unsent))
            self._unsent.clear()
        self._unsent[topic] = None
        self._channel.send_soon()


change_notifier = ChangeNotifier()


def _publish_without_loop(topic: str) -> None:
    """Publishes from a process without an event loop, such as a management command."""
    channel = LossyChannel(settings.REDIS_URL, secret=settings.SECRET_KEY)
    message = msgspec.msgpack.encode([topic])
    channel.add_stream(STREAM, lambda: (each for each in [message]))
    try:
        async_to_sync(channel.send_now)()
    except Exception as error:
        logger.warning("notifications.unsent topic=%s error=%s", topic, type(error).__name__)


def publish_after_commit(topic: str) -> None:
    transaction.on_commit(lambda: change_notifier.publish(topic))
