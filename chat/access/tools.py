"""Access to the tools of a server that is for some groups of its team."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from chat.models import GroupMember, Tool, User


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
