"""The template tag that finds the change that a message offers to undo."""

from __future__ import annotations

from django import template
from django.contrib.messages.storage.base import Message

from chat.organization.undo import Undo

register = template.Library()


@register.simple_tag
def undo_of(message: Message) -> Undo | None:
    return Undo.read(message.extra_tags or "")
