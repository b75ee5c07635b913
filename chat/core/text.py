"""Cleaning of short texts that people type: names of people, teams, servers and files."""

from __future__ import annotations

import unicodedata

from django.core.exceptions import ValidationError


def clean(text: str) -> str:
    """No database takes a lone surrogate, PostgreSQL no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\u2400")


# Names that people give to themselves, teams and servers: one line, and as it looks so it is.

# Controls, what orders or hides others, and what has no meaning of its own. Not what is merely
# unassigned: next year's letters and emoji are that to us.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co"})
# Joiners: some languages are written with them, and so are many emoji.
_JOINERS = "\u200c\u200d"
_BLANK = frozenset("ZMC")
INVISIBLE = "Leave out the invisible characters. Type the name instead of pasting it."


def one_line(text: str) -> str:
    """Composed, with single spaces: two names that look alike should be alike."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def check_name(text: str) -> None:
    """Raises ``ValidationError``: a name that reorders the page around it, or shows nothing."""
    kinds = [unicodedata.category(letter) for letter in text if letter not in _JOINERS]
    if _HIDDEN & set(kinds) or all(kind[0] in _BLANK for kind in kinds):
        raise ValidationError(INVISIBLE)


def without_hidden(text: str) -> str:
    """For titles, which are taken from what somebody wrote: nothing in them is worth a refusal."""
    return "".join(
        letter
        for letter in text
        if letter in _JOINERS or unicodedata.category(letter) not in _HIDDEN
    )
