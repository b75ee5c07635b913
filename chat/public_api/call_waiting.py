"""The pause of an answer whose tool calls Tributary runs, as a stream of the API waits for its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from chat.core.notify import change_notifier, room_topic
from chat.core.threads import DatabaseThreads
from chat.live.viewer import HEARTBEAT_SECONDS
from chat.models import UNSETTLED_STATUSES, QuestionStatus, Run, RunStatus

# Changes of the conversation are announced; the poll is for lost notifications.
POLL_SECONDS = 5.0
# The columns of a run that its state is read from; results can be megabytes.
_COLUMNS = ("status", "message", "position")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsState:
    """``is_waiting``: for calls that Tributary runs, or that people may approve. ``next``: the run that continues the
    answer. Neither: the author of the message, or somebody else, has to continue it."""

    is_waiting: bool = False
    next: UUID | None = None


def calls_state(run_id: UUID) -> CallsState:
    """The state of an answer whose last run this was."""
    run = Run.objects.only(*_COLUMNS).filter(public_id=run_id).first()
    if run is None or run.status != RunStatus.WAITING:
        return CallsState()
    later = Run.objects.filter(message_id=run.message_id, position=run.position + 1)
    following = later.values_list("public_id", flat=True).first()
    if following is not None:
        return CallsState(next=following)
    left = run.questions.filter(status__in=UNSETTLED_STATUSES)
    kinds = list(left.values_list("status", "tool_call"))
    are_ours = all(call or status == QuestionStatus.RUNNING for status, call in kinds)
    return CallsState(is_waiting=bool(kinds) and are_ours)


async def call_states(
    run_id: UUID, room: UUID, threads: DatabaseThreads
) -> AsyncGenerator[CallsState, None]:
    """The state whenever a heartbeat is due, and at last when the answer waits for no call any more. After
    ``API_CALL_WAIT_SECONDS`` the last state is that somebody else has to continue it."""
    loop = asyncio.get_running_loop()
    over_at = loop.time() + settings.API_CALL_WAIT_SECONDS
    topic = room_topic(room)
    subscription = change_notifier.subscribe(topic)
    try:
        told_at = loop.time()
        while True:
            subscription.take_topics()
            state = await threads.call_until_there(calls_state, run_id)
            if not state.is_waiting:
                yield state
                return
            if loop.time() >= over_at:
                yield CallsState()
                return
            if loop.time() - told_at >= HEARTBEAT_SECONDS:
                told_at = loop.time()
                yield state
            with suppress(TimeoutError):
                async with asyncio.timeout(min(POLL_SECONDS, over_at - loop.time())):
                    await subscription.wait()
    finally:
        change_notifier.unsubscribe(topic, subscription)
