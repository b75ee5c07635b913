"""Attached files as pages show them: what each is, and what of it a model gets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Sum
from django.db.models.functions import Length
from django.utils.translation import gettext, ngettext

from chat import access
from chat.documents.actions import documents_of
from chat.documents.pages import parse_pages
from chat.documents.texts import about, facts, tokens_of
from chat.models import (
    Attachment,
    Conversation,
    Document,
    DocumentKind,
    DocumentPage,
    FileUse,
    StoredFile,
    UnsentFile,
    User,
)
from chat.rendering.figures import count, size
from chat.rendering.media import PICTURE_TYPES

_ICONS: Mapping[str, str] = {
    DocumentKind.SHEETS: "table",
    DocumentKind.SLIDES: "layout-template",
    DocumentKind.HTML: "globe",
    DocumentKind.MAIL: "mail",
}
_TABLES = ("text/csv", "text/tab-separated-values")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """An attached file. ``facts`` says what a model gets of it; ``tokens`` is how long that is, 0 if it gets no text."""

    file: StoredFile
    document: Document | None = None
    pages: str = ""
    use: str = FileUse.CONTENT
    facts: str = ""
    tokens: int = 0

    @property
    def hex(self) -> str:
        return self.file.public_id.hex

    @property
    def is_deleted(self) -> bool:
        return self.file.is_deleted

    @property
    def is_picture(self) -> bool:
        """True if there is a picture to show."""
        return self.file.media_type in PICTURE_TYPES and not self.is_deleted

    @property
    def is_sound(self) -> bool:
        """True if there is something to listen to."""
        return self.file.media_type.startswith("audio/") and not self.is_deleted

    @property
    def is_reading(self) -> bool:
        return self.document is not None and self.document.read_at is None

    @property
    def is_refused(self) -> bool:
        return self.document is not None and bool(self.document.refusal)

    @property
    def is_for_tools(self) -> bool:
        return self.use == FileUse.TOOLS

    @property
    def has_pages(self) -> bool:
        """True if there are pages to choose from."""
        return self.document is not None and self.document.pages_count > 1

    @property
    def icon(self) -> str:
        if self.file.media_type in PICTURE_TYPES:
            return "image"
        if self.file.media_type.startswith("audio/"):
            return "volume-2"
        if self.document is None:
            return "file"
        is_table = self.file.media_type in _TABLES
        return "table" if is_table else _ICONS.get(self.document.kind, "file-text")


def unsent_chips(user: User, place: str) -> list[Chip]:
    """The files of the message that the person writes at this place."""
    rows = list(access.unsent_files(user, place))
    documents = documents_of(row.file for row in rows)
    return [unsent_chip(row, documents.get(row.file_id)) for row in rows]


def unsent_chip(row: UnsentFile, document: Document | None) -> Chip:
    return chip_of(row, document, characters=characters_of(document, row.pages))


def chips_by_message(conversation: Conversation) -> Mapping[int, list[Chip]]:
    """The files of people's messages, by the key of the message."""
    rows = list(
        Attachment.objects.filter(message__conversation=conversation)
        .select_related("file")
        .order_by("message_id", "position")
    )
    documents = documents_of(row.file for row in rows)
    found: defaultdict[int, list[Chip]] = defaultdict(list)
    for row in rows:
        found[row.message_id].append(chip_of(row, documents.get(row.file_id)))
    return found


def shared_chips(files: Iterable[StoredFile]) -> list[Chip]:
    """Files that a project offers."""
    listed = list(files)
    documents = documents_of(listed)
    return [chip_of(UnsentFile(file=file), documents.get(file.pk)) for file in listed]


def chip_of(
    row: Attachment | UnsentFile, document: Document | None, *, characters: int | None = None
) -> Chip:
    """``characters``: of the chosen pages, if they are known."""
    tokens = tokens_of(characters) if characters and row.use == FileUse.CONTENT else 0
    return Chip(
        file=row.file,
        document=document,
        pages=row.pages,
        use=row.use,
        facts=facts_of(row.file, document, row.pages, characters),
        tokens=tokens,
    )


def facts_of(
    file: StoredFile, document: Document | None, pages: str, characters: int | None
) -> str:
    if file.is_deleted:
        return deleted_words(document)
    if document is None:
        return size(file.size_bytes)
    if not (pages and document.is_readable):
        return facts(document)
    values = {"pages": pages, "count": count(document.pages_count)}
    if characters is None:
        return gettext("Pages %(pages)s of %(count)s") % values
    tokens = about(tokens_of(characters))
    words = ngettext(
        "Pages %(pages)s of %(count)s, about %(tokens)s token",
        "Pages %(pages)s of %(count)s, about %(tokens)s tokens",
        tokens,
    )
    return words % {**values, "tokens": count(tokens)}


def deleted_words(document: Document | None) -> str:
    """The sentence about a file whose bytes were deleted."""
    if document is not None and document.is_readable and document.characters:
        return gettext("File deleted. The model still gets its text.")
    return gettext("File deleted. The model doesn’t get it any more.")


def characters_of(document: Document | None, pages: str) -> int | None:
    """Characters of the chosen pages. Raises ``ValueError`` for a choice that doesn't fit the document."""
    if document is None or not document.is_readable:
        return None
    if not pages:
        return int(document.characters)
    rows = DocumentPage.objects.filter(
        document=document, number__in=parse_pages(pages, document.pages_count)
    )
    return rows.aggregate(total=Sum(Length("text")))["total"] or 0
