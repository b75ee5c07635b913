"""Admission of runs: only `queue_run` queues them, after the checks that features register."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.utils.translation import ngettext

from chat.core import notify
from chat.core.errors import QueueFull
from chat.core.prepared import Prepared, insert
from chat.models import Run, RunStatus, User
from chat.models.run import LIVE_STATUSES


class Trigger(StrEnum):
    """The reason why a run is queued, for checks that hold for some runs only."""

    # Somebody sent or edited a message, or asked for another answer.
    MESSAGE = "message"
    # Somebody answered the last open question of an answer, or gave the last result of a tool.
    REPLY = "reply"
    # An answer continues by itself, so nobody sees a refusal.
    CONTINUATION = "continuation"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheck:
    """A feature's check of a run before it is queued, such as a limit or a budget.

    ``check`` gets the run before it is inserted, for these ``triggers`` only, and raises
    ``ActionRefused``. It runs in the transaction that queues the run, after the conversation has
    changed. Rows are locked in one order: the run before, the conversation, the person, and then
    the check's own.
    """

    name: str
    triggers: frozenset[Trigger]
    check: Callable[[Run], None]


_checks: tuple[AdmissionCheck, ...] = ()


def use_admission_checks(*checks: AdmissionCheck) -> None:
    """Sets the checks of this process, in their order. `chat.apps` calls it once."""
    global _checks
    _checks = checks


def queue_run(run: Run, trigger: Trigger) -> Run:
    """Inserts a new run as queued and tells the runners and its conversation. Call it inside the
    transaction that causes it.

    Raises ``ActionRefused`` if a check refuses it: this undoes the transaction of a message or a
    reply; a continuation stores the sentence with the answer. Raises ``IntegrityError`` for a known
    idempotency key, or for a second run at the same position of an answer.
    """
    for each in _checks:
        if trigger in each.triggers:
            each.check(run)
    run.status = RunStatus.QUEUED
    insert(run)
    notify.publish_after_commit(notify.QUEUED)
    notify.publish_after_commit(notify.room_topic(run.conversation.public_id))
    return run


# --- the limit per person ------------------------------------------------------------------


def _check_limit(run: Run) -> None:
    """Counts the live runs of a person, because every claim reads all queued runs. Concurrent
    requests of the same person wait here until this transaction is committed."""
    if not settings.IS_SQLITE:
        # Transactions of SQLite are serialized.
        _lock_person.first(person=run.requested_by_id)
    live = len(_live_runs_of.all(person=run.requested_by_id))
    if live >= settings.RUNS_PER_PERSON:
        text = ngettext(
            "You already have %(count)d answer in progress or queued. Wait for it to finish, or stop it.",
            "You already have %(count)d answers in progress or queued. "
            "Wait for one to finish, or stop one.",
            live,
        )
        raise QueueFull(text % {"count": live})


# Does not lock out rows that refer to the person, such as messages.
_lock_person: Prepared[Any] = Prepared(
    lambda person: (
        User.objects.select_for_update(no_key=True).filter(pk=person).values_list("pk", flat=True)
    )
)

_live_runs_of: Prepared[Any] = Prepared(
    lambda person: Run.objects.filter(requested_by=person, status__in=LIVE_STATUSES).values_list(
        "pk", flat=True
    )
)


LIMIT_PER_PERSON = AdmissionCheck(
    name="limit_per_person",
    # An answer that continues by itself took its place when its message was sent.
    triggers=frozenset({Trigger.MESSAGE, Trigger.REPLY}),
    check=_check_limit,
)
