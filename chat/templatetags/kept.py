"""What a conversation keeps beside its words, for the turns of one page: read once, not per turn."""

from __future__ import annotations

from django import template
from django.conf import settings

from chat.models import Attachment, Conversation, Message
from chat.models.kept import Kept, attachments_by_message, count_kept, kept_by_answer, once

register = template.Library()


@register.simple_tag
def kept_by(conversation: Conversation, answer: Message) -> Kept | None:
    # The heading has counted already, and most conversations keep nothing.
    if not files_in(conversation):
        return None
    return once(conversation, kept_by_answer).get(answer.pk)


@register.simple_tag
def attachments_of(conversation: Conversation, message: Message) -> list[Attachment]:
    if not files_in(conversation):
        return []
    return once(conversation, attachments_by_message).get(message.pk, [])


@register.simple_tag
def files_in(conversation: Conversation) -> int:
    return once(conversation, count_kept)


@register.simple_tag
def picture_limits() -> dict[str, int]:
    """What a message takes. Some of the body is for the words."""
    return {
        "count": settings.PICTURES_PER_MESSAGE,
        "bytes": settings.PICTURE_BYTES,
        "total": settings.MAX_UPLOAD_BYTES - settings.MAX_BODY_BYTES,
    }
