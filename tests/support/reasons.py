"""Reasons for which an administrator may read conversations."""

from __future__ import annotations

from chat.models import AccessKind, AccessReason, Conversation, User

REASON = "Report 12 of the ombudsman"


def give_reason(administrator: User, conversation: Conversation, **fields: object) -> AccessReason:
    return AccessReason.objects.create(
        kind=AccessKind.OPEN,
        administrator=administrator,
        conversation=conversation,
        reason=REASON,
        **fields,
    )


def give_reasons(administrator: User) -> None:
    """For all conversations."""
    for conversation in Conversation.objects.all():
        give_reason(administrator, conversation)


def allow_search(administrator: User, words: str) -> None:
    AccessReason.objects.create(
        kind=AccessKind.SEARCH, administrator=administrator, words=words, reason=REASON
    )
