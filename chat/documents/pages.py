"""The choice of a document's pages, as people write it: "1-3, 7"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.utils.translation import gettext, ngettext

# Characters of the normal form, as in the column.
MOST_CHARACTERS = 200
_RANGE = re.compile(r"(\d{1,9})(?:\s*[-\u2010-\u2015]\s*(\d{1,9}))?", re.ASCII)


def parse_pages(chosen: str, count: int) -> tuple[int, ...]:
    """The numbers of the chosen pages of a document with ``count`` pages, ascending; all of them for an empty
    choice. Raises ``ValueError`` with a sentence for people."""
    parts = [part for each in re.split(r"[,;]", chosen) if (part := each.strip())]
    if not parts:
        return tuple(range(1, count + 1))
    numbers: set[int] = set()
    for part in parts:
        numbers.update(_range(part, count))
    found = tuple(sorted(numbers))
    if len(in_words(found)) > MOST_CHARACTERS:
        raise ValueError(gettext("These are too many separate pages. Choose longer ranges."))
    return found


def _range(part: str, count: int) -> range:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ValueError(gettext("Write page numbers and ranges, for example “1-3, 7”."))
    first = int(match[1])
    last = int(match[2] or first)
    if not 1 <= first <= last:
        words = gettext("“%(range)s” isn’t a range of pages. Write the lower number first.")
        raise ValueError(words % {"range": part})
    if last > count:
        words = ngettext(
            "There is no page %(page)d: the document has %(count)d page.",
            "There is no page %(page)d: the document has %(count)d pages.",
            count,
        )
        raise ValueError(words % {"page": last, "count": count})
    return range(first, last + 1)


def in_words(numbers: Iterable[int]) -> str:
    """The normal form of a choice: ascending, with ranges."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
