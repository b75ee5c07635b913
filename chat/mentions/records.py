"""Stores the mentions of a message, and reads those of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import QuerySet

from chat import access
from chat.mentions.names import Named, find_names
from chat.models import Conversation, Membership, Mention, Message, User


def store_mentions(author: User, conversation: Conversation, message: Message) -> None:
    """Call in the transaction of the message. A text without ``@`` costs no statement."""
    mentioned = mentioned_in(message.text, author, conversation)
    if mentioned:
        Mention.objects.bulk_create(
            Mention(message=message, person_id=person, name=name, created_at=message.created_at)
            for person, name in mentioned
        )


def mentioned_in(text: str, author: User, conversation: Conversation) -> Sequence[Named]:
    """The people whom the text mentions. Without ``@`` it costs no statement."""
    if "@" not in text:
        return []
    people = {
        key: [each for each in (name, email) if each]
        for key, name, email in nameable(author, conversation)
        .exclude(user=author)
        .values_list("user", "user__name", "user__email")
    }
    return find_names(text, people)


def nameable(author: User, conversation: Conversation) -> QuerySet[Membership]:
    """The people whom an author may mention: everybody on the team or, for a guest, who takes part."""
    if access.is_guest(author, conversation.team_id):
        return access.members_taking_part(conversation)
    return Membership.objects.filter(team=conversation.team_id, user__is_active=True)


def names_by_message(conversation: Conversation) -> Mapping[int, tuple[str, ...]]:
    """The mentions as they are written, by the key of their message."""
    rows = Mention.objects.filter(message__conversation=conversation)
    found: dict[int, tuple[str, ...]] = {}
    for message, name in rows.values_list("message_id", "name").order_by("pk"):
        found[message] = (*found.get(message, ()), name)
    return found
