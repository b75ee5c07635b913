"""The databases of the tests: a SQLite file for each worker, and a PostgreSQL for each worker that
has a test which wants one. Migrating takes seconds, so it is done once for all workers, and for later
runs of the same migrations."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from asgiref.local import Local
from django.conf import settings
from django.db import connection, connections
from django.db.backends.postgresql.base import DatabaseWrapper

from project import databases
from tests.support.machine import find
from tests.support.servers import PostgreSQL

ROOT = Path(__file__).resolve().parents[2]
_RUN_FOLDER = "TRIBUTARY_TEST_RUN_FOLDER"
# Migrated databases of this and of later runs, in a folder for each version of what made them.
_KEPT = Path(tempfile.gettempdir(), f"tributary-test-databases-{os.getuid()}")
_VERSIONS_KEPT = 3
# What a migrated database depends on, besides the program of PostgreSQL.
_SOURCES = (
    *("chat/migrations/*.py", "chat/models/*.py", "project/settings.py", "project/databases.py"),
    *("requirements.txt", "tests/support/databases.py", "tests/support/servers.py"),
)
# The database in `migrated_postgres` that has all tables and nothing in them.
MIGRATED = "migrated"
# Connections of one process to PostgreSQL, as in a deployment.
POOL_SIZE = 20


def run_folder() -> Path:
    """One folder for all workers of a run. Not pytest's own, which the user of PostgreSQL may not
    read."""
    return Path(os.environ[_RUN_FOLDER])


def has_run_folder() -> bool:
    """Returns whether this process, or one that started it, runs tests."""
    return _RUN_FOLDER in os.environ


def make_run_folder() -> None:
    folder = tempfile.mkdtemp(prefix="tributary-tests-")
    Path(folder).chmod(0o755)
    os.environ[_RUN_FOLDER] = folder


def remove_run_folder() -> None:
    shutil.rmtree(os.environ.pop(_RUN_FOLDER), ignore_errors=True)


def made_once(name: str, make: Callable[[Path], None], *, place: Path | None = None) -> Path:
    """A folder that the first worker which needs it makes, while the others wait. ``place`` is for
    what later runs need, too."""
    place = place or run_folder()
    folder = place / name
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = place / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder


def migrated_sqlite() -> Path:
    """An empty, migrated SQLite file, to be copied."""
    return _kept("sqlite", migrate) / "tributary.sqlite3"


def migrated_postgres() -> Path:
    """The data folder of a stopped PostgreSQL with the database ``MIGRATED``, to be copied.
    Skips the test where there is no PostgreSQL."""
    return _kept("postgresql", _migrate_postgres) / "data"


def _kept(kind: str, make: Callable[[Path], None]) -> Path:
    """As ``made_once``, for all runs; only the versions that were used last are kept."""
    place = _KEPT / kind
    place.mkdir(parents=True, exist_ok=True)
    folder = made_once(_version(), make, place=place)
    folder.touch()
    versions = [path for path in place.iterdir() if path.is_dir() and not path.suffix]
    for old in sorted(versions, key=lambda path: -path.stat().st_mtime)[_VERSIONS_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
        old.with_suffix(".lock").unlink(missing_ok=True)
    return folder


@cache
def _version() -> str:
    """The same for equal sources, in whichever folder they are."""
    digest = hashlib.blake2b(f"{find('postgresql')}".encode(), digest_size=8)
    for path in sorted(path for pattern in _SOURCES for path in ROOT.glob(pattern)):
        digest.update(f"{path.relative_to(ROOT)} ".encode() + path.read_bytes())
    return digest.hexdigest()


def _migrate_postgres(folder: Path) -> None:
    server = PostgreSQL()
    try:
        server.start()
        server.create(MIGRATED)
        migrate(folder, DATABASE_URL=server.url(MIGRATED))
        server.stop()
        shutil.move(server.data, folder / "data")
    finally:
        server.close()


def migrate(folder: Path, *, root: Path = ROOT, **environment: str) -> None:
    """``root`` is the source whose migrations are applied."""
    outside = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=root,
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
        self._pools: dict[str, Any] = {}

    @contextmanager
    def as_default(self) -> Iterator[None]:
        before = (
            connections.settings["default"],
            connections._connections,
            DatabaseWrapper._connection_pools,
        )
        self._switch(self._settings, self._connections, self._pools)
        try:
            yield
        finally:
            connections["default"].close()
            self._switch(*before)

    def _switch(self, configured: dict[str, Any], own: Local, pools: dict[str, Any]) -> None:
        settings.DATABASES["default"] = connections.settings["default"] = configured
        connections._connections = own
        # Django keeps one for each alias, not for each database.
        DatabaseWrapper._connection_pools = pools
        settings.IS_SQLITE = databases.is_sqlite(configured)

    def close(self) -> None:
        with self.as_default():
            connections["default"].close_pool()


def wait_for_a_lock() -> None:
    """Until another connection to PostgreSQL waits for the transaction of this one."""
    while True:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            row = cursor.fetchone()
        if row and row[0]:
            return
