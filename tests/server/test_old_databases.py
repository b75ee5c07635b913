"""Databases whose migrations this version no longer has."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from project.old_databases import SQUASHED, TOO_OLD, earliest_migrations
from tests.support.processes.site import ROOT, environment


def migrations_in(data_dir: Path) -> set[str]:
    with closing(sqlite3.connect(data_dir / "tributary.sqlite3")) as database:
        rows = database.execute("SELECT name FROM django_migrations WHERE app = 'chat'")
        return {name for (name,) in rows}


def apply_only(data_dir: Path, names: set[str]) -> None:
    with closing(sqlite3.connect(data_dir / "tributary.sqlite3")) as database, database:
        database.execute("DELETE FROM django_migrations WHERE app = 'chat' AND name < '0025'")
        database.executemany(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('chat', ?, '2026-11-20')",
            [(name,) for name in names],
        )


def manage(data_dir: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env={**environment(data_dir), "PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.process
def test_installation_with_all_replaced_migrations_goes_on(data_dir: Path) -> None:
    apply_only(data_dir, earliest_migrations())

    process = manage(data_dir, "migrate")

    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert "No migrations to apply" in stdout
    assert SQUASHED in migrations_in(data_dir)


@pytest.mark.process
def test_installation_with_some_of_them_is_told_what_to_run_first(data_dir: Path) -> None:
    apply_only(data_dir, set(sorted(earliest_migrations())[:20]))
    before = migrations_in(data_dir)

    # The two run at the same time. The check of `serve` is also that of `runner`.
    for process in [manage(data_dir, command) for command in ("migrate", "serve")]:
        assert process.communicate() == ("", f"CommandError: {TOO_OLD}\n")
        assert process.returncode == 2
    assert migrations_in(data_dir) == before
