"""The documents among the attachments of a message, with the text that a model is sent of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.utils.translation import gettext

from chat.documents.actions import documents_of
from chat.documents.texts import text_of
from chat.models import Attachment, DocumentKind, FileUse, StoredFile


@dataclass(frozen=True, slots=True, kw_only=True)
class SentDocument:
    """``text`` is ``None`` as long as nobody has read the file, and if it can't be read."""

    attachment: Attachment
    text: str | None

    @property
    def file(self) -> StoredFile:
        return self.attachment.file

    @property
    def choice(self) -> str:
        """The part of it that was sent, if that isn't all of its text."""
        chosen = []
        if self.attachment.pages:
            chosen.append(gettext("pages %(pages)s") % {"pages": self.attachment.pages})
        if self.attachment.use == FileUse.TOOLS:
            chosen.append(str(FileUse.TOOLS.label).lower())
        return ", ".join(chosen)


def sent_documents(attachments: Iterable[Attachment]) -> Iterator[SentDocument]:
    """In their order, each with its text when its turn comes. One query if there are any, and one for each text."""
    found = [
        each for each in attachments if DocumentKind.of_media_type(each.file.media_type) is not None
    ]
    documents = documents_of(each.file for each in found)
    for each in found:
        document = documents.get(each.file_id)
        is_read = document is not None and document.is_readable
        text = text_of(document, each.file.name, each.pages) if document and is_read else None
        yield SentDocument(attachment=each, text=text)
