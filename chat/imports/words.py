"""Translations in a process without Django: the reader's child only has the installation's
catalog."""

from __future__ import annotations

import gettext as catalogs
from collections.abc import Sequence
from pathlib import Path

_catalog: catalogs.NullTranslations = catalogs.NullTranslations()


def use_language(language: str, folders: Sequence[str]) -> None:
    """Loads the catalogs. ``language`` is the name of a catalog's folder ("pt_BR"). The catalogs of
    the first folder are read last, because its texts have precedence. Call this before the process
    gives up opening files."""
    global _catalog
    _catalog = catalogs.NullTranslations()
    for folder in reversed(folders):
        path = Path(folder) / language / "LC_MESSAGES" / "django.mo"
        if path.is_file():
            with path.open("rb") as file:
                found = catalogs.GNUTranslations(file)
            found.add_fallback(_catalog)
            _catalog = found


def gettext(message: str) -> str:
    return _catalog.gettext(message)
