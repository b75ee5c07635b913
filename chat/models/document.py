"""The text of documents: what a model is told of a file that is neither a picture nor a recording."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.run import Run


class DocumentKind(models.TextChoices):
    """The kind of the bytes, which decides what reads them (`chat.documents`)."""

    PDF = "pdf", gettext_lazy("PDF")
    WORD = "word", gettext_lazy("Word document")
    SLIDES = "slides", gettext_lazy("Presentation")
    SHEETS = "sheets", gettext_lazy("Spreadsheet")
    HTML = "html", gettext_lazy("Web page")
    MAIL = "mail", gettext_lazy("E-mail")
    TEXT = "text", gettext_lazy("Text")

    @classmethod
    def of_media_type(cls, media_type: str) -> DocumentKind | None:
        """The kind of a stored file, whose media type was taken from its bytes; ``None`` for other files."""
        known = _KINDS.get(media_type)
        return cls.TEXT if known is None and media_type.startswith("text/") else known


_OFFICE = "application/vnd.openxmlformats-officedocument"
_KINDS: Mapping[str, DocumentKind] = {
    "application/pdf": DocumentKind.PDF,
    f"{_OFFICE}.wordprocessingml.document": DocumentKind.WORD,
    "application/msword": DocumentKind.WORD,
    f"{_OFFICE}.presentationml.presentation": DocumentKind.SLIDES,
    "application/vnd.ms-powerpoint": DocumentKind.SLIDES,
    f"{_OFFICE}.spreadsheetml.sheet": DocumentKind.SHEETS,
    "application/vnd.ms-excel": DocumentKind.SHEETS,
    "application/vnd.ms-excel.sheet.binary.macroEnabled.12": DocumentKind.SHEETS,
    "application/vnd.oasis.opendocument.spreadsheet": DocumentKind.SHEETS,
    "text/html": DocumentKind.HTML,
    "message/rfc822": DocumentKind.MAIL,
    "application/json": DocumentKind.TEXT,
    "application/xml": DocumentKind.TEXT,
    "application/yaml": DocumentKind.TEXT,
    "application/toml": DocumentKind.TEXT,
    "application/sql": DocumentKind.TEXT,
}


class Document(models.Model):
    """The text that was read of a content, once for all files with these bytes. It may outlive the bytes: messages that were
    sent with it still tell the model what they told it then."""

    # The digest of the bytes (`FileContent`), which may be gone.
    sha256 = models.CharField(max_length=64)
    # The same bytes are read differently under another name, such as ".html" and ".txt".
    kind = models.CharField(max_length=10, choices=DocumentKind.choices)
    # Null while it is read, or waits for that.
    read_at = models.DateTimeField(null=True)
    # A sentence for people: why there is no text.
    refusal = models.TextField(blank=True)
    pages_count = models.PositiveIntegerField(default=0)
    # Characters of all pages.
    characters = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["sha256", "kind"], name="document_unique")]
        indexes = [
            models.Index(
                fields=["created_at"], name="document_unread", condition=models.Q(read_at=None)
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.sha256[:12]}"

    @property
    def is_readable(self) -> bool:
        return self.read_at is not None and not self.refusal


class DocumentPage(models.Model):
    """A page, a slide, a sheet, or all of a text without pages."""

    document = models.ForeignKey(
        # The constraint's index does this, too.
        Document,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="pages",
    )
    # From 1.
    number = models.PositiveIntegerField()
    # The name of the sheet or the title of the slide.
    name = models.CharField(max_length=200, blank=True)
    text = models.TextField(blank=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["document", "number"], name="document_page_unique")
        ]

    def __str__(self) -> str:
        return f"{self.document_id}: {self.number}"


class FileUse(models.TextChoices):
    """How a model gets a document that is attached."""

    CONTENT = "content", gettext_lazy("Sent with the message")
    TOOLS = "tools", gettext_lazy("Read by the model with tools")


class AwaitedDocument(models.Model):
    """The document that a queued run waits for: it is not claimed before the document is read or refused. Of several
    it is the first that was found unread."""

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="awaited_document"
    )
    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="+")
    # The name of the attached file.
    name = models.CharField(max_length=255)

    def __str__(self) -> str:
        return f"{self.run_id} waits for {self.document_id}"
