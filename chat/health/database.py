"""State of the database, of runners and of the queue, over a connection of its own.

The connection pool of the pages may be exhausted and its threads may hang; that must not decide
whether the database counts as available. Everything here runs in the one thread of a `Worker`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Count, Min

from chat.models import Run, Runner, RunStatus
from chat.models.run import LIVE_STATUSES

Facts = TypeVar("Facts")

# The name of the connection, which only exists in this thread.
ALIAS = "health"
# How often the migrations of an up-to-date database are checked again.
MIGRATIONS_SECONDS = 60.0
CONNECT_SECONDS = 2

_CLOCK = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runners:
    """How many runners there are, and the age of the oldest heartbeat of a living one, by the
    database's clock. Draining ones are alive, but claim nothing."""

    alive: int = 0
    draining: int = 0
    lost: int = 0
    oldest_heartbeat_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """``error`` is empty if the database answered; otherwise it is the class of the exception, or
    "timeout"."""

    error: str = ""
    latency_seconds: float = 0.0
    # Seconds since 1970, and by how much that is ahead of this process's clock.
    clock: float = 0.0
    clock_offset_seconds: float = 0.0
    missing_migrations: int = 0
    runners: Runners = field(default_factory=Runners)

    @property
    def is_there(self) -> bool:
        return not self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRuns:
    """Live runs by state, and by state and name of the upstream."""

    error: str = ""
    states: dict[str, int] = field(default_factory=dict)
    queued: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    oldest_queued_seconds: float = 0.0


class DatabaseProbe:
    """Asks the database. It never raises, and belongs to one thread."""

    def __init__(self) -> None:
        self._connection: BaseDatabaseWrapper | None = None
        self._complete_at = 0.0
        self._leaves: set[tuple[str, str]] = set()

    def database(self) -> Database:
        try:
            return self._twice(self._look)
        except Exception as error:
            return Database(error=type(error).__name__)

    def live_runs(self) -> LiveRuns:
        try:
            return self._twice(self._read_live_runs)
        except Exception as error:
            return LiveRuns(error=type(error).__name__)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _twice(self, look: Callable[[BaseDatabaseWrapper], Facts]) -> Facts:
        """Asks twice if needed: a restart of the database may have cut a kept connection, which
        does not make it unavailable. A new connection is only tried once."""
        was_kept = self._connection is not None
        try:
            return look(self._connected())
        except (DatabaseError, InterfaceError):
            self.close()
            if not was_kept:
                raise
        try:
            return look(self._connected())
        except (DatabaseError, InterfaceError):
            self.close()
            raise

    def _connected(self) -> BaseDatabaseWrapper:
        if self._connection is None:
            connection = connections["default"].copy(alias=ALIAS)
            options = connection.settings_dict["OPTIONS"]
            if options.pop("pool", None) is not None:
                options.setdefault("connect_timeout", CONNECT_SECONDS)
            # Only this thread knows the name, because the registry is one per thread.
            connections[ALIAS] = self._connection = connection
        return self._connection

    def _look(self, connection: BaseDatabaseWrapper) -> Database:
        connection.ensure_connection()
        return read_database(connection, missing_migrations=self._missing(connection))

    def _missing(self, connection: BaseDatabaseWrapper) -> int:
        """Migrations of this version that the database does not have. Loading the migrations of the
        code takes a while, so it is repeated only until none is missing; then only the last ones
        are checked."""
        now = time.monotonic()
        if self._leaves:
            if now - self._complete_at < MIGRATIONS_SECONDS:
                return 0
            if self._leaves <= set(MigrationRecorder(connection).applied_migrations()):
                self._complete_at = now
                return 0
        executor = MigrationExecutor(connection)
        leaves = executor.loader.graph.leaf_nodes()
        missing = len(executor.migration_plan(leaves))
        self._leaves = set() if missing else set(leaves)
        self._complete_at = now
        return missing

    def _read_live_runs(self, connection: BaseDatabaseWrapper) -> LiveRuns:
        clock = _clock_of(connection)
        states = dict.fromkeys((state.value for state in LIVE_STATUSES), 0)
        servers: dict[str, dict[str, int]] = {state: {} for state in states}
        rows = (
            Run.objects.using(ALIAS)
            .filter(status__in=LIVE_STATUSES)
            .values_list("status", "upstream__name")
            .annotate(Count("pk"), Min("queued_at"))
            .order_by()
        )
        oldest = 0.0
        for state, name, count, since in rows:
            states[state] += count
            servers[state][name or "(removed)"] = count
            if state == RunStatus.QUEUED:
                oldest = max(oldest, clock - since.timestamp())
        return LiveRuns(
            states=states,
            queued=servers[RunStatus.QUEUED.value],
            running=servers[RunStatus.RUNNING.value],
            oldest_queued_seconds=oldest,
        )


def read_database(connection: BaseDatabaseWrapper, *, missing_migrations: int = 0) -> Database:
    """The state of the database over this connection. Raises the errors of the database."""
    before, began = time.time(), time.monotonic()
    clock = _clock_of(connection)
    latency = time.monotonic() - began
    return Database(
        latency_seconds=latency,
        clock=clock,
        # The answer was made at some time between the question and now.
        clock_offset_seconds=clock - before - latency / 2,
        missing_migrations=missing_migrations,
        runners=_runners(clock, using=connection.alias),
    )


def _clock_of(connection: BaseDatabaseWrapper) -> float:
    with connection.cursor() as cursor:
        cursor.execute(_CLOCK[connection.vendor])
        return float(cursor.fetchone()[0])


def _runners(clock: float, *, using: str) -> Runners:
    alive = draining = lost = 0
    oldest: float | None = None
    rows = Runner.objects.using(using).values_list("is_draining", "heartbeat_at")
    for is_draining, heartbeat_at in rows:
        age = max(0.0, clock - heartbeat_at.timestamp())
        if age > settings.LEASE_SECONDS:
            lost += 1
            continue
        alive += not is_draining
        draining += is_draining
        oldest = age if oldest is None else max(oldest, age)
    return Runners(alive=alive, draining=draining, lost=lost, oldest_heartbeat_seconds=oldest)
