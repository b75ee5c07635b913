"""Tools of a team: which are valid, and which of them a conversation offers."""

from __future__ import annotations

import uuid

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404

from chat import access
from chat.conversations.actions import conversation as actions_conversation
from chat.conversations.actions import messages
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Conversation, Membership, Team, TeamRole, Tool, User
from chat.tools import actions

SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'


def make(user: User, team: Team, **values: str) -> Tool:
    values = {"name": "weather", "description": "Now", "schema": SCHEMA, **values}
    return actions.create_tool(user, team, **values)


def test_tool_is_created_changed_and_removed(alice: User, team: Team) -> None:
    tool = make(alice, team)
    changed = actions.change_tool(alice, tool, name="rain", description="", schema="")

    assert (changed.name, changed.schema) == ("rain", {"type": "object", "properties": {}})
    actions.remove_tool(alice, changed)
    actions.remove_tool(alice, changed)
    assert not Tool.objects.exists()
    verbs = AuditEvent.objects.order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["tool.created", "tool.changed", "tool.removed"]
    with pytest.raises(ActionRefused, match="removed"):
        actions.change_tool(alice, changed, name="rain", description="", schema="")


def test_invalid_name_is_refused(alice: User, team: Team, subtests: pytest.Subtests) -> None:
    # Some server refuses each of them.
    for name in ("", "a b", "ä", "a" * 65, "a.b", "a\n", "<b>"):
        with subtests.test(msg=name), pytest.raises(ActionRefused, match="64 letters"):
            make(alice, team, name=name)


def test_names_are_unique_in_a_team(alice: User, team: Team, other_team: Team) -> None:
    make(alice, team)
    make(alice, other_team)
    second = make(alice, team, name="other")

    with pytest.raises(ActionRefused, match="already has a tool named weather"):
        make(alice, team)
    with pytest.raises(ActionRefused, match="already has a tool named weather"):
        actions.change_tool(alice, second, name="weather", description="", schema="")


INVALID_SCHEMAS = {
    "no JSON": "{",
    "a list": "[]",
    "a text": '"object"',
    "no type": "{}",
    "another type": '{"type": "string"}',
    "a list of properties": '{"type": "object", "properties": []}',
    "not a number": '{"type": "object", "x": NaN}',
    "half a character": '{"type": "object", "x": "\\ud800"}',
    "NUL": '{"type": "object", "x": "\\u0000"}',
    "deep": "[" * 60_000,
    "large": '{"type": "object", "x": "' + "x" * 70_000 + '"}',
}


def test_invalid_schema_is_refused(alice: User, team: Team, subtests: pytest.Subtests) -> None:
    for label, schema in INVALID_SCHEMAS.items():
        with subtests.test(msg=label):
            with pytest.raises(ActionRefused, match="schema"):
                make(alice, team, schema=schema)

            assert not Tool.objects.exists()


def test_long_description_is_refused(alice: User, team: Team) -> None:
    with pytest.raises(ActionRefused, match="description"):
        make(alice, team, description="x" * 4001)


def test_conversation_offers_the_enabled_tools(
    alice: User, team: Team, conversation: Conversation
) -> None:
    first, second = make(alice, team), make(alice, team, name="tides")
    before = conversation.revision

    actions_conversation.switch_tools(alice, conversation, [second, first])
    assert [one["name"] for one in messages.definitions_of(conversation)] == ["tides", "weather"]

    actions_conversation.switch_tools(alice, conversation, [first])
    actions.remove_tool(alice, first)
    actions_conversation.switch_tools(alice, conversation, [first])

    assert messages.definitions_of(conversation) == []
    conversation.refresh_from_db()
    assert conversation.revision == before + 3


def test_tools_of_another_team_are_refused(
    alice: User, team: Team, other_team: Team, conversation: Conversation
) -> None:
    with pytest.raises(ActionRefused, match="another team"):
        actions_conversation.switch_tools(alice, conversation, [make(alice, other_team)])


def test_team_sees_its_tools_and_managers_manage_them(
    alice: User, bob: User, viewer: User, charlie: User, dana: User, administrator: User, team: Team
) -> None:
    tool = make(alice, team)
    admin = charlie

    assert access.get_tool(alice, tool.public_id, for_manage=True) == tool
    assert access.get_tool(administrator, tool.public_id, for_manage=True) == tool
    for member in (bob, viewer):
        assert access.get_tool(member, tool.public_id) == tool
        with pytest.raises(PermissionDenied):
            access.get_tool(member, tool.public_id, for_manage=True)
    for stranger in (charlie, dana):
        with pytest.raises(Http404):
            access.get_tool(stranger, tool.public_id)
    with pytest.raises(Http404):
        access.get_tool(alice, uuid.uuid4())
    Membership.objects.create(team=team, user=admin, role=TeamRole.ADMIN)
    assert access.get_tool(admin, tool.public_id, for_manage=True) == tool
