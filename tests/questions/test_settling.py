"""Replies to what a run waits for: once each, by people who may, and the answer continues."""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress

import pytest
from pytest_django import Settings

from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.core.errors import ActionRefused
from chat.models import (
    AuditEvent,
    Conversation,
    Message,
    Question,
    QuestionStatus,
    Run,
    RunStatus,
    Team,
    Upstream,
    User,
)
from chat.questions import actions as questions
from chat.questions.asking import REFUSED
from chat.runs.resume import read_inputs
from chat.tools import actions as tools
from tests.questions.replying import case, waiting_for
from tests.runs.waiting import ask, call, ended, question_of, questions_of, result_of, runs_of
from tests.support.at_once import at_once


def test_last_result_queues_the_next_run(run: Run, alice: User, bob: User) -> None:
    ended(run, result_of(call("c1"), call("c2")))
    first, second = questions_of(run)

    assert questions.give_result(alice, first, "Rain") is None
    follow_up = questions.give_result(bob, second, "Storm", is_error=True)

    assert follow_up is not None
    assert (follow_up.message_id, follow_up.position) == (run.message_id, 1)
    assert (follow_up.model, follow_up.upstream_id) == (run.model, run.upstream_id)
    assert follow_up.requested_by == bob
    assert [(g.output, g.is_error, g.by) for g in read_inputs(follow_up)] == [
        ("Rain", False, "Alice"),
        ("Storm", True, "Bob"),
    ]


def test_model_is_told_a_refusal_and_its_reason(run: Run, question: Question, alice: User) -> None:
    follow_up = questions.refuse(alice, question, "Too far away.")

    (given,) = read_inputs(follow_up)
    assert (given.outcome, given.is_error) == ("declined", True)
    assert given.output == f"{REFUSED} Too far away."
    assert question_of(run).status == QuestionStatus.DECLINED


def test_continuing_without_settles_all_that_is_open(run: Run, alice: User, bob: User) -> None:
    over = ended(run, result_of(call("c1"), call("c2"), asks=(ask(),)))
    done = question_of(run, ask_id="c1")
    questions.give_result(bob, done, "Rain")

    follow_up = questions.go_on_without(alice, over)

    assert [(g.kind, g.outcome) for g in read_inputs(follow_up)] == [
        ("tool", "answered"),
        ("tool", "not_run"),
        ("ask", "not_run"),
    ]
    statuses = run.questions.order_by("pk").values_list("status", flat=True)
    assert list(statuses) == ["answered", "expired", "expired"]


def test_continuing_twice_continues_once(run: Run, alice: User, bob: User) -> None:
    over = ended(run, result_of(call("c1")))
    follow_up = questions.go_on_without(alice, over)

    assert questions.go_on_without(alice, over) == follow_up
    with pytest.raises(ActionRefused, match="already continued"):
        questions.go_on_without(bob, over)


def test_answer_that_waits_for_nothing_cannot_continue(
    run: Run, alice: User, subtests: pytest.Subtests
) -> None:
    for status in ("completed", "incomplete", "stopped"):
        with case(subtests, status):
            over = ended(run, result_of(status=status, reason="stop"))

            with pytest.raises(ActionRefused, match="isn’t waiting"):
                questions.go_on_without(alice, over)


def test_double_click_answers_once(run: Run, question: Question, alice: User) -> None:
    first = questions.give_result(alice, question, "Rain")

    assert questions.give_result(alice, question, "Rain") == first
    assert len(runs_of(run.message)) == 2


def test_late_answer_names_the_first(run: Run, question: Question, alice: User, bob: User) -> None:
    questions.give_result(bob, question, "Rain")

    # The same words of another person are no double click.
    for late in ("Sun", "Rain"):
        with pytest.raises(ActionRefused, match="Bob has already responded"):
            questions.give_result(alice, question, late)
    with pytest.raises(ActionRefused, match="Bob has already responded"):
        questions.refuse(bob, question)

    assert question_of(run).answer == {"output": "Rain", "is_error": False}


