"""Access to the tools of a server that is for some groups of its team, or has another list for each person."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from chat.models import GroupMember, Tool, ToolServer, User


def is_usable_by(user: Any) -> Q:
    """The condition that a person (a key, a user, a placeholder) may use a tool: they are in one of the groups that its
    server is for, and on the team."""
    mine = GroupMember.objects.filter(
        group__tool_servers=OuterRef("server"), user=user, group__team__memberships__user=user
    )
    # Tools without a server have none that could be for groups.
    return Q(server__isnull=True) | Q(server__is_for_groups=False) | Q(Exists(mine))


def usable_tools(user: User, tools: QuerySet[Tool]) -> QuerySet[Tool]:
    return tools.filter(is_usable_by(user.pk))


def may_use_tool(user: User | None, tool: Tool) -> bool:
    """As of now. Somebody unknown may use the tools that are for everybody."""
    if tool.server is None or not tool.server.is_for_groups:
        return True
    return user is not None and usable_tools(user, Tool.objects.filter(pk=tool.pk)).exists()


def is_listed_for(user: User) -> Q:
    """The condition that a person may see a tool. A list that a server has for one person is for nobody else; what that
    person has turned on is for everybody, as they saw it."""
    is_open = Q(server__isnull=True) | Q(server__has_private_list=False)
    return is_open | Q(server__list_person=user.pk) | ~Q(seen_digest="")


def listed_tools(user: User, server: ToolServer) -> QuerySet[Tool]:
    """The tools of a server that the user manages, as far as they may see its list: of another person's, neither what
    is new nor what has changed."""
    tools = server.tools.filter(is_listed_for(user))
    return tools if sees_list(user, server) else tools.filter(offered__isnull=True)


def sees_list(user: User, server: ToolServer) -> bool:
    return not server.has_private_list or server.list_person_id == user.pk
