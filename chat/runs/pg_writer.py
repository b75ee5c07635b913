"""A connection to PostgreSQL on the event loop itself, for the commits that come forty times a second.

A thread for a statement that takes a millisecond costs two changes of threads, each of which waits for
the interpreter: some milliseconds where the event loop is busy. Connecting, the protocol and the form of
values are psycopg's. Whatever goes wrong here is no more than a reason to go by the thread, which knows
how to tell one failure from another.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Sequence
from typing import Any

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import generators, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.waiting import Ready

CONNECT_SECONDS = 5.0
# After a failure it is left alone for so long: a database that is away is waited for by the thread.
REST_SECONDS = 5.0


def has_async_writer() -> bool:
    """Whether commits may go this way: a server that is PostgreSQL and keeps statements for us."""
    return connections[DEFAULT_DB_ALIAS].vendor == "postgresql" and settings.DATABASE_PREPARED


# Each row is found by its key, whatever the server believes about its tables: a plan that was made while
# they were nearly empty would read all of them for each run, until it counts them again.
PLANS = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan"


class AsyncSegmentWriter:
    """One statement at a time. Connects with the first, and with the next one after a failure."""

    def __init__(self) -> None:
        self._link: _Link | None = None
        self._failed_at: float | None = None

    @property
    def is_usable(self) -> bool:
        """Whether nothing has gone wrong just now."""
        return self._failed_at is None or _now() - self._failed_at >= REST_SECONDS

    async def first_column(self, text: str, values: Sequence[object]) -> list[int]:
        """The numbers in the first column of what the statement gives, committed. The text holds its
        values' places as ``%b``, and must be always the same. Raises ``psycopg.Error``, ``OSError`` or
        ``TimeoutError``; then, as after a cancellation, it is not known whether it was committed."""
        try:
            if self._link is None or self._link.has_ended:
                await self.close()
                self._link = await _connect()
            return await self._link.first_column(text, values)
        except BaseException:
            self._failed_at = _now()
            # Nothing is read from a connection whose last answer may still come.
            await self.close()
            raise

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()


async def _connect() -> _Link:
    options = connections[DEFAULT_DB_ALIAS].get_connection_params()
    # Those of threads.
    del options["cursor_factory"]
    async with asyncio.timeout(CONNECT_SECONDS):
        connection = await psycopg.AsyncConnection.connect(**{**options, "autocommit": True})
        await connection.execute(PLANS)
    return _Link(connection)


def _now() -> float:
    return asyncio.get_running_loop().time()


class _Link:
    """A connection that is there."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.has_ended = False
        self._connection = connection
        self._pgconn = connection.pgconn
        self._adapter = Transformer(connection)
        self._names: dict[str, bytes] = {}
        self._waiting: asyncio.Future[Ready] | None = None
        self._loop = asyncio.get_running_loop()
        # For as long as it lasts: for each statement anew it would be two calls of the kernel.
        self._descriptor = self._pgconn.socket
        self._loop.add_reader(self._descriptor, self._is_ready, Ready.R)

    async def first_column(self, text: str, values: Sequence[object]) -> list[int]:
        name = self._names.get(text) or await self._prepare(text)
        data = self._adapter.dump_sequence(values, [PyFormat.BINARY] * len(values))
        self._pgconn.send_query_prepared(name, data, self._adapter.formats)
        result = await self._answer()
        return [int(result.get_value(row, 0) or b"") for row in range(result.ntuples)]

    async def _prepare(self, text: str) -> bytes:
        name = b"commit_%d" % len(self._names)
        places = itertools.count(1)
        numbered = re.sub("%b", lambda _: f"${next(places)}", text)
        self._pgconn.send_prepare(name, numbered.encode())
        await self._answer()
        self._names[text] = name
        return name

    async def _answer(self) -> pq.abc.PGresult:
        """What the server says to what was sent."""
        talk = generators.execute(self._pgconn)
        try:
            wanted = next(talk)
            while True:
                wanted = talk.send(await self._until_ready(wanted))
        except StopIteration as over:
            result: pq.abc.PGresult = over.value[-1]
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise psycopg.errors.error_from_result(result)
        return result

    async def _until_ready(self, wanted: int) -> Ready:
        self._waiting = self._loop.create_future()
        # More was sent than the kernel takes at once.
        is_full = bool(wanted & Ready.W)
        if is_full:
            self._loop.add_writer(self._descriptor, self._is_ready, Ready.W)
        try:
            return await self._waiting
        finally:
            self._waiting = None
            if is_full:
                self._loop.remove_writer(self._descriptor)

    def _is_ready(self, state: Ready) -> None:
        if self._waiting is None:
            # Nothing is asked: what can be read is what was read meanwhile, a message that nobody waits
            # for, or the end of the connection.
            try:
                self._pgconn.consume_input()
            except psycopg.Error:
                self._let_go()
        elif not self._waiting.done():
            self._waiting.set_result(state)

    def _let_go(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._loop.remove_reader(self._descriptor)

    async def close(self) -> None:
        self._let_go()
        await self._connection.close()
