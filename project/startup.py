"""Startup checks of a process, and the lock that allows only one process with SQLite."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import storages
from django.core.management.base import CommandError
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.http.request import validate_host
from django.utils.translation import gettext, gettext_lazy, ngettext

from chat.core.static_files import bring_up_to_date
from project import env
from project.old_databases import TOO_OLD, is_too_old


class HeldElsewhere(Exception):
    """Another process holds the lock. ``pid`` is its ID, or "unknown"."""

    def __init__(self, pid: str) -> None:
        super().__init__(pid)
        self.pid = pid


class FileLock:
    """A lock that is held from ``acquire`` until ``release`` or the end of the process.

    The file is never removed: otherwise a third process could lock a new file of the same name
    while the second still holds the old one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Acquires the lock without waiting, or raises ``HeldElsewhere``."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise HeldElsewhere(pid or "unknown") from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


# Checks before a process serves or executes anything. Each reports a problem in one line.

logger = logging.getLogger(__name__)

# Exit code of a process that refused to start; a retry would not help.
REFUSED = 2
# Exit code if the database is unavailable; the supervisor should retry.
TRY_AGAIN = 1
# Each tab and each run needs a socket, and the usual soft limit is 1024.
WANTED_FILES = 8192

# Objects that are made before the collector looks at them.
PYTHONS_THRESHOLD = 700

ONE_PROCESS = gettext_lazy(
    "With SQLite, a single process does everything: keep RUNNER=embedded and don’t start a runner, "
    "or set DATABASE_URL to a PostgreSQL database, which any number of processes can share."
)


def forget_to_collect_what_is_loaded() -> None:
    """Excludes everything loaded so far from garbage collection. Modules, models and templates stay
    for the life of the process, and a full collection that visits them blocks the event loop for 60
    ms. From here on memory counts, so Python's threshold replaces the one of `manage.py`."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(PYTHONS_THRESHOLD)


# `M_MMAP_THRESHOLD` and `M_ARENA_MAX` in malloc.h of glibc.
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
# Larger than asyncio's buffer of 256 KiB for each read. With memory of its own, a read took twice the CPU
# (28 µs instead of 14, with its write), and a few hundred bytes that were kept of it took a page.
_LARGE_BYTES = 512 * 1024
# The default is eight for each processor. Each keeps what its threads have freed, and the threads
# of one process take turns anyway, because of the GIL: with one arena each, 15 MB were in none's use.
_ARENAS = 2


def configure_malloc() -> None:
    """Makes glibc return the memory of large objects to the system, and share freed memory between
    threads. By default, glibc raises its mmap threshold when a large object is freed and then uses
    the heap, where any small object above it keeps the memory: 200 MB after twenty long answers.
    Does nothing with other C libraries."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_ARENA_MAX, _ARENAS)


def refuse_unknown_mode() -> None:
    if settings.RUNNER not in ("embedded", "external"):
        raise CommandError(
            gettext("RUNNER must be embedded or external, not %(value)s.")
            % {"value": repr(settings.RUNNER)},
            returncode=REFUSED,
        )


def refuse_external_runner_on_sqlite() -> None:
    """With SQLite no other process may open the database, so there can be no external runner."""
    if settings.RUNNER == "external" and settings.IS_SQLITE:
        raise CommandError(
            gettext("RUNNER=external needs PostgreSQL. %(advice)s") % {"advice": ONE_PROCESS},
            returncode=REFUSED,
        )


@contextmanager
def prepared_process() -> Iterator[None]:
    """The checks of every process that serves or executes, and the lock that it holds."""
    refuse_unknown_mode()
    refuse_wrong_networks()
    with hold_data_dir():
        refuse_missing_migrations()
        refuse_other_keys()
        refuse_wrong_file_storage()
        warn_of_renamed_settings()
        allow_many_files()
        yield


@contextmanager
def hold_data_dir() -> Iterator[None]:
    """Locks DATA_DIR with SQLite: notifications, the event buffer and the fairness of the queue
    rely on a single process.

    Processes that share a PostgreSQL need no lock: they use heartbeats in the database, which also
    work across machines.
    """
    if not settings.IS_SQLITE:
        yield
        return
    lock = FileLock(settings.DATA_DIR / "server.lock")
    try:
        lock.acquire()
    except HeldElsewhere as held:
        raise CommandError(
            gettext(
                "Another Tributary process (process %(pid)s) already uses %(directory)s. Stop it, "
                "or choose another DATA_DIR. %(advice)s"
            )
            % {"pid": held.pid, "directory": settings.DATA_DIR, "advice": ONE_PROCESS},
            returncode=REFUSED,
        ) from None
    try:
        yield
    finally:
        lock.release()