def test_answer_changes_the_revisions(run: Run, alice: User) -> None:
    ended(run, result_of(call("c1"), call("c2")))
    question = questions_of(run).first()
    before = Conversation.objects.get(pk=run.conversation_id).revision

    questions.give_result(alice, question, "Rain")

    after = Conversation.objects.get(pk=run.conversation_id).revision
    assert after > before
    assert Message.objects.get(pk=run.message_id).revision == after


def test_approvals_and_refusals_are_audited(run: Run, alice: User) -> None:
    asks = (ask("p1", style="approval"), ask("p2", style="approval"))
    ended(run, result_of(asks=asks, reason="ask"))
    first, second = questions_of(run)

    questions.approve(alice, first, is_approved=True)
    follow_up = questions.approve(alice, second, is_approved=False, reason="Not that one")

    assert [(g.outcome, g.text) for g in read_inputs(follow_up)] == [
        ("answered", ""),
        ("declined", "Not that one"),
    ]
    message_actions = AuditEvent.objects.order_by("pk").values_list("verb", flat=True)
    assert list(message_actions) == ["question.approved", "question.declined"]


def test_question_is_not_answered_as_another_kind(run: Run, alice: User) -> None:
    question = waiting_for(run)

    with pytest.raises(ActionRefused):
        questions.give_result(alice, question, "Rain")
    with pytest.raises(ActionRefused):
        questions.approve(alice, question, is_approved=True)


def test_only_the_size_of_a_result_is_checked(
    run: Run, question: Question, alice: User, settings: Settings
) -> None:
    settings.TOOL_RESULT_BYTES = 10

    with pytest.raises(ActionRefused, match="11 bytes"):
        questions.give_result(alice, question, "äääää1")

    assert question_of(run).status == "open"
    assert questions.give_result(alice, question, "{]\x00<b>") is not None
    assert question_of(run).answer["output"] == "{]\u2400<b>"


def test_tools_are_kept_as_they_were_when_asked(
    alice: User, team: Team, upstream: Upstream
) -> None:
    tool = tools.create_tool(alice, team, name="weather", description="Now", schema="")
    run = message_actions.start_conversation(
        alice,
        team,
        text="Hello",
        choice=ModelChoice(upstream=upstream, model="m"),
        idempotency_key=uuid.uuid4(),
        tools=[tool],
    )
    tools.change_tool(alice, tool, name="weather", description="Later", schema="")
    ended(run, result_of(call("c1")))

    follow_up = questions.give_result(alice, question_of(run), "Rain")

    assert run.tools == [
        {"name": "weather", "description": "Now", "schema": {"type": "object", "properties": {}}}
    ]
    assert follow_up.tools == run.tools
    assert follow_up.status == RunStatus.QUEUED


# --- at the same moment ----------------------------------------------------------------------


@pytest.mark.databases
@pytest.mark.usefixtures("transactional_db")
def test_one_of_many_concurrent_answers_wins(
    run: Run, question: Question, alice: User, bob: User
) -> None:
    people = [alice, bob] * 3

    outcomes = at_once(
        *(
            lambda person=person, number=number: questions.give_result(
                person, question_of(run), f"Rain {number}"
            )
            for number, person in enumerate(people)
        )
    )

    assert sum(isinstance(outcome, Run) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ActionRefused) for outcome in outcomes) == len(people) - 1
    assert len(runs_of(run.message)) == 2
    assert question_of(run).status == "answered"


@pytest.mark.databases
@pytest.mark.usefixtures("transactional_db")
def test_concurrent_answers_to_two_calls_continue_once(
    run: Run, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(run, result_of(call("c1"), call("c2")))
    first, second = questions_of(run)
    both = threading.Barrier(2)
    go_on = questions._go_on

    def late(user: User, run: Run) -> Run | None:
        # Each has settled its own and looks for what else is open, if both can come here at once.
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return go_on(user, run)

    monkeypatch.setattr(questions, "_go_on", late)
    outcomes = at_once(
        lambda: questions.give_result(alice, first, "Rain"),
        lambda: questions.give_result(bob, second, "Storm"),
    )

    assert sorted(isinstance(outcome, Run) for outcome in outcomes) == [False, True]
    follow_up = runs_of(run.message)[1]
    assert [given.output for given in read_inputs(follow_up)] == ["Rain", "Storm"]
