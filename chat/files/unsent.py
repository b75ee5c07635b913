"""Files of messages that are not sent yet: added, chosen from, removed, and purged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from chat import access
from chat.core.errors import ActionRefused, storage_errors
from chat.core.threads import DatabaseThreads
from chat.documents.actions import document_of, request_reading
from chat.documents.pages import in_words, parse_pages
from chat.files.actions import NewFile, check_file_counts
from chat.files.storage import check_storage
from chat.models import Document, FileContent, FileUse, StoredFile, UnsentFile, User
from chat.runs.runner import PeriodicTask
from chat.upstreams.client import Client

# A draft may wait over a weekend. Older files go, and so does their place in the person's storage.
KEPT_FOR = timedelta(days=7)
PURGE_SECONDS = 3600.0


def upload(user: User, place: str, new: NewFile) -> UnsentFile:
    """Stores a file of the message that the person writes at this place, and has it read if it is a document. Raises
    ``ActionRefused``."""
    with (
        storage_errors(),
        FileContent.objects.writing([new]) as [content],
        transaction.atomic(),
    ):
        _check_counts(user, place, new.media_type)
        check_storage(user, [new])
        file = StoredFile.objects.store(
            None, name=new.name, media_type=new.media_type, content=content, by=user
        )
        request_reading(user, file)
        return UnsentFile.objects.create(user=user, place=place, file=file)


def add_shared(user: User, place: str, file: StoredFile) -> UnsentFile:
    """Adds a file of the project. Raises ``ActionRefused``."""
    with storage_errors(), transaction.atomic():
        known = access.unsent_files(user, place).filter(file=file).first()
        if known is not None:
            return known
        _check_counts(user, place, file.media_type)
        # It may have been shared before there were documents.
        request_reading(user, file)
        return UnsentFile.objects.create(user=user, place=place, file=file)


def _check_counts(user: User, place: str, added: str) -> None:
    types = access.unsent_files(user, place).values_list("file__media_type", flat=True)
    check_file_counts([*types, added])


def choose(row: UnsentFile, *, pages: str, use: str) -> None:
    """Sets which pages of a document are sent, and how. Raises ``ActionRefused``."""
    row.pages = normal_pages(document_of(row.file), pages)
    row.use = FileUse(use)
    with storage_errors():
        if not UnsentFile.objects.filter(pk=row.pk).update(pages=row.pages, use=row.use):
            raise ActionRefused(gettext("This file was sent or removed in the meantime."))


def normal_pages(document: Document | None, pages: str) -> str:
    """The choice of pages in its normal form; empty for all. Raises ``ActionRefused``."""
    if document is None or not document.is_readable:
        return ""
    try:
        chosen = parse_pages(pages, document.pages_count)
    except ValueError as error:
        raise ActionRefused(str(error)) from None
    return "" if len(chosen) == document.pages_count else in_words(chosen)


def read_again(user: User, row: UnsentFile) -> None:
    with storage_errors(), transaction.atomic():
        request_reading(user, row.file)


def remove(row: UnsentFile) -> None:
    """Removes the file from the message. One that was uploaded for it is deleted."""
    with storage_errors(), transaction.atomic():
        UnsentFile.objects.filter(pk=row.pk).delete()
        StoredFile.objects.unused().filter(pk=row.file_id).delete()


def purge_unsent() -> None:
    """Deletes files that were never sent."""
    old = UnsentFile.objects.filter(created_at__lte=timezone.now() - KEPT_FOR)
    with transaction.atomic():
        # Somebody may send one at this moment.
        rows = old.select_for_update(skip_locked=True)
        UnsentFile.objects.filter(pk__in=list(rows.values_list("pk", flat=True))).delete()
        StoredFile.objects.unused().delete()


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def purge() -> None:
        await threads.call(purge_unsent)

    return purge


PURGE_UNSENT = PeriodicTask(topic="files.unsent", seconds=PURGE_SECONDS, make=_make)
