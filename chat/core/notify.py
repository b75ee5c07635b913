"""Says that something changed; never what. Every ring may be lost.

The only user of the channel layer. A ring costs latency when it is lost, never content:
whoever listens also looks by itself about once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import UUID, uuid4

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from chat.core import metrics

logger = logging.getLogger(__name__)

LAYER = "doorbell"
GROUP = "tributary.doorbell"
# Something was queued; somebody wants a run to end.
QUEUED = "queued"
STOPS = "stops"
# Any room: for those who look after many.
ROOMS = "rooms"
_ROOM = "room:"

# A layer that works answers in a millisecond.
ANSWER_SECONDS = 2.0
AGAIN_SECONDS = 1.0
# How often a process rings for itself, and for how long it listens for that.
CHECK_SECONDS = 5.0
HEAR_SECONDS = 3.0
# Different topics that wait for a layer which does not answer. They are stale after a second:
# everybody has looked by then.
MOST_UNSENT = 1000


def room_topic(conversation_id: UUID) -> str:
    return f"{_ROOM}{conversation_id.hex}"


class Ear(asyncio.Event):
    """Is set at each ring. Who cares for what rang takes it; the others only clear the event."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: set[str] = set()

    def hear(self, topic: str) -> None:
        self._topics.add(topic)
        self.set()

    def take(self) -> set[str]:
        """The topics since the last time; clears the event."""
        topics, self._topics = self._topics, set()
        self.clear()
        return topics


class Doorbell:
    """The ears and the bell-pull of one process: `listen` runs for its life, waiters `subscribe`.

    Rings from threads of this process are handed to its event loop, because the in-memory layer is
    not thread-safe. The layer may be frozen or away at any time: what is waiting to be rung is
    bounded, and every few seconds the process rings for itself. When it does not hear that, it
    hangs up and subscribes anew; a layer loses its groups without a word.
    """

    def __init__(self) -> None:
        self._waiters: defaultdict[str, set[Ear]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        # Topics to tell the other processes, in order; the same one twice is one ring.
        self._unsent: dict[str, None] = {}
        self._has_unsent = asyncio.Event()
        self._own_topic = f"heard:{uuid4().hex}"
        self._has_subscribed = asyncio.Event()
        self._trouble = {"ring": "", "listen": ""}

    @property
    def is_heard(self) -> bool:
        """Whether rings went out and came back when that was last tried."""
        return not any(self._trouble.values())

    def subscribe(self, topic: str) -> Ear:
        """Is set at each ring of ``topic``; the caller clears it before it looks."""
        ear = Ear()
        self._waiters[topic].add(ear)
        return ear

    def unsubscribe(self, topic: str, ear: Ear) -> None:
        waiters = self._waiters.get(topic)
        if waiters is None:
            return
        waiters.discard(ear)
        if not waiters:
            del self._waiters[topic]

    def wake(self, topic: str) -> None:
        waiting = self._waiters.get(topic, set())
        if topic.startswith(_ROOM):
            waiting = waiting | self._waiters.get(ROOMS, set())
        for ear in waiting:
            ear.hear(topic)

    # --- listening ---------------------------------------------------------------------------

    async def until_subscribed(self) -> None:
        """Returns when ``listen`` has subscribed to the layer for the first time, or after
        ``ANSWER_SECONDS``: a layer that is away must not keep the process from starting."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._has_subscribed.wait()

    async def listen(self) -> None:
        """Runs for the life of the process. A layer that fails is tried again each second."""
        self._loop = asyncio.get_running_loop()
        ringing = asyncio.create_task(self._ring_forever(), name="doorbell-ring")
        try:
            while True:
                await self._listen_until_lost()
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            await _end(ringing)

    async def _listen_until_lost(self) -> None:
        receiving: asyncio.Task[None] | None = None
        try:
            layer = get_channel_layer(LAYER)
            async with asyncio.timeout(ANSWER_SECONDS):
                channel = await layer.new_channel()
                await layer.group_add(GROUP, channel)
            self._has_subscribed.set()
            receiving = asyncio.create_task(self._receive(channel), name="doorbell-receive")
            await self._check_forever()
        except Exception as error:
            metrics.DOORBELL_FAILURES.inc()
            self._note("listen", type(error).__name__)
        finally:
            await _hang_up(receiving)

    async def _receive(self, channel: str) -> None:
        layer = get_channel_layer(LAYER)
        while True:
            try:
                message = await layer.receive(channel)
                topics, is_own = _topics_of(message), message["by"] == self._own_topic
            except Exception as error:
                # Something that is none of ours; or the layer is away, which the check finds.
                logger.debug("doorbell.unreadable error=%s", type(error).__name__)
                await asyncio.sleep(0.1)
                continue
            metrics.DOORBELL_HEARD.inc()
            # Its own were heard here before they went out; only that they come back is news.
            for topic in topics & {self._own_topic} if is_own else topics:
                self.wake(topic)

    async def _check_forever(self) -> None:
        """Raises ``TimeoutError`` when this process does not hear itself any more."""
        heard = self.subscribe(self._own_topic)
        try:
            while True:
                heard.clear()
                self._tell_others(self._own_topic)
                async with asyncio.timeout(HEAR_SECONDS):
                    await heard.wait()
                self._note("listen", "")
                await asyncio.sleep(CHECK_SECONDS)
        finally:
            self.unsubscribe(self._own_topic, heard)

    def _note(self, what: str, trouble: str) -> None:
        if self._trouble[what] == trouble:
            return
        self._trouble[what] = trouble
        if trouble:
            logger.warning("doorbell.lost what=%s error=%s", what, trouble)
        else:
            logger.info("doorbell.back what=%s", what)

    # --- ringing -----------------------------------------------------------------------------

    def ring(self, topic: str) -> None:
        """From any thread. Never raises and never waits for an answer."""
        loop = self._loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self._ring_in_loop, topic)
            return
        _ring_from_outside(topic)

    def _ring_in_loop(self, topic: str) -> None:
        # Waiters of this process need no layer; the layer tells the other processes.
        self.wake(topic)
        self._tell_others(topic)

    def _tell_others(self, topic: str) -> None:
        if len(self._unsent) >= MOST_UNSENT:
            metrics.DOORBELL_RINGS.labels("lost").inc(len(self._unsent))
            self._unsent.clear()
        self._unsent[topic] = None
        self._has_unsent.set()

    async def _ring_forever(self) -> None:
        while True:
            await self._has_unsent.wait()
            topics = list(self._unsent)
            self._unsent.clear()
            self._has_unsent.clear()
            error = await _send(topics, by=self._own_topic)
            self._note("ring", error)
            if error:
                await asyncio.sleep(AGAIN_SECONDS)


doorbell = Doorbell()


async def _end(task: asyncio.Task[None]) -> None:
    """Once is not enough: before Python 3.12 ``asyncio.wait_for``, with which the Redis client
    sends, may swallow a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=AGAIN_SECONDS)


