"""Tool servers for some groups: who may enable their tools, whose answers get and call them."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from chat.conversations.actions import conversation as room_actions
from chat.conversations.actions.messages import ModelChoice, definitions_of, start_conversation
from chat.models import (
    Conversation,
    Group,
    GroupMember,
    Membership,
    Team,
    Tool,
    ToolKind,
    ToolRule,
    ToolServer,
    Upstream,
    User,
)
from chat.tools import checks
from chat.tools.definitions import tool_digest
from tests.tools.calling import calls_of, statuses, waiting_run


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
    page = as_alice.get(reverse("tool_server", args=[server.public_id])).content.decode()
    assert "Pilots" in page


def test_home_offers_it_to_its_people(
    as_alice: Client, as_bob: Client, upstream: Upstream, tool: Tool
) -> None:
    value = str(tool.public_id)

    assert value in as_alice.get(reverse("home")).content.decode()
    assert value not in as_bob.get(reverse("home")).content.decode()
