"""The calls that wait until somebody has connected an account."""

from __future__ import annotations

from django.utils import timezone

from chat import access
from chat.core.errors import ActionRefused
from chat.core.notify import publish_after_commit
from chat.models import (
    CallStatus,
    Question,
    QuestionStatus,
    ToolCall,
    ToolServer,
    User,
)
from chat.questions import actions as questions
from chat.runs.tool_calls import NEEDS_SCOPE, NOT_CONNECTED, TOOL_CALLS
from chat.tools import checks
from chat.tools.call_rows import read_call
from chat.tools.rules import Verdict


def show_connected(person: User, server: ToolServer) -> None:
    """Shows the cards of this person's waiting calls anew: the account is connected, or no longer is. No call runs."""
    waiting = ToolCall.objects.filter(
        executor=person, tool__server=server, status=CallStatus.APPROVAL
    )
    for pk in list(waiting.order_by("pk").values_list("pk", flat=True)):
        _show(pk)


def go_on_connected(person: User, question: Question) -> None:
    """The person has signed in at the card of this question: its call runs if it only waited for the account, and its
    rule lets it. All other calls are shown for approval, as nobody has looked at them now."""
    call = ToolCall.objects.filter(question=question, executor=person).first()
    if call is not None:
        _show(call.pk, starts_for=person)


def _show(pk: int, *, starts_for: User | None = None) -> None:
    call = read_call(pk)
    if call is None:
        return
    try:
        with questions.changed_room(call.question.conversation) as revision:
            if starts_for is not None:
                _run_if_allowed(pk, starts_for)
                # The call has asked for more rights, and is a usual approval now.
                waiting = ToolCall.objects.filter(pk=pk, status=CallStatus.APPROVAL)
                waiting.filter(error=NEEDS_SCOPE).update(error="")
            questions.publish_run(call.question.run, revision)
    except ActionRefused:
        # The conversation was deleted.
        return


def _run_if_allowed(pk: int, person: User) -> None:
    """Only a call that waits for nothing else, of an answer that goes on by itself. Call it under the lock of the
    conversation."""
    call = read_call(pk)
    if call is None or call.error not in (NOT_CONNECTED, NEEDS_SCOPE):
        return
    # Nobody has let the answer go on, or it is no longer the one that people look at.
    is_asked = access.questions_for(person).filter(pk=call.question_id).exists()
    if call.question.run.stop_requested_at is not None or not is_asked:
        return
    if checks.decide_at_call(call).verdict != Verdict.RUN:
        return
    opened = Question.objects.filter(pk=call.question_id, status=QuestionStatus.OPEN)
    if not opened.update(status=QuestionStatus.RUNNING):
        return
    ToolCall.objects.filter(pk=pk, status=CallStatus.APPROVAL).update(
        status=CallStatus.QUEUED, queued_at=timezone.now(), sent_at=None, error=""
    )
    publish_after_commit(TOOL_CALLS)
