"""Backup and restore of a SQLite database; a backup is possible while the database is in use."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.utils.translation import gettext

from project.backup.archive import BackupError

# Suffixes of further files that belong to a SQLite database.
BESIDE = ("-wal", "-shm")


def dump(database: dict[str, Any], target: Path) -> None:
    """A consistent copy, in a single step: a copy in several steps starts again with each write of
    another process. It does not block writers (WAL)."""
    source = Path(database["NAME"])
    if not source.exists():
        raise BackupError(gettext("There is no database at %(path)s.") % {"path": source})
    with (
        closing(sqlite3.connect(_to_read(source), uri=True, timeout=30)) as origin,
        closing(sqlite3.connect(target)) as copy,
    ):
        origin.backup(copy, pages=-1)
        # The copy is a single file, whatever the journal mode of the database.
        copy.execute("PRAGMA journal_mode=DELETE")


def check(dumped: Path) -> None:
    try:
        with closing(sqlite3.connect(_to_read(dumped), uri=True)) as copy:
            found = [row[0] for row in copy.execute("PRAGMA integrity_check(5)")]
            orphans = copy.execute("PRAGMA foreign_key_check").fetchmany(5)
    except sqlite3.DatabaseError as error:
        raise BackupError(
            gettext("Can’t read the copy of the database: %(error)s.") % {"error": error}
        ) from None
    if found != ["ok"]:
        raise BackupError(
            gettext("The database is damaged: %(errors)s") % {"errors": "; ".join(found)}
        )
    if orphans:
        tables = ", ".join(sorted({str(row[0]) for row in orphans}))
        raise BackupError(
            gettext("The database is damaged: rows in %(tables)s refer to missing rows.")
            % {"tables": tables}
        )


def migrations(dumped: Path) -> list[str]:
    with closing(sqlite3.connect(_to_read(dumped), uri=True)) as copy:
        try:
            rows = copy.execute("SELECT app, name FROM django_migrations").fetchall()
        except sqlite3.OperationalError:
            return []
    return sorted(f"{app}.{name}" for app, name in rows)


def is_in_use(database: dict[str, Any]) -> str:
    """Always empty: the caller holds the lock of the data directory."""
    return ""


def room_for_dump(database: dict[str, Any], backup: Path) -> Path:
    """Next to the database, so that a rename can replace it."""
    place = Path(database["NAME"])
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def restore(database: dict[str, Any], dumped: Path) -> str:
    """Replaces the database with the copy. Returns a sentence that says where the previous one
    is."""
    place = Path(database["NAME"])
    kept = _put_aside(place)
    with dumped.open("rb") as source, closing(sqlite3.connect(dumped)) as copy:
        copy.execute("PRAGMA journal_mode=WAL")
        os.fsync(source.fileno())
    os.replace(dumped, place)
    place.chmod(0o600)
    if kept is None:
        return ""
    return gettext("The previous database was kept as %(path)s.") % {"path": kept}


def _to_read(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"


def _put_aside(place: Path) -> Path | None:
    if not place.exists():
        return None
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = place.with_name(f"{place.name}.before-{moment}")
    for suffix in BESIDE:
        beside = place.with_name(place.name + suffix)
        if beside.exists():
            os.replace(beside, kept.with_name(kept.name + suffix))
    os.replace(place, kept)
    return kept
