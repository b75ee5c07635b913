"""What a queued message waits for: the table of `rooms.md`, section 2.2."""

import pytest

from chat.message_queue.states import AnswerFacts, QueueState, state_of
from chat.models import QuestionKind, RunStatus

S = QueueState
TABLE = [
    (AnswerFacts(), S.READY),
    (AnswerFacts(status=RunStatus.QUEUED), S.ANSWER),
    (AnswerFacts(status=RunStatus.RUNNING), S.ANSWER),
    (AnswerFacts(status=RunStatus.COMPLETED), S.READY),
    # The length was reached, or the server's filter said no: it has ended.
    (AnswerFacts(status=RunStatus.INCOMPLETE), S.READY),
    (AnswerFacts(status=RunStatus.INCOMPLETE, is_paused=True), S.PAUSE),
    (AnswerFacts(status=RunStatus.WAITING, open_kinds={QuestionKind.ASK}), S.QUESTION),
    (AnswerFacts(status=RunStatus.WAITING, open_kinds={QuestionKind.APPROVAL}), S.APPROVAL),
    (AnswerFacts(status=RunStatus.WAITING, open_kinds={QuestionKind.TOOL}), S.TOOL),
    (AnswerFacts(status=RunStatus.WAITING), S.PAUSE),
    (AnswerFacts(status=RunStatus.FAILED), S.FAILED),
    (AnswerFacts(status=RunStatus.CUT), S.CUT),
    (AnswerFacts(status=RunStatus.INTERRUPTED), S.INTERRUPTED),
    (AnswerFacts(status=RunStatus.STOPPED), S.STOPPED),
]


def test_every_ending_has_its_state(subtests: pytest.Subtests) -> None:
    for facts, state in TABLE:
        with subtests.test(msg=str(facts)):
            assert state_of(facts) == state
            assert state.sentence

    assert {facts.status for facts, _ in TABLE} == {"", *RunStatus.values}


def test_urgent_message_waits_only_for_a_live_answer(subtests: pytest.Subtests) -> None:
    for facts, state in TABLE:
        with subtests.test(msg=str(facts)):
            expected = S.ANSWER if state == S.ANSWER else S.READY
            assert state_of(facts, is_urgent=True) == expected


def test_refused_message_waits_for_a_person(subtests: pytest.Subtests) -> None:
    for facts, _ in TABLE:
        with subtests.test(msg=str(facts)):
            assert state_of(facts, is_urgent=True, refusal="No.") == S.REFUSED
