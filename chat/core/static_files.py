"""Addresses of scripts and styles that change with their content, so that no page mixes two
versions."""

from __future__ import annotations

import hashlib
from functools import cache

from django.conf import settings
from django.contrib.staticfiles.storage import StaticFilesStorage


@cache
def static_mark() -> str:
    """A mark of all scripts and styles together, as of the first call in this process."""
    digest = hashlib.blake2b(digest_size=6)
    for folder in settings.STATICFILES_DIRS:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".js", ".css"):
                digest.update(
                    path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes()
                )
    return digest.hexdigest()


class MarkedStorage(StaticFilesStorage):
    """Browsers use a cached script for a minute; an address with another mark makes them load the
    new one."""

    def url(self, name: str | None) -> str:
        address = super().url(name)
        is_marked = bool(name) and str(name).endswith((".js", ".css"))
        return f"{address}?v={static_mark()}" if is_marked else address
