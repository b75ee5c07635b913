"""Dumps and restores of each kind of database, and what is refused before anything is changed."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError

from chat.management.commands import restore
from project.backup import postgres, sqlite
from project.backup.archive import BackupError, Manifest
from project.startup import FileLock, hold_data_dir
from tests.support.servers import PostgreSQL

# --- SQLite ---------------------------------------------------------------------------


def test_data_of_a_running_server_is_not_restored(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR, settings.IS_SQLITE = tmp_path, True
    lock = FileLock(tmp_path / "server.lock")
    lock.acquire()

    with pytest.raises(CommandError, match="already uses"), hold_data_dir():
        pass

    lock.release()


KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("INSERT INTO words VALUES (2, 'later', 1)")
database.commit()
os._exit(0)
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "live.sqlite3"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE words (id INTEGER PRIMARY KEY, word, of REFERENCES words(id))")
        made.execute("INSERT INTO words VALUES (1, 'whole', NULL)")
    return path


def test_copy_during_a_write_is_consistent(database: Path) -> None:
    copy = database.with_name("copy")
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE words SET word = 'half'")

        sqlite.dump({"NAME": str(database)}, copy)

        writer.commit()
    sqlite.check(copy)
    with closing(sqlite3.connect(copy)) as copied:
        assert copied.execute("SELECT word FROM words").fetchall() == [("whole",)]


def test_dangling_rows_are_refused(database: Path) -> None:
    with closing(sqlite3.connect(database)) as damaged, damaged:
        damaged.execute("INSERT INTO words VALUES (2, 'lost', 99)")

    with pytest.raises(BackupError, match="rows in words refer to missing rows"):
        sqlite.check(database)


def test_damaged_database_is_refused(database: Path) -> None:
    with closing(sqlite3.connect(database)) as sound, sound:
        sound.execute("PRAGMA journal_mode=DELETE")
        sound.executemany(
            "INSERT INTO words VALUES (?, ?, 1)", [(n, "x" * 99) for n in range(2, 999)]
        )
    body = bytearray(database.read_bytes())
    body[8192:40960] = b"\xff" * 32768
    database.write_bytes(body)

    with pytest.raises(BackupError, match=r"damaged|Can’t read"):
        sqlite.check(database)


def test_replaced_database_is_kept_with_its_log(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    sqlite.dump({"NAME": str(database)}, copy)
    # As a process that was killed leaves it: with changes that are only in the log beside it.
    subprocess.run([sys.executable, "-c", KILLED, str(database)], check=True)

    sqlite.restore({"NAME": str(database)}, copy)

    (kept,) = tmp_path.glob("live.sqlite3.before-*Z")
    with closing(sqlite3.connect(kept)) as before, closing(sqlite3.connect(database)) as now:
        assert before.execute("SELECT count(*) FROM words").fetchone() == (2,)
        assert now.execute("SELECT count(*) FROM words").fetchone() == (1,)


# --- what is refused without touching anything ------------------------------------------------


def manifest(**changes: Any) -> Manifest:
    whole = {"version": "1", "made_at": "", "migrations": [], "dump_bytes": 0, "dump_sha256": ""}
    return Manifest(**{**whole, "engine": "sqlite", **changes})


def test_backup_of_another_kind_of_database_is_refused() -> None:
    other = "sqlite" if restore.connection.vendor == "postgresql" else "postgresql"

    with pytest.raises(BackupError, match=f"This backup is for {other}"):
        restore.refuse_other_engine(manifest(engine=other))


def test_keys_of_the_environment_prevent_restoring_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_KEY_FILE", "/run/secrets/secret_key")

    with pytest.raises(BackupError, match="SECRET_KEY is set in the environment"):
        restore.refuse_keys_of_the_environment()


def test_replaced_key_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"
    path.write_text("old\n")

    restore.replace_key(path, "new\n")

    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (tmp_path / "secret-key.before-restore").read_text() == "old\n"


# --- PostgreSQL -------------------------------------------------------------------------------


def test_missing_programs_of_postgresql_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(BackupError, match="pg_dump isn’t installed"):
        postgres.dump({"NAME": "x"}, tmp_path / "dump")


def test_password_is_not_an_argument(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "pg_dump"
    program.write_text(f'#!/bin/sh\necho "$@" "$PGPASSWORD" "$PGSSLMODE" > {tmp_path}/call\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    address = {"NAME": "n", "PASSWORD": "canary", "OPTIONS": {"sslmode": "require", "pool": {}}}

    postgres.dump(address, tmp_path / "dump")

    *arguments, password, mode = (tmp_path / "call").read_text().split()
    assert (password, mode) == ("canary", "require")
    assert "canary" not in " ".join(arguments)


def test_connection_options_of_the_address_are_kept() -> None:
    options = {"channel_binding": "require", "require_auth": "scram-sha-256", "pool": {}}

    found = postgres.environment({"NAME": "n", "OPTIONS": options})

    assert found["PGCHANNELBINDING"] == "require"
    assert found["PGREQUIREAUTH"] == "scram-sha-256"


def test_dump_is_unpacked_where_there_is_room(tmp_path: Path) -> None:
    database, backup = tmp_path / "disk" / "tributary.sqlite3", tmp_path / "backups" / "b"

    # A file takes the place of another one on its own disk only.
    assert sqlite.room_for_dump({"NAME": str(database)}, backup).parent == database.parent
    # In a container DATA_DIR is too small.
    assert postgres.room_for_dump({}, backup).parent == backup.parent


@pytest.fixture
def empty_postgres(postgres_server: PostgreSQL) -> Iterator[tuple[str, dict[str, Any]]]:
    """Its address, and the same as settings have it."""
    name = f"backup_{uuid.uuid4().hex[:12]}"
    postgres_server.create(name)
    address = {
        "HOST": "127.0.0.1",
        "PORT": postgres_server.port,
        "USER": "postgres",
        "NAME": name,
    }
    yield postgres_server.url(name), address
    postgres_server.drop(name)


def test_database_in_use_is_not_replaced(
    empty_postgres: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "IN_USE_TRIES", 2)
    url, address = empty_postgres
    before = postgres.is_in_use(address)
    with psycopg.connect(url):
        during = postgres.is_in_use(address)

    assert before == ""
    assert "1 other connection to this database is open" in during


def test_failed_restore_changes_nothing(
    empty_postgres: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    url, address = empty_postgres
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 100000) AS n")
    postgres.dump(address, tmp_path / "dump")
    body = (tmp_path / "dump").read_bytes()
    (tmp_path / "dump").write_bytes(body[: len(body) // 2])

    with pytest.raises(BackupError):
        postgres.restore(address, tmp_path / "dump")

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
    assert row == (100000,)
