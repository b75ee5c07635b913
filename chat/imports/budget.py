"""What an import may write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.utils.translation import gettext

from chat.files.storage import check_storage
from chat.imports.source import ImportRefused
from chat.models import FileContent, User
from chat.rendering.figures import size


@dataclass(slots=True, kw_only=True)
class Budget:
    """Counts while one import writes: bytes of files that are new, texts, logs and results. An archive of
    a few megabytes can name the same picture a thousand times."""

    user: User
    written_bytes: int = 0

    def spend(self, count: int) -> None:
        """Raises ``ImportRefused``, which ends the import; what it has created before stays."""
        self.written_bytes += count
        limit = settings.IMPORT_WRITE_BYTES
        if self.written_bytes > limit:
            words = gettext(
                "The import was stopped, because it would store more than %(limit)s. What was imported "
                "until then is still here."
            )
            raise ImportRefused(words % {"limit": size(limit)})

    def keep_files(self, contents: Mapping[str, bytes]) -> None:
        """Stores the bytes of files, given by SHA-256. Call this in the transaction that creates the
        files. Raises ``ActionRefused`` if the person has no room for them."""
        if contents:
            check_storage(self.user, {digest: len(body) for digest, body in contents.items()})
            self.spend(FileContent.objects.keep_all(contents))
