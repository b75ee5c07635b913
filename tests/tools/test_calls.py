"""What people decide about calls: approve, refuse, always and never."""

from __future__ import annotations

import json

import pytest

from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Conversation, Run, Tool, ToolCall, ToolChoice, Upstream, User
from chat.questions import actions as questions
from chat.runs.resume import read_inputs
from chat.tools import calls, claims, endings
from chat.tools.actions import HttpRequestValues, change_tool
from chat.tools.kinds import CallOutput
from tests.support.at_once import at_once
from tests.tools.calling import (
    call_of,
    calls_of,
    claim,
    follow_up_of,
    give_result,
    given_to,
    statuses,
    waiting_run,
)


def test_approved_call_runs_and_the_answer_goes_on(run: Run, bob: User) -> None:
    calls.approve(bob, call_of(run))

    call = call_of(run)
    assert statuses(run) == [("running", "queued")]
    assert (call.approved_by, call.arguments) == (bob, {"city": "Oslo"})
    follow_up = give_result(run)
    assert follow_up.requested_by == run.requested_by
    assert given_to(run) == "Rain"
    assert statuses(run) == [("answered", "done")]


def test_approver_edits_the_arguments(run: Run, bob: User) -> None:
    calls.approve(bob, call_of(run), {"city": "Bergen"})

    (claimed,) = claim(run)
    assert claimed.arguments == {"city": "Bergen"}
    claims.mark_sent(claimed.pk, claimed.claim)
    endings.end_call(claimed.pk, claimed.claim, CallOutput(text="Rain"))
    follow_up = follow_up_of(run)
    assert follow_up is not None
    (given,) = read_inputs(follow_up)
    assert given.execution is not None
    assert (given.execution.arguments, given.execution.approved_by) == ({"city": "Bergen"}, "Bob")
    assert run.questions.get().body["arguments"] == {"city": "Oslo"}
    event = AuditEvent.objects.get(verb="tool_call.approved")
    assert (event.actor, event.detail["edited"]) == (bob, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["Oslo"],
        {},
        {"city": 3},
        {"city": "Oslo", "days": "two"},
        {"city": "Oslo", "days": True},
        {"city": "a\x00b"},
        {"city": "x" * 70_000},
    ],
)
def test_edited_arguments_must_fit(run: Run, bob: User, arguments: object) -> None:
    with pytest.raises(ActionRefused):
        calls.approve(bob, call_of(run), arguments)  # type: ignore[arg-type]

    assert statuses(run) == [("open", "approval")]


def test_second_approval_is_refused_and_a_double_click_is_not(
    run: Run, alice: User, bob: User
) -> None:
    call = call_of(run)
    calls.approve(bob, call)

    calls.approve(bob, call)
    with pytest.raises(ActionRefused, match="Bob has already approved"):
        calls.approve(alice, call)
    with pytest.raises(ActionRefused, match="already running"):
        calls.refuse(alice, call)
    assert AuditEvent.objects.filter(verb__startswith="tool_call").count() == 1


@pytest.mark.databases
@pytest.mark.usefixtures("transactional_db")
def test_approvals_at_the_same_moment_make_one_call(run: Run, alice: User, bob: User) -> None:
    decisions = [calls.approve, calls.refuse, questions_result, calls.approve, calls.refuse]
    people = [alice, bob, alice, bob, alice]

    outcomes = at_once(
        *(
            lambda decide=decide, person=person: decide(person, call_of(run))
            for decide, person in zip(decisions, people, strict=True)
        )
    )

    assert sum(isinstance(outcome, ActionRefused) for outcome in outcomes) >= 3
    status, call = statuses(run)[0]
    assert (status, call) in [("running", "queued"), ("declined", "refused"), ("answered", "done")]
    assert Run.objects.filter(message=run.message_id).count() == (1 if status == "running" else 2)


def questions_result(user: User, call: ToolCall) -> Run | None:
    return calls.give_result(user, call, "Rain")


def test_claimed_question_is_the_claimers(run: Run, alice: User, bob: User) -> None:
    questions.claim(alice, run.questions.get())

    with pytest.raises(ActionRefused, match="is answering"):
        calls.approve(bob, call_of(run))
    calls.approve(alice, call_of(run))


def test_refused_call_never_runs(run: Run, bob: User) -> None:
    follow_up = calls.refuse(bob, call_of(run), "Not today")

    assert follow_up is not None
    assert statuses(run) == [("declined", "refused")]
    assert "declined" in given_to(run)
    assert "Not today" in given_to(run)
    assert claim(run) == []


# --- always and never ------------------------------------------------------------------------------


def test_always_approves_this_call_and_the_next(
    alice: User, bob: User, conversation: Conversation, upstream: Upstream, tool: Tool
) -> None:
    run = waiting_run(alice, conversation, upstream, "weather", "weather")

    calls.choose(bob, calls_of(run)[1], True)

    assert statuses(run) == [("running", "queued")] * 2
    again = waiting_run(alice, conversation, upstream, "weather")
    assert statuses(again) == [("running", "queued")]
    calls.forget_choice(alice, conversation, tool)
    assert statuses(waiting_run(alice, conversation, upstream, "weather")) == [("open", "approval")]


def test_never_refuses_this_call_and_the_next(
    run: Run, alice: User, bob: User, conversation: Conversation, upstream: Upstream
) -> None:
    follow_up = calls.choose(bob, call_of(run), False)

    assert follow_up is not None
    again = waiting_run(alice, conversation, upstream, "weather")
    assert statuses(again) == [("declined", "refused")]


def test_destructive_tool_is_never_allowed_in_advance(run: Run, bob: User, tool: Tool) -> None:
    Tool.objects.filter(pk=tool.pk).update(is_destructive=True)

    assert not calls.may_always_allow(call_of(run))
    with pytest.raises(ActionRefused, match="each of its calls"):
        calls.choose(bob, call_of(run), True)
    assert not ToolChoice.objects.exists()


def test_choice_about_a_call_that_is_over_changes_nothing(run: Run, alice: User, bob: User) -> None:
    call = call_of(run)
    calls.approve(alice, call)

    with pytest.raises(ActionRefused):
        calls.choose(bob, call, False)

    assert not ToolChoice.objects.exists()
    assert statuses(run) == [("running", "queued")]


@pytest.mark.parametrize(
    ("change", "is_allowed", "stays"),
    [
        ({}, True, True),
        ({"rule": "auto_private"}, True, False),
        ({"description": "Another one"}, True, False),
        ({"address": "http://127.0.0.1:9/other/{city}"}, True, False),
        ({"rule": "auto_private"}, False, True),
    ],
)
def test_change_of_a_tool_withdraws_what_was_allowed(
    run: Run,
    bob: User,
    administrator: User,
    tool: Tool,
    change: dict[str, str],
    is_allowed: bool,
    stays: bool,
) -> None:
    calls.choose(bob, call_of(run), is_allowed)
    said = {"address": tool.request.address, "rule": tool.rule, "description": "", **change}
    request = HttpRequestValues(method="GET", address=said.pop("address"))

    schema = json.dumps(tool.schema)
    change_tool(administrator, tool, name=tool.name, schema=schema, request=request, **said)

    assert ToolChoice.objects.exists() == stays
