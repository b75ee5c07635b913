"""Actions of administrators that need a reason. Each is recorded, and told to the people concerned."""

from __future__ import annotations

from django.db import transaction

from chat import access
from chat.core import notify
from chat.models import AccessKind, AccessReason, AuditEvent, Conversation, Message, Team, User


def open_conversation(administrator: User, conversation: Conversation, reason: str) -> None:
    """The administrator may read the conversation for a while. Pages that show it get a line that says so.
    Lists don't change."""
    with transaction.atomic():
        # The second of two requests at once waits here, and finds the reason of the first.
        revision = conversation.touch_quietly()
        if access.reading_of(administrator, conversation) is not None:
            return
        messages = Message.objects.filter(conversation=conversation)
        AccessReason.objects.create(
            kind=AccessKind.OPEN,
            administrator=administrator,
            reason=reason,
            conversation=conversation,
            revision=revision,
            after=messages.order_by("-pk").only("pk").first(),
        )
        AuditEvent.objects.record(
            administrator,
            "conversation.opened_by_administrator",
            subject=conversation.owner,
            target=f"conversation {conversation.public_id}",
            visibility=conversation.visibility,
            reason=reason,
        )
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


def allow_search(administrator: User, words: str, reason: str) -> None:
    """The administrator may search in all texts and titles for these words for a while."""
    with transaction.atomic():
        if access.may_search(administrator, words):
            return
        AccessReason.objects.create(
            kind=AccessKind.SEARCH, administrator=administrator, reason=reason, words=words
        )
        AuditEvent.objects.record(
            administrator, "conversation.search_by_administrator", words=words, reason=reason
        )


def tell_of_export(
    administrator: User | None,
    reason: str = "",
    *,
    person: User | None = None,
    team: Team | None = None,
) -> None:
    """Tells the people whose conversations are exported: in the settings, because a line in each
    conversation would be one too many. That is a ``person``, the members of a ``team``, or everybody. The
    action that makes the export records it."""
    AccessReason.objects.create(
        kind=AccessKind.EXPORT,
        administrator=administrator,
        reason=reason,
        person=person,
        team=team,
    )
