"""Metrics that are read from the database: of the whole installation, not of this process."""

from __future__ import annotations

from django.db import connections

from chat.core import metrics
from chat.health.checks import Findings, checks
from chat.health.database import LiveRuns

Values = metrics.Values


async def refresh() -> None:
    """Asks if the last answers are too old. It never raises; unknown values are left out."""
    await checks.findings.get()
    await checks.line.get()


def _found() -> Findings | None:
    return checks.findings.value


def _line() -> LiveRuns | None:
    line = checks.line.value
    return line if line is not None and not line.error else None


def _database_up() -> Values:
    found = _found()
    return {} if found is None else {"": float(found.database.is_there)}


def _of_database(name: str) -> Values:
    found = _found()
    if found is None or not found.database.is_there:
        return {}
    return {"": getattr(found.database, name)}


def _redis_up() -> Values:
    found = _found()
    return {} if found is None or found.redis == "off" else {"": float(found.redis == "ok")}


def _runners() -> Values:
    found = _found()
    if found is None or not found.database.is_there:
        return {}
    runners = found.database.runners
    return {"alive": runners.alive, "draining": runners.draining, "lost": runners.lost}


def _oldest_heartbeat() -> Values:
    found = _found()
    oldest = found.database.runners.oldest_heartbeat_seconds if found else None
    return {} if oldest is None else {"": oldest}


def _oldest_queued() -> Values:
    line = _line()
    return {} if line is None else {"": line.oldest_queued_seconds}


def _of_line(name: str) -> Values:
    line = _line()
    return {} if line is None else getattr(line, name)


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
metrics.DATABASE_LATENCY.read_from(lambda: _of_database("latency_seconds"))
metrics.DATABASE_CLOCK.read_from(lambda: _of_database("clock_offset_seconds"))
metrics.REDIS_UP.read_from(_redis_up)
metrics.RUNNERS.read_from(_runners)
metrics.OLDEST_HEARTBEAT.read_from(_oldest_heartbeat)
metrics.RUNS.read_from(lambda: _of_line("states"))
metrics.QUEUED.read_from(lambda: _of_line("queued"))
metrics.RUNNING.read_from(lambda: _of_line("running"))
metrics.OLDEST_QUEUED.read_from(_oldest_queued)
