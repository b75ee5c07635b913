"""Calls are checked again where they are made: what has changed since, and whose come first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import connection
from pytest_django import Settings

from chat import access
from chat.core.errors import ActionRefused
from chat.models import (
    Conversation,
    Membership,
    Run,
    Runner,
    Team,
    TeamRole,
    Tool,
    ToolCall,
    ToolRequest,
    ToolRule,
    Upstream,
    User,
    Visibility,
)
from chat.tools import calls, claims
from tests.tools.calling import call_of, claim, given_to, make_tool, statuses, waiting_run

# How the conversations are named in SQL.
ROOMS = connection.ops.quote_name(Conversation._meta.db_table)


def _switched_off(tool: Tool, room: Conversation) -> None:
    Tool.objects.filter(pk=tool.pk).update(rule=ToolRule.OFF)


def _removed(tool: Tool, room: Conversation) -> None:
    tool.delete()


def _not_in_conversation(tool: Tool, room: Conversation) -> None:
    room.tools.remove(tool)


def _definition_changed(tool: Tool, room: Conversation) -> None:
    Tool.objects.filter(pk=tool.pk).update(description="Deletes everything")


def _address_changed(tool: Tool, room: Conversation) -> None:
    ToolRequest.objects.filter(tool=tool).update(address="http://elsewhere.example/")


def _approver_may_not_write(tool: Tool, room: Conversation) -> None:
    Membership.objects.filter(user__name="Bob").update(role=TeamRole.VIEWER)


CHANGES = [
    _switched_off,
    _removed,
    _not_in_conversation,
    _definition_changed,
    _address_changed,
    _approver_may_not_write,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", ["before the claim", "before it is sent"])
def test_approved_call_is_checked_again_where_it_is_made(
    run: Run, bob: User, tool: Tool, conversation: Conversation, change: object, moment: str
) -> None:
    assert callable(change)
    calls.approve(bob, call_of(run))
    claimed = claim(run) if moment == "before it is sent" else []

    change(tool, conversation)

    assert claim(run) == []
    assert not any(claims.mark_sent(each.pk, each.claim) for each in claimed)
    assert statuses(run) == [("declined", "refused")]
    assert given_to(run).startswith("This tool call has no result.")


@pytest.mark.parametrize("change", CHANGES[:-1])
def test_changed_tool_can_not_be_approved(
    run: Run, bob: User, tool: Tool, conversation: Conversation, change: object
) -> None:
    assert callable(change)
    call = call_of(run)
    change(tool, conversation)

    with pytest.raises(ActionRefused):
        calls.approve(bob, call)

    assert statuses(run) == [("open", "approval")]


def test_call_waits_for_approval_where_somebody_else_reads_by_now(
    alice: User, team: Team, private_conversation: Conversation, upstream: Upstream
) -> None:
    private_conversation.tools.add(make_tool(team, rule=ToolRule.AUTO_PRIVATE))
    run = waiting_run(alice, private_conversation, upstream, "weather")
    assert statuses(run) == [("running", "queued")]

    Conversation.objects.filter(pk=private_conversation.pk).update(visibility="team")

    assert claim(run) == []
    assert statuses(run) == [("open", "approval")]
    assert access.questions_for(alice).count() == 1


def test_requester_who_may_no_longer_write_lets_nothing_run(
    alice: User, bob: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    conversation.tools.add(make_tool(team, rule=ToolRule.AUTO))
    run = waiting_run(bob, conversation, upstream, "weather")
    Membership.objects.filter(user=bob).update(role=TeamRole.VIEWER)

    assert claim(run) == []
    assert statuses(run) == [("open", "approval")]


# --- what runners decide right before a call --------------------------------------------------------


@pytest.mark.databases
@pytest.mark.parametrize("is_claimed", [False, True])
def test_change_that_commits_while_a_runner_waits_for_the_room_counts(
    alice: User,
    team: Team,
    private_conversation: Conversation,
    upstream: Upstream,
    is_claimed: bool,
) -> None:
    private_conversation.tools.add(make_tool(team, rule=ToolRule.AUTO_PRIVATE))
    run = waiting_run(alice, private_conversation, upstream, "weather")
    claimed = claim(run) if is_claimed else []
    rooms = Conversation.objects.filter(pk=private_conversation.pk)

    with before_lock(lambda: rooms.update(visibility=Visibility.TEAM)):
        outcomes = [claims.mark_sent(each.pk, each.claim) for each in claimed] or claim(run)

    assert not any(outcomes)
    assert statuses(run) == [("open", "approval")]


@contextmanager
def before_lock(change: Callable[[], object]) -> Iterator[None]:
    """Makes the change once, as another transaction that has the lock of the conversation when it is asked for."""
    is_made = False

    def execute(run_query: Callable[..., object], sql: str, *rest: object) -> object:
        nonlocal is_made
        is_lock = sql.startswith("SELECT") and sql.partition(" FROM ")[2].startswith(ROOMS)
        if is_lock and not is_made:
            is_made = True
            change()
        return run_query(sql, *rest)

    with connection.execute_wrapper(execute):
        yield
    assert is_made


@pytest.mark.parametrize(
    ("schema", "runs"),
    [
        ({"properties": {"city": {}}}, True),
        ({"properties": {}}, False),
        ({"additionalProperties": True}, True),
        ({"properties": {}, "additionalProperties": False}, False),
    ],
)
def test_runner_knows_which_arguments_a_tool_has(
    alice: User,
    team: Team,
    conversation: Conversation,
    upstream: Upstream,
    schema: dict[str, object],
    runs: bool,
) -> None:
    tool = make_tool(team, rule=ToolRule.AUTO, address="http://127.0.0.1:9/weather")
    Tool.objects.update(schema={"type": "object", **schema})
    conversation.tools.add(tool)

    (claimed,) = claim(waiting_run(alice, conversation, upstream, "weather"))

    names = claimed.address.arguments
    assert (names is None or "city" in names) == runs


# --- whose calls come first -------------------------------------------------------------------------


@pytest.mark.databases
def test_calls_of_others_do_not_wait_for_the_many_of_one_person(
    alice: User,
    bob: User,
    conversation: Conversation,
    upstream: Upstream,
    tool: Tool,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.TOOL_CALLS_AT_ONCE, settings.TOOL_CALLS_PER_RUNNER = 2, 12
    monkeypatch.setattr(claims, "MOST_QUEUED", 4)
    Tool.objects.update(rule=ToolRule.AUTO)
    many = [waiting_run(alice, conversation, upstream, *["weather"] * 4) for _ in range(3)]
    other = waiting_run(bob, conversation, upstream, "weather")
    runner = Runner.objects.create(host="here", pid=1).pk

    # Two of each of Alice's answers fit, but only three of a person.
    first = claims.claim_due(runner, 12)
    second = claims.claim_due(runner, 12)

    assert [ToolCall.objects.get(pk=each.pk).question.run for each in first] == [
        many[0],
        many[0],
        many[1],
    ]
    assert [ToolCall.objects.get(pk=each.pk).question.run for each in second] == [other]
