"""The calls of tools that a waiting answer runs: whether it waits for them, and their end by a stop."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.core import notify
from chat.models import (
    OPEN_STATUSES,
    CallStatus,
    InputStatus,
    Message,
    Question,
    QuestionStatus,
    Run,
    RunStatus,
    ToolAccount,
    ToolCall,
    ToolInput,
    User,
)
from chat.models.question import UNSETTLED_STATUSES, WAITS_FOR_PERSON
from chat.models.run import LIVE_STATUSES
from chat.runs.tool_call_metrics import count_call

# Topic of the runners' task that runs calls.
TOOL_CALLS = "tool_calls"

# Stored in English for people and the model; pages translate it.
STOPPED = gettext_noop("The call was stopped.")
STOPPED_LATE = gettext_noop("The call was stopped after it was sent, so it may have run.")
# With one of these as its ``error``, a call waits until its executor has signed in.
NOT_CONNECTED = gettext_noop("This tool needs an account at its server.")
NEEDS_SCOPE = gettext_noop("The server wants more rights of the account for this call.")


class WaitingFor(StrEnum):
    """The reason why an answer has the status "waiting"."""

    PEOPLE = "people"
    # Nobody is asked: it counts as an answer that is being written.
    TOOLS = "tools"
    # Somebody has to continue it.
    NOTHING = "nothing"


def waiting_for(statuses: Iterable[str]) -> WaitingFor:
    """The reason why an answer waits, by the statuses of its last run's questions."""
    found = set(statuses)
    if found & set(OPEN_STATUSES):
        return WaitingFor.PEOPLE
    return WaitingFor.TOOLS if QuestionStatus.RUNNING in found else WaitingFor.NOTHING


def running_questions() -> QuerySet[Question]:
    """The questions whose calls are queued or running."""
    return Question.objects.filter(status=QuestionStatus.RUNNING)


def with_account(questions: QuerySet[Question]) -> QuerySet[Question]:
    """The questions with ``has_account``: whether the executor of the call has an account at its server."""
    account = ToolAccount.objects.filter(
        person=OuterRef("tool_call__executor"),
        server=OuterRef("tool_call__tool__server"),
        problem="",
    )
    return questions.annotate(has_account=Exists(account))


def stoppable_questions() -> QuerySet[Question]:
    """The questions whose calls are queued or running, or ask people for input: a runner may hold such a call, and its
    server may have a task for it."""
    asks = Q(status__in=OPEN_STATUSES, tool_call__status=CallStatus.INPUT)
    return Question.objects.filter(Q(status=QuestionStatus.RUNNING) | asks)


def is_stoppable_run() -> Q:
    """The condition that `chat.conversations.actions.conversation.stop_run` has something to end: the run is live, or a
    call of it asks people for input."""
    return Q(status__in=LIVE_STATUSES) | Q(Exists(stoppable_questions().filter(run=OuterRef("pk"))))


def is_live_run() -> Q:
    """The condition that a run is queued or executed, or that its tools run."""
    return Q(status__in=LIVE_STATUSES) | Q(Exists(running_questions().filter(run=OuterRef("pk"))))


def is_live(message: Any) -> Q:
    """The condition that the answer with this key (a value, a placeholder or an outer column) is queued or being
    written, or runs tools."""
    runs = Run.objects.filter(message=message)
    return _is_any_live(runs, running_questions().filter(run__message=message))


def has_live_answer(conversation: Any) -> Q:
    """The condition that some answer in the conversation, named as in `is_live`, is live in this sense."""
    runs = Run.objects.filter(conversation=conversation)
    return _is_any_live(runs, running_questions().filter(conversation=conversation))


def waits_for_person(conversation: Any) -> Exists:
    """The condition that some answer in the conversation, named as in `is_live`, waits for a person."""
    return Exists(Question.objects.filter(WAITS_FOR_PERSON, conversation=conversation))


def _is_any_live(runs: QuerySet[Run], running: QuerySet[Question]) -> Q:
    return Q(Exists(runs.filter(status__in=LIVE_STATUSES))) | Q(Exists(running))


def stop_calls(user: User | None, run: Run) -> bool:
    """Ends the calls that the answer of the run waits for, and returns whether there were any. The answer
    doesn't continue by itself then. The runner drops a call that it no longer owns."""
    waiting = stoppable_questions().filter(run__message=run.message_id)
    if not waiting.exists():
        return False
    with transaction.atomic():
        # Locks the conversation, so that no result is stored meanwhile.
        revision = run.conversation.touch()
        for question in waiting.order_by("pk"):
            _stop_call(user, question)
        Run.objects.filter(message=run.message_id, status=RunStatus.WAITING).update(
            stop_requested_at=timezone.now(), stop_requested_by=user
        )
        Message.objects.filter(pk=run.message_id).update(revision=revision)
        notify.publish_after_commit(TOOL_CALLS)
    return True


def _stop_call(user: User | None, question: Question) -> None:
    calls = ToolCall.objects.filter(question=question)
    is_harmless = calls.filter(Q(sent_at__isnull=True) | Q(tool__is_read_only=True)).exists()
    reason = STOPPED if is_harmless else STOPPED_LATE
    end_for_nobody(question.pk, reason, user)


def end_for_nobody(question: int, reason: str, user: User | None = None) -> None:
    """Ends a call and what it asks without a result, and without going on with the answer. Call it in the transaction
    that has locked the conversation."""
    now = timezone.now()
    Question.objects.filter(pk=question, status__in=UNSETTLED_STATUSES).update(
        status=QuestionStatus.EXPIRED,
        claimed_by=None,
        claimed_at=None,
        answered_by=user,
        answered_at=now,
        answer={"reason": reason},
    )
    calls = ToolCall.objects.filter(question=question)
    for call in calls:
        count_call(call, CallStatus.FAILED)
    asked = ToolInput.objects.filter(call__question=question, status=InputStatus.OPEN)
    asked.update(status=InputStatus.EXPIRED)
    ended = {"claim": None, "runner": None, "finished_at": now, "sealed_state": ""}
    calls.update(status=CallStatus.FAILED, error=reason, **ended)
