"""The template tags for the link to tool servers, and for decisions about calls."""

from __future__ import annotations

from django import template
from django.conf import settings

from chat import access
from chat.models import ToolCall, User

register = template.Library()


@register.simple_tag
def manages_tool_servers(user: User) -> bool:
    """Returns whether the person manages the tool servers of a team without being an administrator."""
    if not settings.TEAM_TOOL_SERVERS or user.is_staff:
        return False
    return access.managed_teams(user).exists()


@register.simple_tag
def may_let_run(user: User, call: ToolCall) -> bool:
    """Returns whether the person, who writes in the conversation, may approve the call. It costs a query for tools
    that are for some groups."""
    return call.tool is None or access.may_use_tool(user, call.tool)
