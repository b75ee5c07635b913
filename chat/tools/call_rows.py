"""Rows of calls, and the locks under which they change."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from chat.core.notify import publish_after_commit
from chat.models import (
    OPEN_STATUSES,
    CallStatus,
    Conversation,
    InputStatus,
    Question,
    QuestionStatus,
    ToolCall,
    ToolInput,
)
from chat.runs.tool_calls import TOOL_CALLS, end_for_nobody
from chat.tools.checks import DELETED, why_refused


def read_call(pk: int) -> ToolCall | None:
    """The call with everything that a decision about it reads."""
    rows = ToolCall.objects.select_related(
        "tool__server",
        "approved_by",
        "executor",
        "question__conversation",
        "question__run__conversation",
        "question__run__requested_by",
    )
    return rows.defer("question__run__result").filter(pk=pk).first()


def why_refused_now(call: ToolCall) -> str:
    """As `checks.why_refused`, with what the database has."""
    current = read_call(call.pk)
    return why_refused(current) if current is not None else DELETED


def lock_conversation(pk: int) -> bool:
    """Locks out everybody who settles questions in the call's conversation, and other runners that claim its
    calls, until the caller's transaction ends. It comes before the rows of calls and questions. False if the
    conversation is gone."""
    rooms = Question.objects.filter(tool_call=pk).values("conversation")
    return Conversation.objects.select_for_update(no_key=True).filter(pk__in=rooms).exists()


def held_by(pk: int, claim: UUID) -> QuerySet[ToolCall]:
    """The call's row, as long as this claim owns it. An open call may wait for people."""
    return ToolCall.objects.filter(pk=pk, claim=claim, status__in=HELD)


# Calls that a runner holds: an open one that waits for input has a claim, too.
HELD = (CallStatus.RUNNING, CallStatus.INPUT)


def end_deleted(call: ToolCall, claim: UUID) -> bool:
    """Ends a held call of a deleted conversation, which nobody reads and nobody can be asked in. False if the conversation
    is there. Call it in the transaction that has locked the conversation."""
    rooms = Conversation.objects.filter(pk=call.question.conversation_id)
    if not rooms.filter(deleted_at__isnull=False).exists():
        return False
    if held_by(call.pk, claim).exists():
        end_for_nobody(call.question_id, DELETED)
        # Its task, if it has one, is canceled.
        publish_after_commit(TOOL_CALLS)
    return True


def withdraw_input(call: ToolCall) -> None:
    """Asks people for nothing more in the middle of the call: it goes on or ends without them. Call it in the
    transaction that has locked the conversation."""
    ToolInput.objects.filter(call=call.pk, status=InputStatus.OPEN).update(
        status=InputStatus.EXPIRED
    )
    ask_nobody(call)


def ask_nobody(call: ToolCall) -> None:
    """The question of a call that runs is no question."""
    Question.objects.filter(pk=call.question_id, status__in=OPEN_STATUSES).update(
        status=QuestionStatus.RUNNING, claimed_by=None, claimed_at=None
    )
