"""What takes a change back, and the template tag that finds it in a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django import template
from django.contrib.messages.storage.base import Message
from django.urls import reverse

register = template.Library()

# Not one of the `CHANGES`: each conversation goes back to its own place.
MOVE_BACK = "move-back"
_UNDO = "undo:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The form that takes a change back: ``verb`` is one of `chat.organization.views.CHANGES`, or
    `MOVE_BACK`; ``conversations`` are the values of its field."""

    verb: str
    conversations: Sequence[str]

    @property
    def action(self) -> str:
        if self.verb == MOVE_BACK:
            return reverse("projects_move_back")
        return reverse("conversations_change", args=[self.verb])

    @property
    def mark(self) -> str:
        """For the extra tags of a message."""
        return f"{_UNDO}{self.verb}:{','.join(self.conversations)}"


@register.simple_tag
def undo_of(message: Message) -> Undo | None:
    mark = message.extra_tags or ""
    if not mark.startswith(_UNDO):
        return None
    verb, _, values = mark.removeprefix(_UNDO).partition(":")
    return Undo(verb=verb, conversations=values.split(","))
