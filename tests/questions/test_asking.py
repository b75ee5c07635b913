"""What a run asks when it ends: calls and questions, each once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from django.db import OperationalError, connection

from chat import events as canonical
from chat.models import Question, Run, User
from chat.questions import actions as questions
from chat.questions import asking as questions_asking
from chat.questions.asking import NOT_RUN
from chat.runs import outcomes
from chat.runs.outcomes import OutcomeStep
from chat.runs.resume import read_inputs
from tests.questions.replying import case
from tests.runs.waiting import ask, call, ended, result_of


def test_each_waiting_call_becomes_a_question(run: Run) -> None:
    ended(run, result_of(call("c1", city="Oslo"), canonical.MessageItem(content="."), call("c2")))

    rows = list(run.questions.all())

    assert [(row.kind, row.position, row.ask_id, row.status) for row in rows] == [
        ("tool", 0, "c1", "open"),
        ("tool", 2, "c2", "open"),
    ]
    assert rows[0].body["arguments"] == {"city": "Oslo"}


def test_calls_nobody_can_answer_are_not_asked(run: Run) -> None:
    broken = canonical.InvalidToolCallItem(
        reason="not JSON",
        metadata=canonical.FailureMetadata(type="invalid_arguments", tool_name="weather"),
    )
    builtin = canonical.ToolCallItem(
        tool="search",
        arguments={},
        status="pending",
        provider_info=canonical.ProviderInfo(type="builtin"),
    )
    done = canonical.ToolCallItem(tool="search", arguments={}, output="found")
    ended(run, result_of(broken, builtin, done, call("c1")))

    assert [row.ask_id for row in run.questions.all()] == ["c1"]


def test_model_s_question_is_not_asked_again_as_a_call(run: Run) -> None:
    ended(run, result_of(call("c1", "ask_user"), call("c2"), asks=(ask("a1", call_id="c1"),)))

    kinds = [(row.kind, row.ask_id) for row in run.questions.order_by("kind")]

    assert kinds == [("ask", "a1"), ("tool", "c2")]


def test_run_that_does_not_wait_asks_nothing(run: Run, subtests: pytest.Subtests) -> None:
    for status in ("completed", "stopped", "cut", "failed", "interrupted"):
        with case(subtests, status):
            ended(run, result_of(call("c1"), status=status))

            assert not run.questions.exists()


ODD_IDS = (("", ""), (None, None), ("same", "same"), ("x" * 300, "x" * 300), ("ü" * 500, ""))


def test_calls_with_odd_ids_are_asked(run: Run, subtests: pytest.Subtests) -> None:
    for number, ids in enumerate(ODD_IDS):
        with case(subtests, number):
            ended(run, result_of(*(call(call_id) for call_id in ids)))

            assert [row.position for row in run.questions.all()] == [0, 1]


def test_number_of_questions_is_bounded(run: Run, alice: User) -> None:
    over = ended(run, result_of(*(call(str(number)) for number in range(5000))))

    assert run.questions.count() == questions_asking.MOST_QUESTIONS
    inputs = read_inputs(questions.go_on_without(alice, over))
    assert [given.position for given in inputs] == list(range(5000))
    assert {given.output for given in inputs} == {NOT_RUN}


def step(store: Callable[[Run, canonical.Result, object], None]) -> OutcomeStep:
    return OutcomeStep(name=store.__name__, applies=lambda result, prepared: True, store=store)


def use_steps(monkeypatch: pytest.MonkeyPatch, *steps: OutcomeStep) -> None:
    monkeypatch.setattr(outcomes, "_steps", steps)


def test_failed_recording_does_not_block_the_ending(
    run: Run, alice: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(run: Run, result: canonical.Result, prepared: object) -> None:
        Question.objects.create(run=run, conversation=run.conversation, kind="tool", ask_id="half")
        raise ValueError("a surprise")

    use_steps(monkeypatch, step(broken))
    over = ended(run, result_of(call("c1")))

    assert over.status == "waiting"
    assert not run.questions.exists()
    assert "run.outcome_lost" in caplog.text
    assert "a surprise" not in caplog.text
    assert [given.output for given in read_inputs(questions.go_on_without(alice, over))] == [
        NOT_RUN
    ]


def test_refused_statement_does_not_block_the_ending(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def greedy(run: Run, result: canonical.Result, prepared: object) -> None:
        # More than SQLite takes in one statement, once its limit is this low.
        sqlite = connection.connection
        usual = sqlite.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 9)
        try:
            list(Question.objects.filter(pk__in=range(10)))
        finally:
            sqlite.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, usual)

    use_steps(monkeypatch, step(greedy), questions_asking.ASK_PEOPLE)

    over = ended(run, result_of(call("c1")))

    assert over.status == "waiting"
    assert run.questions.count() == 1
    assert "run.outcome_lost" in caplog.text


def test_outage_loses_nothing_of_an_ending(
    run: Run, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for words in ("database is locked", "database or disk is full"):

        def unlucky(
            run: Run, result: canonical.Result, prepared: object, words: str = words
        ) -> None:
            raise OperationalError(words)

        use_steps(monkeypatch, step(unlucky))

        with case(subtests, words), pytest.raises(OperationalError):
            ended(run, result_of(call("c1")))
