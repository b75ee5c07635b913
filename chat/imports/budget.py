"""Limits the bytes that an import may write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.utils.translation import gettext

from chat.files.storage import check_storage
from chat.imports.source import ImportRefused
from chat.models import FileContent, NewContent, User
from chat.rendering.figures import size


@dataclass(slots=True, kw_only=True)
class Budget:
    """Counts what one import writes: bytes of new files, texts, logs and results. An archive of a
    few megabytes can name the same picture a thousand times."""

    user: User
    written_bytes: int = 0

    def spend(self, count: int) -> None:
        """Counts bytes. Raises ``ImportRefused``, which ends the import; the conversations so far
        stay."""
        self.written_bytes += count
        limit = settings.IMPORT_WRITE_BYTES
        if self.written_bytes > limit:
            words = gettext("The import was stopped, because it would store more than %(limit)s.")
            raise ImportRefused(words % {"limit": size(limit)})

    def spend_on_texts(self, texts: Iterable[str]) -> None:
        """Counts texts in the encoding of the database, in which a character has up to four
        bytes."""
        self.spend(sum(len(text.encode(errors="replace")) for text in texts))

    def keep_files(self, contents: Sequence[NewContent]) -> None:
        """Stores the bytes of files. Call this in the transaction that creates the
        files. Raises ``ActionRefused`` if the person has no room for them."""
        if contents:
            check_storage(self.user, contents)
            self.spend(FileContent.objects.keep_all(contents))
