"""The periodic task of runners that deletes documents whose files are gone, and queues those that nobody reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from chat.core.threads import DatabaseThreads
from chat.documents.actions import queue
from chat.documents.readers import refusals
from chat.documents.reading import store
from chat.models import ACTIVE_JOB_STATUSES, Document, Job, StoredFile
from chat.runs.runner import PeriodicTask
from chat.upstreams.client import Client

# Nobody waits for what is deleted, and a document without a job is rare.
PURGE_SECONDS = 60.0
# Deleted in one transaction. Each has up to thousands of pages.
BATCH = 10


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def purge() -> None:
        while await threads.call(delete_unused):
            pass
        await threads.call(queue_forgotten)

    return purge


PURGE_DOCUMENTS = PeriodicTask(topic="documents.purge", seconds=PURGE_SECONDS, make=_make)


def _unused() -> QuerySet[Document]:
    return Document.objects.filter(~Exists(StoredFile.objects.filter(content=OuterRef("sha256"))))


def delete_unused() -> bool:
    """Deletes some documents that no file has. Says whether there may be more."""
    if not _unused().exists():
        return False
    with transaction.atomic():
        # First locked, then looked at again: one that is asked for at this moment has a file by then.
        locked = _unused().select_for_update(skip_locked=True).values_list("pk", flat=True)
        keys = list(locked[:BATCH])
        if keys:
            _unused().filter(pk__in=keys).delete()
    return len(keys) == BATCH


def queue_forgotten() -> None:
    """Queues documents that are neither read nor queued: a runner of an earlier version doesn't know how to read
    them, and a job goes with its person."""
    active = Job.objects.filter(document=OuterRef("pk"), status__in=ACTIVE_JOB_STATUSES)
    forgotten = Document.objects.filter(~Exists(active), read_at=None)
    if not forgotten.exists():
        return
    with transaction.atomic():
        for document in forgotten.select_for_update(skip_locked=True)[:BATCH]:
            files = StoredFile.objects.filter(content=document.sha256, created_by__isnull=False)
            file = files.select_related("created_by").first()
            if file is not None and file.created_by is not None:
                queue(file.created_by, document)
            else:
                store(document, (), refusals.REMOVED, {})
