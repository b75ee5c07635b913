"""The calls that runners claim, send and end. Every change names the claim that owns the row.

These functions are called in a database thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.core.encryption import DecryptionError
from chat.core.errors import is_database_unavailable
from chat.core.notify import publish_after_commit, room_topic
from chat.events import JsonObject
from chat.models import (
    OWN_KINDS,
    CallStatus,
    Message,
    QuestionStatus,
    ToolCall,
    ToolKind,
)
from chat.questions import actions as questions
from chat.runs.tool_call_metrics import count_call
from chat.runs.tool_calls import NOT_CONNECTED, TOOL_CALLS
from chat.tools import checks
from chat.tools.call_addresses import address_of
from chat.tools.call_rows import (
    HELD,
    end_deleted,
    held_by,
    lock_conversation,
    read_call,
    withdraw_input,
)
from chat.tools.endings import ask_people, end_call, may_repeat
from chat.tools.inputs import continuation_of
from chat.tools.kinds import Address, CallFailed, Continuation
from chat.tools.left_tasks import HAS_LEFT_TASK
from chat.tools.rules import Verdict
from chat.tools.sign_in.accounts import account_for_call

logger = logging.getLogger(__name__)

# Queued calls that one look at the queue reads.
MOST_QUEUED = 500
# Each runner that takes up a task may ask about it so long, however long nobody did: the server may have its result.
LEAST_TASK_SECONDS = 30.0
# A call that loses its runner so often before it was sent, or that may be repeated, fails.
MOST_ATTEMPTS = 5

_ANSWER = "question__run"
_PERSON = "question__run__requested_by"

# Sentences for people and for the model, stored in English; pages translate them.
LOST = gettext_noop("The call was sent, but then the server was interrupted, so it may have run.")
ABANDONED = gettext_noop("The call failed because the server was interrupted several times.")
LOCKED_STATE = gettext_noop(
    "What the server wanted kept for this call can’t be decrypted, so it can’t go on."
)
RESTORED = gettext_noop("Tributary was restored from a backup, so the call may have run.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedCall:
    """A call that this process may send, or go on with. ``address`` and ``continuation`` have credentials; ``seconds``
    is how long it may take."""

    pk: int
    claim: UUID
    kind: ToolKind
    arguments: JsonObject
    address: Address = field(repr=False)
    continuation: Continuation = field(repr=False)
    seconds: float
    # The key of the person whose message the answer is about.
    person: int | None = None
    # The account whose token is to be sent: it is read when the call starts.
    account: int | None = None
    # Its executor was asked for more rights already.
    has_asked_for_scope: bool = False
    traceparent: str = ""


# --- claiming --------------------------------------------------------------------------------------


def claim_due(runner: UUID, limit: int) -> list[ClaimedCall]:
    """Claims up to ``limit`` queued calls, the longest waiting first, of one answer no more than may run at once,
    and of one person no more than a share of this runner. A call that may no longer be made is ended, or waits
    for an approval."""
    claimed: list[ClaimedCall] = []
    held = _held()
    of_answers = Counter(held.values_list(_ANSWER, flat=True))
    of_people = Counter(held.filter(runner=runner).values_list(_PERSON, flat=True))
    for pk, answer, person in _due(of_answers, of_people):
        if len(claimed) >= limit:
            break
        if of_answers[answer] >= settings.TOOL_CALLS_AT_ONCE or of_people[person] >= _share():
            continue
        call = _try_to_claim(pk, runner)
        if call is not None:
            claimed.append(call)
            of_answers[answer] += 1
            of_people[person] += 1
    return claimed


def _share() -> int:
    """The calls of one person that one runner runs at once."""
    return max(int(settings.TOOL_CALLS_AT_ONCE), int(settings.TOOL_CALLS_PER_RUNNER) // 4)


def _due(
    of_answers: Counter[int], of_people: Counter[int | None]
) -> list[tuple[int, int, int | None]]:
    """Queued calls with their answer and person. Neither an answer nor a person without a free place, nor the many
    calls of one answer, take the places of others in it."""
    most = settings.TOOL_CALLS_AT_ONCE
    full_answers = [answer for answer, calls in of_answers.items() if calls >= most]
    full_people = [person for person, calls in of_people.items() if person and calls >= _share()]
    queued = ToolCall.objects.filter(status=CallStatus.QUEUED)
    queued = queued.exclude(**{f"{_ANSWER}__in": full_answers})
    queued = queued.exclude(**{f"{_PERSON}__in": full_people})
    order = ("queued_at", "pk")
    place = Window(RowNumber(), partition_by=F(_ANSWER), order_by=order)
    first = queued.annotate(place=place).filter(place__lte=most).order_by(*order)
    return list(first.values_list("pk", _ANSWER, _PERSON)[:MOST_QUEUED])


def _try_to_claim(pk: int, runner: UUID) -> ClaimedCall | None:
    """Claims one call. Its errors must not stop the others; those of an unavailable database are raised."""
    try:
        return _claim(pk, runner)
    except Exception as error:
        if is_database_unavailable(error):
            raise
        logger.exception("tool_call.unclaimed call=%d", pk)
        return None


def _claim(pk: int, runner: UUID) -> ClaimedCall | None:
    token = uuid4()
    with transaction.atomic():
        # The call is read after the lock is given, as what decides about it may have changed meanwhile.
        call = read_call(pk) if lock_conversation(pk) else None
        if call is None or not _has_place(call):
            return None
        claimed = ToolCall.objects.filter(pk=pk, status=CallStatus.QUEUED).update(
            status=CallStatus.RUNNING,
            runner=runner,
            claim=token,
            claimed_at=timezone.now(),
            attempt=F("attempt") + 1,
        )
        is_task = bool(call.sealed_task)
        if claimed and end_deleted(call, token):
            return None
        if not claimed or not (is_task or _is_allowed_still(call)):
            return None
        refusal = checks.why_refused(call) if is_task else ""
    try:
        if refusal:
            raise CallFailed(refusal, may_have_run=True)
        address, continuation = address_of(call), _continuation_of(call)
        account = _account_of(call)
    except CallFailed as failed:
        failed.may_have_run = failed.may_have_run or is_task
        end_call(pk, token, failed)
        return None
    logger.info("tool_call.claimed call=%d kind=%s attempt=%d", pk, call.kind, call.attempt + 1)
    return ClaimedCall(
        pk=pk,
        claim=token,
        kind=ToolKind(call.kind),
        arguments=call.arguments,
        address=address,
        continuation=continuation,
        seconds=_seconds_left(call),
        person=call.question.run.requested_by_id,
        account=account,
        has_asked_for_scope=bool(call.needed_scope),
        traceparent=_traceparent(call),
    )


def _traceparent(call: ToolCall) -> str:
    """The trace context of the call (W3C): the trace is the run, by its public id, and the parent of what the server does
    is the call, by that of its question. So its logs can be found by what a run’s details show."""
    question = call.question
    return f"00-{question.run.public_id.hex}-{question.public_id.hex[16:]}-01"


def _continuation_of(call: ToolCall) -> Continuation:
    """Raises ``CallFailed``."""
    try:
        return continuation_of(call)
    except DecryptionError:
        raise CallFailed(LOCKED_STATE, may_have_run=bool(call.sealed_task)) from None


def _seconds_left(call: ToolCall) -> float:
    """A task has the time of one call, whichever runner asks about it, and time enough to ask once."""
    seconds = float(settings.TOOL_CALL_SECONDS)
    if not call.sealed_task or call.sent_at is None:
        return seconds
    return max(LEAST_TASK_SECONDS, seconds - (timezone.now() - call.sent_at).total_seconds())


def _account_of(call: ToolCall) -> int | None:
    """The account of its executor, and of nobody else."""
    tool = call.tool
    if tool is None or tool.server is None or not tool.is_personal:
        return None
    account = account_for_call(call.executor, tool.server)
    if account is None:
        raise CallFailed(NOT_CONNECTED)
    return account.pk


def _has_place(call: ToolCall) -> bool:
    """Returns whether the answer may have one more call at once."""
    held = _held().filter(question__run=call.question.run_id)
    return held.count() < settings.TOOL_CALLS_AT_ONCE


def _is_allowed_still(call: ToolCall) -> bool:
    """Returns whether the call may be made right now. If not, it is refused, or waits for an approval. Call it in the
    transaction that checks or makes the claim."""
    decision = checks.decide_at_call(call)
    if decision.verdict == Verdict.RUN:
        return True
    mine = ToolCall.objects.filter(pk=call.pk, status=CallStatus.RUNNING)
    ended = {"claim": None, "runner": None, "error": decision.reason}
    if decision.verdict == Verdict.ASK:
        mine.update(status=CallStatus.APPROVAL, **ended)
        questions.reopen_running(call.question)
    else:
        over = {"finished_at": timezone.now(), "sealed_state": ""}
        mine.update(status=CallStatus.REFUSED, **over, **ended)
        count_call(call, CallStatus.REFUSED)
        reply = {"reason": decision.reason}
        questions.settle_running(call.question, QuestionStatus.DECLINED, reply)
    logger.info("tool_call.held_back call=%d verdict=%s", call.pk, decision.verdict)
    return False


# --- sending ---------------------------------------------------------------------------------------


def mark_sent(pk: int, claim: UUID) -> bool:
    """Stores that the call may have run from now on. False if it must not be sent: it was stopped, or may no
    longer be made."""
    with transaction.atomic():
        # The lock keeps out a stop, which would otherwise find a call that was not sent. What decides is read after it.
        call = read_call(pk) if lock_conversation(pk) else None
        if call is None:
            return False
        held = held_by(pk, claim).filter(sent_at__isnull=True)
        if end_deleted(call, claim) or not held.exists() or not _is_allowed_still(call):
            return False
        return bool(held.update(sent_at=timezone.now()))


def mark_refused(pk: int, claim: UUID) -> bool:
    """Stores that the server has refused the call unread, so that it may be sent once more. False if it is no longer
    this process's."""
    return bool(held_by(pk, claim).update(sent_at=None))


