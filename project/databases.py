"""Django's database configuration from a database URL."""

from __future__ import annotations

from typing import Any, Self

import dj_database_url

from chat.core.deadline import DeadlineConnection

# Idle connections that the pool of a process keeps open.
POOL_KEPT = 2


def configured(url: str, *, is_prepared: bool, pool_size: int) -> dict[str, Any]:
    """An entry of ``DATABASES``. ``is_prepared``: PostgreSQL keeps the plans of frequent
    statements. ``pool_size`` is the number of connections to PostgreSQL that a process may have."""
    found: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=0))
    if is_sqlite(found):
        found["OPTIONS"] = dict(_SQLITE)
        return found
    # Detects pooled connections that a restart of the database has closed, before they are used.
    found["CONN_HEALTH_CHECKS"] = True
    # The URL may contain further options, such as ``?sslmode=verify-full``.
    options = {**_POSTGRESQL, **found.get("OPTIONS", {})}
    # Frequent statements are prepared on the server (chat/core/prepared.py). PgBouncer before 1.21
    # does not support this in its transaction mode.
    options.setdefault("prepare_threshold", 5 if is_prepared else None)
    options["pool"] = {
        "min_size": POOL_KEPT,
        "max_size": pool_size,
        # Together with `DATABASE_WAIT_SECONDS`, a request waits less than ten seconds.
        "timeout": 3,
        "connection_class": PlanningConnection if is_prepared else DeadlineConnection,
        # The pool waits longer and longer between its attempts. After this time it gives up and
        # starts again with the next request, so that a recovered database is found within seconds.
        "reconnect_timeout": 5,
    }
    found["OPTIONS"] = options
    return found


class PlanningConnection(DeadlineConnection):
    """Plans each prepared statement once, and compiles none.

    By default PostgreSQL plans one again for each execution when it estimates that this gives a cheaper
    plan. For the lines of the sidebar that estimate is wrong: planning takes eight times as long as
    the execution.

    By default it also compiles the expressions of statements that it estimates to be expensive. For a
    search this takes 120 ms, more than the execution.
    """

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        connection = super().connect(conninfo, **options)
        # A statement, because PgBouncer refuses it as an option of the connection.
        connection.execute("SET plan_cache_mode = force_generic_plan; SET jit = off")
        return connection


def is_sqlite(database: dict[str, Any]) -> bool:
    return "sqlite" in database["ENGINE"]


_SQLITE = {
    # IMMEDIATE, because a deferred transaction that starts to write fails immediately with
    # "database is locked" instead of waiting for the lock.
    "transaction_mode": "IMMEDIATE",
    "timeout": 5,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
}
# A connection over a network that drops all packets is closed after half a minute, not after two
# hours.
_POSTGRESQL = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
