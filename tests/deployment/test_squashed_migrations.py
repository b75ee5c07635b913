"""New installations get their tables from one migration, older ones from those that it replaces."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from tests.support.databases import MIGRATED, OtherDatabase

FIRST = ("chat", "0001_squashed_0024")
# The last one with the bytes of files in two places.
FILES_MOVED = ("chat", "0026_move_file_contents")
BODY = b"the same bytes"
DIGEST = hashlib.sha256(BODY).hexdigest()

COLUMNS = """
    SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default, is_identity
    FROM information_schema.columns WHERE table_schema = 'public'
"""
COMPRESSION = """
    SELECT attrelid::regclass::text, attname, attcompression FROM pg_attribute WHERE attcompression <> ''
"""
CONSTRAINTS = (
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
)
INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"


def tables_in_sqlite(path: Path) -> set[str]:
    """The statements of all tables and indexes. Those of tables are in parts, as the order of columns doesn't matter."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {f"{name}: {part}" for kind, name, sql in rows for part in parts_of(kind, sql)}


def parts_of(kind: str, sql: str) -> list[str]:
    inside = re.fullmatch(r'CREATE TABLE "\w+" \((.*)\)', sql, re.DOTALL)
    if kind != "table" or inside is None:
        return [sql]
    parts, depth = [""], 0
    for character in inside[1]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def tables_in_postgres(url: str) -> set[str]:
    with psycopg.connect(url) as database:
        return {
            str(row)
            for query in (COLUMNS, COMPRESSION, CONSTRAINTS, INDEXES)
            for row in database.execute(query)
        }


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))]
)
def both(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: Any
) -> Iterator[tuple[Any, Any]]:
    """The tables of a new installation, and a function that gives those of another, empty one, which is the default
    database."""
    if request.param == "sqlite":
        path = tmp_path / "other.sqlite3"
        new = tables_in_sqlite(request.getfixturevalue("migrated_database"))
        other, read = OtherDatabase(f"sqlite:///{path}"), lambda: tables_in_sqlite(path)
    else:
        server = request.getfixturevalue("postgres_server")
        server.create("squashed", of=MIGRATED)
        server.create("one_by_one")
        new, url = tables_in_postgres(server.url("squashed")), server.url("one_by_one")
        other, read = OtherDatabase(url), lambda: tables_in_postgres(url)
    with django_db_blocker.unblock(), other.as_default():
        yield new, read
    if request.param == "postgresql":
        other.close()
        server.drop("squashed")
        server.drop("one_by_one")


def migrate(*targets: tuple[str, str], one_by_one: bool = False) -> Any:
    """The models at the targets. ``one_by_one``: with the migrations that the first one replaces."""
    executor = MigrationExecutor(connection)
    if one_by_one:
        executor.loader.replace_migrations = False
        executor.loader.build_graph()
    wanted = list(targets) or executor.loader.graph.leaf_nodes()
    executor.migrate(wanted)
    return executor.loader.project_state(wanted).apps


@pytest.mark.slow
def test_older_installation_gets_the_same_tables(both: tuple[Any, Any]) -> None:
    new, tables = both
    old = migrate(FIRST, one_by_one=True).get_model("chat", "StoredFile").objects
    for body, digest in ((BODY, DIGEST), (BODY, ""), (b"other", "")):
        old.create(body=body, sha256=digest, size_bytes=len(body))

    moved = migrate(FILES_MOVED, one_by_one=True)
    files = moved.get_model("chat", "StoredFile").objects.order_by("pk")
    other = hashlib.sha256(b"other").hexdigest()
    assert [file.content_id for file in files] == [DIGEST, DIGEST, other]
    contents = moved.get_model("chat", "FileContent").objects
    assert {each.sha256: bytes(each.body) for each in contents.all()} == {
        DIGEST: BODY,
        other: b"other",
    }

    migrate(FIRST, one_by_one=True)
    assert [bytes(file.body) for file in old.order_by("pk")] == [BODY, BODY, b"other"]

    # An installation goes on with the migrations that are missing.
    migrate()
    assert tables() == new
    assert MigrationExecutor(connection).loader.graph.leaf_nodes("chat")[0] in set(
        MigrationRecorder(connection).applied_migrations()
    )
