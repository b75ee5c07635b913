"""The periodic task of runners that deletes the bytes of files that are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from django.db import IntegrityError, transaction

from chat.core.threads import DatabaseThreads
from chat.models import FileContent
from chat.runs.runner import PeriodicTask
from chat.upstreams.client import Client

# Nothing reads them any more, so nobody waits for this.
PURGE_SECONDS = 60.0
# Looked for at once. Each is deleted in a transaction of its own, because SQLite's other writers wait.
BATCH = 100


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def purge() -> None:
        while await threads.call(erase_unused):
            pass

    return purge


PURGE_FILES = PeriodicTask(
    topic="files.purge", seconds=PURGE_SECONDS, make=_make, follows_answers=False
)


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
