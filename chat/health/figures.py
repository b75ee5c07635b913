"""Metrics that are read from the database: of the whole installation, not of this process."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connections

from chat.core import metrics
from chat.health.checks import checks
from chat.health.database import Database, LiveRuns

Values = metrics.Values


async def refresh() -> None:
    """Asks if the last answers are too old. It never raises; unknown values are left out."""
    await checks.findings.get()
    await checks.live_runs.get()


def _of_database(read: Callable[[Database], Values]) -> Callable[[], Values]:
    """A figure of the database; none while that is unavailable."""

    def values() -> Values:
        found = checks.findings.value
        return read(found.database) if found is not None and found.database.is_there else {}

    return values


def _of_live_runs(read: Callable[[LiveRuns], Values]) -> Callable[[], Values]:
    def values() -> Values:
        live = checks.live_runs.value
        return read(live) if live is not None and not live.error else {}

    return values


def _database_up() -> Values:
    found = checks.findings.value
    return {} if found is None else {"": float(found.database.is_there)}


def _redis_up() -> Values:
    found = checks.findings.value
    return {} if found is None or found.redis == "off" else {"": float(found.redis == "ok")}


def _runners(database: Database) -> Values:
    runners = database.runners
    return {"alive": runners.alive, "draining": runners.draining, "lost": runners.lost}


def _oldest_heartbeat(database: Database) -> Values:
    oldest = database.runners.oldest_heartbeat_seconds
    return {} if oldest is None else {"": oldest}


def _pool(figure: str) -> int | None:
    """One of the counts of the connection pool; ``None`` if there is no pool yet."""
    pools = getattr(type(connections["default"]), "_connection_pools", {})
    return pools["default"].get_stats().get(figure, 0) if "default" in pools else None


def _pool_connections() -> Values:
    size, free = _pool("pool_size"), _pool("pool_available")
    return {} if size is None or free is None else {"used": size - free, "free": free}


def _pool_waiting() -> Values:
    waiting = _pool("requests_waiting")
    return {} if waiting is None else {"": waiting}


metrics.POOL_CONNECTIONS.read_from(_pool_connections)
metrics.POOL_WAITING.read_from(_pool_waiting)
metrics.DATABASE_UP.read_from(_database_up)
metrics.DATABASE_LATENCY.read_from(_of_database(lambda found: {"": found.latency_seconds}))
metrics.DATABASE_CLOCK.read_from(_of_database(lambda found: {"": found.clock_offset_seconds}))
metrics.REDIS_UP.read_from(_redis_up)
metrics.RUNNERS.read_from(_of_database(_runners))
metrics.OLDEST_HEARTBEAT.read_from(_of_database(_oldest_heartbeat))
metrics.RUNS.read_from(_of_live_runs(lambda live: live.states))
metrics.QUEUED.read_from(_of_live_runs(lambda live: live.queued))
metrics.RUNNING.read_from(_of_live_runs(lambda live: live.running))
metrics.OLDEST_QUEUED.read_from(_of_live_runs(lambda live: {"": live.oldest_queued_seconds}))
