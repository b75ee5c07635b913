"""Paths of files in a mockup's bundle. Without Django: files to import are checked by it, too."""

from __future__ import annotations

from urllib.parse import unquote

from chat.events.translation import gettext_noop

PATH_LENGTH = 500
# No path is encoded more often than this, except to hide something.
MOST_DECODINGS = 4

# Reasons that are stored in English, and translated when they are shown.
BAD_PATH = gettext_noop("This path can’t be used in a web address.")
LONG_PATH = gettext_noop("This path is too long.")


def path_problem(path: str) -> str:
    """Why this path of a bundle is never fetched, as a sentence, or an empty string if it may be.
    It must name one file below the bundle, however often a server decodes it."""
    if len(path) > PATH_LENGTH:
        return LONG_PATH
    for _ in range(MOST_DECODINGS):
        if not _is_plain(path):
            return BAD_PATH
        path, encoded = unquote(path), path
        if path == encoded:
            return ""
    return BAD_PATH


def _is_plain(path: str) -> bool:
    if "\\" in path or "\ufffd" in path or not path.isprintable():
        return False
    return all(segment.strip(" .") for segment in path.split("/"))
