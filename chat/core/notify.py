"""Lossy change notifications between processes, over the channel layer.

A notification carries a topic and no data. Subscribers read the database when one arrives, and
about once a second without one, so a lost notification delays an update and never loses it. This is
the only user of the channel layer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from uuid import UUID, uuid4

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from chat.core import metrics

logger = logging.getLogger(__name__)

LAYER = "notifications"
GROUP = "tributary.notifications"
# Topics: a run was queued; somebody requested the stop of a run.
QUEUED = "queued"
STOPS = "stops"
# A change in any conversation, for subscribers that watch many of them.
ROOMS = "rooms"
_ROOM = "room:"

# A layer that works answers within a millisecond.
ANSWER_SECONDS = 2.0
AGAIN_SECONDS = 1.0
# How often a process publishes to itself, and how long it waits for that to return.
CHECK_SECONDS = 5.0
RETURN_SECONDS = 3.0
# Topics that wait for a layer that does not answer. They are out of date after a second, because
# subscribers poll.
MOST_UNSENT = 1000


def room_topic(conversation_id: UUID) -> str:
    return f"{_ROOM}{conversation_id.hex}"


def rooms_of(topics: Iterable[str]) -> set[UUID]:
    """The conversations among the topics."""
    return {UUID(topic.removeprefix(_ROOM)) for topic in topics if topic.startswith(_ROOM)}


class Subscription(asyncio.Event):
    """Set when a subscribed topic is published. ``take()`` returns the topics and clears it."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: set[str] = set()

    def add(self, topic: str) -> None:
        self._topics.add(topic)
        self.set()

    def take(self) -> set[str]:
        """The topics since the last call; clears the event."""
        topics, self._topics = self._topics, set()
        self.clear()
        return topics


