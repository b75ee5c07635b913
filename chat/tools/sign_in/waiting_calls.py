"""The calls that wait until somebody has connected an account."""

from __future__ import annotations

from django.utils import timezone

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
from chat.runs.tool_calls import TOOL_CALLS
from chat.tools import checks
from chat.tools.call_rows import read_call
from chat.tools.rules import Verdict


def show_connected(person: User, server: ToolServer) -> None:
    """Shows the cards of this person's waiting calls anew: the account is connected, or no longer is. Calls that only
    waited for it run, if their rule lets them."""
    waiting = ToolCall.objects.filter(
        executor=person, tool__server=server, status=CallStatus.APPROVAL
    )
    for pk in list(waiting.order_by("pk").values_list("pk", flat=True)):
        call = read_call(pk)
        if call is None:
            continue
        try:
            with questions.changed_room(call.question.conversation) as revision:
                _run_if_allowed(pk)
                questions.publish_run(call.question.run, revision)
        except ActionRefused:
            # The conversation was deleted.
            continue


def _run_if_allowed(pk: int) -> None:
    """Only a call that waits for nothing else. Call it under the lock of the conversation."""
    call = read_call(pk)
    if call is None or call.error != checks.NOT_CONNECTED:
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
