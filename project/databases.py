"""What Django is told of the database that an address names."""

from __future__ import annotations

from typing import Any

import dj_database_url

from chat.core import deadline

# Connections that the pool of a process keeps open while nobody needs them.
POOL_KEPT = 2


def configured(url: str, *, is_prepared: bool, pool_size: int) -> dict[str, Any]:
    """An entry of ``DATABASES``. ``is_prepared``: PostgreSQL keeps the plans of frequent statements.
    ``pool_size`` is the number of connections to PostgreSQL that a process may have."""
    found: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=0))
    if is_sqlite(found):
        found["OPTIONS"] = dict(_SQLITE)
        return found
    # A pooled connection that a restart of the database has cut is noticed before it is used,
    # and a request waits for a free one no longer than a person does.
    found["CONN_HEALTH_CHECKS"] = True
    # The address itself may say more, such as ``?sslmode=verify-full``.
    options = {**_POSTGRESQL, **found.get("OPTIONS", {})}
    # The statements that people wait for are known to the server by name (chat/core/prepared.py).
    # PgBouncer does not pass that on in its transaction mode, before its version 1.21.
    options.setdefault("prepare_threshold", 5 if is_prepared else None)
    options["pool"] = {
        "min_size": POOL_KEPT,
        "max_size": pool_size,
        # With what a request may wait for answers (`DATABASE_WAIT_SECONDS`) less than ten seconds.
        "timeout": 3,
        "connection_class": deadline.DeadlineConnection,
        # Between its tries the pool pauses ever longer. Given up, it begins anew with the next who
        # wants a connection: a database that is back is found within seconds.
        "reconnect_timeout": 5,
    }
    found["OPTIONS"] = options
    return found


def is_sqlite(database: dict[str, Any]) -> bool:
    return "sqlite" in database["ENGINE"]


_SQLITE = {
    # IMMEDIATE: a deferred transaction that turns into a writer fails at once with
    # "database is locked" instead of waiting for its turn.
    "transaction_mode": "IMMEDIATE",
    "timeout": 5,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
}
# A database behind a network that swallows everything is given up after half a minute, not after
# two hours.
_POSTGRESQL = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
