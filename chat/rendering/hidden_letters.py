"""Makes the characters of a text visible that nobody sees, and that a model reads."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

# Control, format, surrogate and private characters, and separators of lines. A newline and a tab are seen.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SEEN = "\n\t"
# They change the letter before them, or nothing at all.
_SELECTORS = re.compile("[\ufe00-\ufe0f\u180b-\u180f\U000e0100-\U000e01ef]")
# Letters without a shape of their own.
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f")
# More in a row are told by their number.
MOST_NAMED = 8
# Each part is an element of the page. The rest of a text with more is one part, with the codes in brackets.
MOST_PARTS = 500


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text. A hidden one has the codes of its characters as text."""

    text: str
    is_hidden: bool = False


def visible_parts(text: str, *, most: int = MOST_PARTS) -> list[Part]:
    parts = [
        Part(_named("".join(letters)), is_hidden=True) if hidden else Part("".join(letters))
        for hidden, letters in groupby(text, _is_hidden)
    ]
    rest = bracketed(parts[most:])
    return [*parts[:most], Part(rest)] if rest else parts


def bracketed(parts: Iterable[Part]) -> str:
    return "".join(f"[{part.text}]" if part.is_hidden else part.text for part in parts)


def _is_hidden(letter: str) -> bool:
    if letter in _SEEN or letter == " ":
        return False
    category = unicodedata.category(letter)
    is_odd_space = category == "Zs"
    return (
        category in _HIDDEN
        or is_odd_space
        or letter in _BLANKS
        or _SELECTORS.match(letter) is not None
    )


def _named(letters: str) -> str:
    codes = " ".join(f"U+{ord(letter):04X}" for letter in letters[:MOST_NAMED])
    return codes if len(letters) <= MOST_NAMED else f"{codes} … ×{len(letters)}"
