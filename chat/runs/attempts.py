"""Attempts of a run, recorded before and after each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from chat import events as canonical
from chat.core.prepared import PreparedUpdate, fetch
from chat.models import Attempt
from chat.runs import queries

# Characters.
MESSAGE_LENGTH = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
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
            # Only refusals show it.
            retry_after_seconds=error.retry_after_seconds if outcome == "refused" else None,
        )


def begin_attempt(run_pk: int, runner: UUID, dialect: str) -> int:
    """Records that the request is about to be sent. Returns the number of the attempt, including
    those of earlier runners; 0 if it must not be sent."""
    now = timezone.now()
    mine = [now, dialect, run_pk, runner]
    if connection.vendor == "postgresql":
        begun = fetch(queries.MARK_AND_COUNT_ATTEMPT, [*mine, now])
    else:
        with transaction.atomic():
            marked = fetch(queries.MARK_RUN, mine)
            begun = fetch(queries.COUNT_ATTEMPT, [run_pk, now]) if marked else []
    return begun[0][0] if begun else 0


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


def values_of(attempt: AttemptOutcome | None) -> list[object]:
    """The values of `queries.RECORD_ATTEMPT`."""
    ended = attempt or AttemptOutcome(number=0, outcome="")
    return [
        ended.outcome,
        ended.error_kind,
        ended.error_message,
        ended.retry_after_seconds,
        ended.number,
    ]
