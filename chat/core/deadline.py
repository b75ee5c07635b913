"""How long a request waits for PostgreSQL: one behind a network that swallows everything never answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

# A private name, and the only one that says that it was the time which ran out.
from psycopg.errors import _WaitTimeout

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

# psycopg's own: how often it looks whether it was interrupted.
INTERVAL_SECONDS = 0.1
# For this long after a statement without an answer, what has stood in line is not tried as well.
SILENT_SECONDS = 5.0

_of_thread = threading.local()
_silent_at: float | None = None


@contextmanager
def database_deadline(seconds: float | None, *, waited_seconds: float = 0.0) -> Iterator[None]:
    """Inside, this thread waits for PostgreSQL's answers no longer than this, all of them together;
    then the statement fails with ``OperationalError``. What else it does takes the time it takes.
    ``None`` sets no bound.

    ``waited_seconds`` in line count as well while the database does not answer: those before had
    waited for the same.
    """
    if seconds is not None and _is_silent():
        seconds -= waited_seconds
    _of_thread.left_seconds = seconds
    try:
        yield
    finally:
        _of_thread.left_seconds = None


def is_over() -> bool:
    left = _left_seconds()
    return left is not None and left <= 0


class DeadlineConnection(psycopg.Connection[Any]):
    """Keeps the deadline of the thread that uses it."""

    def wait(
        self,
        gen: PQGen[Value],
        interval: float = INTERVAL_SECONDS,
        timeout: float | None = None,
    ) -> Value:
        left = _left_seconds()
        if left is None or timeout is not None:
            return super().wait(gen, interval, timeout)
        began = time.monotonic()
        try:
            value = super().wait(gen, interval, max(0.0, left))
        except _WaitTimeout:
            # Nobody knows what has become of the statement, so nothing else may follow on it.
            self.pgconn.finish()
            _note_silence()
            raise psycopg.OperationalError("the database did not answer in time") from None
        finally:
            _of_thread.left_seconds = left - (time.monotonic() - began)
        _note_answer()
        return value


def _left_seconds() -> float | None:
    return getattr(_of_thread, "left_seconds", None)


def _is_silent() -> bool:
    return _silent_at is not None and time.monotonic() - _silent_at < SILENT_SECONDS


def _note_silence() -> None:
    global _silent_at
    if not _is_silent():
        logger.warning("database.silent")
    _silent_at = time.monotonic()


def _note_answer() -> None:
    global _silent_at
    _silent_at = None
