"""The periodic task of runners that ends temporary conversations and erases old trash."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chat.conversations.actions.conversation import delete
from chat.core.threads import DatabaseThreads
from chat.models import AuditEvent, Conversation, Run, StoredFile
from chat.models.run import LIVE_STATUSES
from chat.organization import actions
from chat.runs.runner import PeriodicTask
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

# An expired conversation can't be read from the moment on; this is how long it stays in lists that
# are on a screen already.
PURGE_SECONDS = 10.0


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def purge() -> None:
        """Erases one conversation in each transaction: a large one takes seconds, and others write, too.

        An expired conversation is erased a round later: pages that show it are told why it is gone,
        and its answers have time to stop.
        """
        while await threads.call(erase_one):
            pass
        await threads.call(end_expired)

    return purge


PURGE = PeriodicTask(topic=actions.PURGE, seconds=PURGE_SECONDS, make=_make)


# --- in a database thread -----------------------------------------------------------------------


def end_expired() -> None:
    """Temporary conversations whose time is over leave all lists, and their answers are stopped."""
    expired = Conversation.objects.filter(expires_at__lte=Now(), deleted_at__isnull=True)
    for conversation in expired:
        delete(None, conversation)


def _to_erase() -> QuerySet[Conversation]:
    live = Run.objects.filter(conversation=OuterRef("pk"), status__in=LIVE_STATUSES)
    last_day = timezone.now() - timedelta(days=settings.TRASH_DAYS)
    return Conversation.objects.filter(
        Q(deleted_at__lte=last_day) | Q(expires_at__lte=Now()),
        # A conversation with a running answer is kept until it ends.
        ~Exists(live),
        deleted_at__isnull=False,
    )


def erase_one() -> bool:
    """Removes a conversation with everything in it, and says whether there was one."""
    if not _to_erase().exists():
        return False
    with transaction.atomic():
        # Another runner may be at it, or its owner restores it.
        rows = _to_erase().select_related("owner").select_for_update(skip_locked=True, of=("self",))
        conversation = rows.first()
        if conversation is None:
            return False
        if not _is_chosen(conversation):
            AuditEvent.objects.record(
                None,
                "conversation.purge",
                subject=conversation.owner,
                target=str(conversation.public_id),
            )
        conversation.delete()
        # Files that projects shared and removed are kept for the messages that have them.
        StoredFile.objects.unused().delete()
    logger.info("conversation.erased conversation=%s", conversation.public_id)
    return True


def _is_chosen(conversation: Conversation) -> bool:
    """Returns whether its owner deleted it for ever, which is recorded already: what expires by itself is
    deleted afterwards."""
    expires_at, deleted_at = conversation.expires_at, conversation.deleted_at
    return (
        expires_at is not None
        and deleted_at is not None
        and (deleted_at < expires_at <= timezone.now())
    )
