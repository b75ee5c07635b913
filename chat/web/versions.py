"""The page of versions of what several people edit: who changed what, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest

from chat.access import NOT_HERE
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
