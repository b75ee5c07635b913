"""Connections to PostgreSQL: when the pool asks whether one still works, and how they plan statements."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connection

from chat.core import deadline

pytestmark = [pytest.mark.databases(only="postgresql"), pytest.mark.usefixtures("transactional_db")]


def close_idle_connections() -> None:
    """As a restart of the database does, while this thread has none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def answer() -> object:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        (found,) = cursor.fetchone()
    return found


def test_closed_connection_is_replaced_before_it_is_used() -> None:
    answer()
    with pytest.raises(Exception, match="terminat"):
        close_idle_connections()
    connection.close()
    time.sleep(deadline.RECENT_SECONDS)

    assert answer() == 1
    connection.close()


def test_connection_that_has_just_answered_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """With how many statements it answers."""
    asked: list[object] = []
    wait = deadline.DeadlineConnection.wait

    def counting(self: deadline.DeadlineConnection, *arguments: Any, **options: Any) -> Any:
        asked.append(None)
        return wait(self, *arguments, **options)

    def count() -> int:
        connection.close()
        asked.clear()
        answer()
        return len(asked)

    answer()
    monkeypatch.setattr(deadline.DeadlineConnection, "wait", counting)
    monkeypatch.setattr(deadline, "RECENT_SECONDS", 60.0)
    recent = count()
    monkeypatch.setattr(deadline, "RECENT_SECONDS", 0.0)

    assert count() == recent + 1


def test_prepared_statement_is_planned_once() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW plan_cache_mode")
        assert cursor.fetchone() == ("force_generic_plan",)
