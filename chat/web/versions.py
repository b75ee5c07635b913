"""The page of versions of what several people edit: who changed what, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest
from django.utils.translation import gettext

from chat.access import NOT_HERE
from chat.core.errors import ActionRefused
from chat.models import VersionConflict
from chat.models.version import Version
from chat.rendering.text_diff import CARD_STEPS, TextDiff, compare

# The page of versions compares this many, the newest.
MOST_VERSIONS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLine:
    """``text`` is that of the version, ``difference`` what has changed since the version before; the first one has
    none."""

    version: Any
    text: str
    difference: TextDiff | None
    is_newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictWords:
    """The sentences for somebody who has edited a version that isn't the newest any more. ``changed_by`` has a place for
    the ``name``."""

    deleted: str
    changed: str
    changed_by: str

    def of(self, conflict: VersionConflict) -> str:
        if conflict.newest is None:
            return gettext(self.deleted)
        if conflict.newest.author is None:
            return gettext(self.changed)
        return gettext(self.changed_by) % {"name": conflict.newest.author}


def add_version(version: Version, *, known: int, words: ConflictWords) -> bool:
    """Stores the version if it differs from the newest one, and returns whether it does. Raises ``ActionRefused`` if that
    isn't version ``known``."""
    try:
        return version.add(known=known)
    except VersionConflict as conflict:
        raise ActionRefused(words.of(conflict)) from None


def version_lines(versions: Any, text_of: Callable[[Any], str]) -> Sequence[VersionLine]:
    """The newest of the versions, which are in their order. ``text_of`` is what a person reads of one."""
    rows = list(versions.select_related("author")[: MOST_VERSIONS + 1])
    texts = [text_of(row) for row in rows]
    return [
        VersionLine(
            version=row,
            text=text,
            difference=None if before is None else compare(before, text, most_steps=CARD_STEPS),
            is_newest=row is rows[0],
        )
        for row, text, before in zip(rows, texts, [*texts[1:], None], strict=True)
    ][:MOST_VERSIONS]


def posted_version(request: HttpRequest, versions: Any) -> Any:
    """The version whose number was posted. Raises ``Http404``."""
    number = request.POST.get("number", "")
    found = versions.filter(number=int(number) if number.isdecimal() else 0).first()
    if found is None:
        raise Http404(NOT_HERE)
    return found


def known_version(request: HttpRequest) -> int:
    """The number of the version that the posted form has edited."""
    known = request.POST.get("known", "")
    return int(known) if known.isdecimal() else 0
