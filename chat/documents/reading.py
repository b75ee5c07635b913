"""The job that reads a document: in a child process, into its pages."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial

import msgspec
from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from chat.core import notify
from chat.core.isolation.child import Refused
from chat.core.isolation.parent import ChildKilled, Limits, Reason, read_in_child
from chat.core.text import as_uuid, clean
from chat.documents.readers import refusals
from chat.documents.readers.form import Order, Page
from chat.events import JsonObject
from chat.jobs.kinds import Task
from chat.models import (
    Conversation,
    Document,
    DocumentKind,
    DocumentPage,
    FileContent,
    Job,
    Message,
    SearchKind,
    SearchRow,
    StoredFile,
    UnsentFile,
)
from chat.search.index import parts_of
from chat.search.sources import Parts, document_text, index_again

READER = "chat.documents.readers.reader:read_document"
# The machine may be busy, and the child has the lowest priority.
WAIT_FACTOR = 3
# JSON needs up to six bytes for a character, and a page has a name.
_CHARACTER_BYTES = 6
_PAGE_BYTES = 4096
_NAME_CHARACTERS = 200
# Pages that are written with one statement.
_BATCH = 100
KILLED: dict[Reason, str] = {
    "memory": refusals.TOO_MUCH_MEMORY,
    "time": refusals.TOO_SLOW,
    "output": refusals.TOO_LONG,
    "crash": refusals.UNREADABLE,
}
_page = msgspec.json.Decoder(Page)


def read_document(task: Task) -> JsonObject:
    """Reads the document of the job. Its pages, or why there are none, are stored with the end of the job. Raises
    ``FilesUnavailable``, which then is the reason."""
    document = task.job.document
    assert document is not None
    pages: Sequence[Page] = ()
    refusal = ""
    content = FileContent.objects.filter(pk=document.sha256).first()
    try:
        # Its file may have been removed since.
        pages = list(_read(content.read(), document.kind, task)) if content else ()
    except Refused as refused:
        # The process that says so has read the file: it may only say what is known.
        refusal = str(refused) if str(refused) in refusals.KNOWN else refusals.UNREADABLE
    except ChildKilled as killed:
        refusal = KILLED[killed.reason]
    except msgspec.MsgspecError:
        refusal = refusals.UNREADABLE
    if content is None:
        refusal = refusals.REMOVED
    task.also = partial(store, document, pages, refusal, _index_parts(document, pages))
    return {}


def refuse(job: Job, words: str) -> None:
    """Stores that the job has failed, in the transaction that ends it."""
    if job.document is not None:
        store(job.document, (), words, {})


def limits() -> Limits:
    output_bytes = (
        settings.DOCUMENT_CHARACTERS * _CHARACTER_BYTES + settings.DOCUMENT_PAGES * _PAGE_BYTES
    )
    return Limits(
        memory_bytes=settings.DOCUMENT_MEMORY_BYTES,
        cpu_seconds=settings.DOCUMENT_SECONDS,
        wait_seconds=settings.DOCUMENT_SECONDS * WAIT_FACTOR,
        frame_bytes=output_bytes,
        output_bytes=output_bytes,
    )


def order_for(kind: str) -> Order:
    return Order(
        kind=kind,
        most_pages=settings.DOCUMENT_PAGES,
        most_characters=settings.DOCUMENT_CHARACTERS,
        most_unpacked_bytes=settings.DOCUMENT_UNPACKED_BYTES,
    )


def _read(body: bytes, kind: str, task: Task) -> Iterable[Page]:
    """Raises ``Refused``, ``ChildKilled``, ``JobStopped``, and ``msgspec.MsgspecError`` for frames that our reader
    never sends."""
    frames = read_in_child(
        READER,
        io.BytesIO(body),
        msgspec.json.encode(order_for(kind)),
        limits=limits(),
        check=task.check,
    )
    with closing(frames):
        for frame in frames:
            page = _page.decode(frame)
            yield Page(name=clean(page.name)[:_NAME_CHARACTERS], text=clean(page.text))


# --- what is stored -------------------------------------------------------------------------------


def _indexed_files(document: Document) -> QuerySet[StoredFile]:
    """The files with these bytes that are searchable. Others will be with this document's text."""
    rows = SearchRow.objects.filter(kind=SearchKind.FILE).values("source")
    return StoredFile.objects.filter(content=document.sha256, pk__in=rows)


def _index_parts(document: Document, pages: Sequence[Page]) -> dict[int, Parts]:
    """The entries by which the files are found: made here, as it takes longer than a transaction may."""
    texts = [(page.name, page.text) for page in pages]
    return {
        file.pk: parts_of(document_text(file.name, texts) or file.name)
        for file in _indexed_files(document)
    }


def store(
    document: Document, pages: Sequence[Page], refusal: str, index_parts: dict[int, Parts]
) -> None:
    """Stores what was read, and tells the pages that show it."""
    DocumentPage.objects.filter(document=document).delete()
    DocumentPage.objects.bulk_create(
        (
            DocumentPage(document=document, number=number, name=page.name, text=page.text)
            for number, page in enumerate(pages, start=1)
        ),
        batch_size=_BATCH,
    )
    Document.objects.filter(pk=document.pk).update(
        read_at=timezone.now(),
        refusal=refusal,
        pages_count=len(pages),
        characters=sum(len(page.text) for page in pages),
    )
    for file in _indexed_files(document):
        if DocumentKind.of_media_type(file.media_type) == document.kind:
            index_again(SearchKind.FILE, file, index_parts.get(file.pk))
    _tell(document)


def _tell(document: Document) -> None:
    files = StoredFile.objects.filter(content=document.sha256)
    messages = Message.objects.filter(attachments__file__in=files)
    for conversation in Conversation.objects.filter(messages__in=messages).distinct():
        # It is no news, but pages show the turn again.
        revision = conversation.touch_quietly()
        changed = messages.filter(conversation=conversation).values("pk")
        Message.objects.filter(pk__in=changed).update(revision=revision)
        notify.publish_after_commit(notify.room_topic(conversation.public_id))
    for place in set(UnsentFile.objects.filter(file__in=files).values_list("place", flat=True)):
        if (room := as_uuid(place)) is not None:
            notify.publish_after_commit(notify.room_topic(room))
    # Answers that wait for the text can begin.
    notify.publish_after_commit(notify.QUEUED)
