"""Replies to what a run waits for: questions, approvals, and results of tools.

The caller has fetched every object through ``chat.access`` with the right to write. A question is
settled once, by a conditional update. A claim reserves one for a person for ``CLAIM_SECONDS``; then
any other writer can take it over. When everything that a run waits for is settled, the run that
continues the answer is queued in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Q, QuerySet
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from chat import access, events
from chat.core import notify
from chat.core.errors import ActionRefused, storage_errors
from chat.core.text import clean
from chat.models import (
    UNSETTLED_STATUSES,
    AuditEvent,
    CallStatus,
    Conversation,
    InputStatus,
    Message,
    Question,
    QuestionKind,
    QuestionStatus,
    Run,
    RunStatus,
    SearchKind,
    ToolCall,
    ToolInput,
    Upstream,
    User,
)
from chat.questions.asking import settle
from chat.result.asks import Field, Option, fields_in, options_in
from chat.result.settled import Settled
from chat.runs.admission import Trigger
from chat.runs.resume import queue_follow_up
from chat.runs.tool_call_metrics import count_call
from chat.runs.tool_calls import TOOL_CALLS
from chat.search.sources import index_again

DELETED = gettext_lazy("This conversation was deleted.")
GONE_ON = gettext_lazy("The answer has already continued. Reload the page.")
RUNNING = gettext_lazy("This tool is already running. Wait for it to finish, or stop the answer.")
NOT_WAITING = gettext_lazy("This answer isn’t waiting for input.")
SERVER_REMOVED = gettext_lazy(
    "This answer’s server was removed, so the answer can’t continue. Try again with another server."
)
# Stored in English for people and the model; pages translate it.
NO_INPUT = gettext_noop("The tool asked for input, and the call was ended without it.")
SERVER_OFF = gettext_lazy(
    "This answer’s server is disabled, so the question stays open. Ask an administrator to "
    "enable it, or try again with another server."
)

# The names that a receipt has.
PEOPLE_OF_CALLS = ("tool_call__approved_by", "tool_call__executor")


# --- what a question offers --------------------------------------------------------------


def options_of(question: Question) -> list[Option]:
    return options_in(question.body)


def fields_of(question: Question) -> list[Field]:
    return fields_in(question.body)


def takes_text(question: Question) -> bool:
    """Returns whether free text may be given. It must be possible where nothing else is offered."""
    is_bare = not options_of(question) and not fields_of(question)
    return bool(question.body.get("allow_free_text")) or is_bare


def takes_several(question: Question) -> bool:
    return bool(question.body.get("multi_select"))


# --- claiming ------------------------------------------------------------------------------


def claim(user: User, question: Question) -> None:
    """Tells everyone "I'll answer this". Raises ``ActionRefused`` if somebody else has the
    claim."""
    with changed_room(question.conversation) as revision:
        taken = (
            free_for(user)
            .filter(pk=question.pk)
            .update(status=QuestionStatus.CLAIMED, claimed_by=user, claimed_at=timezone.now())
        )
        if not taken:
            raise ActionRefused(why_not(question))
        publish_run(question.run, revision)


def release(user: User, question: Question) -> None:
    """Gives back this user's own claim; any other state stays as it is."""
    with changed_room(question.conversation) as revision:
        Question.objects.filter(
            pk=question.pk, status=QuestionStatus.CLAIMED, claimed_by=user
        ).update(status=QuestionStatus.OPEN, claimed_by=None, claimed_at=None)
        publish_run(question.run, revision)


def free_for(user: User) -> QuerySet[Question]:
    """The questions that this user may settle: open ones, and claims that are theirs or have
    expired, without those about calls with somebody else's account."""
    return _unclaimed_for(user).filter(~Exists(access.calls_of_others(user)))


def _unclaimed_for(user: User) -> QuerySet[Question]:
    over = timezone.now() - timedelta(seconds=settings.CLAIM_SECONDS)
    is_free = Q(claimed_by=user) | Q(claimed_by__isnull=True) | Q(claimed_at__lt=over)
    return Question.objects.filter(
        Q(status=QuestionStatus.OPEN) | (Q(status=QuestionStatus.CLAIMED) & is_free)
    )


