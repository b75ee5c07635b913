"""The script modules of a page, and the catalogue of the texts in them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.utils.translation import get_language
from django.utils.translation.trans_real import DjangoTranslation
from django.views.i18n import JSONCatalog

# Imports as our scripts write them: at the beginning of a line, with a relative path.
_IMPORT = re.compile(r"""^(?:import|export)\b[^;"']*?["'](\.{1,2}/[^"']+)["'];""", re.MULTILINE)


def imports_of(name: str) -> list[str]:
    """The modules that a module imports, as names of static files.

    Raises ``FileNotFoundError`` if the module does not exist.
    """
    path = finders.find(name)
    if path is None:
        raise FileNotFoundError(name)
    folder = posixpath.dirname(name)
    found = _IMPORT.findall(Path(path).read_text())
    return [posixpath.normpath(posixpath.join(folder, each)) for each in found]


def modules_of(entry: str) -> tuple[str, ...]:
    """All modules that a page with this entry loads, in the order in which they are executed."""
    return tuple(_walk(entry, set())) if settings.DEBUG else _modules_of(entry)


@cache
def _modules_of(entry: str) -> tuple[str, ...]:
    return tuple(_walk(entry, set()))


def _walk(name: str, seen: set[str]) -> Iterator[str]:
    seen.add(name)
    for each in imports_of(name):
        if each not in seen:
            yield from _walk(each, seen)
    yield name


def messages() -> dict[str, object]:
    """The translated texts of the scripts in the language of this request; empty in English."""
    return _messages(get_language() or settings.LANGUAGE_CODE)


@cache
def _messages(language: str) -> dict[str, object]:
    if not settings.LOCALE_PATHS:
        return {}
    catalog = JSONCatalog()
    # Our own texts alone: not those of Django's administration.
    catalog.translation = DjangoTranslation(
        language, domain=JSONCatalog.domain, localedirs=settings.LOCALE_PATHS
    )
    texts: dict[str, object] = catalog.get_catalog()
    return {text: translated for text, translated in texts.items() if translated}
