"""Files of conversations and projects."""

from __future__ import annotations

import uuid
from datetime import datetime
from uuid import UUID, uuid4

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation, Message
from chat.models.document import FileUse
from chat.models.file_content import FileContent, NewContent
from chat.models.project import Project
from chat.models.run import Run
from chat.models.user import User


class StoredFileManager(models.Manager["StoredFile"]):
    def store(
        self,
        conversation_id: int | None,
        *,
        name: str,
        media_type: str,
        content: NewContent,
        by: User | None = None,
        public_id: UUID | None = None,
        project: Project | None = None,
        created_at: datetime | None = None,
    ) -> StoredFile:
        """Creates a file of a conversation, or of a ``project``. Callers hash and write the content
        before their transaction (`FileContentManager.writing`)."""
        with transaction.atomic():
            FileContent.objects.keep(content)
            return self.create(
                public_id=public_id or uuid4(),
                conversation_id=conversation_id,
                project=project,
                name=name[:255],
                media_type=media_type[:100] or "application/octet-stream",
                size_bytes=len(content.body),
                # With the bytes, for the index: they are not read back in this transaction.
                content=FileContent(
                    sha256=content.sha256, size_bytes=len(content.body), body=content.body
                ),
                created_by=by,
                created_at=created_at or timezone.now(),
            )

    def unused(self) -> models.QuerySet[StoredFile]:
        """Files of no conversation and no project that no message has: their message was never sent, or erased."""
        return self.filter(
            conversation__isnull=True,
            project__isnull=True,
            attachments__isnull=True,
            queued__isnull=True,
            unsent__isnull=True,
        )


class StoredFile(models.Model):
    """A file that a user sent or an upstream made. Its bytes are never trusted, and one view serves
    them. Files with the same bytes share them."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.CASCADE, related_name="files"
    )
    # Instead of a conversation: a file that each conversation of the project is offered. One that was
    # sent and then removed from the project has neither, and is kept for its attachments.
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="files")
    name = models.CharField(gettext_lazy("name"), max_length=255, blank=True)
    media_type = models.CharField(
        gettext_lazy("media type"), max_length=100, default="application/octet-stream"
    )
    size_bytes = models.PositiveBigIntegerField(default=0)
    # Null if the bytes were deleted. What is known of them stays, and so does their text (`Document`).
    content = models.ForeignKey(
        FileContent, null=True, on_delete=models.PROTECT, related_name="files"
    )
    deleted_at = models.DateTimeField(null=True, editable=False)
    # The digest of the bytes that were deleted.
    deleted_sha256 = models.CharField(max_length=64, default="", db_default="", editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    objects = StoredFileManager()

    class Meta:
        verbose_name = gettext_lazy("file")
        verbose_name_plural = gettext_lazy("files")
        indexes = [
            models.Index(
                fields=["deleted_sha256"],
                name="file_deleted_sha256",
                condition=~models.Q(deleted_sha256=""),
            )
        ]

    def __str__(self) -> str:
        return f"{self.name or self.public_id} ({self.size_bytes} bytes)"

    @property
    def is_deleted(self) -> bool:
        """True if the bytes were deleted, and the file is kept for the messages that have it."""
        return self.content_id is None

    @property
    def sha256(self) -> str:
        return self.content_id or self.deleted_sha256

    @property
    def body(self) -> bytes:
        """The bytes of the file, read with each use; empty if they were deleted. Raises
        ``FilesUnavailable``."""
        if self.content_id is None:
            return b""
        if StoredFile.content.is_cached(self) and self.content is not None:
            return self.content.read()
        content = FileContent.objects.filter(pk=self.content_id).first()
        return content.read() if content else b""


class ChosenContent(models.Model):
    """The part of an attached document that is sent, and how."""

    # As a person writes them ("1-3, 7"); empty: all.
    pages = models.CharField(max_length=200, blank=True, db_default="", default="")
    use = models.CharField(
        max_length=10,
        choices=FileUse.choices,
        db_default=FileUse.CONTENT,
        default=FileUse.CONTENT,
    )

    class Meta:
        abstract = True


class Attachment(ChosenContent):
    """A file in a user's message: a file of the conversation, or a shared one."""

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="attachments")
    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="attachments")
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["message", "position"], name="attachment_unique")
        ]

    def __str__(self) -> str:
        return f"{self.message_id}: {self.file_id}"


class UnsentFile(ChosenContent):
    """A file that a person has added to a message and not sent yet: one that was uploaded for it, which has no conversation
    until then, or one of the project. It belongs to the draft in one place; sent, it becomes an attachment, and this
    row goes."""

    user = models.ForeignKey(
        # The constraint's index does this, too.
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="unsent_files",
    )
    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="unsent")
    # The id of the conversation, "new", or "new-" and the id of a project.
    place = models.CharField(max_length=40)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["user", "place", "file"], name="unsent_file_unique")
        ]
        indexes = [models.Index(fields=["created_at"], name="unsent_file_age")]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.place}: {self.file_id}"


class AnswerFile(models.Model):
    """A picture, a sound or another file that an answer contained as bytes."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="files")
    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="answers")
    # The item of the answer, and the position among its media.
    choice = models.PositiveIntegerField(default=0)
    item = models.PositiveIntegerField()
    position = models.PositiveIntegerField(default=0)
    transcript = models.TextField(blank=True)

    class Meta:
        ordering = ["choice", "item", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["run", "choice", "item", "position"], name="answer_file_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id}: {self.file_id}"
