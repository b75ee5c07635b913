"""The template tag that tells people of exports by administrators."""

from __future__ import annotations

from collections.abc import Sequence

from django import template

from chat import access
from chat.models import AccessReason, User

register = template.Library()

# The entries that a reader sees; the audit log has all.
MOST_SHOWN = 20


@register.simple_tag
def exports_about(user: User) -> Sequence[AccessReason]:
    """The latest exports by administrators that concern this person."""
    return list(access.exports_about(user)[:MOST_SHOWN])