def still_held(claims: Mapping[int, UUID]) -> set[int]:
    """The calls among these, by their claims, that are still this process's."""
    rows = ToolCall.objects.filter(pk__in=claims, status__in=HELD)
    return {pk for pk, claim in rows.values_list("pk", "claim") if claims[pk] == claim}


def store_progress(pk: int, claim: UUID, progress: JsonObject) -> None:
    """Shows what the server told about a running call. It is no news of the conversation."""
    call = ToolCall.objects.select_related("question__conversation", "question__run").filter(pk=pk)
    found = call.defer("question__run__result").first()
    if found is None:
        return
    conversation = found.question.conversation
    with transaction.atomic():
        revision = conversation.touch_quietly()
        if held_by(pk, claim).update(progress=progress):
            Message.objects.filter(pk=found.question.run.message_id).update(revision=revision)
            publish_after_commit(room_topic(conversation.public_id))


# --- calls without a runner ------------------------------------------------------------------------


def settle_lost(runner: UUID, executing: Collection[int]) -> None:
    """Handles the running calls whose runner is gone: its row was deleted (`chat.runs.reaper`). So it does
    with this runner's own that it isn't ``executing``: the database's response to the claim was lost."""
    lost = _held().filter(Q(runner__isnull=True) | (Q(runner=runner) & ~Q(pk__in=list(executing))))
    for pk, claim in list(lost.values_list("pk", "claim")):
        try:
            give_back(pk, claim)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            # One call that can't be ended must not block the others.
            logger.exception("tool_call.unsettled call=%d", pk)


