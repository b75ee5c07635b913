"""The template tag for the link to tool servers."""

from __future__ import annotations

from django import template
from django.conf import settings

from chat import access
from chat.models import User

register = template.Library()


@register.simple_tag
def manages_tool_servers(user: User) -> bool:
    """Returns whether the person manages the tool servers of a team without being an administrator."""
    if not settings.TEAM_TOOL_SERVERS or user.is_staff:
        return False
    return access.managed_teams(user).exists()
