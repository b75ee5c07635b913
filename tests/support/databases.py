"""The databases of the tests: a SQLite file for each worker, and a PostgreSQL for each worker that
has a test which wants one. Migrating takes seconds, so it is done once for all workers of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asgiref.local import Local
from django.conf import settings
from django.db import connections

from project import databases
from tests.support.servers import PostgreSQL

ROOT = Path(__file__).resolve().parents[2]
_RUN_FOLDER = "TRIBUTARY_TEST_RUN_FOLDER"
# The database in `migrated_postgres` that has all tables and nothing in them.
MIGRATED = "migrated"
# Connections of one process to PostgreSQL, as in a deployment.
POOL_SIZE = 20


def run_folder() -> Path:
    """One folder for all workers of a run. Not pytest's own, which the user of PostgreSQL may not
    read."""
    return Path(os.environ[_RUN_FOLDER])


def has_run_folder() -> bool:
    """Whether this process, or one that started it, runs tests."""
    return _RUN_FOLDER in os.environ


def make_run_folder() -> None:
    folder = tempfile.mkdtemp(prefix="tributary-tests-")
    Path(folder).chmod(0o755)
    os.environ[_RUN_FOLDER] = folder


def remove_run_folder() -> None:
    shutil.rmtree(os.environ.pop(_RUN_FOLDER), ignore_errors=True)


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first worker which needs it makes, while the others wait."""
    folder = run_folder() / name
    with (run_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = run_folder() / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder


def migrated_sqlite() -> Path:
    """An empty, migrated SQLite file, to be copied."""
    return made_once("sqlite", _migrate) / "tributary.sqlite3"


def migrated_postgres() -> Path:
    """The data folder of a stopped PostgreSQL with the database ``MIGRATED``, to be copied.
    Skips the test where there is no PostgreSQL."""
    return made_once("postgresql", _migrate_postgres) / "data"


def _migrate_postgres(folder: Path) -> None:
    server = PostgreSQL()
    try:
        server.start()
        server.create(MIGRATED)
        _migrate(folder, DATABASE_URL=server.url(MIGRATED))
        server.stop()
        shutil.move(server.data, folder / "data")
    finally:
        server.close()


def _migrate(folder: Path, **environment: str) -> None:
    outside = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=ROOT,
        env={**outside, "DATA_DIR": str(folder), **environment},
        check=True,
    )


class OtherDatabase:
    """Another database than the process began with, to be its default for a while.

    Each thread keeps its connections apart for the two: threads that outlive a test, such as the
    one in which asgiref runs synchronous code, would go on with the one they had.
    """

    def __init__(self, url: str) -> None:
        configured = databases.configured(url, is_prepared=True, pool_size=POOL_SIZE)
        self._settings = connections.configure_settings({"default": configured})["default"]
        self._connections = Local(connections.thread_critical)

    @contextmanager
    def as_default(self) -> Iterator[None]:
        before = connections.settings["default"], connections._connections
        self._switch(self._settings, self._connections)
        try:
            yield
        finally:
            connections["default"].close()
            self._switch(*before)

    def _switch(self, configured: dict[str, Any], own: Local) -> None:
        settings.DATABASES["default"] = connections.settings["default"] = configured
        connections._connections = own
        settings.IS_SQLITE = databases.is_sqlite(configured)

    def close(self) -> None:
        with self.as_default():
            connections["default"].close_pool()
