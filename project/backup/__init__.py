"""Backup of a whole installation into one file, and restore."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from django.core.management.base import CommandError
from django.db import DatabaseError
from django.utils.translation import gettext

from chat.core.errors import FilesUnavailable
from project.backup import postgres, sqlite
from project.backup.archive import BackupError
from project.startup import REFUSED, first_line


class Engine(Protocol):
    """Operations of each kind of database. All raise ``archive.BackupError``."""

    def dump(self, database: Any, target: Path) -> None: ...

    def check(self, dumped: Path) -> None: ...

    def migrations(self, dumped: Path) -> list[str]: ...

    def is_in_use(self, database: Any) -> str: ...

    def room_for_dump(self, database: Any, backup: Path) -> Path: ...

    def restore(self, database: Any, dumped: Path) -> str: ...


def engine_of(database: Mapping[str, Any]) -> Engine:
    return sqlite if "sqlite" in database["ENGINE"] else postgres


@contextmanager
def told_in_one_line(path: Path) -> Iterator[None]:
    """Turns the errors of a backup at ``path`` into a ``CommandError`` of one line."""
    try:
        yield
    except BackupError as error:
        raise CommandError(str(error), returncode=REFUSED) from None
    except FilesUnavailable as error:
        raise CommandError(str(error), returncode=1) from None
    except OSError as error:
        raise CommandError(f"{error.filename or path}: {error.strerror}", returncode=1) from None
    except (DatabaseError, sqlite3.Error) as error:
        raise CommandError(
            gettext("The database doesn’t respond: %(error)s") % {"error": first_line(error)},
            returncode=REFUSED,
        ) from error
