"""The health checks against a real PostgreSQL, and against a Redis that hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper

from chat.core.threads import DatabaseThreads
from chat.health import database
from chat.health.checks import Checks
from chat.health.database import ALIAS, DatabaseProbe
from tests.health.helpers import until, value
from tests.support.servers import PostgreSQL


def in_thread_of_its_own(work: Callable[[], Any]) -> Any:
    """A thread knows its own connections only."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(60)


@pytest.mark.django_db
def test_postgresql_check_bypasses_the_pool_and_reconnects(
    postgres_server: PostgreSQL,
) -> None:
    described = {
        **connections["default"].settings_dict,
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "HOST": "127.0.0.1",
        "PORT": postgres_server.port,
        "USER": "postgres",
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 1, "timeout": 1}},
    }

    def look() -> tuple[float, float, dict[str, Any]]:
        connections["default"] = DatabaseWrapper(described, alias="default")
        probe = DatabaseProbe()
        before = probe._twice(database._clock_of)
        pid = connections[ALIAS].connection.info.backend_pid
        admin.execute("SELECT pg_terminate_backend(%s)", [pid])
        after = probe._twice(database._clock_of)
        probe.close()
        return before, after, connections[ALIAS].settings_dict["OPTIONS"]

    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as admin:
        before, after, options = in_thread_of_its_own(look)

    assert 0 < before <= after
    assert "pool" not in options


async def test_hanging_redis_is_away(settings: Any) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    settings.REDIS_URL = f"redis://127.0.0.1:{silent.sockets[0].getsockname()[1]}/0"
    checks = Checks(redis_seconds=0.05)

    states = [await checks._ping() for _ in range(3)]
    await checks.close()
    silent.close()

    assert states == ["away"] * 3


async def test_calls_that_wait_for_a_thread_are_counted() -> None:
    threads = DatabaseThreads("figures-test", size=1)
    released = threading.Event()
    calls = [asyncio.ensure_future(threads.call(released.wait, 60)) for _ in range(3)]
    await until(lambda: threads.waiting == 2)

    assert value("tributary_database_queue_calls", pool="figures-test") == 2

    released.set()
    await asyncio.gather(*calls)
    await threads.close()
    assert value("tributary_database_queue_calls", pool="figures-test") == 0
