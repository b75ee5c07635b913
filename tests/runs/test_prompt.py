"""What is read for a request: the way from the conversation's beginning, and nothing beside it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from chat import events as canonical
from chat.actions import conversations as verbs
from chat.actions.conversations import ModelChoice
from chat.actions.endings import write_ending
from chat.dialects.base import AssistantTurn, UserTurn
from chat.models import Run, RunStatus
from chat.result import Fold, close_open, plain_text
from chat.runs.prompt import prepare
from tests.runs.conftest import MakeRun

pytestmark = pytest.mark.databases


def answered(run: Run, text: str) -> Run:
    log: list[canonical.Event] = [
        canonical.ChatStart(model_instance_id="m"),
        canonical.MessageStart(item=0),
        canonical.MessageDelta(item=0, content=text),
    ]
    fold = Fold()
    fold.extend(log)
    Run.objects.filter(pk=run.pk).update(status=RunStatus.COMPLETED)
    write_ending(run, [*log, *close_open(fold, "stopped")], after=0)
    return run


def choice_of(run: Run) -> ModelChoice:
    assert run.upstream is not None
    return ModelChoice(upstream=run.upstream, model="m")


def retried(run: Run) -> Run:
    assert run.requested_by is not None
    return verbs.retry(
        run.requested_by, run.message, choice=choice_of(run), idempotency_key=uuid.uuid4()
    )


def followed(run: Run, text: str) -> Run:
    assert run.requested_by is not None
    return verbs.send_message(
        run.requested_by,
        run.conversation,
        parent=run.message,
        text=text,
        choice=choice_of(run),
        idempotency_key=uuid.uuid4(),
    )


def said(run: Run) -> list[str]:
    words: list[str] = []
    for turn in prepare(run.pk).prompt.turns:
        match turn:
            case UserTurn():
                words.append(turn.text)
            case AssistantTurn():
                words.append(plain_text(turn.result))
    return words


def test_a_request_holds_its_own_branch_and_no_other(make_run: MakeRun) -> None:
    first = answered(make_run("Who?"), "The river.")
    again = answered(retried(first), "The sea.")
    of_first, of_again = followed(first, "Why?"), followed(again, "Where?")

    assert said(of_first) == ["Who?", "The river.", "Why?"]
    assert said(of_again) == ["Who?", "The sea.", "Where?"]
    assert said(retried(again)) == ["Who?"]


def test_an_answer_that_lost_its_runs_is_left_out(make_run: MakeRun) -> None:
    first = answered(make_run("Who?"), "The river.")
    second = followed(first, "Why?")
    first.delete()

    assert said(second) == ["Who?", "Why?"]


def test_a_request_is_read_in_two_statements_however_long_the_conversation(
    make_run: MakeRun, django_assert_num_queries: Any
) -> None:
    run = make_run("Who?")
    for number in range(3):
        run = followed(answered(run, "So."), f"And {number}?")

    with django_assert_num_queries(2):
        prepared = prepare(run.pk)

    assert len(prepared.prompt.turns) == 7
    with django_assert_num_queries(0):
        assert prepared.run.upstream == prepared.upstream
