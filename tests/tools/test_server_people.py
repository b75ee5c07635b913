"""Tool servers for some groups: who may enable their tools, whose answers get and call them."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from chat.conversations.actions import conversation as room_actions
from chat.conversations.actions.messages import ModelChoice, definitions_of, start_conversation
from chat.core.errors import ActionRefused
from chat.models import (
    CallStatus,
    Conversation,
    Group,
    GroupMember,
    Membership,
    Run,
    Team,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolRule,
    ToolServer,
    Upstream,
    User,
)
from chat.questions import actions as questions
from chat.tools import calls, checks
from chat.tools.definitions import tool_digest
from tests.runs.waiting import call, ended, result_of
from tests.tools.calling import call_of, calls_of, follow_up_of, statuses, waiting_run


@pytest.fixture
def tool(team: Team, alice: User, conversation: Conversation) -> Tool:
    """Of a server for one group, in which Alice is; it is enabled in the conversation."""
    group = Group.objects.create(team=team, name="Pilots")
    GroupMember.objects.create(group=group, user=alice)
    server = ToolServer.objects.create(
        team=team, name="Harbor", address="http://h.test", is_for_groups=True
    )
    server.groups.add(group)
    tool = Tool(team=team, server=server, name="level", kind=ToolKind.MCP, rule=ToolRule.AUTO)
    tool.seen_digest = tool_digest(tool)
    tool.save()
    conversation.tools.add(tool)
    return tool


def names(conversation: Conversation, user: User | None) -> list[object]:
    return [each["name"] for each in definitions_of(conversation, user)]


def test_models_get_it_in_answers_to_its_people(
    alice: User, bob: User, conversation: Conversation, tool: Tool
) -> None:
    assert names(conversation, alice) == ["level"]
    assert names(conversation, bob) == names(conversation, None) == []
    Membership.objects.filter(user=alice).delete()
    assert names(conversation, alice) == []


def test_calls_in_answers_to_others_are_refused(
    alice: User, bob: User, conversation: Conversation, upstream: Upstream, tool: Tool
) -> None:
    first = waiting_run(alice, conversation, upstream, "level")
    second = waiting_run(bob, conversation, upstream, "level")

    assert statuses(first) == [("running", "queued")]
    assert statuses(second) == [("declined", "refused")]
    (call,) = calls_of(second)
    assert call.error == checks.FOR_OTHERS
    # It is asked again right before a call is sent.
    GroupMember.objects.all().delete()
    assert checks.decide_at_call(calls_of(first)[0]).reason == checks.FOR_OTHERS


@pytest.fixture
def asking_run(alice: User, conversation: Conversation, upstream: Upstream, tool: Tool) -> Run:
    """It waits for approval of one call of the tool."""
    Tool.objects.update(rule=ToolRule.ASK)
    return waiting_run(alice, conversation, upstream, "level")


def test_others_refuse_calls_but_let_none_run(alice: User, bob: User, asking_run: Run) -> None:
    call = call_of(asking_run)
    edited = {"city": "Bergen"}

    for approve in (
        lambda: calls.approve(bob, call, edited),
        lambda: calls.approve(bob, call),
        lambda: calls.choose(bob, call, is_allowed=True),
    ):
        with pytest.raises(ActionRefused, match="Only people in the groups"):
            approve()
    assert statuses(asking_run) == [("open", "approval")]
    ToolCall.objects.update(status=CallStatus.UNKNOWN)
    with pytest.raises(ActionRefused, match="Only people in the groups"):
        calls.run_again(bob, call)
    ToolCall.objects.update(status=CallStatus.APPROVAL)
    assert not ToolChoice.objects.exists()
    calls.refuse(bob, call, "No")

    assert statuses(asking_run) == [("declined", "refused")]


def test_approval_of_somebody_who_has_left_the_group_does_not_stand(
    alice: User, bob: User, asking_run: Run, tool: Tool
) -> None:
    server = tool.server
    assert server is not None
    member = GroupMember.objects.create(group=server.groups.get(), user=bob)
    calls.approve(bob, call_of(asking_run), {"city": "Bergen"})
    assert checks.decide_at_call(call_of(asking_run)).verdict == "run"

    member.delete()

    assert checks.decide_at_call(call_of(asking_run)).reason == checks.FOR_GROUPS


def test_choice_of_somebody_who_has_left_the_group_does_not_stand(
    alice: User, bob: User, conversation: Conversation, asking_run: Run, tool: Tool
) -> None:
    server = tool.server
    assert server is not None
    member = GroupMember.objects.create(group=server.groups.get(), user=bob)
    calls.choose(bob, call_of(asking_run), is_allowed=True)
    tool.refresh_from_db()
    assert checks.decide_now(conversation, tool, alice).verdict == "run"

    member.delete()

    assert checks.decide_now(conversation, tool, alice).verdict == "ask"


@pytest.mark.parametrize("status", [CallStatus.APPROVAL, CallStatus.UNKNOWN])
def test_card_has_no_button_to_let_it_run_for_others(
    as_alice: Client, as_bob: Client, asking_run: Run, conversation: Conversation, status: str
) -> None:
    ToolCall.objects.update(status=status)
    url = reverse("conversation", args=[conversation.public_id])
    question = call_of(asking_run).question
    name = "call_approve" if status == CallStatus.APPROVAL else "call_run_again"
    button = reverse(name, args=[question.public_id])

    hers, his = (client.get(url).content.decode() for client in (as_alice, as_bob))

    assert button in hers
    assert "Only people in the groups" not in hers
    assert button not in his
    assert "Only people in the groups" in his


def test_answer_keeps_its_tools_after_the_reply_of_another(
    alice: User, bob: User, conversation: Conversation, asking_run: Run
) -> None:
    questions.give_result(bob, call_of(asking_run).question, "2 m")
    follow_up = follow_up_of(asking_run)
    assert follow_up is not None
    assert follow_up.requested_by == bob
    Tool.objects.update(rule=ToolRule.AUTO)

    follow_up = ended(follow_up, result_of(call("c9", "level", city="Oslo")))

    assert statuses(follow_up) == [("running", "queued")]
    assert checks.decide_at_call(call_of(follow_up)).verdict == "run"
    GroupMember.objects.filter(user=alice).delete()
    assert checks.decide_at_call(call_of(follow_up)).reason == checks.FOR_OTHERS


def test_server_of_deleted_groups_is_for_nobody(
    alice: User, conversation: Conversation, tool: Tool
) -> None:
    Group.objects.all().delete()

    assert names(conversation, alice) == []


def test_others_switch_it_off_but_not_on(
    alice: User, bob: User, conversation: Conversation, tool: Tool
) -> None:
    def switch(user: User, *tools: Tool) -> bool:
        room_actions.switch_tools(user, conversation, tools)
        return conversation.tools.exists()

    assert switch(bob, tool)
    assert not switch(bob)
    assert not switch(bob, tool)
    assert switch(alice, tool)


def test_new_conversation_of_others_is_without_it(
    bob: User, team: Team, upstream: Upstream, tool: Tool
) -> None:
    choice = ModelChoice(upstream=upstream, model="test/model")

    run = start_conversation(
        bob, team, text="Hello", choice=choice, idempotency_key=uuid.uuid4(), tools=[tool]
    )

    assert not run.conversation.tools.exists()


def test_manager_chooses_groups(as_alice: Client, settings: Settings, tool: Tool) -> None:
    settings.TEAM_TOOL_SERVERS = True
    server = tool.server
    assert server is not None
    group = server.groups.get()
    url = reverse("tool_server_people", args=[server.public_id])

    def save(**fields: object) -> tuple[bool, int]:
        as_alice.post(url, fields)
        server.refresh_from_db()
        return server.is_for_groups, server.groups.count()

    assert save() == (False, 0)
    assert save(is_for_groups="on") == (False, 0)
    assert save(is_for_groups="on", groups=[uuid.uuid4()]) == (False, 0)
    assert save(is_for_groups="on", groups=[group.public_id]) == (True, 1)
    page = reverse("tool_server", args=[server.public_id])
    assert "Pilots" in as_alice.get(page).content.decode()
    group.delete()
    assert url in as_alice.get(page).content.decode()
    assert save() == (False, 0)


def test_home_offers_it_to_its_people(
    as_alice: Client, as_bob: Client, upstream: Upstream, tool: Tool
) -> None:
    value = str(tool.public_id)

    assert value in as_alice.get(reverse("home")).content.decode()
    assert value not in as_bob.get(reverse("home")).content.decode()