def why_not(question: Question) -> str:
    """Why the question can't be settled by somebody now."""
    now = Question.objects.select_related("claimed_by", "answered_by").get(pk=question.pk)
    if now.status == QuestionStatus.RUNNING:
        return str(RUNNING)
    call = ToolCall.objects.select_related("executor").filter(question=now, is_personal=True)
    if now.is_open and (personal := call.first()) is not None:
        return gettext("Only %(person)s can decide about this call.") % {
            "person": personal.executor or gettext("Someone")
        }
    if now.status == QuestionStatus.CLAIMED:
        return gettext("%(person)s is answering this. You can take over in a few minutes.") % {
            "person": now.claimed_by
        }
    return gettext("%(person)s has already responded to this.") % {
        "person": now.answered_by or gettext("Someone")
    }


# --- settling ------------------------------------------------------------------------------


def answer(
    user: User,
    question: Question,
    *,
    text: str = "",
    selected: Sequence[str] = (),
    fields: Mapping[str, str] = {},
) -> Run | None:
    """Answers a question. Returns the run that continues, if nothing else is open. Raises
    ``ActionRefused`` if the reply does not fit the question, is too long, or comes too late."""
    _check_kind(question, QuestionKind.ASK)
    text = clean(text).strip()
    selected = [clean(value) for value in dict.fromkeys(selected)]
    fields = {clean(name): clean(value) for name, value in fields.items()}
    _check_size(text, *selected, *fields.values())
    _check_fit(question, text=text, selected=selected, fields=fields)
    reply = {"text": text, "selected": selected, "fields": fields}
    return _settle(user, question, QuestionStatus.ANSWERED, reply)


def approve(user: User, question: Question, *, is_approved: bool, reason: str = "") -> Run | None:
    """Allows the upstream to run something, or forbids it. Returns and raises like ``answer``."""
    _check_kind(question, QuestionKind.APPROVAL)
    if not is_approved:
        return refuse(user, question, reason)
    reason = clean(reason).strip()
    _check_size(reason)
    reply = {"is_approved": True, "reason": reason}
    return _settle(user, question, QuestionStatus.ANSWERED, reply)


def give_result(
    user: User, question: Question, output: str, *, is_error: bool = False
) -> Run | None:
    """Stores the result of a tool; only its size is checked. Returns and raises like ``answer``."""
    _check_kind(question, QuestionKind.TOOL)
    output = clean(output)
    _check_size(output)
    reply = {"output": output, "is_error": is_error}
    return _settle(user, question, QuestionStatus.ANSWERED, reply)


def refuse(user: User, question: Question, reason: str = "") -> Run | None:
    """Declines a question, an approval, or to run a tool. The model is told, with the reason.
    Returns and raises like ``answer``."""
    reason = clean(reason).strip()
    _check_size(reason)
    return _settle(user, question, QuestionStatus.DECLINED, {"reason": reason})


def go_on_without(user: User, run: Run) -> Run | None:
    """Settles everything that is still open as not run, and continues the answer. This also works
    for an answer that was only paused. Returns the run that continues. Raises ``ActionRefused`` if
    somebody else is answering, or if the answer waits for nothing."""
    with changed_room(run.conversation) as revision:
        if later := run_after(run):
            if later.requested_by_id == user.pk:
                return later
            raise ActionRefused(GONE_ON)
        if not _may_go_on(run):
            raise ActionRefused(NOT_WAITING)
        # Also calls with the account of a colleague, who may be away: they are not made.
        free = list(_unclaimed_for(user).filter(run=run).values_list("pk", flat=True))
        Question.objects.filter(pk__in=free).update(
            status=QuestionStatus.EXPIRED, answered_by=user, answered_at=timezone.now()
        )
        _end_calls(free, CallStatus.REFUSED)
        left = run.questions.filter(status__in=UNSETTLED_STATUSES).first()
        if left is not None:
            raise ActionRefused(why_not(left))
        publish_run(run, revision)
        return _go_on(user, run)


def skip(user: User, question: Question, reason: str = "") -> Run | None:
    """Settles one question without an answer. The model is told the reason. Returns and raises like
    ``answer``."""
    return _settle(user, question, QuestionStatus.EXPIRED, {"reason": reason} if reason else {})