class ChangeNotifier:
    """Publishes and receives notifications for one process.

    ``publish`` may be called from any thread: it hands the topic to the event loop, because the
    in-memory layer is not thread-safe. ``listen`` runs for the life of the process. The layer may
    hang or be unavailable at any time, so the number of unsent topics is bounded; and because a
    layer can drop its groups silently (a restart of Redis does), the process publishes to itself
    every few seconds and subscribes again when that does not return.
    """

    def __init__(self) -> None:
        self._subscriptions: defaultdict[str, set[Subscription]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        # Topics for the other processes, in order. A topic that waits already is not added again.
        self._unsent: dict[str, None] = {}
        self._has_unsent = asyncio.Event()
        self._own_topic = f"process:{uuid4().hex}"
        self._has_subscribed = asyncio.Event()
        self._trouble = {"publish": "", "listen": ""}

    @property
    def is_connected(self) -> bool:
        """Whether the last attempts to publish and to receive succeeded."""
        return not any(self._trouble.values())

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

    # --- receiving ---------------------------------------------------------------------------

    async def until_subscribed(self) -> None:
        """Returns when ``listen`` has subscribed to the layer for the first time, or after
        ``ANSWER_SECONDS``: a process must start without the layer, too."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._has_subscribed.wait()

    async def listen(self) -> None:
        """Runs for the life of the process. A layer that fails is tried again every second."""
        self._loop = asyncio.get_running_loop()
        sending = asyncio.create_task(self._send_forever(), name="notifications-send")
        try:
            while True:
                await self._listen_until_lost()
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            await _end(sending)

    async def _listen_until_lost(self) -> None:
        receiving: asyncio.Task[None] | None = None
        try:
            layer = get_channel_layer(LAYER)
            async with asyncio.timeout(ANSWER_SECONDS):
                channel = await layer.new_channel()
                await layer.group_add(GROUP, channel)
            self._has_subscribed.set()
            receiving = asyncio.create_task(self._receive(channel), name="notifications-receive")
            await self._check_forever()
        except Exception as error:
            metrics.NOTIFICATION_FAILURES.inc()
            self._note("listen", type(error).__name__)
        finally:
            await _unsubscribe_from_layer(receiving)

    async def _receive(self, channel: str) -> None:
        layer = get_channel_layer(LAYER)
        while True:
            try:
                message = await layer.receive(channel)
                topics, is_own = _topics_of(message), message["by"] == self._own_topic
            except Exception as error:
                # A foreign message, or the layer is unavailable, which the check notices.
                logger.debug("notifications.unreadable error=%s", type(error).__name__)
                await asyncio.sleep(0.1)
                continue
            metrics.NOTIFICATIONS_RECEIVED.inc()
            # This process's own topics were dispatched before they were sent. Only the topic of the
            # check is of interest when it returns.
            for topic in topics & {self._own_topic} if is_own else topics:
                self.dispatch(topic)

    async def _check_forever(self) -> None:
        """Raises ``TimeoutError`` when this process does not receive its own topic any more."""
        returned = self.subscribe(self._own_topic)
        try:
            while True:
                returned.clear()
                self._send_soon(self._own_topic)
                async with asyncio.timeout(RETURN_SECONDS):
                    await returned.wait()
                self._note("listen", "")
                await asyncio.sleep(CHECK_SECONDS)
        finally:
            self.unsubscribe(self._own_topic, returned)

    def _note(self, what: str, trouble: str) -> None:
        if self._trouble[what] == trouble:
            return
        self._trouble[what] = trouble
        if trouble:
            logger.warning("notifications.lost what=%s error=%s", what, trouble)
        else:
            logger.info("notifications.restored what=%s", what)

    # --- publishing --------------------------------------------------------------------------

    def publish(self, topic: str) -> None:
        """From any thread. Never raises and never waits for an answer."""
        loop = self._loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self._publish_in_loop, topic)
            return
        _publish_without_loop(topic)

    def _publish_in_loop(self, topic: str) -> None:
        # Subscribers in this process need no layer; the layer reaches the other processes.
        self.dispatch(topic)
        self._send_soon(topic)

    def _send_soon(self, topic: str) -> None:
        if len(self._unsent) >= MOST_UNSENT:
            metrics.NOTIFICATIONS_SENT.labels("lost").inc(len(self._unsent))
            self._unsent.clear()
        self._unsent[topic] = None
        self._has_unsent.set()

    async def _send_forever(self) -> None:
        while True:
            await self._has_unsent.wait()
            topics = list(self._unsent)
            self._unsent.clear()
            self._has_unsent.clear()
            error = await _send(topics, by=self._own_topic)
            self._note("publish", error)
            if error:
                await asyncio.sleep(AGAIN_SECONDS)


change_notifier = ChangeNotifier()


async def _end(task: asyncio.Task[None]) -> None:
    """Cancels until the task has ended: before Python 3.12 ``asyncio.wait_for``, with which the
    Redis client sends, may swallow a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=AGAIN_SECONDS)


async def _unsubscribe_from_layer(receiving: asyncio.Task[None] | None) -> None:
    """Ends a subscription and its connection, whatever the layer answers."""
    if receiving is not None:
        await _end(receiving)
    with suppress(Exception):
        async with asyncio.timeout(ANSWER_SECONDS):
            await get_channel_layer(LAYER).flush()


async def _send(topics: Sequence[str], *, by: str) -> str:
    """Sends to all processes. Returns the name of the error, or an empty string."""
    message = {"type": "changed", "topics": list(topics), "by": by}
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await get_channel_layer(LAYER).group_send(GROUP, message)
    except Exception as error:
        metrics.NOTIFICATIONS_SENT.labels("lost").inc(len(topics))
        return type(error).__name__
    metrics.NOTIFICATIONS_SENT.labels("sent").inc(len(topics))
    return ""


def _topics_of(message: Mapping[str, object]) -> set[str]:
    """Raises ``KeyError`` or ``TypeError`` for a foreign message."""
    topics = message["topics"]
    if not isinstance(topics, list | tuple):
        raise TypeError("topics")
    return {str(topic) for topic in topics}


def _publish_without_loop(topic: str) -> None:
    """For a process without an event loop, such as a management command."""
    try:
        error = async_to_sync(_send)([topic], by="")
    except RuntimeError:
        error = "loop"
    if error:
        logger.warning("notifications.unsent topic=%s error=%s", topic, error)


def publish_after_commit(topic: str) -> None:
    transaction.on_commit(lambda: change_notifier.publish(topic))
