"""What is read for a request: its own branch of the conversation and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from chat import events as canonical
from chat.dialects.base import AssistantTurn, UserTurn
from chat.models import Run, RunStatus
from chat.result import Fold, close_open, plain_text
from chat.runs.outcomes import write_ending
from chat.runs.prompt import prepare
from tests.runs.helpers import retry, send_below
from tests.support.run_fixtures import MakeRun

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


def said(run: Run) -> list[str]:
    words: list[str] = []
    for turn in prepare(run.pk).prompt.turns:
        match turn:
            case UserTurn():
                words.append(turn.text)
            case AssistantTurn():
                words.append(plain_text(turn.result))
    return words


def test_request_holds_only_its_own_branch(make_run: MakeRun) -> None:
    first = answered(make_run("Who?"), "The river.")
    again = answered(retry(first), "The sea.")
    of_first, of_again = send_below(first, "Why?"), send_below(again, "Where?")

    assert said(of_first) == ["Who?", "The river.", "Why?"]
    assert said(of_again) == ["Who?", "The sea.", "Where?"]
    assert said(retry(again)) == ["Who?"]


def test_answer_without_runs_is_left_out(make_run: MakeRun) -> None:
    first = answered(make_run("Who?"), "The river.")
    second = send_below(first, "Why?")
    first.delete()

    assert said(second) == ["Who?", "Why?"]


def test_reading_takes_two_statements_at_any_length(
    make_run: MakeRun, django_assert_num_queries: Any
) -> None:
    run = make_run("Who?")
    for number in range(3):
        run = send_below(answered(run, "So."), f"And {number}?")

    with django_assert_num_queries(2):
        prepared = prepare(run.pk)

    assert len(prepared.prompt.turns) == 7
    with django_assert_num_queries(0):
        assert prepared.run.upstream == prepared.upstream
