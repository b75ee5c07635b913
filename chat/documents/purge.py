"""The periodic task of runners that deletes documents that no file has or had, and queues those that nobody reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from chat.core.threads import DatabaseThreads
from chat.documents.actions import queue
from chat.documents.readers import refusals
from chat.documents.reading import store
from chat.models import ACTIVE_JOB_STATUSES, Document, Job, JobKind, StoredFile, User
from chat.runs.runner import PeriodicTask
from chat.upstreams.client import Client

# Nobody waits for what is deleted, and a document without a job is rare.
PURGE_SECONDS = 60.0
# Deleted in one transaction, as each has up to thousands of pages; and queued at once.
BATCH = 10


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def purge() -> None:
        while await threads.call(delete_unused):
            pass
        await threads.call(queue_forgotten)

    return purge


PURGE_DOCUMENTS = PeriodicTask(topic="documents.purge", seconds=PURGE_SECONDS, make=_make)


def _unused() -> QuerySet[Document]:
    held = StoredFile.objects.filter(content=OuterRef("sha256"))
    # Messages whose file was deleted still send its text.
    deleted = StoredFile.objects.filter(deleted_sha256=OuterRef("sha256")).exclude(
        deleted_sha256=""
    )
    return Document.objects.filter(~Exists(held), ~Exists(deleted))


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
    """Queues documents that are neither read nor queued: those of imports, those that a runner of an earlier version didn't
    know how to read, and those whose job went with its person. A few at a time, as somebody may wait for another one."""
    active = Job.objects.filter(document=OuterRef("pk"), status__in=ACTIVE_JOB_STATUSES)
    forgotten = Document.objects.filter(~Exists(active), read_at=None)
    if not forgotten.exists():
        return
    queued = Job.objects.filter(kind=JobKind.READ, status__in=ACTIVE_JOB_STATUSES)
    room = max(0, BATCH - queued.count())
    with transaction.atomic():
        oldest = forgotten.order_by("created_at", "pk").select_for_update(skip_locked=True)
        for document in oldest[:room]:
            person = _person_for(document)
            if person is not None:
                queue(person, document)
            else:
                store(document, (), refusals.REMOVED, {})


def _person_for(document: Document) -> User | None:
    """The person who brought a file with these bytes, or else the owner of its conversation."""
    files = StoredFile.objects.filter(content=document.sha256)
    people = files.values_list("created_by", "conversation__owner")
    keys = {each for pair in people[:BATCH] for each in pair if each is not None}
    return User.objects.filter(pk__in=keys).order_by("pk").first()
