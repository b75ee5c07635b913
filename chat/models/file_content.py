"""The bytes of files: each content once, in the database or in the storage for files. Files of conversations and
projects have them (`StoredFile`), and those of skills (`SkillContent`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import uuid4

from django.db import DatabaseError, connection, models, transaction
from django.utils import timezone

from chat.core import file_storage
from chat.core.errors import FilesUnavailable

_LOOK = "SELECT 1 FROM chat_filecontent WHERE sha256 = %s"
_HOLD = {"postgresql": "SELECT 1 FROM chat_filecontent WHERE sha256 = %s FOR KEY SHARE"}
# An object is deleted at the earliest so long after its content, or after it was written in vain. A copy
# of the storage that is made within a day of the database's backup has all of its objects.
OBJECT_GRACE = timedelta(days=1)
# How long a failed deletion of an object waits for the next attempt.
DELETE_AGAIN = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContent:
    """Bytes to be stored. ``object_name`` is that of the object in the storage for files that has
    them already; if it is empty, they are stored in the database."""

    body: bytes = field(repr=False)
    sha256: str = ""
    object_name: str = ""

    def __post_init__(self) -> None:
        if not self.sha256:
            object.__setattr__(self, "sha256", hashlib.sha256(self.body).hexdigest())


C = TypeVar("C", bound=NewContent)


class FileContentManager(models.Manager["FileContent"]):
    @contextmanager
    def writing(self, contents: Sequence[C], *, is_optional: bool = False) -> Iterator[list[C]]:
        """Writes the contents to the storage for files, if new ones go there, and deletes afterwards
        what nobody kept. Enter it before the transaction that keeps them: other writers wait for that
        one. Raises ``FilesUnavailable``; contents that are optional stay in the database instead."""
        written: list[C] = []
        try:
            for each in contents:
                written.append(_write(each, is_optional=is_optional))
            yield written
        finally:
            # Whatever fails here is deleted by the periodic task.
            with suppress(DatabaseError, FilesUnavailable):
                UnreferencedObject.objects.delete_now([each.object_name for each in written])

    def write(self, contents: Sequence[C]) -> list[C]:
        """Writes the contents to the storage for files where `writing` can't enclose the transaction.
        The periodic task deletes what nobody keeps. What can't be written stays in the database."""
        return [_write(each, is_optional=True) for each in contents]

    def keep(self, content: NewContent) -> bool:
        """Makes sure that these bytes are stored until the caller's transaction ends, and says whether
        they are new. Call it in the transaction that stores a file with them; for several of them
        `keep_all`, in whose order two transactions never wait for each other."""
        digest, object_name = content.sha256, content.object_name
        while not self._hold(digest):
            # Somebody else may store the same at this moment, or may just have deleted it.
            with connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO chat_filecontent (sha256, size_bytes, body, object_name)"
                    " VALUES (%s, %s, %s, %s) ON CONFLICT (sha256) DO NOTHING",
                    [digest, len(content.body), b"" if object_name else content.body, object_name],
                )
                if not cursor.rowcount:
                    continue
            if object_name and not UnreferencedObject.objects.take_object(object_name):
                # The object is being deleted, because this took longer than its time.
                self.filter(pk=digest).update(body=content.body, object_name="")
            return True
        return False

    def keep_all(self, contents: Iterable[NewContent]) -> int:
        """Keeps the contents, and says how many of their bytes are new."""
        by_digest = {each.sha256: each for each in contents}
        return sum(
            len(by_digest[each].body) for each in sorted(by_digest) if self.keep(by_digest[each])
        )

    def _hold(self, sha256: str) -> bool:
        """True if there is such content. It can't be deleted then, as by a foreign key: others who hold it
        don't wait. On SQLite nobody else writes."""
        with connection.cursor() as cursor:
            cursor.execute(_HOLD.get(connection.vendor, _LOOK), [sha256])
            return cursor.fetchone() is not None

    def erase(self, sha256: str) -> bool:
        """Deletes the content if no file, skill or picture has it; call it in a transaction. Raises ``IntegrityError`` at
        its end if such a file was committed while this waited for a transaction that held the
        content."""
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM chat_filecontent WHERE sha256 = %s"
                " AND NOT EXISTS (SELECT 1 FROM chat_storedfile WHERE content_id = %s)"
                " AND NOT EXISTS (SELECT 1 FROM chat_skillcontent WHERE content_id = %s)"
                " AND NOT EXISTS (SELECT 1 FROM chat_profilepicture WHERE content_id = %s)"
                " RETURNING object_name",
                [sha256] * 4,
            )
            erased = cursor.fetchone()
        if erased and erased[0]:
            UnreferencedObject.objects.create(name=erased[0])
        return erased is not None

    def unused(self) -> models.QuerySet[FileContent]:
        return self.filter(files=None, skills=None, pictures=None)


