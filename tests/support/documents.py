"""Documents that are attached to messages, with the text that somebody has read of them."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils import timezone

from chat.models import (
    Attachment,
    Document,
    DocumentKind,
    DocumentPage,
    Message,
    NewContent,
    StoredFile,
    User,
)

PDF = "application/pdf"
PDF_BYTES = b"%PDF-1.7 not really"


def attach_file(
    message: Message,
    name: str = "report.pdf",
    body: bytes = PDF_BYTES,
    *,
    media_type: str = PDF,
    by: User | None = None,
    **choice: str,
) -> Attachment:
    """Attaches a file as if it was sent with the message. ``choice`` are ``pages`` and ``use``."""
    file = StoredFile.objects.store(
        message.conversation_id,
        name=name,
        media_type=media_type,
        content=NewContent(body=body),
        by=by,
    )
    return Attachment.objects.create(
        message=message, file=file, position=message.attachments.count(), **choice
    )


def unread(file: StoredFile) -> Document:
    kind = DocumentKind.of_media_type(file.media_type)
    assert kind is not None
    return Document.objects.get_or_create(sha256=file.sha256, kind=kind)[0]


def read(file: StoredFile, *pages: str) -> Document:
    """Stores what a reader would have found in the file."""
    document = unread(file)
    if document.read_at is not None:
        # Another file with the same bytes.
        return document
    DocumentPage.objects.bulk_create(
        DocumentPage(document=document, number=number, text=text)
        for number, text in enumerate(pages, start=1)
    )
    document.pages_count, document.characters = len(pages), sum(map(len, pages))
    document.read_at = timezone.now()
    document.save()
    return document


def refuse(file: StoredFile, sentence: str = "The file is encrypted.") -> Document:
    document = unread(file)
    document.read_at, document.refusal = timezone.now(), sentence
    document.save()
    return document


def attach_document(
    message: Message,
    name: str = "report.pdf",
    texts: Sequence[str] = ("The first page.", "The second page."),
    body: bytes = PDF_BYTES,
    *,
    media_type: str = PDF,
    **choice: str,
) -> Attachment:
    """Attaches a document of which somebody has read these pages."""
    attachment = attach_file(message, name, body, media_type=media_type, **choice)
    read(attachment.file, *texts)
    return attachment
