"""Style sheets that pages link together, as `static/bundles.toml` lists them.

A build of the static files writes each bundle as one file: a conversation links three sheets instead
of over forty. Elsewhere pages link the single ones.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import cast

from django.contrib.staticfiles import finders
from django.core.files.storage import Storage

# Addresses relative to the sheet: no scheme, no path of the host, no fragment of the page.
_ADDRESS = re.compile(
    r"""url\(\s*(?P<quote>["']?)(?![a-z]+:|[/#])(?P<path>[^"')]+)(?P=quote)\s*\)"""
)


def bundles() -> dict[str, list[str]]:
    """The sheets of each bundle, as names of static files. A change of the list needs a restart."""
    return _lists_in(finders.find("bundles.toml"))


@cache
def _lists_in(path: str | None) -> dict[str, list[str]]:
    text = Path(path).read_text() if path else ""
    return cast(dict[str, list[str]], tomllib.loads(text))


def file_of(bundle: str) -> str:
    """The name of the static file that a build writes."""
    return f"bundles/{bundle}.css"


def joined(bundle: str, storage: Storage) -> str:
    """The text of a bundle. Addresses in its sheets are relative to it."""
    return "\n".join(_sheet(name, file_of(bundle), storage) for name in bundles()[bundle])


def _sheet(name: str, target: str, storage: Storage) -> str:
    def moved(match: re.Match[str]) -> str:
        path = posixpath.join(posixpath.dirname(name), match["path"])
        return f'url("{posixpath.relpath(path, posixpath.dirname(target))}")'

    with storage.open(name) as file:
        return _ADDRESS.sub(moved, file.read().decode())
