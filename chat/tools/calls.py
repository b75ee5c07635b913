"""Decisions of people about calls that Tributary runs.

The caller has fetched every object through ``chat.access`` with the right to write. Each raises
``ActionRefused`` with a sentence if it comes too late or isn't possible. Those that settle the call return
the run that continues the answer, if nothing else is unsettled. An approval belongs to one call: of two at
the same moment one is refused.
"""

from __future__ import annotations

from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from chat import access
from chat.core.errors import ActionRefused
from chat.core.notify import publish_after_commit
from chat.events import JsonObject
from chat.models import (
    OWN_KINDS,
    AuditEvent,
    CallStatus,
    Conversation,
    InputSource,
    Question,
    QuestionStatus,
    Run,
    Tool,
    ToolCall,
    ToolChoice,
    ToolInput,
    User,
)
from chat.questions import actions as questions
from chat.runs.tool_calls import NOT_CONNECTED, TOOL_CALLS
from chat.tools import checks
from chat.tools.arguments import check_arguments
from chat.tools.definitions import call_digest

NOT_WAITING = gettext_lazy("This call isn’t waiting for a decision any more. Reload the page.")
NOT_DESTRUCTIVE = gettext_lazy(
    "This tool can delete or overwrite something, so each of its calls needs approval."
)
# Nothing of an earlier request of the call goes with the next one.
FROM_THE_START = {"sealed_state": "", "sealed_task": "", "answered_round": 0}
# The model reads this.
MAY_HAVE_RUN = gettext_noop("The call was sent, but its result was lost, so it may have run.")


def approve(
    user: User,
    call: ToolCall,
    arguments: JsonObject | None = None,
    *,
    keeps_private: bool | None = None,
) -> None:
    """Lets the call run, once. ``arguments`` replace those that the model asked for. ``keeps_private``: whether the result
    of a call with an account is for its executor alone; ``None`` is the tool's default."""
    if arguments is not None and call.tool is not None:
        check_arguments(arguments, call.tool.schema)
    chosen = call.arguments if arguments is None else arguments
    _check_connected(call)
    with questions.changed_room(call.question.conversation) as revision:
        if not _queue(user, call, CallStatus.APPROVAL, chosen):
            _check_same(user, call, chosen)
            return
        if keeps_private is not None and call.is_personal:
            ToolCall.objects.filter(pk=call.pk).update(keeps_private=keeps_private)
        is_edited = chosen != call.arguments
        _audit(user, call, "tool_call.approved", **({"edited": True} if is_edited else {}))
        questions.publish_run(call.question.run, revision)


def refuse(user: User, call: ToolCall, reason: str = "") -> Run | None:
    """Declines to run the call. The model is told, with the reason."""
    with questions.changed_room(call.question.conversation):
        is_news = ToolCall.objects.filter(pk=call.pk, status=CallStatus.APPROVAL).exists()
        follow_up = questions.refuse(user, call.question, reason)
        if is_news:
            _audit(user, call, "tool_call.refused")
    return follow_up


def choose(
    user: User,
    call: ToolCall,
    is_allowed: bool,
    *,
    arguments: JsonObject | None = None,
    reason: str = "",
    keeps_private: bool | None = None,
) -> Run | None:
    """Decides about all further calls of the tool in this conversation, and about those of this answer that
    wait for approval: this one with ``arguments``, or with the reason of its refusal. A destructive tool can't
    be allowed in advance (`may_always_allow`)."""
    tool = call.tool
    if tool is None:
        raise ActionRefused(gettext(checks.REMOVED))
    if is_allowed and not may_always_allow(call):
        raise ActionRefused(str(NOT_DESTRUCTIVE))
    conversation = call.question.conversation
    follow_up: Run | None = None
    with questions.changed_room(conversation):
        # The call itself first: if it can't be decided any more, nothing is.
        if is_allowed:
            approve(user, call, arguments, keeps_private=keeps_private)
        else:
            refuse(user, call, reason)
        is_private = call.keeps_private if keeps_private is None else keeps_private
        ToolChoice.objects.update_or_create(
            conversation=conversation,
            tool=tool,
            # The executor decides alone about calls with their account.
            person=user if call.is_personal else None,
            defaults={
                "is_allowed": is_allowed,
                "keeps_private": call.is_personal and is_private,
                # The person has seen the call, and no later definition.
                "definition_digest": call.definition_digest,
                "chosen_by": user,
                "chosen_at": timezone.now(),
            },
        )
        _audit(user, call, "tool_choice.always" if is_allowed else "tool_choice.never")
        for other in _others_waiting(call):
            _decide(user, other, is_allowed, keeps_private)
        if not is_allowed:
            follow_up = questions.run_after(call.question.run)
    return follow_up


def may_always_allow(call: ToolCall) -> bool:
    """Returns whether "always in this conversation" can be chosen."""
    return call.tool is not None and not call.tool.is_destructive


