"""Counts calls by their outcomes, once they are stored."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from django.db import transaction

from chat.core import metrics
from chat.models import CallStatus, ToolCall


def count_call(call: ToolCall, status: str, ended_at: datetime | None = None) -> None:
    """Counts a call that ends with the transaction, and with ``ended_at`` how long it took. Its kind is one of a
    fixed set; a call of an unknown tool has none."""
    transaction.on_commit(partial(_count, call.kind or "none", str(CallStatus(status).value)))
    if ended_at is not None and call.sent_at is not None:
        seconds = max(0.0, (ended_at - call.sent_at).total_seconds())
        transaction.on_commit(partial(_time, call.kind, seconds))


def _count(kind: str, outcome: str) -> None:
    metrics.TOOL_CALLS.labels(kind, outcome).inc()


def _time(kind: str, seconds: float) -> None:
    metrics.TOOL_CALL_SECONDS.labels(kind).observe(seconds)