def settle_running(question: Question, status: QuestionStatus, reply: Mapping[str, object]) -> bool:
    """Settles the question of a call that Tributary runs, and continues the answer if nothing else is
    unsettled. False if it was settled otherwise."""
    with changed_room(question.conversation) as revision:
        running = Question.objects.filter(pk=question.pk, status=QuestionStatus.RUNNING)
        if not running.update(status=status, answered_at=timezone.now(), answer=dict(reply)):
            return False
        publish_run(question.run, revision)
        go_on_by_itself(question.run_id)
        return True


def reopen_running(question: Question) -> bool:
    """Asks people about a call that Tributary was to run. False if its question was settled."""
    with changed_room(question.conversation) as revision:
        running = Question.objects.filter(pk=question.pk, status=QuestionStatus.RUNNING)
        reopened = running.update(status=QuestionStatus.OPEN)
        publish_run(question.run, revision)
        return bool(reopened)


def _may_go_on(run: Run) -> bool:
    if run.status != RunStatus.INCOMPLETE:
        return run.status == RunStatus.WAITING
    return events.decode_result(run.result).ext.stop.reason == "pause"


def _settle(
    user: User, question: Question, status: QuestionStatus, reply: Mapping[str, object]
) -> Run | None:
    with changed_room(question.conversation) as revision:
        settled = (
            free_for(user)
            .filter(pk=question.pk)
            .update(status=status, answered_by=user, answered_at=timezone.now(), answer=dict(reply))
        )
        if not settled:
            return _second_time(user, question, status, reply)
        if question.kind == QuestionKind.TOOL:
            has_result = status == QuestionStatus.ANSWERED
            _end_calls([question.pk], CallStatus.DONE if has_result else CallStatus.REFUSED)
        if question.kind == QuestionKind.APPROVAL:
            _audit_approval(user, question, status)
        if question.kind != QuestionKind.TOOL:
            question.answer = dict(reply)
            index_again(SearchKind.QUESTION, question)
        publish_run(question.run, revision)
        return _go_on(user, question.run)


def _second_time(
    user: User, question: Question, status: QuestionStatus, reply: Mapping[str, object]
) -> Run | None:
    """The same reply again from the same user is a double click; any other reply came too late."""
    is_same = Question.objects.filter(pk=question.pk, answered_by=user, status=status).first()
    if is_same is None or is_same.answer != reply:
        raise ActionRefused(why_not(question))
    return run_after(question.run)


def _audit_approval(user: User, question: Question, status: QuestionStatus) -> None:
    AuditEvent.objects.record(
        user,
        "question.approved" if status == QuestionStatus.ANSWERED else "question.declined",
        subject=question.conversation.owner,
        target=str(question.conversation.public_id),
        question=str(question.public_id),
    )


def _go_on(user: User, run: Run) -> Run | None:
    """Queues the follow-up of a run that waits for nothing more."""
    _check_upstream(run)
    inputs = _inputs_of(run)
    if inputs is None:
        return None
    return queue_follow_up(run, inputs, Trigger.REPLY, requested_by=user)


def go_on_by_itself(run_pk: int) -> Run | None:
    """Queues the follow-up of a run whose last question was settled by a tool or a rule. It is requested by
    the person who requested the run. A reason why it can't be queued is noted with the answer, which people can
    continue then. Call it in the transaction that has locked the conversation."""
    run = Run.objects.select_related("conversation", "requested_by").get(pk=run_pk)
    inputs = _inputs_of(run)
    if inputs is None or run.stop_requested_at is not None or run_after(run) is not None:
        return None
    try:
        with transaction.atomic():
            _check_upstream(run)
            return queue_follow_up(run, inputs, Trigger.CONTINUATION, requested_by=run.requested_by)
    except ActionRefused as refusal:
        Run.objects.filter(pk=run.pk).update(notes=[*run.notes, str(refusal)])
        return None


def _inputs_of(run: Run) -> list[Settled] | None:
    """The inputs of the follow-up of a run; ``None`` if something isn't settled."""
    questions = list(run.questions.select_related("answered_by", *PEOPLE_OF_CALLS))
    if any(question.status in UNSETTLED_STATUSES for question in questions):
        return None
    return settle(events.decode_result(run.result), questions)


