"""Answers to what tools ask people in the middle of calls.

When everything that a call asks is answered, a runner goes on with it: the one that holds the open call, or any
that makes the call again with the answers.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.core.errors import ActionRefused
from chat.core.notify import publish_after_commit
from chat.events import JsonObject
from chat.models import (
    AuditEvent,
    CallStatus,
    InputSource,
    InputStatus,
    Question,
    QuestionStatus,
    Run,
    ToolCall,
    ToolInput,
    User,
)
from chat.questions.actions import changed_room, free_for, publish_run, refuse, why_not
from chat.runs.tool_calls import TOOL_CALLS

# Bytes of all values of a form.
CONTENT_BYTES = 64 * 1024

NOT_ASKED = gettext_lazy("This call isn’t waiting for input any more. Reload the page.")
NOT_YOURS = gettext_lazy("You can’t answer this.")
TOO_LONG = gettext_lazy("This is too long for the tool. Shorten it.")
STATUS_OF = {
    "accept": InputStatus.ACCEPTED,
    "decline": InputStatus.DECLINED,
    "cancel": InputStatus.CANCELED,
}


# The reason why a call may no longer be made, in English; empty if it may.
RefusalCheck = Callable[[ToolCall], str]
_refusal_checks: list[RefusalCheck] = []


def use_refusal_check(check: RefusalCheck) -> None:
    """Sets what decides whether a call may go on with an answer. `chat.apps` calls it once."""
    _refusal_checks[:] = [check]


def may_answer(user: User, call: ToolCall) -> bool:
    """Returns whether this person may answer what the call asks: the executor of a call with an account, otherwise
    everybody who writes in the conversation."""
    if call.is_personal and call.executor_id != user.pk:
        return False
    rooms = access.writable_conversations(user)
    return rooms.filter(pk=call.question.conversation_id).exists()


def answer(user: User, call: ToolCall, asked: ToolInput, action: str, content: JsonObject) -> None:
    """Accepts with the values of the form, declines, or dismisses the request. Raises ``ActionRefused`` if it comes too
    late, or if the call may no longer be made: then the values are not sent."""
    status = STATUS_OF[action]
    values = content if status == InputStatus.ACCEPTED else {}
    if len(msgspec.json.encode(values)) > CONTENT_BYTES:
        raise ActionRefused(str(TOO_LONG))
    if not may_answer(user, call):
        raise ActionRefused(str(NOT_YOURS))
    question = call.question
    with changed_room(question.conversation) as revision:
        if not free_for(user).filter(pk=question.pk).exists():
            _check_same(user, asked, status, values)
            return
        waiting = ToolInput.objects.filter(
            pk=asked.pk, status=InputStatus.OPEN, call__status=CallStatus.INPUT
        )
        answered = waiting.update(
            status=status, content=values, answered_by=user, answered_at=timezone.now()
        )
        if not answered:
            _check_same(user, asked, status, values)
            return
        if status == InputStatus.ACCEPTED:
            _check_still_made(call)
        _audit(user, call, status)
        if asked.source == InputSource.REFUSAL and status != InputStatus.ACCEPTED:
            _refuse(user, question)
            return
        _go_on(question, asked)
        publish_run(question.run, revision)


def _check_still_made(call: ToolCall) -> None:
    """The runner would refuse the call after the answer."""
    for check in _refusal_checks:
        if reason := check(call):
            raise ActionRefused(gettext(reason))


def _refuse(user: User, question: Question) -> None:
    """Ends a call that its server makes only after somebody has opened an address. It was refused, so it has not run, and
    making it again would ask the same."""
    call = ToolCall.objects.filter(question=question, status=CallStatus.INPUT)
    open_inputs = ToolInput.objects.filter(call__question=question, status=InputStatus.OPEN)
    open_inputs.update(status=InputStatus.EXPIRED)
    over = {"finished_at": timezone.now(), "claim": None, "runner": None, "sealed_state": ""}
    call.update(status=CallStatus.REFUSED, **over)
    refuse(user, question)


def _go_on(question: Question, asked: ToolInput) -> None:
    """Lets a runner go on with the call, if it waits for no other answer."""
    call = ToolCall.objects.select_for_update(of=("self",)).get(question=question)
    # A runner that holds the open call brings each answer at once.
    publish_after_commit(TOOL_CALLS)
    if call.inputs.filter(status=InputStatus.OPEN).exists():
        return
    mine = ToolCall.objects.filter(pk=call.pk, status=CallStatus.INPUT)
    if call.claim is not None:
        mine.update(status=CallStatus.RUNNING)
    else:
        now = timezone.now()
        mine.update(
            status=CallStatus.QUEUED,
            queued_at=now,
            attempt=0,
            answered_round=asked.round,
            # The task goes on with what was sent; every other call is sent once more.
            sent_at=now if call.sealed_task else None,
        )
    Question.objects.filter(pk=question.pk).update(
        status=QuestionStatus.RUNNING, claimed_by=None, claimed_at=None
    )
    # An answer that was stopped goes on by itself once somebody lets it.
    Run.objects.filter(pk=question.run_id).update(stop_requested_at=None, stop_requested_by=None)


def _check_same(user: User, asked: ToolInput, status: str, values: JsonObject) -> None:
    """The same answer again is a double click; any other came too late."""
    now = ToolInput.objects.select_related("answered_by", "call__question").get(pk=asked.pk)
    if now.answered_by_id == user.pk and (now.status, now.content) == (status, values):
        return
    if now.answered_by is not None:
        text = gettext("%(person)s has already answered this.")
        raise ActionRefused(text % {"person": now.answered_by})
    question = now.call.question
    is_claimed = now.is_open and question.status == QuestionStatus.CLAIMED
    raise ActionRefused(why_not(question) if is_claimed else str(NOT_ASKED))


def _audit(user: User, call: ToolCall, status: str) -> None:
    conversation = call.question.conversation
    AuditEvent.objects.record(
        user,
        "tool_call.answered",
        subject=conversation.owner,
        target=str(conversation.public_id),
        question=str(call.question.public_id),
        tool=str(call.question.body.get("tool") or "")[:64],
        decision=status,
    )
