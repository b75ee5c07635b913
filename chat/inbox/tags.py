"""Template tags of the inbox."""

from __future__ import annotations

from typing import Any

from django import template

from chat.inbox.entries import entries_of
from chat.models import User

register = template.Library()


@register.inclusion_tag("inbox/_count.html")
def inbox_count(user: User) -> dict[str, Any]:
    """How much waits for the person, beside the link to the inbox."""
    return {"count": len(entries_of(user)) if user.is_authenticated else 0}
