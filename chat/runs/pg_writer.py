"""A connection to PostgreSQL on the event loop itself, for the commits, of which there are forty a
second.

Using a thread for a statement of a millisecond costs two thread switches, which take some
milliseconds while the event loop is busy. psycopg does the connecting, the protocol and the
conversion of values. After any failure here the commit is made by the thread, which can tell one
failure from another.
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
# How long it is not used after a failure: the thread waits for a database that is unavailable.
REST_SECONDS = 5.0


def has_async_writer() -> bool:
    """Returns whether commits may use it: the server is PostgreSQL, and prepared statements are allowed."""
    return connections[DEFAULT_DB_ALIAS].vendor == "postgresql" and settings.DATABASE_PREPARED


# Each row must be found by its key, whatever the statistics of the tables say: a plan made while
# they were nearly empty would read all of them for each run, until they are analysed again.
PLANS = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan"


class AsyncSegmentWriter:
    """Runs one statement at a time. It connects with the first one, and with the next one after a
    failure."""

    def __init__(self) -> None:
        self._link: _Link | None = None
        self._failed_at: float | None = None

    @property
    def is_usable(self) -> bool:
        """True if it has not failed recently."""
        return self._failed_at is None or _now() - self._failed_at >= REST_SECONDS

    async def first_column(self, text: str, values: Sequence[object]) -> list[int]:
        """The numbers in the first column of the statement's result, committed.

        The text marks its values as ``%b`` (sent in binary form) or all as ``%s``, and must never
        change. Raises ``psycopg.Error``,
        ``OSError`` or ``TimeoutError``; then, as after a cancellation, it is not known whether it
        was committed.
        """
        try:
            if self._link is None or self._link.has_ended:
                await self.close()
                self._link = await _connect()
            return await self._link.first_column(text, values)
        except BaseException:
            self._failed_at = _now()
            # A connection whose last answer may still arrive is not used again.
            await self.close()
            raise

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()


async def _connect() -> _Link:
    options = connections[DEFAULT_DB_ALIAS].get_connection_params()
    # The settings of the threads' connections.
    del options["cursor_factory"]
    async with asyncio.timeout(CONNECT_SECONDS):
        connection = await psycopg.AsyncConnection.connect(**{**options, "autocommit": True})
        await connection.execute(PLANS)
    return _Link(connection)


def _now() -> float:
    return asyncio.get_running_loop().time()


class _Link:
    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.has_ended = False
        self._connection = connection
        self._pgconn = connection.pgconn
        self._adapter = Transformer(connection)
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._waiting: asyncio.Future[Ready] | None = None
        self._loop = asyncio.get_running_loop()
        # Registered once: registering for each statement would be two system calls.
        self._descriptor = self._pgconn.socket
        self._loop.add_reader(self._descriptor, self._is_ready, Ready.R)

    async def first_column(self, text: str, values: Sequence[object]) -> list[int]:
        form = PyFormat.BINARY if "%b" in text else PyFormat.AUTO
        data = self._adapter.dump_sequence(values, [form] * len(values))
        formats = self._adapter.formats
        name = await self._prepared(text, self._adapter.types or ())
        self._pgconn.send_query_prepared(name, data, formats)
        result = await self._answer()
        return [int(result.get_value(row, 0) or b"") for row in range(result.ntuples)]

    async def _prepared(self, text: str, types: tuple[int, ...]) -> bytes:
        """The name of the statement for values of these types. A value that is not set has none."""
        if name := self._names.get((text, types)):
            return name
        name = b"commit_%d" % len(self._names)
        places = itertools.count(1)
        numbered = re.sub("%[bs]", lambda _: f"${next(places)}", text)
        self._pgconn.send_prepare(name, numbered.encode(), types)
        await self._answer()
        self._names[text, types] = name
        return name

    async def _answer(self) -> pq.abc.PGresult:
        """The server's response."""
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
        # The kernel did not accept everything at once.
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
            # No statement is running, so this is a message that nothing waits for, or the end of
            # the connection.
            try:
                self._pgconn.consume_input()
            except psycopg.Error:
                self._mark_ended()
        elif not self._waiting.done():
            self._waiting.set_result(state)

    def _mark_ended(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._loop.remove_reader(self._descriptor)

    async def close(self) -> None:
        self._mark_ended()
        await self._connection.close()
