"""The template tag for the origin of an imported conversation."""

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
    """The product, the person and the time of the conversation's import, if it was imported."""
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
