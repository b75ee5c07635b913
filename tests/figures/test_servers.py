"""The checks against what really answers, or does not: PostgreSQL, and a Redis that hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper

from chat.health import database
from chat.health.checks import Checks
from chat.health.database import ALIAS, Looker
from chat.runs.database import DatabaseThreads
from tests.figures.reading import value

POSTGRES = {"host": "127.0.0.1", "port": 5432, "user": "postgres", "dbname": "postgres"}


def in_thread_of_its_own(work: Callable[[], Any]) -> Any:
    """A thread knows its own connections only."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(60)
    return found[0]


@pytest.mark.django_db
def test_postgresql_is_asked_past_the_pool_and_again_after_a_cut() -> None:
    try:
        admin = psycopg.connect(**POSTGRES, connect_timeout=2, autocommit=True)
    except psycopg.OperationalError:
        pytest.skip("no PostgreSQL on 127.0.0.1:5432 that trusts the user postgres")
    described = {
        **connections["default"].settings_dict,
        "ENGINE": "django.db.backends.postgresql",
        "NAME": POSTGRES["dbname"],
        "HOST": POSTGRES["host"],
        "PORT": POSTGRES["port"],
        "USER": POSTGRES["user"],
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 1, "timeout": 1}},
    }

    def look() -> tuple[float, float, dict[str, Any]]:
        connections["default"] = DatabaseWrapper(described, alias="default")
        looker = Looker()
        before = looker._twice(database._clock_of)
        pid = connections[ALIAS].connection.info.backend_pid
        admin.execute("SELECT pg_terminate_backend(%s)", [pid])
        after = looker._twice(database._clock_of)
        looker.close()
        return before, after, connections[ALIAS].settings_dict["OPTIONS"]

    with admin:
        before, after, options = in_thread_of_its_own(look)

    assert 0 < before <= after
    assert "pool" not in options


async def test_a_redis_that_never_answers_is_away(settings: Any) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    settings.REDIS_URL = f"redis://127.0.0.1:{silent.sockets[0].getsockname()[1]}/0"
    checks = Checks(redis_seconds=0.1)

    states = [await checks._ping() for _ in range(3)]
    await checks.close()
    silent.close()

    assert states == ["away"] * 3


async def test_calls_that_wait_for_a_thread_are_counted() -> None:
    threads = DatabaseThreads("figures-test", size=1)
    let_go = threading.Event()
    calls = [asyncio.ensure_future(threads.call(let_go.wait, 60)) for _ in range(3)]
    async with asyncio.timeout(60):
        while threads.waiting != 2:
            await asyncio.sleep(0.01)

    assert value("tributary_database_queue_calls", pool="figures-test") == 2

    let_go.set()
    await asyncio.gather(*calls)
    await threads.close()
    assert value("tributary_database_queue_calls", pool="figures-test") == 0