def _write(content: C, *, is_optional: bool) -> C:
    if not file_storage.takes_new_files():
        return content
    hex_id = uuid4().hex
    name = f"{hex_id[:2]}/{hex_id}"
    try:
        # Committed before the object is there, so that each object is known after a crash.
        with transaction.atomic(durable=True):
            UnreferencedObject.objects.create(name=name)
    except RuntimeError:
        # The caller is in a transaction, which must not wait for the storage.
        return content
    try:
        file_storage.write(name, content.body)
    except FilesUnavailable:
        if not is_optional:
            raise
        return content
    return replace(content, object_name=name)


class FileContent(models.Model):
    """The bytes of files, once for all files that have them. Nobody gets a file by knowing its digest:
    access is that of the `StoredFile`, and creating one takes the bytes.

    When the last file is deleted, a periodic task deletes the content (`chat.files.purge`).
    """

    sha256 = models.CharField(max_length=64, primary_key=True)
    size_bytes = models.PositiveBigIntegerField()
    # Empty if the bytes are an object in the storage for files.
    body = models.BinaryField()
    object_name = models.CharField(max_length=100, default="", db_default="")

    objects = FileContentManager()

    class Meta:
        # Without it, SQLite would read all bodies to find the rows with an object.
        indexes = [models.Index(fields=["object_name"], name="file_content_object")]

    def __str__(self) -> str:
        return f"{self.sha256} ({self.size_bytes} bytes)"

    def read(self) -> bytes:
        """The bytes, from where they are. Raises ``FilesUnavailable``."""
        if not self.object_name or self.body:
            return bytes(self.body)
        return file_storage.read(self.object_name, self.size_bytes)


class UnreferencedObjectManager(models.Manager["UnreferencedObject"]):
    def take_object(self, name: str) -> bool:
        """Makes a content the owner of the object, in the transaction that stores the content. False
        if the object is being deleted."""
        taken, _ = self.filter(name=name, is_deleting=False).delete()
        return bool(taken)

    def delete_now(self, names: Sequence[str]) -> None:
        """Deletes those of the objects that no content has taken. Raises ``FilesUnavailable``."""
        wanted = [name for name in names if name]
        if wanted:
            for each in self.filter(name__in=wanted):
                each.delete_object()

    def due(self) -> models.QuerySet[UnreferencedObject]:
        return self.filter(due_at__lte=timezone.now()).order_by("due_at")


def _after_grace() -> datetime:
    return timezone.now() + OBJECT_GRACE


class UnreferencedObject(models.Model):
    """An object in the storage for files that no content has: it is written before its content is
    stored, and stays for a while after its content was deleted. The periodic task deletes it when it
    is due."""

    name = models.CharField(max_length=100, primary_key=True)
    due_at = models.DateTimeField(default=_after_grace, db_index=True)
    # From now on no content can take it.
    is_deleting = models.BooleanField(default=False)

    objects = UnreferencedObjectManager()

    def __str__(self) -> str:
        return self.name

    def delete_object(self) -> None:
        """Deletes the object, then this row, unless a content takes the object first. Raises
        ``FilesUnavailable``; the object is then due again later."""
        rows = UnreferencedObject.objects.filter(pk=self.pk)
        if rows.update(is_deleting=True, due_at=timezone.now() + DELETE_AGAIN):
            file_storage.delete(self.name)
            rows.delete()
