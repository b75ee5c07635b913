"""Refusals of actions, with sentences for people, and errors of the database."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError
from django.utils.translation import gettext


class ActionRefused(Exception):
    """Nothing was changed. ``str()`` says why, in a sentence for the user. ``status`` is the HTTP
    status of the response."""

    status = 409


class InvalidForm(ActionRefused):
    """The form is not valid. ``form`` has its values, to be shown again."""

    status = 422

    def __init__(self, sentence: str, form: object = None) -> None:
        super().__init__(sentence)
        self.form = form


class KeyReused(ActionRefused):
    """The idempotency key belongs to another request; the page needs a new one."""


class QueueFull(ActionRefused):
    """The user has as many active and waiting answers as allowed."""


class AnswerLive(ActionRefused):
    """The answer that was to be continued is still being written."""


class Overtaken(ActionRefused):
    """Another message has taken the place that this one was written for."""


class FilesTaken(ActionRefused):
    """A file of the message has been sent, or removed, since the page showed it."""


class StorageFull(ActionRefused):
    """The disk or the database has no room."""

    status = 507

    def __init__(self, words: str = "") -> None:
        super().__init__(
            words
            or gettext(
                "Storage is full, so nothing was sent. "
                "Your text is still here; ask an administrator to free up space."
            )
        )


class StorageBusy(ActionRefused):
    """The database did not answer in time."""

    status = 503

    def __init__(self) -> None:
        super().__init__(
            gettext("Saving is paused. Your text is still here; try again in a moment.")
        )


class FilesUnavailable(ActionRefused):
    """The storage for files failed, or lacks an object that it should have."""

    status = 503


# SQLite's two messages for a full disk; PostgreSQL's class 53 code for the same; those of files.
_FULL = ("database or disk is full", "disk i/o error", "no space left on device")
_FULL_IN_POSTGRES = "53100"
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_storage_full(error: BaseException) -> bool:
    """True if the disk or the database has no room, so that trying again at once doesn't help."""
    if isinstance(error, OSError):
        return error.errno in _FULL_ERRNOS
    if not isinstance(error, OperationalError):
        return False
    code = getattr(error.__cause__, "sqlstate", None)
    return code == _FULL_IN_POSTGRES or any(text in str(error).lower() for text in _FULL)


def no_room() -> str:
    """The message to a person whose request or job failed because the disk is full."""
    return gettext("Storage is full. Ask an administrator to free up space, then try again.")


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turns a full or unavailable database into a refusal that keeps the user's draft."""
    try:
        yield
    except OperationalError as error:
        if is_storage_full(error):
            raise StorageFull from error
        raise StorageBusy from error


@contextmanager
def full_storage_refused() -> Iterator[None]:
    """Turns a full database into a refusal. Any other error goes on."""
    try:
        yield
    except OperationalError as error:
        if is_storage_full(error):
            raise StorageFull(no_room()) from error
        raise


def is_database_unavailable(error: Exception) -> bool:
    """Returns whether the database is unavailable for now, so that trying again may help. False for a
    statement that it will never accept, such as one with too many values."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    cause = error.__cause__
    # SQLite's generic code; a lock, a full disk or a lost file have codes of their own.
    # PostgreSQL's class 54: a limit of the program was exceeded.
    is_refused = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return not (is_refused or str(getattr(cause, "sqlstate", None)).startswith("54"))
