"""Files of a conversation, stored in the database, so that one backup contains everything."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation, Message
from chat.models.project import Project
from chat.models.run import Run
from chat.models.user import User

_LOOK = "SELECT 1 FROM chat_filecontent WHERE sha256 = %s"
_HOLD = {"postgresql": "SELECT 1 FROM chat_filecontent WHERE sha256 = %s FOR KEY SHARE"}


class FileContentManager(models.Manager["FileContent"]):
    def keep(self, body: bytes, sha256: str) -> bool:
        """Makes sure that these bytes are stored until the caller's transaction ends, and says whether
        they are new. Call it in the transaction that stores a file with them; for several of them
        `keep_all`, in whose order two transactions never wait for each other."""
        while not self._hold(sha256):
            # Somebody else may store the same at this moment, or may just have deleted it.
            with connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO chat_filecontent (sha256, size_bytes, body) VALUES (%s, %s, %s)"
                    " ON CONFLICT (sha256) DO NOTHING",
                    [sha256, len(body), body],
                )
                if cursor.rowcount:
                    return True
        return False

    def keep_all(self, bodies: Mapping[str, bytes]) -> int:
        """Keeps the bytes, which are given by SHA-256, and says how many of them are new."""
        return sum(len(bodies[each]) for each in sorted(bodies) if self.keep(bodies[each], each))

    def _hold(self, sha256: str) -> bool:
        """True if there is such content. It can't be deleted then, as by a foreign key: others who hold it
        don't wait. On SQLite nobody else writes."""
        with connection.cursor() as cursor:
            cursor.execute(_HOLD.get(connection.vendor, _LOOK), [sha256])
            return cursor.fetchone() is not None

    def erase(self, sha256: str) -> bool:
        """Deletes the content if no file has it. Raises ``IntegrityError`` at the end of the transaction
        if such a file was committed while this waited for a transaction that held the content."""
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM chat_filecontent WHERE sha256 = %s"
                " AND NOT EXISTS (SELECT 1 FROM chat_storedfile WHERE content_id = %s)",
                [sha256, sha256],
            )
            return bool(cursor.rowcount)

    def unused(self) -> models.QuerySet[FileContent]:
        return self.filter(~Exists(StoredFile.objects.filter(content=OuterRef("pk"))))


class FileContent(models.Model):
    """The bytes of files, once for all files that have them. Nobody gets a file by knowing its digest:
    access is that of the `StoredFile`, and creating one takes the bytes.

    When the last file is deleted, a periodic task deletes the content (`chat.files.purge`).
    """

    sha256 = models.CharField(max_length=64, primary_key=True)
    size_bytes = models.PositiveBigIntegerField()
    body = models.BinaryField()

    objects = FileContentManager()

    def __str__(self) -> str:
        return f"{self.sha256} ({self.size_bytes} bytes)"


class StoredFileManager(models.Manager["StoredFile"]):
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
        created_at: datetime | None = None,
    ) -> StoredFile:
        """Creates a file of a conversation, or of a ``project``. ``sha256`` is that of ``body``: callers
        hash before their transaction."""
        with transaction.atomic():
            FileContent.objects.keep(body, sha256)
            return self.create(
                public_id=public_id or uuid4(),
                conversation_id=conversation_id,
                project=project,
                name=name[:255],
                media_type=media_type[:100] or "application/octet-stream",
                size_bytes=len(body),
                content_id=sha256,
                created_by=by,
                created_at=created_at or timezone.now(),
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
    content = models.ForeignKey(FileContent, on_delete=models.PROTECT, related_name="files")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    objects = StoredFileManager()

    class Meta:
        verbose_name = gettext_lazy("file")
        verbose_name_plural = gettext_lazy("files")

    def __str__(self) -> str:
        return f"{self.name or self.public_id} ({self.size_bytes} bytes)"

    @property
    def sha256(self) -> str:
        return self.content_id

    @property
    def body(self) -> bytes:
        """The bytes of the file, read from the database with each use; empty if it was deleted meanwhile."""
        bodies = FileContent.objects.filter(pk=self.content_id).values_list("body", flat=True)
        return bytes(bodies.first() or b"")


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