def refuse_missing_migrations() -> None:
    refuse_old_database()
    with _database() as connection:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        told = ngettext(
            "%(count)d database migration is missing. Run: python manage.py migrate",
            "%(count)d database migrations are missing. Run: python manage.py migrate",
            len(missing),
        )
        raise CommandError(told % {"count": len(missing)}, returncode=REFUSED)


def refuse_old_database() -> None:
    """Before Django's own check, which would end with a traceback."""
    if not apps.is_installed("chat"):
        return
    with _database() as connection:
        applied = MigrationRecorder(connection).applied_migrations()
    if is_too_old(applied):
        raise CommandError(str(TOO_OLD), returncode=REFUSED)


@contextmanager
def _database() -> Iterator[BaseDatabaseWrapper]:
    """A connection for one question. Raises ``CommandError`` if the database doesn’t respond."""
    connection = connections["default"]
    try:
        yield connection
    except OperationalError as error:
        raise CommandError(
            gettext("The database doesn’t respond: %(error)s") % {"error": first_line(error)},
            returncode=TRY_AGAIN,
        ) from error
    finally:
        connection.close()


def refuse_missing_static_files() -> None:
    """Builds them where the source has changed."""
    try:
        bring_up_to_date()
    except ImproperlyConfigured as error:
        raise CommandError(str(error), returncode=REFUSED) from error


def refuse_wrong_address() -> None:
    """Links are built from `SITE_URL`, so its host must be allowed."""
    host = env.host_of(settings.SITE_URL)
    if not settings.DEBUG and not validate_host(host, settings.ALLOWED_HOSTS):
        raise CommandError(
            gettext(
                "ALLOWED_HOSTS doesn’t include %(host)s, the host of SITE_URL, so every request "
                "would be refused. Add it to ALLOWED_HOSTS."
            )
            % {"host": host},
            returncode=REFUSED,
        )
    if settings.BEHIND_TLS_PROXY and not settings.ALLAUTH_TRUSTED_PROXY_COUNT:
        logger.warning("TRUSTED_PROXY_COUNT is 0 behind a proxy: all users share one sign-in limit")
    if settings.IS_SECURE and not settings.BEHIND_TLS_PROXY:
        logger.warning("SITE_URL is https, but BEHIND_TLS_PROXY is off: requests count as http")


def refuse_wrong_networks() -> None:
    if not apps.is_installed("chat"):
        return
    # Imported here, because it needs the settings.
    from chat.upstreams.addresses import AddressPolicy

    try:
        AddressPolicy.parse(settings.UPSTREAM_PRIVATE_NETWORKS)
    except ValueError as error:
        raise CommandError(f"UPSTREAM_PRIVATE_NETWORKS: {error}", returncode=REFUSED) from None


def refuse_wrong_file_storage() -> None:
    """Files in a storage that isn't configured could not be read."""
    if not apps.is_installed("chat"):
        return
    # Imported here, because it needs the app registry.
    from chat.core import file_storage
    from chat.models import FileContent

    if file_storage.is_configured():
        try:
            storages[file_storage.ALIAS]
        except Exception as error:
            # The backend's own text may contain its options.
            raise CommandError(
                gettext("FILES_BACKEND can’t be used (%(error)s). Check it and FILES_OPTIONS.")
                % {"error": type(error).__name__},
                returncode=REFUSED,
            ) from None
        return
    with _database():
        count = FileContent.objects.filter(object_name__gt="").count()
    if count:
        told = ngettext(
            "%(count)d file is in a storage that isn’t configured. Set FILES_DIR or FILES_BACKEND again.",
            "%(count)d files are in a storage that isn’t configured. Set FILES_DIR or FILES_BACKEND again.",
            count,
        )
        raise CommandError(told % {"count": count}, returncode=REFUSED)


def refuse_other_keys() -> None:
    """Processes that share a database share their keys."""
    if not apps.is_installed("chat"):
        return
    # Imported here, because it needs the app registry.
    from chat.administration.keys import WrongKeys, adopt_keys

    try:
        with _database():
            adopt_keys()
    except WrongKeys as wrong:
        raise CommandError(str(wrong), returncode=REFUSED) from None


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def warn_of_renamed_settings() -> None:
    for old, new in env.renamed_in_use().items():
        logger.warning(
            "setting renamed, the old name works in this version only old=%s new=%s", old, new
        )


def allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_unlimited = hard == resource.RLIM_INFINITY
    wanted = WANTED_FILES if is_unlimited else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if wanted < WANTED_FILES:
        logger.warning("limit of open files is low limit=%d wanted=%d", wanted, WANTED_FILES)