async def _hang_up(receiving: asyncio.Task[None] | None) -> None:
    """Ends a subscription and its connection. Whatever the layer says to that, it is over."""
    if receiving is not None:
        await _end(receiving)
    with suppress(Exception):
        async with asyncio.timeout(ANSWER_SECONDS):
            await get_channel_layer(LAYER).flush()


async def _send(topics: Sequence[str], *, by: str) -> str:
    """Tells all processes; returns what was in the way."""
    message = {"type": "ring", "topics": list(topics), "by": by}
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await get_channel_layer(LAYER).group_send(GROUP, message)
    except Exception as error:
        metrics.DOORBELL_RINGS.labels("lost").inc(len(topics))
        return type(error).__name__
    metrics.DOORBELL_RINGS.labels("sent").inc(len(topics))
    return ""


def _topics_of(message: Mapping[str, object]) -> set[str]:
    """Raises ``KeyError`` or ``TypeError`` for what is none of ours."""
    topics = message["topics"]
    if not isinstance(topics, list | tuple):
        raise TypeError("topics")
    return {str(topic) for topic in topics}


def _ring_from_outside(topic: str) -> None:
    """For a process without an event loop, such as a management command."""
    try:
        error = async_to_sync(_send)([topic], by="")
    except RuntimeError:
        error = "loop"
    if error:
        logger.warning("doorbell.unsent topic=%s error=%s", topic, error)


def ring_after_commit(topic: str) -> None:
    transaction.on_commit(lambda: doorbell.ring(topic))
