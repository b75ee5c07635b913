"""The template tag that says where an imported conversation comes from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django import template

from chat.imports.formats import FORMATS
from chat.models import Conversation, ImportedSource, User

register = template.Library()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    product: str
    user: User
    at: datetime


@register.simple_tag
def origin_of(conversation: Conversation) -> Origin | None:
    """From which product, by whom and when the conversation was imported, if it was."""
    rows = ImportedSource.objects.filter(conversation=conversation.pk).select_related("batch__user")
    source = rows.first()
    if source is None:
        return None
    known = FORMATS.get(source.format)
    return Origin(
        product=known.label if known else source.format,
        user=source.batch.user,
        at=source.batch.created_at,
    )
