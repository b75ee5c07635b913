"""Looking into conversations as an administrator: whoever looks leaves a row first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from chat.actions import audit
from chat.models import Conversation, User

# Search words are kept as evidence, not as a copy of what was pasted into the field.
WORDS_LIMIT = 200


@contextmanager
def reading(actor: User, conversation: Conversation, **detail: object) -> Iterator[bool]:
    """A transaction to read the conversation in. Its audit row comes first: without the row
    nothing is read, and what fails later takes the row with it only if nothing was shown.

    No row for what the person may see in the application itself; gives whether there is one.
    """
    with transaction.atomic():
        is_recorded = not _is_theirs(actor, conversation)
        if is_recorded:
            audit.record(
                actor,
                "conversation.read_by_administrator",
                subject=conversation.owner,
                target=f"conversation {conversation.public_id}",
                visibility=conversation.visibility,
                **detail,
            )
        yield is_recorded


def record_search(actor: User, words: str) -> None:
    """A search through everybody's words tells something about them, too."""
    audit.record(actor, "conversation.search_by_administrator", words=words[:WORDS_LIMIT])


def _is_theirs(actor: User, conversation: Conversation) -> bool:
    if conversation.owner_id == actor.pk:
        return True
    return Conversation.objects.visible_to(actor).filter(pk=conversation.pk).exists()