def forget_choice(user: User, conversation: Conversation, tool: Tool) -> None:
    """Withdraws what was decided for further calls of a tool: its rule alone holds."""
    with questions.changed_room(conversation):
        chosen = ToolChoice.objects.filter(conversation=conversation, tool=tool)
        removed, _ = chosen.filter(person=user if tool.is_personal else None).delete()
        if removed:
            AuditEvent.objects.record(
                user,
                "tool_choice.withdrawn",
                subject=conversation.owner,
                target=str(conversation.public_id),
                tool=tool.name,
            )


def run_again(user: User, call: ToolCall) -> None:
    """Runs a call that may have run once more."""
    _check_connected(call)
    with questions.changed_room(call.question.conversation) as revision:
        if not _queue(user, call, CallStatus.UNKNOWN, call.arguments):
            _check_same(user, call, call.arguments)
            return
        _audit(user, call, "tool_call.run_again")
        questions.publish_run(call.question.run, revision)


def give_result(user: User, call: ToolCall, output: str, *, is_error: bool = False) -> Run | None:
    """Settles a call with the result that a person gives instead of it."""
    return questions.give_result(user, call.question, output, is_error=is_error)


def go_on_without(user: User, call: ToolCall) -> Run | None:
    """Settles a call that may have run without a result. The model is told."""
    return questions.skip(user, call.question, MAY_HAVE_RUN)


# --- parts of the decisions ------------------------------------------------------------------------


def _check_connected(call: ToolCall) -> None:
    """Without the account the call would only ask again."""
    if call.tool is not None and not checks.is_connected(call.tool, call.executor):
        raise ActionRefused(gettext(NOT_CONNECTED))


def _decide(user: User, call: ToolCall, is_allowed: bool, keeps_private: bool | None) -> None:
    if is_allowed:
        approve(user, call, keeps_private=keeps_private)
    else:
        refuse(user, call, "")


def _others_waiting(call: ToolCall) -> list[ToolCall]:
    """The calls of the same tool that the same run waits to be approved."""
    rows = ToolCall.objects.filter(
        question__run=call.question.run_id, tool=call.tool_id, status=CallStatus.APPROVAL
    )
    # A retry may wait for two people's accounts.
    rows = rows.filter(executor=call.executor_id).exclude(pk=call.pk).order_by("pk")
    return list(rows.select_related("tool__server", "question__run", "question__conversation"))


def _queue(user: User, call: ToolCall, expected: CallStatus, arguments: JsonObject) -> bool:
    """Queues the call for a runner. False if it isn't in the expected state, or somebody else is
    answering its question."""
    if reason := _why_never(user, call):
        raise ActionRefused(gettext(reason))
    now = timezone.now()
    # The state that the server keeps of an earlier request belongs to its arguments.
    is_continued = expected == CallStatus.APPROVAL and arguments == call.arguments
    opened = questions.free_for(user).filter(pk=call.question_id)
    if not opened.update(status=QuestionStatus.RUNNING, claimed_by=None, claimed_at=None):
        return False
    queued = ToolCall.objects.filter(pk=call.pk, status=expected).update(
        status=CallStatus.QUEUED,
        arguments=arguments,
        approved_by=user,
        approved_at=now,
        queued_at=now,
        claim=None,
        runner=None,
        sent_at=None,
        progress={},
        error="",
        **({} if is_continued else FROM_THE_START),
    )
    if not queued:
        # The question was open, so the call waits for another decision than this one.
        raise ActionRefused(str(NOT_WAITING))
    if not is_continued:
        # The next task has keys of its own.
        ToolInput.objects.filter(call=call, source=InputSource.TASK).update(key="")
    # An answer that was stopped goes on by itself once somebody lets it.
    Run.objects.filter(pk=call.question.run_id).update(
        stop_requested_at=None, stop_requested_by=None
    )
    publish_after_commit(TOOL_CALLS)
    return True


def _why_never(user: User, call: ToolCall) -> str:
    if call.kind in OWN_KINDS:
        return checks.decide_about_own(call.question.run).reason
    tool = Tool.objects.select_related("server").filter(pk=call.tool_id or 0).first()
    if reason := checks.why_never(call.question.conversation, tool):
        return reason
    assert tool is not None
    if not access.may_use_tool(user, tool):
        return checks.FOR_GROUPS
    return "" if call_digest(tool) == call.definition_digest else checks.CHANGED


def _check_same(user: User, call: ToolCall, arguments: JsonObject) -> None:
    """The same approval again is a double click; any other came too late."""
    again = ToolCall.objects.filter(pk=call.pk, approved_by=user).first()
    if again is not None and again.arguments == arguments:
        return
    running = Question.objects.filter(pk=call.question_id, status=QuestionStatus.RUNNING)
    approver = ToolCall.objects.select_related("approved_by").get(pk=call.pk).approved_by
    if approver is not None and running.exists():
        text = gettext("%(person)s has already approved this.")
        raise ActionRefused(text % {"person": approver})
    raise ActionRefused(questions.why_not(call.question))


def _audit(user: User, call: ToolCall, verb: str, **details: object) -> None:
    conversation = call.question.conversation
    AuditEvent.objects.record(
        user,
        verb,
        subject=conversation.owner,
        target=str(conversation.public_id),
        question=str(call.question.public_id),
        tool=str(call.question.body.get("tool") or "")[:64],
        **details,
    )
