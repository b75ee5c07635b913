"""Deletes the bytes of attached files. The messages that have them keep the names and the texts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from chat.core import notify
from chat.core.errors import storage_errors
from chat.models import Attachment, AuditEvent, Conversation, Message, StoredFile, User

# In one transaction. Others who write wait for it on SQLite.
AT_ONCE = 100


def delete_file(user: User, file: StoredFile) -> None:
    """Deletes the bytes of a file that is attached in its conversation."""
    room = file.conversation
    assert room is not None
    with storage_errors(), transaction.atomic():
        if _delete([file.pk]):
            AuditEvent.objects.record(
                user,
                "conversation.file_deleted",
                subject=room.owner,
                target=str(room.public_id),
            )


def delete_old(before: datetime) -> int:
    """Deletes the bytes of files that were attached before this moment, and says of how many. Files that projects share
    stay. May be interrupted, and run again."""
    old = StoredFile.objects.filter(
        Exists(Attachment.objects.filter(file=OuterRef("pk"))),
        created_at__lt=before,
        content__isnull=False,
        project__isnull=True,
    ).order_by("pk")
    total = 0
    while keys := list(old.values_list("pk", flat=True)[:AT_ONCE]):
        with transaction.atomic():
            total += _delete(keys)
            AuditEvent.objects.record(None, "installation.files_deleted", count=len(keys))
    return total


def _delete(files: Iterable[int]) -> int:
    keys = list(files)
    held = StoredFile.objects.filter(pk__in=keys, content__isnull=False)
    # The periodic task deletes contents that no file has (`chat.files.purge`).
    count = held.update(content=None, deleted_sha256=F("content"), deleted_at=timezone.now())
    messages = Message.objects.filter(attachments__file__in=keys)
    rooms = Conversation.objects.filter(messages__in=messages).distinct().order_by("pk")
    for room in rooms if count else ():
        # A deleted file is no news, but pages show its turn again.
        revision = room.touch_quietly()
        changed = messages.filter(conversation=room).values("pk")
        Message.objects.filter(pk__in=changed).update(revision=revision)
        notify.publish_after_commit(notify.room_topic(room.public_id))
    return count
