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
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.core.encryption import DecryptionError
from chat.core.errors import is_database_unavailable
from chat.core.notify import publish_after_commit, room_topic
from chat.events import JsonObject
from chat.models import (
    CallStatus,
    Message,
    QuestionStatus,
    Tool,
    ToolCall,
    ToolKind,
    ToolRequest,
)
from chat.questions import actions as questions
from chat.runs.tool_calls import TOOL_CALLS
from chat.tools import checks
from chat.tools.call_rows import held_by, lock_conversation, read_call
from chat.tools.endings import ask_people, end_call, may_repeat
from chat.tools.http_definition import arguments_of
from chat.tools.kinds import Address, CallFailed
from chat.tools.rules import Verdict
from chat.tools.sign_in.accounts import account_for_call

logger = logging.getLogger(__name__)

# Queued calls that one look at the queue reads.
MOST_QUEUED = 500
# A call that loses its runner so often before it was sent, or that may be repeated, fails.
MOST_ATTEMPTS = 5

_ANSWER = "question__run"
_PERSON = "question__run__requested_by"

# Sentences for people and for the model, stored in English; pages translate them.
LOST = gettext_noop("The call was sent, but then the server was interrupted, so it may have run.")
ABANDONED = gettext_noop("The call failed because the server was interrupted several times.")
LOCKED = gettext_noop(
    "The stored headers of this tool can’t be decrypted. Ask an administrator to enter them again."
)
NO_ADDRESS = gettext_noop("This tool has no address.")
RESTORED = gettext_noop("Tributary was restored from a backup, so the call may have run.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedCall:
    """A call that this process may send. ``address`` has credentials."""

    pk: int
    claim: UUID
    kind: ToolKind
    arguments: JsonObject
    address: Address = field(repr=False)
    # The account whose token is to be sent: it is read when the call starts.
    account: int | None = None


# --- claiming --------------------------------------------------------------------------------------


def claim_due(runner: UUID, limit: int) -> list[ClaimedCall]:
    """Claims up to ``limit`` queued calls, the longest waiting first, of one answer no more than may run at once,
    and of one person no more than a share of this runner. A call that may no longer be made is ended, or waits
    for an approval."""
    claimed: list[ClaimedCall] = []
    running = ToolCall.objects.filter(status=CallStatus.RUNNING)
    of_answers = Counter(running.values_list(_ANSWER, flat=True))
    of_people = Counter(running.filter(runner=runner).values_list(_PERSON, flat=True))
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
        if not claimed or not _is_allowed_still(call):
            return None
    try:
        address, account = _address_of(call), _account_of(call)
    except CallFailed as failed:
        end_call(pk, token, failed)
        return None
    logger.info("tool_call.claimed call=%d kind=%s attempt=%d", pk, call.kind, call.attempt + 1)
    return ClaimedCall(
        pk=pk,
        claim=token,
        kind=ToolKind(call.kind),
        arguments=call.arguments,
        address=address,
        account=account,
    )


def _account_of(call: ToolCall) -> int | None:
    """The account of its executor, and of nobody else."""
    tool = call.tool
    if tool is None or tool.server is None or not tool.is_personal:
        return None
    account = account_for_call(call.executor, tool.server)
    if account is None:
        raise CallFailed(checks.NOT_CONNECTED)
    return account.pk


def _has_place(call: ToolCall) -> bool:
    """Whether the answer may have one more call at once."""
    running = ToolCall.objects.filter(status=CallStatus.RUNNING, question__run=call.question.run_id)
    return running.count() < settings.TOOL_CALLS_AT_ONCE


def _is_allowed_still(call: ToolCall) -> bool:
    """Whether the call may be made right now. If not, it is refused, or waits for an approval. Call it in the
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
        mine.update(status=CallStatus.REFUSED, finished_at=timezone.now(), **ended)
        reply = {"reason": decision.reason}
        questions.settle_running(call.question, QuestionStatus.DECLINED, reply)
    logger.info("tool_call.held_back call=%d verdict=%s", call.pk, decision.verdict)
    return False


def _address_of(call: ToolCall) -> Address:
    """Raises ``CallFailed``."""
    tool = call.tool
    assert tool is not None
    try:
        if tool.kind == ToolKind.HTTP:
            return _address_of_request(tool)
        if tool.server is not None:
            # An account is sent without a key of the team.
            headers = {} if tool.is_personal else tool.server.open_headers()
            return Address(url=tool.server.address, headers=headers, name=tool.remote_name)
    except DecryptionError:
        raise CallFailed(LOCKED) from None
    raise CallFailed(NO_ADDRESS)


def _address_of_request(tool: Tool) -> Address:
    request = ToolRequest.objects.filter(tool=tool).first()
    if request is None:
        raise CallFailed(NO_ADDRESS)
    # Its encryption names the tool.
    request.tool = tool
    is_open = tool.schema.get("additionalProperties") is True
    return Address(
        url=request.address,
        headers=request.open_headers(),
        method=request.method,
        name=tool.name,
        arguments=None if is_open else arguments_of(tool.schema),
    )


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
        if not held.exists() or not _is_allowed_still(call):
            return False
        return bool(held.update(sent_at=timezone.now()))


def mark_refused(pk: int, claim: UUID) -> bool:
    """Stores that the server has refused the call unread, so that it may be sent once more. False if it is no longer
    this process's."""
    return bool(held_by(pk, claim).update(sent_at=None))


def still_held(claims: Mapping[int, UUID]) -> set[int]:
    """The calls among these, by their claims, that are still this process's."""
    rows = ToolCall.objects.filter(pk__in=claims, status=CallStatus.RUNNING)
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
    lost = ToolCall.objects.filter(status=CallStatus.RUNNING).filter(
        Q(runner__isnull=True) | (Q(runner=runner) & ~Q(pk__in=list(executing)))
    )
    for pk, claim in list(lost.values_list("pk", "claim")):
        try:
            give_back(pk, claim)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            # One call that can't be ended must not block the others.
            logger.exception("tool_call.unsettled call=%d", pk)


def give_back(pk: int, claim: UUID | None) -> None:
    """Queues a running call again if it was not sent, or may be sent twice; otherwise people decide."""
    held = ToolCall.objects.filter(pk=pk, claim=claim, status=CallStatus.RUNNING)
    call = held.first()
    if call is None or claim is None:
        return
    if call.sent_at is not None and not may_repeat(pk):
        ask_people(pk, claim, LOST)
    elif call.attempt >= MOST_ATTEMPTS:
        end_call(pk, claim, CallFailed(ABANDONED))
    else:
        same = held.filter(sent_at=call.sent_at) if call.sent_at else held.filter(sent_at=None)
        with transaction.atomic():
            again = same.update(
                status=CallStatus.QUEUED, claim=None, runner=None, claimed_at=None, sent_at=None
            )
            if again:
                publish_after_commit(TOOL_CALLS)
        logger.info("tool_call.requeued call=%d again=%d", pk, again)


def settle_restored() -> int:
    """Asks people about the calls that were queued or running when a backup was made: they may have run since.
    The caller knows that no runner is alive. Returns how many."""
    busy = (CallStatus.QUEUED, CallStatus.RUNNING)
    settled = 0
    for pk in list(ToolCall.objects.filter(status__in=busy).values_list("pk", flat=True)):
        # As if this process had sent it.
        token = uuid4()
        ToolCall.objects.filter(pk=pk, status__in=busy).update(
            status=CallStatus.RUNNING, claim=token, runner=None
        )
        settled += ask_people(pk, token, RESTORED)
    return settled


def has_work() -> bool:
    """Whether any call is queued or running."""
    busy = (CallStatus.QUEUED, CallStatus.RUNNING)
    return ToolCall.objects.filter(status__in=busy).exists()