def _end_calls(questions: Sequence[int], status: CallStatus) -> None:
    """Ends the calls that people decided about otherwise than by running them."""
    waiting = (CallStatus.APPROVAL, CallStatus.UNKNOWN)
    calls = ToolCall.objects.filter(question__in=questions)
    # One that asks for input was sent. The runner that holds it, if any, drops it.
    asking = CallStatus.FAILED if status == CallStatus.REFUSED else status
    asked = calls.filter(status=CallStatus.INPUT)
    ToolInput.objects.filter(call__in=asked, status=InputStatus.OPEN).update(
        status=InputStatus.EXPIRED
    )
    # One that may have run was counted as such.
    for call in calls.filter(status__in=(CallStatus.APPROVAL, CallStatus.INPUT)):
        count_call(call, asking if call.status == CallStatus.INPUT else status)
    error = NO_INPUT if asking == CallStatus.FAILED else ""
    ended = {"finished_at": timezone.now(), "claim": None, "runner": None, "sealed_state": ""}
    asked.update(status=asking, error=error, **ended)
    calls.filter(status__in=waiting).update(status=status, **ended)
    # Tasks that nobody waits for are canceled.
    notify.publish_after_commit(TOOL_CALLS)


def run_after(run: Run) -> Run | None:
    return Run.objects.filter(message_id=run.message_id, position=run.position + 1).first()


# --- checks --------------------------------------------------------------------------------


@contextmanager
def changed_room(conversation: Conversation) -> Iterator[int]:
    """A transaction that changes the conversation; yields its new revision.

    Its first statement locks the room's row. Users who settle questions of one room wait for each
    other, so the last of them sees all replies and queues the follow-up.
    """
    with storage_errors(), transaction.atomic():
        revision = conversation.touch()
        if Conversation.objects.filter(pk=conversation.pk, deleted_at__isnull=False).exists():
            raise ActionRefused(DELETED)
        yield revision


def publish_run(run: Run, revision: int) -> None:
    Message.objects.filter(pk=run.message_id).update(revision=revision)
    notify.publish_after_commit(notify.room_topic(run.conversation.public_id))


def _check_kind(question: Question, kind: QuestionKind) -> None:
    if question.kind != kind:
        raise ActionRefused(gettext("The answer is waiting for something else. Reload the page."))


def _check_upstream(run: Run) -> None:
    # The current row is read: it may have been deleted since the run was fetched.
    upstream = Upstream.objects.filter(pk=run.upstream_id or 0).first()
    if upstream is None:
        raise ActionRefused(SERVER_REMOVED)
    if not upstream.is_enabled:
        raise ActionRefused(SERVER_OFF)


def _check_size(*texts: str) -> None:
    size = sum(len(text.encode()) for text in texts)
    if size > settings.TOOL_RESULT_BYTES:
        raise ActionRefused(
            gettext("This is %(size)s bytes long, and the limit is %(limit)s. Shorten it.")
            % {
                "size": number_format(size, use_l10n=True, force_grouping=True),
                "limit": number_format(
                    settings.TOOL_RESULT_BYTES, use_l10n=True, force_grouping=True
                ),
            }
        )


def _check_fit(
    question: Question, text: str, selected: Sequence[str], fields: Mapping[str, str]
) -> None:
    """Raises ``ActionRefused`` for a reply that the question does not offer."""
    offered = {option.value for option in options_of(question)}
    known = {field.name: field for field in fields_of(question)}
    filled = {name for name, value in fields.items() if value.strip()}
    missing = [f.label for f in known.values() if f.is_required and f.name not in filled]
    strange = [
        field.name
        for field in known.values()
        if field.options
        and field.name in filled
        and fields[field.name] not in {option.value for option in field.options}
    ]
    if set(selected) - offered or strange:
        raise ActionRefused(gettext("This option is no longer available. Reload the page."))
    if len(selected) > 1 and not takes_several(question):
        raise ActionRefused(gettext("Choose one option."))
    if text and not takes_text(question):
        raise ActionRefused(
            gettext("Choose one of the options. This question doesn’t accept other answers.")
        )
    if set(fields) - known.keys():
        raise ActionRefused(gettext("This field is no longer available. Reload the page."))
    if missing:
        raise ActionRefused(gettext("Fill in: %(fields)s.") % {"fields": ", ".join(missing)})
    if not (text or selected or filled):
        raise ActionRefused(gettext("Enter an answer, or decline the question."))
