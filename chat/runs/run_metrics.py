"""The metrics of one execution, and its lines in the server's log."""

from __future__ import annotations

import logging
import time

from chat import events as canonical
from chat.core import metrics
from chat.models import Run, Upstream

logger = logging.getLogger(__name__)

# The label for a server that was deleted while its run waited.
NO_UPSTREAM = "(removed)"


class Measure:
    """Measures one execution of one run, which began at this time of the monotonic clock.

    Nothing here is called per event, waits, or raises. The lines contain ids and numbers, never
    text of a prompt or an answer.
    """

    def __init__(self, run: Run, *, began_at: float) -> None:
        self._run = run.public_id
        self._upstream = NO_UPSTREAM
        self._began_at = began_at
        self._sent_at: float | None = None
        self._first_event_seconds: float | None = None
        waited = 0.0
        if run.claimed_at is not None:
            waited = max(0.0, (run.claimed_at - run.queued_at).total_seconds())
        metrics.QUEUE_SECONDS.observe(waited)
        logger.info("run.claimed run=%s runner=%s waited=%.3f", self._run, run.runner_id, waited)

    def sends(self, upstream: Upstream, *, attempt: int, dialect: str) -> None:
        """The request is about to be sent."""
        self._upstream = upstream.name
        self._sent_at = time.monotonic()
        logger.info(
            "run.sent run=%s upstream=%s dialect=%s attempt=%d",
            self._run,
            upstream.public_id,
            dialect,
            attempt,
        )

    def first_event(self) -> None:
        """The upstream's first event was read; it is not committed yet."""
        if self._sent_at is None:
            return
        self._first_event_seconds = time.monotonic() - self._sent_at
        metrics.FIRST_EVENT_SECONDS.labels(self._upstream).observe(self._first_event_seconds)
        logger.info("run.first_event run=%s seconds=%.3f", self._run, self._first_event_seconds)

    def attempt_over(self, outcome: str, error: canonical.ErrorInfo | None = None) -> None:
        """A request has ended, with any outcome."""
        metrics.ATTEMPTS.labels(self._upstream, outcome).inc()
        if error is not None:
            metrics.UPSTREAM_ERRORS.labels(self._upstream, error.kind).inc()
            logger.info(
                "run.attempt_failed run=%s outcome=%s kind=%s status=%s",
                self._run,
                outcome,
                error.kind,
                error.status,
            )

    def broken_off(self, cause: str) -> None:
        """Reading was ended from our side, before or after a request was sent."""
        if cause == "stopped":
            metrics.STOPS.inc()
        if self._sent_at is not None:
            self.attempt_over(cause)

    def ended(self, status: str, *, events: int, deltas: int, size_bytes: int) -> None:
        seconds = time.monotonic() - self._began_at
        metrics.RUN_SECONDS.observe(seconds)
        metrics.ENDED.labels(status).inc()
        logger.info(
            "run.ended run=%s status=%s events=%d deltas=%d bytes=%d seconds=%.3f",
            self._run,
            status,
            events,
            deltas,
            size_bytes,
            seconds,
        )
