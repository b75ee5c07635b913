"""The periodic task of runners that deletes the bytes of files that are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from django.db import IntegrityError, transaction

from chat.core import file_storage
from chat.core.errors import FilesUnavailable
from chat.core.threads import DatabaseThreads
from chat.models import FileContent, UnreferencedObject
from chat.runs.runner import PeriodicTask
from chat.upstreams.client import Client

# These files are not read any more, so nobody waits for this.
PURGE_SECONDS = 60.0
# Looked for at once. Each is deleted in a transaction of its own, because SQLite's other writers wait.
BATCH = 100
# Objects are deleted by a thread of its own: the storage may be slow, and runs wait for the other threads.
_object_thread = DatabaseThreads("objects", size=1)


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def purge() -> None:
        while await threads.call(erase_unused):
            pass
        while await _object_thread.call(delete_due_objects):
            pass

    return purge


PURGE_FILES = PeriodicTask(topic="files.purge", seconds=PURGE_SECONDS, make=_make)


def erase_unused() -> bool:
    """Deletes some contents that no file has. Says whether there may be more."""
    unused = list(FileContent.objects.unused().values_list("pk", flat=True)[:BATCH])
    return sum(erase(digest) for digest in unused) > 0


def erase(digest: str) -> bool:
    """Deletes a content, unless a file with it was stored meanwhile."""
    try:
        with transaction.atomic():
            return FileContent.objects.erase(digest)
    except IntegrityError:
        return False


def delete_due_objects() -> bool:
    """Deletes some objects in the storage for files that no content has. Says whether there may be
    more."""
    if not file_storage.is_configured():
        return False
    due = list(UnreferencedObject.objects.due()[:BATCH])
    try:
        for each in due:
            each.delete_object()
    except FilesUnavailable:
        return False
    return len(due) == BATCH