def _held() -> QuerySet[ToolCall]:
    """The calls that runners have, also those that wait for people meanwhile."""
    return ToolCall.objects.filter(status__in=HELD, claim__isnull=False)


def give_back(pk: int, claim: UUID | None) -> None:
    """Queues a call of a runner again if it was not sent, may be sent twice, or is done by a task; otherwise people
    decide."""
    call = _held().select_related("question").filter(pk=pk, claim=claim).first()
    if call is None or claim is None:
        return
    if call.sent_at is not None and not call.sealed_task and not may_repeat(pk):
        ask_people(pk, claim, LOST)
    elif call.attempt >= MOST_ATTEMPTS:
        end_call(pk, claim, CallFailed(ABANDONED, may_have_run=bool(call.sealed_task)))
    else:
        _queue_again(call, claim)


def _queue_again(call: ToolCall, claim: UUID) -> None:
    with transaction.atomic():
        if not lock_conversation(call.pk) or end_deleted(call, claim):
            return
        same = held_by(call.pk, claim).filter(sealed_task=call.sealed_task)
        same = same.filter(sent_at=call.sent_at) if call.sent_at else same.filter(sent_at=None)
        again = same.update(
            status=CallStatus.QUEUED,
            claim=None,
            runner=None,
            claimed_at=None,
            # The time of a task counts from the call that began it.
            sent_at=call.sent_at if call.sealed_task else None,
        )
        if again:
            withdraw_input(call)
            publish_after_commit(TOOL_CALLS)
    logger.info("tool_call.requeued call=%d again=%d", call.pk, again)


def settle_restored() -> int:
    """Asks people about the calls that were queued or running when a backup was made: they may have run since.
    The caller knows that no runner is alive. Returns how many."""
    # Reading files and skills once more does no harm.
    busy = ToolCall.objects.filter(_is_busy()).exclude(kind__in=OWN_KINDS)
    settled = 0
    for pk in list(busy.values_list("pk", flat=True)):
        # As if this process had sent it.
        token = uuid4()
        busy.filter(pk=pk).update(status=CallStatus.RUNNING, claim=token, runner=None)
        settled += ask_people(pk, token, RESTORED)
    return settled


def has_work() -> bool:
    """Returns whether any call is queued or held by a runner, or has left a task to be canceled."""
    # One statement: idle runners ask it all the time.
    return ToolCall.objects.filter(_is_busy() | HAS_LEFT_TASK).exists()


def _is_busy() -> Q:
    return Q(status__in=(CallStatus.QUEUED, CallStatus.RUNNING)) | Q(
        status=CallStatus.INPUT, claim__isnull=False
    )
