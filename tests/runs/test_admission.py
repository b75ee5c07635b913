"""Every way into the queue asks the registered checks, each for the triggers that it holds for."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from pytest_django import Settings

from chat.conversations.actions import messages
from chat.conversations.actions.messages import ModelChoice
from chat.core.errors import ActionRefused
from chat.models import Conversation, Run, Upstream, User
from chat.questions import actions as questions
from chat.runs import admission
from chat.runs.admission import AdmissionCheck, Trigger
from tests.runs.waiting import asking, call, ended, question_of, result_of

WORDS = "The budget of this month is used up."
TRIGGERS = {
    "message": Trigger.MESSAGE,
    "retry": Trigger.MESSAGE,
    "reply": Trigger.REPLY,
    "continuation": Trigger.CONTINUATION,
}


@pytest.fixture
def run(alice: User, conversation: Conversation, upstream: Upstream) -> Run:
    return asking(alice, conversation, upstream)


@pytest.fixture
def ways(alice: User, run: Run, upstream: Upstream) -> dict[str, Callable[[], object]]:
    """What queues a run; each may be called once."""
    choice = ModelChoice(upstream=upstream, model="test/model")

    def edit() -> object:
        message = run.message.parent
        assert message is not None
        return messages.edit_message(
            alice, message, text="Again", choice=choice, idempotency_key=uuid.uuid4()
        )

    def retry() -> object:
        ended(run, result_of())
        return messages.retry(alice, run.message, choice=choice, idempotency_key=uuid.uuid4())

    def reply() -> object:
        ended(run, result_of(call("c1")))
        return questions.give_result(alice, question_of(run), "Rain")

    def go_on() -> object:
        return ended(run, result_of(status="incomplete", reason="pause"))

    return {"message": edit, "retry": retry, "reply": reply, "continuation": go_on}


@pytest.mark.parametrize("held_for", Trigger)
@pytest.mark.parametrize("way", TRIGGERS)
def test_check_holds_for_its_triggers(
    run: Run,
    ways: dict[str, Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    way: str,
    held_for: Trigger,
) -> None:
    asked: list[tuple[str, bool]] = []

    def refuse(one: Run) -> None:
        asked.append((one.model, one.pk is None))
        raise ActionRefused(WORDS)

    check = AdmissionCheck(name="budget", triggers=frozenset({held_for}), check=refuse)
    monkeypatch.setattr(admission, "_checks", (check,))
    is_refused = TRIGGERS[way] == held_for

    if is_refused and way != "continuation":
        with pytest.raises(ActionRefused, match=WORDS):
            ways[way]()
    else:
        ways[way]()

    assert asked == [(run.model, True)] * is_refused
    assert Run.objects.exclude(pk=run.pk).count() == (not is_refused)
    # Nobody waits for a refused continuation, so the answer says why it ends.
    run.refresh_from_db()
    assert run.notes == [WORDS] * (is_refused and way == "continuation")


def test_person_at_the_limit_gets_the_continuation_of_an_answer(
    run: Run, ways: dict[str, Callable[[], object]], settings: Settings
) -> None:
    settings.RUNS_PER_PERSON = 0

    ways["continuation"]()

    assert Run.objects.filter(message=run.message, position=1).exists()
