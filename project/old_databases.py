"""Databases that are too old for this version, because it no longer has their migrations."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from django.utils.translation import gettext_lazy

TOO_OLD = gettext_lazy(
    "This database is from an early state of version 0.1.0. Run “manage.py migrate” of the last "
    "version 0.1.0 first, then update to this version."
)
# The migration that stands for the earliest ones, and the first that is later than them.
SQUASHED, _LATER = "0001_squashed_0024", "0025"
_NEWEST = "chat.migrations.0001_squashed_0064"


def earliest_migrations() -> set[str]:
    """The names of the migrations of `chat` that are gone."""
    replaced = {name for _, name in import_module(_NEWEST).Migration.replaces}
    return {name for name in replaced if name < _LATER} - {SQUASHED}


def has_all_earliest(applied: Iterable[tuple[str, str]]) -> bool:
    """``applied``: applications and names of migrations."""
    return _known(applied) == earliest_migrations()


def is_too_old(applied: Iterable[tuple[str, str]]) -> bool:
    """``applied``: applications and names of migrations. A database that has none of the earliest ones is new, and one
    that has them all goes on."""
    return set() < _known(applied) < earliest_migrations()


def _known(applied: Iterable[tuple[str, str]]) -> set[str]:
    return earliest_migrations() & {name for app, name in applied if app == "chat"}
