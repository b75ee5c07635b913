"""Requests of tools to people in the middle of calls: stored by runners, with the answers that they take from there.

People answer in `chat.questions.input_actions`. These functions are called in a database thread.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.core.notify import publish_after_commit
from chat.models import (
    CallStatus,
    InputSource,
    InputStatus,
    ToolCall,
    ToolInput,
)
from chat.questions import actions as questions
from chat.runs.tool_calls import TOOL_CALLS
from chat.tools.call_rows import (
    ask_nobody,
    end_deleted,
    held_by,
    lock_conversation,
    read_call,
)
from chat.tools.kinds import AskedInput, Continuation, InputNeeded, InputReply

logger = logging.getLogger(__name__)

# A tool that asks more often asks for ever.
MOST_ROUNDS = 10

TOO_OFTEN = gettext_noop("The tool has asked for input too often.")

_ACTIONS = {
    InputStatus.ACCEPTED: "accept",
    InputStatus.DECLINED: "decline",
}


class TooOften(Exception):
    """The tool may ask for nothing more. Its text is a sentence for people, in English."""

    def __init__(self) -> None:
        super().__init__(TOO_OFTEN)


def store_inputs(pk: int, claim: UUID, needed: InputNeeded) -> bool:
    """Stores what a call needs before it can go on, and gives up the claim: the call waits for people without a
    runner. False if the claim doesn't own the call any more. Raises ``TooOften``."""
    call = read_call(pk)
    if call is None:
        return False
    with transaction.atomic():
        if not lock_conversation(pk) or end_deleted(call, claim):
            return False
        asked = held_by(pk, claim).filter(status=CallStatus.RUNNING, rounds__lt=MOST_ROUNDS)
        stored = asked.update(
            status=CallStatus.INPUT,
            claim=None,
            runner=None,
            rounds=F("rounds") + 1,
            answered_round=0,
            progress={},
            sealed_state=call.seal_state(needed.state),
        )
        if not stored:
            return _refuse(pk, claim)
        _create(call, needed.asked, needed.source, call.rounds + 1)
        questions.reopen_running(call.question)
        publish_after_commit(TOOL_CALLS)
    logger.info("tool_call.needs_input call=%d source=%s", pk, needed.source)
    return True


def open_input(pk: int, claim: UUID, asked: AskedInput, expires_at: datetime) -> int | None:
    """Asks people while a runner holds the open call; the key of the row. ``None`` if the claim doesn't own the call
    any more, or the tool has asked too often."""
    call = read_call(pk)
    if call is None:
        return None
    with transaction.atomic():
        if not lock_conversation(pk) or end_deleted(call, claim):
            return None
        held = held_by(pk, claim).filter(rounds__lt=MOST_ROUNDS)
        if not held.update(status=CallStatus.INPUT, rounds=F("rounds") + 1):
            return None
        number = ToolCall.objects.values_list("rounds", flat=True).get(pk=pk)
        (row,) = _create(call, [asked], InputSource.OPEN_CALL, number, expires_at)
        questions.reopen_running(call.question)
    logger.info("tool_call.needs_input call=%d source=%s", pk, InputSource.OPEN_CALL)
    return row.pk


def expire_input(pk: int, claim: UUID, row: int) -> None:
    """Ends the time to answer a request of an open call. The call runs again, if it asks for nothing else."""
    call = read_call(pk)
    if call is None:
        return
    with transaction.atomic():
        if not lock_conversation(pk) or end_deleted(call, claim):
            return
        request = ToolInput.objects.filter(pk=row, status=InputStatus.OPEN)
        if request.update(status=InputStatus.EXPIRED, answered_at=timezone.now()):
            resume_open_call(call, claim)


def resume_open_call(call: ToolCall, claim: UUID) -> bool:
    """Nobody is asked any more, if the open call waits for no other answer. Call it in the transaction that has
    locked the conversation."""
    if ToolInput.objects.filter(call=call.pk, status=InputStatus.OPEN).exists():
        return False
    held = held_by(call.pk, claim).filter(status=CallStatus.INPUT)
    if not held.update(status=CallStatus.RUNNING):
        return False
    with questions.changed_room(call.question.conversation) as revision:
        ask_nobody(call)
        questions.publish_run(call.question.run, revision)
    return True


def replies_to(rows: Collection[int]) -> dict[int, InputReply]:
    """The answers to these requests, as far as there are any. Without one in time it is a dismissal."""
    found = ToolInput.objects.filter(pk__in=rows).exclude(status=InputStatus.OPEN)
    return {row.pk: _reply(row) for row in found}


def continuation_of(call: ToolCall) -> Continuation:
    """The state that the next request of the call takes along. Raises ``DecryptionError``."""
    rows = list(ToolInput.objects.filter(call=call.pk))
    answered = [row for row in rows if call.answered_round and row.round == call.answered_round]
    return Continuation(
        state=call.open_state(),
        replies={row.key: _reply(row) for row in answered if row.source != InputSource.REFUSAL},
        task=call.open_task(),
        known=frozenset(row.key for row in rows if row.source == InputSource.TASK),
    )


def _create(
    call: ToolCall,
    asked: Iterable[AskedInput],
    source: InputSource,
    number: int,
    expires_at: datetime | None = None,
) -> list[ToolInput]:
    return ToolInput.objects.bulk_create(
        ToolInput(
            call=call,
            round=number,
            position=position,
            source=source,
            key=each.key,
            message=each.message,
            schema=each.schema,
            url=each.url,
            expires_at=expires_at,
        )
        for position, each in enumerate(asked)
    )


def _reply(row: ToolInput) -> InputReply:
    action = _ACTIONS.get(InputStatus(row.status), "cancel")
    return InputReply(action=action, content=row.content, is_form=not row.url)  # type: ignore[arg-type]


def _refuse(pk: int, claim: UUID) -> bool:
    if held_by(pk, claim).filter(rounds__gte=MOST_ROUNDS).exists():
        raise TooOften
    return False
