"""The states of a queued message, as a function of the answer before it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.models import QuestionKind, RunStatus


class QueueState(StrEnum):
    """The state of the first message of a queue."""

    # The next round of the runners' task sends it.
    READY = "ready"
    # The answer before it is queued or being written.
    ANSWER = "answer"
    # The answer has not ended: it waits for a person, a tool, or to be continued.
    QUESTION = "question"
    APPROVAL = "approval"
    TOOL = "tool"
    PAUSE = "pause"
    # The answer has ended in a way after which nothing is sent until somebody says so.
    FAILED = "failed"
    CUT = "cut"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    # It could not be sent. The message has the reason.
    REFUSED = "refused"

    @property
    def is_halted(self) -> bool:
        """True if it waits for somebody to send or remove it."""
        return self in _HALTED

    @property
    def sentence(self) -> str:
        return str(_SENTENCES[self])


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts:
    """The last run of the answer before a queue: its status, whether it was not continued after a
    pause, and the kinds of its open questions."""

    status: str = ""
    is_paused: bool = False
    open_kinds: Collection[str] = ()


def state_of(answer: AnswerFacts, *, is_urgent: bool = False, refusal: str = "") -> QueueState:
    """The state of the first message. An urgent one waits only for the answer to be no longer live.
    An answer without runs, as in an import, has ended."""
    if refusal:
        return QueueState.REFUSED
    if answer.status in (RunStatus.QUEUED, RunStatus.RUNNING):
        return QueueState.ANSWER
    if is_urgent:
        return QueueState.READY
    if answer.status == RunStatus.WAITING:
        return _waiting_for(answer.open_kinds)
    if answer.status == RunStatus.INCOMPLETE and answer.is_paused:
        return QueueState.PAUSE
    return HALTING.get(answer.status, QueueState.READY)


def _waiting_for(kinds: Collection[str]) -> QueueState:
    """Without open questions, somebody has to continue the answer."""
    for kind, state in _BY_KIND.items():
        if kind in kinds:
            return state
    return QueueState.PAUSE


HALTING: Mapping[str, QueueState] = {
    RunStatus.FAILED: QueueState.FAILED,
    RunStatus.CUT: QueueState.CUT,
    RunStatus.INTERRUPTED: QueueState.INTERRUPTED,
    RunStatus.STOPPED: QueueState.STOPPED,
}
_HALTED = frozenset({*HALTING.values(), QueueState.REFUSED})
_BY_KIND: Mapping[str, QueueState] = {
    QuestionKind.ASK: QueueState.QUESTION,
    QuestionKind.APPROVAL: QueueState.APPROVAL,
    QuestionKind.TOOL: QueueState.TOOL,
}
_SENTENCES: Mapping[QueueState, Promise | str] = {
    QueueState.READY: gettext_lazy("Sending…"),
    QueueState.ANSWER: gettext_lazy("Sent when the answer is complete"),
    QueueState.QUESTION: gettext_lazy("Waiting for an answer to the question above"),
    QueueState.APPROVAL: gettext_lazy("Waiting for the approval above"),
    QueueState.TOOL: gettext_lazy("Waiting for the tool result above"),
    QueueState.PAUSE: gettext_lazy("Waiting until the answer above is continued"),
    QueueState.FAILED: gettext_lazy("On hold, because the answer failed"),
    QueueState.CUT: gettext_lazy("On hold, because the answer was cut off"),
    QueueState.INTERRUPTED: gettext_lazy("On hold, because the answer was interrupted"),
    QueueState.STOPPED: gettext_lazy("On hold, because the answer was stopped"),
    # The reason is beside the message.
    QueueState.REFUSED: gettext_lazy("On hold, because a message couldn’t be sent"),
}
