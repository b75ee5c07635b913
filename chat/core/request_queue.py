"""The queue of requests for the threads of a process, in which messages come first."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from django.conf import settings

from chat.core import metrics

logger = logging.getLogger(__name__)

# After this many messages one other request is taken from the queue, if any waits.
MESSAGES_IN_A_ROW = 3
# Further messages are refused, and the page sends them again. At 20 ms of work for each, the last one
# waits four seconds; longer, and people would think that nothing happens.
MOST_WAITING_MESSAGES = 200
# A page sends one message after the other; the limit keeps one sender from filling the queue.
MOST_WAITING_OF_SENDER = 24
LONGEST_RETRY_SECONDS = 30
# Share of the newest request in the mean duration.
NEWEST = 0.05


class Overloaded(Exception):
    """The queue is full of messages. There should be room in ``seconds``."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"try again in {seconds} s")
        self.seconds = seconds


class RequestQueue:
    """Limits the requests that run at once to ``places`` (0: no limit); messages are taken first. Messages
    have one place more, so that slow pages cannot hold all.

    For one event loop. A process has one; tests have several, one after the other.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._loop: asyncio.AbstractEventLoop | None = None
        self._messages: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()
        self._waiting_of: Counter[str] = Counter()
        self._taken = 0
        self._messages_in_a_row = 0
        self._mean_seconds = 0.0
        self._is_overloaded = False

    @property
    def most_at_once(self) -> int:
        """How many threads can be of use; 0 means no limit."""
        return self._places + 1 if self._places else 0

    @asynccontextmanager
    async def place(self, *, is_message: bool = False, sender: str = "") -> AsyncIterator[None]:
        """Waits for a place, and has it inside. ``sender`` is whose message it is, if that is known.
        Raises `Overloaded`, for messages only."""
        if not self._places:
            yield
            return
        self._use_running_loop()
        if is_message and sender:
            await self._enter_in_share(sender)
        else:
            await self._enter(is_message=is_message)
        began = time.monotonic()
        try:
            yield
        finally:
            self._mean_seconds += NEWEST * (time.monotonic() - began - self._mean_seconds)
            self._leave()

    async def _enter_in_share(self, sender: str) -> None:
        if self._waiting_of[sender] >= MOST_WAITING_OF_SENDER:
            raise self._overload()
        self._waiting_of[sender] += 1
        try:
            await self._enter(is_message=True)
        finally:
            self._waiting_of[sender] -= 1
            if not self._waiting_of[sender]:
                del self._waiting_of[sender]

    async def _enter(self, *, is_message: bool) -> None:
        queue = self._messages if is_message else self._others
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._take()
        if is_message and len(self._messages) > MOST_WAITING_MESSAGES:
            self._messages.pop()
            raise self._overload()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):
                    queue.remove(turn)
            else:
                # The request got a place at the same moment.
                self._leave()
            raise

    def _use_running_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._messages.clear()
            self._others.clear()
            self._waiting_of.clear()
            self._taken = 0

    def _leave(self) -> None:
        self._taken -= 1
        self._take()

    def _take(self) -> None:
        """Gives free places to the next requests."""
        while self._messages or self._others:
            is_message = self._is_message_next()
            if self._taken >= self._places + is_message:
                return
            turn = (self._messages if is_message else self._others).popleft()
            if turn.cancelled():
                continue
            self._messages_in_a_row = self._messages_in_a_row + 1 if is_message else 0
            self._taken += 1
            turn.set_result(None)
        self._is_overloaded = False

    def _is_message_next(self) -> bool:
        if not self._others:
            # No other request waits to be let through.
            self._messages_in_a_row = 0
            return True
        return bool(self._messages) and self._messages_in_a_row < MESSAGES_IN_A_ROW

    def _overload(self) -> Overloaded:
        """The error, with the time in which the waiting requests will have had their places."""
        seconds = math.ceil(len(self._messages) * self._mean_seconds / self._places)
        error = Overloaded(min(max(seconds, 1), LONGEST_RETRY_SECONDS))
        metrics.MESSAGES_REFUSED.inc()
        if not self._is_overloaded:
            logger.warning("requests.overloaded retry_seconds=%d", error.seconds)
        self._is_overloaded = True
        return error


# One queue for all pages and for the messages that come over websockets.
request_queue = RequestQueue(settings.MAX_CONCURRENT_REQUESTS)
