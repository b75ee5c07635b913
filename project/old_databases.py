"""Databases that are too old for this version, because it no longer has their migrations."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from django.utils.translation import gettext_lazy

SQUASHED = "chat.migrations.0001_squashed_0024"
TOO_OLD = gettext_lazy(
    "This database is from an early state of version 0.1.0. Run “manage.py migrate” of the last "
    "version 0.1.0 first, then update to this version."
)


def replaced_migrations() -> set[str]:
    """The names of the migrations of `chat` that one migration replaces."""
    return {name for _, name in import_module(SQUASHED).Migration.replaces}


def is_too_old(applied: Iterable[tuple[str, str]]) -> bool:
    """``applied``: applications and names of migrations. A database that has none of the replaced ones is
    new, and one that has them all goes on."""
    replaced = replaced_migrations()
    known = replaced & {name for app, name in applied if app == "chat"}
    return set() < known < replaced
