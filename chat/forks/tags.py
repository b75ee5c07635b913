"""The template tags of forks."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

from django import template

from chat import access
from chat.models import Conversation, Fork, User

register = template.Library()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOrigin:
    """``source``: the conversation that it was copied from, for those who may read that."""

    fork: Fork
    source: Conversation | None


@register.simple_tag
def fork_of(conversation: Conversation, user: User) -> ForkOrigin | None:
    """The origin of a conversation that is a fork. No query for any other."""
    context = conversation.context
    if context is not None and not context.is_fork:
        return None
    rows = Fork.objects.filter(conversation=conversation.pk, source__isnull=False)
    fork = rows.select_related("person").first()
    if fork is None:
        return None
    source = access.visible_conversations(user).filter(pk=fork.source_id).first()
    return ForkOrigin(fork=fork, source=source)


@register.simple_tag
def new_key() -> UUID:
    """The idempotency key of a form."""
    return uuid4()
