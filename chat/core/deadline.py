"""Limits the time that a request waits for PostgreSQL: if a network drops packets, no answer
comes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

# A private name, but the only exception that says that the time ran out.
from psycopg.errors import _WaitTimeout

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

# How often psycopg checks whether it was interrupted.
INTERVAL_SECONDS = 0.1
# For this long after a statement without an answer, requests that waited for a thread fail without
# trying.
SILENT_SECONDS = 5.0

_of_thread = threading.local()
_silent_at: float | None = None


@contextmanager
def database_deadline(seconds: float | None, *, waited_seconds: float = 0.0) -> Iterator[None]:
    """Inside, this thread waits for PostgreSQL's answers no longer than this, all of them together;
    then the statement fails with ``OperationalError``. Other work is not limited. ``None`` sets no
    limit.

    ``waited_seconds`` in a queue count as well while the database does not answer, because the
    requests ahead had waited for the same.
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
    """Applies the deadline of the thread that uses the connection."""

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
            # The outcome of the statement is unknown, so nothing else may follow on this
            # connection.
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
