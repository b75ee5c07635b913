"""Attempts of a run: recorded before a request is sent, and again when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from chat import events as canonical
from chat.core.prepared import PreparedUpdate, fetch
from chat.models import Attempt

# In characters.
MESSAGE_LENGTH = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
    """What became of an attempt."""

    number: int
    outcome: str
    error_kind: str = ""
    error_message: str = ""
    retry_after_seconds: float | None = None

    @classmethod
    def of(cls, number: int, outcome: str, error: canonical.ErrorInfo | None) -> Self:
        if error is None:
            return cls(number=number, outcome=outcome)
        return cls(
            number=number,
            outcome=outcome,
            error_kind=error.kind,
            error_message=error.message[:MESSAGE_LENGTH],
            # Of other failures it is shown nowhere.
            retry_after_seconds=error.retry_after_seconds if outcome == "refused" else None,
        )


def begin_attempt(run_pk: int, runner: UUID, dialect: str) -> int:
    """Records that the request is about to be sent. Returns the number of the attempt, including
    those of earlier runners; 0 if it must not be sent."""
    now = timezone.now()
    mine = [now, dialect, run_pk, runner]
    if connection.vendor == "postgresql":
        begun = fetch(_MARK_AND_COUNT, [*mine, now])
    else:
        with transaction.atomic():
            marked = fetch(_MARK, mine)
            begun = fetch(_COUNT, [run_pk, now]) if marked else []
    return begun[0][0] if begun else 0


# Marks the run as sent, and counts its attempts; `unless` is a query that must find nothing.
MARK = """
    UPDATE chat_run SET request_sent_at = %s, dialect = %s
    WHERE id = %s AND runner_id = %s AND status = 'running'
    AND stop_requested_at IS NULL AND request_sent_at IS NULL AND NOT EXISTS ({unless})
    RETURNING id
"""
INSERT = """
    INSERT INTO chat_attempt (run_id, number, started_at, outcome, error_kind, error_message)
    SELECT id, 1 + (SELECT COUNT(*) FROM chat_attempt WHERE run_id = marked.id), %s, '', '', ''
    FROM marked RETURNING number
"""
_MARK = MARK.format(unless="SELECT 1 WHERE FALSE")
_COUNT = "WITH marked AS (SELECT %s AS id)" + INSERT
_MARK_AND_COUNT = f"WITH marked AS ({_MARK})" + INSERT


def record_outcome_of(run_pk: int, attempt: AttemptOutcome) -> None:
    _record(
        run=run_pk,
        number=attempt.number,
        outcome=attempt.outcome,
        error_kind=attempt.error_kind,
        error_message=attempt.error_message,
        retry_after_seconds=attempt.retry_after_seconds,
    )


_record = PreparedUpdate(
    lambda run, number, outcome, error_kind, error_message, retry_after_seconds: (
        Attempt.objects.filter(run_id=run, number=number),
        {
            "outcome": outcome,
            "error_kind": error_kind,
            "error_message": error_message,
            "retry_after_seconds": retry_after_seconds,
        },
    )
)

# The same as part of the statement that ends a run, on PostgreSQL. A number of 0 finds nothing.
RECORD_CLAUSE = """
    UPDATE chat_attempt
    SET outcome = %s, error_kind = %s, error_message = %s, retry_after_seconds = %s
    FROM ended WHERE chat_attempt.run_id = ended.id AND chat_attempt.number = %s
"""


def values_of(attempt: AttemptOutcome | None) -> list[object]:
    """The values of `RECORD_CLAUSE`."""
    ended = attempt or AttemptOutcome(number=0, outcome="")
    return [
        ended.outcome,
        ended.error_kind,
        ended.error_message,
        ended.retry_after_seconds,
        ended.number,
    ]
