"""A line of the list of conversations: most are the same each time, and a list has fifty."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Protocol
from uuid import UUID

from django import template
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from chat.models import Conversation, User, Visibility

register = template.Library()

# Under a kilobyte each. A list is made after each message, behind each answer and when others change it.
LINES_KEPT = 4000


class Line(Protocol):
    """What the list knows of a conversation."""

    public_id: UUID
    title: str
    visibility: str
    updated_at: datetime
    revision: int
    owner_pk: int
    owner: str
    is_running: bool
    is_waiting: bool


@register.simple_tag
def conversation_line(line: Line, current: Conversation | None, user: User) -> SafeString:
    is_current = current is not None and current.public_id == line.public_id
    updated = int(line.updated_at.timestamp() * 1000)
    mark, owner = _mark_of(line, user)
    state = (updated, line.revision)
    return _rendered(line.public_id, line.title, state, mark, owner, is_current=is_current)


def _mark_of(line: Line, user: User) -> tuple[str, str]:
    """What stands beside the title, and whose conversation it is, where that is said."""
    if line.is_running:
        return "running", ""
    if line.is_waiting:
        return "waiting", ""
    if line.visibility != Visibility.TEAM:
        return "", ""
    return "shared", "" if line.owner_pk == user.pk else line.owner


@lru_cache(maxsize=LINES_KEPT)
def _rendered(
    public_id: UUID, title: str, state: tuple[int, int], mark: str, owner: str, *, is_current: bool
) -> SafeString:
    updated, revision = state
    context = {
        "public_id": public_id,
        "title": title,
        "updated": updated,
        "revision": revision,
        "mark": mark,
        "owner": owner,
        "is_current": is_current,
    }
    return render_to_string("conversations/_conversation_line.html", context)
