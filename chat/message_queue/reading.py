"""Reads queued messages with what they wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chat.message_queue.states import AnswerFacts, QueueState, state_of
from chat.models import (
    OPEN_STATUSES,
    UNSETTLED_STATUSES,
    Conversation,
    Message,
    Question,
    QueuedMessage,
    Role,
    Run,
    RunStatus,
)
from chat.runs.outcomes import SERVER_IS_GONE, TOO_MANY_PAUSES
from chat.runs.tool_calls import WaitingFor, waiting_for


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMessages:
    """The messages that wait for the same answer, in their order, and the state of the first."""

    state: QueueState
    messages: Sequence[QueuedMessage]

    @property
    def first(self) -> QueuedMessage:
        return self.messages[0]


def read_queue_of(conversation: Conversation) -> list[WaitingMessages]:
    """All queued messages of a conversation. Nearly always they wait for the same answer; people who
    read different branches may have queued at each."""
    rows = QueuedMessage.objects.filter(conversation=conversation)
    return with_states(rows.select_related("author", "upstream").prefetch_related("files__file"))


def with_states(messages: Iterable[QueuedMessage]) -> list[WaitingMessages]:
    """The messages, which are in their order, by the answer that they wait for."""
    by_answer: defaultdict[int, list[QueuedMessage]] = defaultdict(list)
    for each in messages:
        by_answer[each.after_id].append(each)
    facts = facts_of(by_answer)
    return [
        WaitingMessages(
            state=state_of(facts[answer], is_urgent=some[0].is_urgent, refusal=some[0].refusal),
            messages=some,
        )
        for answer, some in by_answer.items()
    ]


def is_on_hold(answer: Message) -> bool:
    """Returns whether messages wait for this answer, of which nothing is sent until somebody says so."""
    waiting = with_states(QueuedMessage.objects.filter(after=answer))
    return any(each.state.is_halted for each in waiting)


def facts_of(answers: Iterable[int]) -> Mapping[int, AnswerFacts]:
    """By the keys of the answers' messages."""
    keys = list(answers)
    runs = Run.objects.filter(message_id__in=keys).defer("result").order_by("position")
    last = {run.message_id: run for run in runs}
    waiting = [run.pk for run in last.values() if run.status == RunStatus.WAITING]
    kinds: defaultdict[int, set[str]] = defaultdict(set)
    statuses: defaultdict[int, set[str]] = defaultdict(set)
    if waiting:
        asked = Question.objects.filter(run__in=waiting, status__in=UNSETTLED_STATUSES)
        for run_pk, kind, status in asked.values_list("run_id", "kind", "status"):
            statuses[run_pk].add(status)
            if status in OPEN_STATUSES:
                kinds[run_pk].add(kind)
    return {key: _facts(last.get(key), kinds, statuses) for key in keys}


def _facts(
    run: Run | None, kinds: Mapping[int, set[str]], statuses: Mapping[int, set[str]]
) -> AnswerFacts:
    if run is None:
        return AnswerFacts()
    return AnswerFacts(
        status=_status_of(run, waiting_for(statuses.get(run.pk, ()))),
        # A person may continue it (`ShownRun.may_go_on`).
        is_paused=any(note in (TOO_MANY_PAUSES, SERVER_IS_GONE) for note in run.notes),
        open_kinds=kinds.get(run.pk, ()),
    )


def _status_of(run: Run, waits_for: WaitingFor) -> str:
    if run.status == RunStatus.WAITING:
        if waits_for == WaitingFor.TOOLS:
            return RunStatus.RUNNING
        # Somebody has stopped its tools.
        was_stopped = run.stop_requested_at is not None and waits_for == WaitingFor.NOTHING
        return RunStatus.STOPPED if was_stopped else run.status
    return RunStatus.STOPPED if _was_stopped_late(run) else run.status


def _was_stopped_late(run: Run) -> bool:
    """Returns whether somebody pressed Stop when the answer was just ending by itself."""
    ended = (RunStatus.COMPLETED, RunStatus.INCOMPLETE)
    return run.status in ended and run.stop_requested_at is not None


def end_below(parent: Message) -> Message:
    """The last answer on the newest path that begins with ``parent``. The caller has locked the
    conversation."""
    end, message = parent, parent
    while (child := _newest_child(message)) is not None:
        message = child
        if message.role == Role.ASSISTANT:
            end = message
    return end


def _newest_child(message: Message) -> Message | None:
    """The newest message below this one; of a comparison, the answer that was chosen."""
    rows = Message.objects.filter(parent=message).select_related("compared__comparison__chosen")
    child = rows.order_by("-pk").first()
    if child is None or not hasattr(child, "compared"):
        return child
    return child.compared.comparison.chosen or child
