"""Files of a conversation, stored in the database, so that one backup contains everything."""

from __future__ import annotations

import uuid
from uuid import UUID, uuid4

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation, Message
from chat.models.project import Project
from chat.models.run import Run
from chat.models.user import User


class StoredFileManager(models.Manager["StoredFile"]):
    """Loads the bytes of a file only when they are used."""

    def get_queryset(self) -> models.QuerySet[StoredFile]:
        return super().get_queryset().defer("body")

    def store(
        self,
        conversation_id: int | None,
        *,
        name: str,
        media_type: str,
        body: bytes,
        sha256: str,
        by: User | None = None,
        public_id: UUID | None = None,
        project: Project | None = None,
    ) -> StoredFile:
        """Creates a file of a conversation, or of a ``project``. ``sha256`` is that of ``body``: callers hash before their transaction."""
        return self.create(
            public_id=public_id or uuid4(),
            conversation_id=conversation_id,
            project=project,
            name=name[:255],
            media_type=media_type[:100] or "application/octet-stream",
            size_bytes=len(body),
            sha256=sha256,
            body=body,
            created_by=by,
        )


class StoredFile(models.Model):
    """Bytes that a user sent or an upstream made. They are never trusted, and one view serves
    them."""

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
    sha256 = models.CharField(max_length=64, blank=True)
    body = models.BinaryField(default=b"")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    objects = StoredFileManager()

    class Meta:
        verbose_name = gettext_lazy("file")
        verbose_name_plural = gettext_lazy("files")
        # Also through a foreign key: lists of files must not load megabytes.
        base_manager_name = "objects"

    def __str__(self) -> str:
        return f"{self.name or self.public_id} ({self.size_bytes} bytes)"


class Attachment(models.Model):
    """A picture in a user's message: a file of the conversation, or a shared one."""

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


class AnswerFile(models.Model):
    """A picture, a sound or another file that an answer contained as bytes."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="files")
    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="answers")
    # Which item of the answer, and which of its media.
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
