"""Checks of the database and Redis with deadlines, shared by requests that arrive together."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import redis
import redis.asyncio
from django.conf import settings

from chat.health.database import Database, DatabaseProbe, LiveRuns


class Worker:
    """Runs one call after the other in a daemon thread. A call that hangs in a frozen database does
    not keep the process from ending, as a thread of a pool would."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """A future with the function's value. ``function`` must not raise."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def work() -> None:
            value = function()
            try:
                loop.call_soon_threadsafe(_settle, answer, value)
            except RuntimeError:
                # The loop has ended meanwhile; nothing waits any more.
                return

        self._calls.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        return answer

    def close(self, last: Callable[[], None]) -> None:
        """Ends the thread after ``last``, without waiting for that."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.put(last)
            self._calls.put(None)

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            work()


def _settle(answer: asyncio.Future[Any], value: Any) -> None:
    if not answer.done():
        answer.set_result(value)


# --- the checks: at most one question at a time, however often clients ask
# --------------------------

# Probes of several kinds come together, and results may be a second old anyway.
FRESH_SECONDS = 1.0
# The queue is only read for the metrics, and counting it costs more.
LIVE_RUNS_FRESH_SECONDS = 5.0
# A slower database serves nobody well.
DATABASE_SECONDS = 2.0
REDIS_SECONDS = 1.0

RedisState = Literal["off", "ok", "away"]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The last results, at most a second old."""

    database: Database
    redis: RedisState


class CachedValue(Generic[Value]):
    """The last result of a check. It is refreshed when it is too old, once for all waiting
    requests."""

    def __init__(self, ask: Callable[[], Awaitable[Value]], seconds: float) -> None:
        self.value: Value | None = None
        self._ask = ask
        self._seconds = seconds
        self._asked_at = 0.0
        self._asking: asyncio.Task[Value] | None = None

    async def get(self) -> Value:
        now = asyncio.get_running_loop().time()
        if self.value is not None and now - self._asked_at < self._seconds:
            return self.value
        if self._asking is None:
            self._asked_at = now
            self._asking = asyncio.create_task(self._remember(), name="health-check")
        # A request that is cancelled does not take the result away from the others.
        return await asyncio.shield(self._asking)

    async def _remember(self) -> Value:
        try:
            self.value = await self._ask()
            return self.value
        finally:
            self._asking = None

    async def close(self) -> None:
        asking = self._asking
        self.value = None
        if asking is not None:
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking


class Checks:
    """The checks of one process. They run on its event loop, never raise, and never take much
    longer than their deadline, whatever hangs."""

    def __init__(
        self,
        *,
        probe: DatabaseProbe | None = None,
        database_seconds: float = DATABASE_SECONDS,
        redis_seconds: float = REDIS_SECONDS,
    ) -> None:
        self._probe = probe or DatabaseProbe()
        self._database_seconds = database_seconds
        self._redis_seconds = redis_seconds
        self._worker = Worker("health")
        self._unanswered: asyncio.Future[Any] | None = None
        self._redis: redis.asyncio.Redis | None = None
        self.findings = CachedValue(self._find, FRESH_SECONDS)
        self.live_runs = CachedValue(self._read_live_runs, LIVE_RUNS_FRESH_SECONDS)

    async def close(self) -> None:
        await self.findings.close()
        await self.live_runs.close()
        # The connection belongs to the thread, which may hang, so this does not wait for it.
        self._worker.close(self._probe.close)
        client, self._redis = self._redis, None
        if client is not None:
            with suppress(Exception):
                await client.aclose()

    async def _find(self) -> Findings:
        database, state = await asyncio.gather(self._look(), self._ping())
        return Findings(database=database, redis=state)

    async def _look(self) -> Database:
        found = await self._answer(self._probe.database)
        return found if found is not None else Database(error="timeout")

    async def _read_live_runs(self) -> LiveRuns:
        found = await self._answer(self._probe.live_runs)
        return found if found is not None else LiveRuns(error="timeout")

    async def _answer(self, ask: Callable[[], Value]) -> Value | None:
        """The thread's answer, or ``None`` after the deadline. While a question hangs, no other one
        is queued behind it: there would be more each second."""
        if self._unanswered is not None and not self._unanswered.done():
            return None
        answer = self._unanswered = self._worker.call(ask)
        try:
            async with asyncio.timeout(self._database_seconds):
                return await asyncio.shield(answer)
        except TimeoutError:
            return None

    async def _ping(self) -> RedisState:
        if not settings.REDIS_URL:
            return "off"
        try:
            async with asyncio.timeout(self._redis_seconds):
                if self._redis is None:
                    self._redis = redis.asyncio.Redis.from_url(settings.REDIS_URL)
                await self._redis.ping()
        except Exception:
            return "away"
        return "ok"


def check_redis() -> RedisState:
    """The same for a page, which is not on the event loop."""
    if not settings.REDIS_URL:
        return "off"
    try:
        options = {"socket_timeout": REDIS_SECONDS, "socket_connect_timeout": REDIS_SECONDS}
        with redis.Redis.from_url(settings.REDIS_URL, **options) as client:
            client.ping()
    except Exception:
        return "away"
    return "ok"


checks = Checks()
