"""Runs ORM code for asynchronous callers on threads of our own.

Consumers share one thread for the ORM, and the segment writer and the followers of logs must not
wait for it. Each pool keeps its connections and drops one that failed.
"""

from __future__ import annotations

import asyncio
import logging
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from chat.core import metrics
from chat.core.deadline import database_deadline, is_over

logger = logging.getLogger(__name__)

# A thread that is still in a statement keeps its connection; the others do not wait longer for it.
LEAVE_SECONDS = 5.0
# How often a database that is unavailable is tried again.
AGAIN_SECONDS = 1.0

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


class DatabaseThreads:
    """A small pool of threads with database connections. If ``answer_seconds`` is given, a call
    waits no longer for answers of the database."""

    def __init__(self, name: str, *, size: int, answer_seconds: float | None = None) -> None:
        self._name = name
        self._size = size
        self._answer_seconds = answer_seconds
        self._pool: ThreadPoolExecutor | None = None
        _pools.add(self)

    @property
    def name(self) -> str:
        return self._name

    @property
    def waiting(self) -> int:
        """Calls that no thread has started."""
        return 0 if self._pool is None else self._pool._work_queue.qsize()

    async def call(
        self,
        function: Callable[Parameters, Value],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Value:
        """The function's value. Cancelling the caller does not stop the thread."""
        loop = asyncio.get_running_loop()
        came_at = time.monotonic()

        def within_deadline() -> Value:
            waited = time.monotonic() - came_at
            with database_deadline(self._answer_seconds, waited_seconds=waited):
                if is_over():
                    raise OperationalError("the database does not answer")
                return self._guarded(function, *args, **kwargs)

        return await loop.run_in_executor(self._executor(), within_deadline)

    async def call_until_there(
        self,
        function: Callable[Parameters, Value],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Value:
        """A call for reads only: a database that is unavailable is tried again each second."""
        while True:
            try:
                return await self.call(function, *args, **kwargs)
            except (OperationalError, InterfaceError) as error:
                logger.warning(
                    "database.unavailable pool=%s error=%s", self._name, type(error).__name__
                )
                await asyncio.sleep(AGAIN_SECONDS)

    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._size, thread_name_prefix=self._name)
        return self._pool

    @staticmethod
    def _guarded(
        function: Callable[Parameters, Value], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Value:
        _drop_dead_connection()
        try:
            return function(*args, **kwargs)
        except (DatabaseError, InterfaceError):
            # The connection may be broken; the next call gets a new one.
            connections.close_all()
            raise

    async def close(self) -> None:
        """Closes the connections and ends the threads, after the calls that are running."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        # Each thread takes one of these calls, because none of them ends before all have started.
        everyone = threading.Barrier(self._size)
        for _ in range(self._size):
            pool.submit(_leave, everyone)
        await asyncio.to_thread(pool.shutdown)


def _drop_dead_connection() -> None:
    """Closes a connection that the server has ended since its thread's last call.

    A thread may have been idle while PostgreSQL was restarted, and its next call would fail long
    after all others have recovered. The only things to read from an idle connection are its end, or
    a message that nothing here waits for; in both cases a new connection is right.
    """
    kept = connections["default"]
    if kept.vendor != "postgresql" or kept.connection is None or kept.in_atomic_block:
        return
    if kept.connection.closed or _is_readable(kept.connection.fileno()):
        connections.close_all()
        _renew_pool(kept)


def _renew_pool(kept: BaseDatabaseWrapper) -> None:
    """Checks all connections in the pool, which have probably ended, too. Callers that found this out
    one by one would pause longer each time and give up at the fourth; here it takes a moment."""
    pool = getattr(kept, "pool", None)
    if pool is not None:
        pool.check()


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _leave(everyone: threading.Barrier) -> None:
    with suppress(threading.BrokenBarrierError):
        everyone.wait(LEAVE_SECONDS)
    connections.close_all()


_pools: WeakSet[DatabaseThreads] = WeakSet()


def _waiting() -> metrics.Values:
    found: dict[str, float] = {}
    for pool in _pools:
        found[pool.name] = found.get(pool.name, 0) + pool.waiting
    return found


metrics.DATABASE_QUEUE.read_from(_waiting)
# Followers of logs, and the checks of live viewers.
readers = DatabaseThreads("read", size=4)
