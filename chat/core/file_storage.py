"""The storage for the bytes of files outside the database, if one is configured: a directory, or any
other backend of Django's storage API.

Backends raise errors of their own. All of them are raised as ``FilesUnavailable``, and the log names
only their kind, because a text may contain an address or a key.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, storages
from django.utils.translation import gettext

from chat.core.errors import FilesUnavailable

logger = logging.getLogger(__name__)

ALIAS = "files"


class DirectoryStorage(FileSystemStorage):
    """A directory for objects that are on the disk when ``save`` returns, because the database then
    forgets their bytes."""

    def __init__(self, location: str) -> None:
        super().__init__(location, file_permissions_mode=0o600, directory_permissions_mode=0o700)

    def _save(self, name: str, content: Any) -> str:
        root = self._root()
        name = super()._save(name, content)  # type: ignore[misc]
        path = root / name
        for each in (path, path.parent, root):
            _sync(each)
        return name

    def delete(self, name: str) -> None:
        self._root()
        super().delete(name)

    def _root(self) -> Path:
        """The directory. One that is missing, because it was not mounted, is an error: Django would
        create it, and count its objects as deleted."""
        root = Path(self.location)
        if not root.is_dir():
            raise FileNotFoundError(root)
        return root


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_configured() -> bool:
    return ALIAS in settings.STORAGES


def takes_new_files() -> bool:
    """Returns whether the bytes of new files go to the storage instead of the database."""
    return settings.NEW_FILES_IN == "storage"


def write(name: str, body: bytes) -> None:
    with _one_error("write", name):
        saved = storages[ALIAS].save(name, ContentFile(body))
        if saved != name:
            raise FileExistsError(name)


def read(name: str, size_bytes: int) -> bytes:
    with _one_error("read", name):
        with storages[ALIAS].open(name, "rb") as file:
            body = bytes(file.read())
        if len(body) != size_bytes:
            raise EOFError(name)
    return body


def ensure(name: str, body: bytes) -> None:
    """Writes an object unless it is there already, as a whole."""
    with _one_error("write", name):
        storage = storages[ALIAS]
        if storage.exists(name):
            if storage.size(name) == len(body):
                return
            storage.delete(name)
    write(name, body)


def delete(name: str) -> None:
    """Deletes the object; one that is missing counts as deleted."""
    with _one_error("delete", name):
        storages[ALIAS].delete(name)


@contextmanager
def _one_error(action: str, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        logger.error("files.unavailable action=%s object=%s error=%s", action, name, kind)
        words = (
            gettext("A file can’t be read at the moment. Try again, or tell an administrator.")
            if action == "read"
            else gettext(
                "Files can’t be stored at the moment. Try again, or tell an administrator."
            )
        )
        raise FilesUnavailable(words) from error
