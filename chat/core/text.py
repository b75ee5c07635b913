"""Short texts that people type: cleaning of names of people, teams, servers and files, and ids."""

from __future__ import annotations

import unicodedata
from uuid import UUID

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy


def clean(text: str) -> str:
    """No database accepts a lone surrogate, and PostgreSQL no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\u2400")


# Names of users, teams and servers are one line, without anything that makes them look different.

# Control characters, what reorders or hides others, and what has no meaning of its own. Unassigned
# characters are allowed: they may be next year's letters and emoji.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co"})
# Joiners: some languages and many emoji need them.
_JOINERS = "\u200c\u200d"
_BLANK = frozenset("ZMC")
INVISIBLE = gettext_lazy("The name contains invisible characters. Type it instead of pasting it.")


def one_line(text: str) -> str:
    """Composed, with single spaces: names that look the same must be the same."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def check_name(text: str) -> None:
    """Raises ``ValidationError`` for a name that reorders the page around it, or shows nothing."""
    kinds = [unicodedata.category(letter) for letter in text if letter not in _JOINERS]
    if _HIDDEN & set(kinds) or all(kind[0] in _BLANK for kind in kinds):
        raise ValidationError(INVISIBLE)


def without_hidden(text: str) -> str:
    """Removes hidden characters. Titles come from a message, so they are cleaned instead of refused."""
    return "".join(
        letter
        for letter in text
        if letter in _JOINERS or unicodedata.category(letter) not in _HIDDEN
    )


def as_uuid(text: str | None) -> UUID | None:
    """The id that a text is; ``None`` for any other text."""
    try:
        return UUID(text or "")
    except ValueError:
        return None
