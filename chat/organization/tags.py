"""The template tag that finds the change that a message offers to undo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django import template
from django.contrib.messages.storage.base import Message

register = template.Library()

_UNDO = "undo:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The change (`chat.organization.views.CHANGES`) that takes another one back."""

    verb: str
    conversations: Sequence[str]


def undo_mark(verb: str, conversations: Iterable[UUID]) -> str:
    """For the extra tags of a message."""
    return f"{_UNDO}{verb}:{','.join(each.hex for each in conversations)}"


@register.simple_tag
def undo_of(message: Message) -> Undo | None:
    mark = message.extra_tags or ""
    if not mark.startswith(_UNDO):
        return None
    verb, _, ids = mark.removeprefix(_UNDO).partition(":")
    return Undo(verb=verb, conversations=ids.split(","))
