"""Documents of files: who asks for the text, and where it is found."""

from __future__ import annotations

from collections.abc import Iterable

from chat.jobs import actions as jobs
from chat.models import ACTIVE_JOB_STATUSES, Document, DocumentKind, Job, JobKind, StoredFile, User

# A document is read within seconds. A job that no runner takes for this long is forgotten, and queued again.
JOB_DAYS = 1.0
# Documents that are stored with one statement.
_BATCH = 500


def request_reading(user: User, file: StoredFile) -> Document | None:
    """The document of a file; ``None`` if its media type is that of a picture, a sound or something unreadable.
    Unless it was read already, it is queued, also if it was refused before: the server may have been the
    reason. Call this in the transaction that stores the file."""
    kind = DocumentKind.of_media_type(file.media_type)
    if kind is None:
        return None
    document = _held(file.sha256, kind)
    if document.is_readable:
        return document
    if document.read_at is not None:
        document.read_at, document.refusal = None, ""
        document.save(update_fields=["read_at", "refusal"])
    queue(user, document)
    return document


def _held(sha256: str, kind: DocumentKind) -> Document:
    """The document, which nobody deletes or asks for until the transaction ends."""
    while True:
        created, _ = Document.objects.get_or_create(sha256=sha256, kind=kind)
        # It may have been deleted at this moment, because no file had these bytes.
        held = Document.objects.select_for_update(no_key=True).filter(pk=created.pk).first()
        if held is not None:
            return held


def queue(user: User, document: Document) -> None:
    """Queues the document, unless it is queued already. Call this while nobody else can do it."""
    if not Job.objects.filter(document=document, status__in=ACTIVE_JOB_STATUSES).exists():
        jobs.create(user, JobKind.READ, days=JOB_DAYS, document=document)


def expect(files: Iterable[StoredFile]) -> None:
    """Stores documents that are read later, because an import brings many at once. The periodic task
    queues a few at a time (`chat.documents.purge`). Call this in the transaction that stores the files."""
    wanted = {
        (file.sha256, kind)
        for file in files
        if (kind := DocumentKind.of_media_type(file.media_type)) is not None
    }
    # In one order, so that two transactions never wait for each other.
    Document.objects.bulk_create(
        (Document(sha256=digest, kind=kind) for digest, kind in sorted(wanted)),
        ignore_conflicts=True,
        batch_size=_BATCH,
    )


def document_of(file: StoredFile) -> Document | None:
    return documents_of([file]).get(file.pk)


def documents_of(files: Iterable[StoredFile]) -> dict[int, Document]:
    """The documents of these files by the file's key, in one query."""
    kinds = {
        file.pk: (file.sha256, kind)
        for file in files
        if (kind := DocumentKind.of_media_type(file.media_type)) is not None
    }
    if not kinds:
        return {}
    found = Document.objects.filter(sha256__in={digest for digest, _ in kinds.values()})
    by_content = {(each.sha256, each.kind): each for each in found}
    return {pk: by_content[content] for pk, content in kinds.items() if content in by_content}
