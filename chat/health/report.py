"""The responses of the health endpoints, for web servers and runners."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import msgspec
from django.conf import settings
from django.db import connection
from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext

from chat.core import metrics
from chat.core.process import Process, ProcessPhase, process
from chat.health import figures
from chat.health.checks import Findings, check_redis, checks
from chat.health.database import read_database

# A larger difference makes times on pages wrong, and cookies and tokens expire early or late.
CLOCK_SECONDS = 5.0
# Every connected user notices a longer delay.
LAG_SECONDS = 1.0

Status = Literal["ok", "degraded", "unavailable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """``failures`` say why this process cannot serve; ``problems`` only degrade it."""

    failures: list[str]
    problems: list[str]
    details: dict[str, object]

    @property
    def can_serve(self) -> bool:
        return not self.failures

    @property
    def status(self) -> Status:
        if self.failures:
            return "unavailable"
        return "degraded" if self.problems else "ok"

    def body(self, *, in_detail: bool) -> dict[str, object]:
        """Clients without access get the status alone."""
        told: dict[str, object] = {"status": self.status}
        if in_detail:
            told |= {**self.details, "problems": [*self.failures, *self.problems]}
        return told


def report(process: Process, findings: Findings, *, version: str) -> HealthReport:
    """A pure function: the same findings give the same report."""
    return HealthReport(
        failures=_failures(process, findings),
        problems=_problems(process, findings),
        details={
            "version": version,
            "part": process.part,
            "phase": process.phase.value,
            "database": _database(findings),
            "redis": findings.redis,
            "runners": _runners(findings),
            "event_loop_lag_seconds": _rounded(process.lag.longest),
        },
    )


def report_now() -> HealthReport:
    """The report for a page, over the connection of its own request: the database is there."""
    findings = Findings(database=read_database(connection), redis=check_redis())
    return report(process, findings, version=settings.VERSION)


def _failures(process: Process, findings: Findings) -> list[str]:
    database = findings.database
    found = []
    if process.phase == ProcessPhase.STARTING:
        found.append(gettext("This process is still starting."))
    if process.phase == ProcessPhase.DRAINING:
        found.append(gettext("This process is shutting down and accepts no new work."))
    if database.error == "timeout":
        found.append(gettext("The database doesn’t respond in time."))
    elif not database.is_there:
        text = gettext("The database can’t be reached (%(error)s).")
        found.append(text % {"error": database.error})
    elif database.missing_migrations:
        text = ngettext(
            "%(count)d database migration is missing. Run: python manage.py migrate",
            "%(count)d database migrations are missing. Run: python manage.py migrate",
            database.missing_migrations,
        )
        found.append(text % {"count": database.missing_migrations})
    return found


def _problems(process: Process, findings: Findings) -> list[str]:
    database = findings.database
    found = []
    if findings.redis == "away":
        found.append(
            gettext("Redis doesn’t respond. Everything works, but updates are up to a second late.")
        )
    if database.is_there and not database.runners.alive:
        found.append(gettext("No runner is online, so messages stay queued."))
    if abs(database.clock_offset_seconds) > CLOCK_SECONDS:
        text = gettext("The clocks of the database and this host differ by %(seconds)s s.")
        found.append(text % {"seconds": _in_words(abs(database.clock_offset_seconds))})
    lag = process.lag.longest or 0.0
    if lag > LAG_SECONDS:
        text = gettext("The event loop was blocked for %(seconds)s s.")
        found.append(text % {"seconds": _in_words(lag)})
    return found


def _in_words(seconds: float) -> str:
    return str(number_format(round(seconds, 1), 1))


def _database(findings: Findings) -> dict[str, object]:
    database = findings.database
    if not database.is_there:
        return {"status": "away", "error": database.error}
    return {
        "status": "ok",
        "latency_ms": round(database.latency_seconds * 1000, 2),
        "clock": datetime.fromtimestamp(database.clock, UTC).isoformat(timespec="milliseconds"),
        "clock_offset_seconds": round(database.clock_offset_seconds, 3) + 0.0,
        "missing_migrations": database.missing_migrations,
    }


def _runners(findings: Findings) -> dict[str, object] | None:
    """``None`` while the database is unavailable."""
    if not findings.database.is_there:
        return None
    runners = findings.database.runners
    return {
        "alive": runners.alive,
        "draining": runners.draining,
        "lost": runners.lost,
        "oldest_heartbeat_seconds": _rounded(runners.oldest_heartbeat_seconds),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


# --- the three endpoints, for web servers and for the server of a runner --------------------------

# Data only, also when it is opened in a browser, and not cached.
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class HealthResponse:
    status: int
    content_type: str
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        return {
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            **HEADERS,
        }


def alive() -> HealthResponse:
    """The event loop has run this line; nothing else is checked."""
    return _json(200, {"status": "ok"})


async def ready(*, in_detail: bool) -> HealthResponse:
    found = report(process, await checks.findings.get(), version=settings.VERSION)
    return _json(200 if found.can_serve else 503, found.body(in_detail=in_detail))


async def figures_page() -> HealthResponse:
    await figures.refresh()
    return HealthResponse(200, metrics.CONTENT_TYPE, metrics.exposition())


def refused(status: int, message: str) -> HealthResponse:
    return HealthResponse(status, "text/plain; charset=utf-8", f"{message}\n".encode())


def _json(status: int, value: object) -> HealthResponse:
    return HealthResponse(status, "application/json", msgspec.json.encode(value) + b"\n")
