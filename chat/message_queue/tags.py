"""The template tag of the queue below a conversation."""

from __future__ import annotations

from django import template
from django.template import Context

from chat.message_queue.shown import ShownQueue, read_shown_queue

register = template.Library()


@register.simple_tag(takes_context=True)
def message_queue(context: Context) -> ShownQueue:
    """The queue of the page's conversation. It is not read if the conversation was loaded without
    one."""
    conversation = context["conversation"]
    loaded = conversation.context
    if loaded is not None and not loaded.has_queue:
        return ShownQueue()
    may_write = bool(context.get("may_write"))
    return read_shown_queue(context["user"], conversation, may_write=may_write)
