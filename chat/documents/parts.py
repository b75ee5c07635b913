"""The parts of attached documents that a model gets: the file itself, its text, or tools to read it with (`chat.runs.file_parts`)."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from django.db import transaction
from django.utils.translation import gettext

from chat.core.errors import FilesUnavailable
from chat.core.text import one_line, without_hidden
from chat.dialects.base import Document as FilePart
from chat.dialects.base import Part, Text
from chat.documents.actions import documents_of, request_reading
from chat.documents.file_tools import definitions, mention
from chat.documents.texts import text_of
from chat.models import Attachment, Document, DocumentKind, FileUse, StoredFile
from chat.runs.file_parts import DocumentRefused, DocumentUnread, FileParts, PartsRequest

# PDF files that are together larger or longer are sent as text. Providers accept 32 MB in a request, of which base64
# takes a third, and 100 pages in all of its files.
FILES_BYTES = 20 * 1024 * 1024
FILES_PAGES = 100

_PDF, _PLAIN = "application/pdf", "text/plain"


def build_parts(request: PartsRequest) -> FileParts:
    """Raises ``DocumentUnread`` for the first document that is not read yet, and ``DocumentRefused`` for one of the
    message that is answered that can't be read at all."""
    documents = documents_of(each.file for each in request.attachments)
    builder = _Builder(request=request)
    for each in request.attachments:
        document = documents.get(each.file_id)
        if document is None or document.read_at is None:
            document = _requested(request, each.file)
        if document is None:
            builder.leave_out(each.file)
        elif not document.is_readable and each.message_id == request.newest:
            raise DocumentRefused(_refusal(each.file, document))
        else:
            builder.add(each, document)
    return FileParts(
        parts=builder.parts,
        notes=list(dict.fromkeys(builder.notes)),
        tools=definitions(request.taken_names) if builder.has_tools else (),
    )


def _requested(request: PartsRequest, file: StoredFile) -> Document | None:
    """Asks for the text of a file that nobody has read, as one that was attached before Tributary read documents.
    ``None`` for a file that is no document, or was deleted."""
    if DocumentKind.of_media_type(file.media_type) is None or file.is_deleted:
        return None
    person = request.run.requested_by or file.created_by
    if person is None:
        # Nobody is left for whom it could be read.
        return None
    with transaction.atomic():
        document = request_reading(person, file)
    if document is not None and document.read_at is None:
        raise DocumentUnread(document.pk, file.name)
    return document


def _refusal(file: StoredFile, document: Document) -> str:
    words = gettext("“%(file)s” can’t be read: %(reason)s")
    return words % {"file": shown_name(file.name), "reason": gettext(document.refusal)}


def _pdf_name(name: str) -> str:
    """The name with the suffix of the bytes: some providers refuse a file by its suffix."""
    return name if name.lower().endswith(".pdf") else f"{name or 'document'}.pdf"


def shown_name(name: str) -> str:
    return without_hidden(one_line(name)) or gettext("file")


@dataclass(slots=True, kw_only=True)
class _Builder:
    request: PartsRequest
    parts: dict[int, list[Part]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    has_tools: bool = False
    # Bytes and pages of the files so far.
    size_bytes: int = 0
    pages_count: int = 0

    def leave_out(self, file: StoredFile) -> None:
        if file.is_deleted:
            self._note(gettext("“%(file)s” was left out: the file was deleted."), file)
            return
        self._note(gettext("“%(file)s” was left out: it can’t be read as a document."), file)

    def add(self, attachment: Attachment, document: Document) -> None:
        parts = self.parts.setdefault(attachment.message_id, [])
        file = attachment.file
        if not document.is_readable:
            self._note(gettext("“%(file)s” was left out: its text can’t be read."), file)
        elif attachment.use == FileUse.TOOLS and self.request.takes_tools:
            self.has_tools = True
            parts.append(Text(text=mention(file.name, document, self.request.taken_names)))
            return
        elif attachment.use == FileUse.TOOLS:
            self._note(
                gettext("The text of “%(file)s” was sent: the model can’t use tools to read it."),
                file,
            )
        parts.append(self._as_file(attachment, document) or self._as_text(attachment, document))

    def _as_text(self, attachment: Attachment, document: Document) -> Part:
        if document.is_readable and not document.characters:
            self._note(
                gettext("“%(file)s” has no text, so the model was told only its name."),
                attachment.file,
            )
        text = text_of(document, attachment.file.name, attachment.pages)
        if self._sends(_PLAIN):
            data = base64.b64encode(text.encode("utf-8", "replace")).decode()
            return FilePart(media_type=_PLAIN, data=data, name=attachment.file.name)
        return Text(text=text)

    def _as_file(self, attachment: Attachment, document: Document) -> Part | None:
        """The file, if the server takes it and all of its pages are sent."""
        file = attachment.file
        is_pdf = document.is_readable and document.kind == DocumentKind.PDF
        if not is_pdf or attachment.pages or not self._sends(_PDF):
            return None
        size_bytes = self.size_bytes + file.size_bytes
        pages_count = self.pages_count + document.pages_count
        if size_bytes > FILES_BYTES or pages_count > FILES_PAGES:
            self._note(
                gettext("The text of “%(file)s” was sent: the file is too large to be sent."), file
            )
            return None
        try:
            body = file.body
        except FilesUnavailable:
            body = b""
        if not body:
            # The message still tells what it told before the bytes were lost.
            self._note(
                gettext("The text of “%(file)s” was sent: the file itself can’t be read any more."),
                file,
            )
            return None
        self.size_bytes, self.pages_count = size_bytes, pages_count
        data = base64.b64encode(body).decode()
        return FilePart(media_type=_PDF, data=data, name=_pdf_name(file.name))

    def _sends(self, media_type: str) -> bool:
        return self.request.dialect.sends_document(media_type, self.request.options)

    def _note(self, words: str, file: StoredFile) -> None:
        self.notes.append(words % {"file": shown_name(file.name)})
