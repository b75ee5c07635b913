"""Calls that ask for input, and tasks, that end or go on without an answer: stopped, deleted, restored, taken up late."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from chat.conversations.actions.conversation import delete, stop_run
from chat.models import (
    CallStatus,
    Conversation,
    InputSource,
    InputStatus,
    QuestionStatus,
    Run,
    Team,
    Tool,
    ToolCall,
    ToolInput,
    ToolKind,
    ToolServer,
    User,
)
from chat.tools import calls, claims, endings, inputs, left_tasks, open_replies
from chat.tools.kinds import AskedInput, CallOutput, InputNeeded
from tests.tools.calling import call_of, claim, follow_up_of, sent, statuses

ASKED = AskedInput(key="k", message="Which berth?", schema={"type": "object"})


@pytest.fixture
def open_call(run: Run, alice: User) -> ToolCall:
    """A runner holds it, and it waits for input."""
    calls.approve(alice, call_of(run))
    call = sent(run)
    assert inputs.open_input(call.pk, call.claim, ASKED, timezone.now() + timedelta(minutes=5))
    return call_of(run)


@pytest.fixture
def waiting_call(run: Run, alice: User) -> ToolCall:
    """No runner holds it, and it waits for input."""
    calls.approve(alice, call_of(run))
    call = sent(run)
    needed = InputNeeded(asked=[ASKED], source=InputSource.RESULT, state="s1")
    assert endings.end_call(call.pk, call.claim, needed)
    return call_of(run)


def is_over(run: Run) -> bool:
    call = call_of(run)
    assert (call.claim, call.runner, call.sealed_state) == (None, None, "")
    assert list(ToolInput.objects.values_list("status", flat=True)) == [InputStatus.EXPIRED]
    return statuses(run) == [(QuestionStatus.EXPIRED, CallStatus.FAILED)]


@pytest.mark.parametrize("kind", ["open_call", "waiting_call"])
def test_deleting_the_conversation_ends_a_call_that_asks(
    request: pytest.FixtureRequest, run: Run, alice: User, conversation: Conversation, kind: str
) -> None:
    call = request.getfixturevalue(kind)

    delete(alice, conversation)

    assert is_over(run)
    assert call.claim is None or claims.still_held({call.pk: call.claim}) == set()
    assert not claims.has_work()
    assert follow_up_of(run) is None


@pytest.mark.parametrize("kind", ["open_call", "waiting_call"])
def test_stop_ends_a_call_that_asks(
    request: pytest.FixtureRequest, run: Run, alice: User, kind: str
) -> None:
    request.getfixturevalue(kind)

    assert stop_run(alice, run)

    assert is_over(run)
    assert call_of(run).question.answered_by == alice
    assert follow_up_of(run) is None


def give_back(call: ToolCall) -> None:
    claims.give_back(call.pk, call.claim)


def expire(call: ToolCall) -> None:
    inputs.expire_input(call.pk, call.claim, ToolInput.objects.get().pk)


def end(call: ToolCall) -> None:
    assert not endings.end_call(call.pk, call.claim, CallOutput(text="late"))


def lose(call: ToolCall) -> None:
    ToolCall.objects.update(runner=None)
    claims.settle_lost(uuid4(), [])


@pytest.mark.parametrize("end_it", [give_back, expire, end, lose])
def test_held_call_of_a_deleted_conversation_ends(
    open_call: ToolCall, run: Run, conversation: Conversation, end_it
) -> None:
    # As rows from before calls that ask were ended with their conversation.
    Conversation.objects.update(deleted_at=timezone.now())

    end_it(open_call)

    assert is_over(run)
    assert not claims.has_work()


@pytest.mark.parametrize("is_off", [False, True])
def test_answer_goes_to_an_open_call_that_may_still_be_made(
    open_call: ToolCall, run: Run, is_off: bool
) -> None:
    row = ToolInput.objects.get()
    ToolInput.objects.update(status=InputStatus.ACCEPTED, content={"pier": "north"})
    if is_off:
        Tool.objects.update(rule="off")

    reply = open_replies.replies_to([row.pk])[row.pk]

    assert (reply.action, reply.content) == (
        ("cancel", {}) if is_off else ("accept", {"pier": "north"})
    )
    assert bool(claims.still_held({open_call.pk: open_call.claim})) != is_off
    assert call_of(run).status == (CallStatus.UNKNOWN if is_off else CallStatus.INPUT)


def test_queued_call_of_a_deleted_conversation_ends(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))
    Conversation.objects.update(deleted_at=timezone.now())

    assert claim(run) == []

    assert statuses(run) == [(QuestionStatus.EXPIRED, CallStatus.FAILED)]
    assert not claims.has_work()


# --- states and tasks of servers ---------------------------------------------------------------------


def put_task(call: ToolCall) -> None:
    ToolCall.objects.filter(pk=call.pk).update(sealed_task=call.seal_task("task-1"))


def test_task_is_asked_about_however_late_it_is_taken_up(run: Run, alice: User) -> None:
    calls.approve(alice, call_of(run))
    call = sent(run)
    put_task(call)
    long_ago = timezone.now() - timedelta(days=1)
    ToolCall.objects.update(sent_at=long_ago, runner=None)
    claims.settle_lost(uuid4(), [])

    (again,) = claim(run)

    assert again.continuation.task == "task-1"
    assert again.seconds == claims.LEAST_TASK_SECONDS
    assert call_of(run).sent_at == long_ago


@pytest.mark.parametrize("is_refused", [False, True])
def test_state_of_the_server_goes_with_its_call(run: Run, alice: User, is_refused: bool) -> None:
    calls.approve(alice, call_of(run))
    call = call_of(run)
    ToolCall.objects.update(sealed_state=call.seal_state("s1"))

    if is_refused:
        Tool.objects.update(rule="off")
        assert claim(run) == []
    else:
        call = sent(run)
        endings.ask_people(call.pk, call.claim, "Lost.")

    call = call_of(run)
    assert call.status == (CallStatus.REFUSED if is_refused else CallStatus.UNKNOWN)
    assert call.sealed_state == ""


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/mcp", "http://other.example/mcp"])
def test_task_is_canceled_at_the_server_that_made_it_only(
    run: Run, alice: User, team: Team, tool: Tool, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ToolServer.objects.create(team=team, name="River", address="http://127.0.0.1:9/mcp")
    Tool.objects.update(kind=ToolKind.MCP, server=server, remote_name="weather")
    tool = Tool.objects.select_related("server").get()
    call = call_of(run)
    put_task(call)
    digest = left_tasks.call_digest(tool)
    ToolCall.objects.update(status=CallStatus.FAILED, kind=ToolKind.MCP, definition_digest=digest)
    ToolServer.objects.update(address=address)

    found = left_tasks.take_cancellations(5)

    is_same = address == server.address
    assert [each.task for each in found] == (["task-1"] if is_same else [])
    assert call_of(run).sealed_task == ""
    assert left_tasks.take_cancellations(5) == []


def test_idle_runner_makes_one_query(
    run: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        assert not claims.has_work()
    put_task(call_of(run))
    ToolCall.objects.update(status=CallStatus.FAILED)
    with django_assert_num_queries(1):
        assert claims.has_work()
