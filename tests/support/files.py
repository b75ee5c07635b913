"""Files of conversations, with any bytes."""

from __future__ import annotations

import hashlib
from typing import Any

from chat.models import FileContent, StoredFile


def store_file(body: bytes = b"", **values: Any) -> StoredFile:
    digest = hashlib.sha256(body).hexdigest()
    FileContent.objects.keep(body, digest)
    fields = {"size_bytes": len(body), **values}
    file: StoredFile = StoredFile.objects.create(content_id=digest, **fields)
    return file
