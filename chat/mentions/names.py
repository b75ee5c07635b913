"""Finds the names of people in a text: ``@`` and the whole name, or the email address where names are alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

# Further ones in one message are left as text.
MOST_MENTIONS = 50
# A text with more of these signs, such as a dump, is not searched to its end.
MOST_SIGNS = 1000


class Named(NamedTuple):
    """A person, and their name as the text has it."""

    person: int
    name: str


def find_names(text: str, people: Mapping[int, Iterable[str]]) -> Sequence[Named]:
    """The people who are mentioned, each once, in the order of the text. ``people`` have their names by
    which they may be mentioned. The longest name counts, in any case of letters; several people of that name are all
    mentioned."""
    known: dict[str, list[int]] = {}
    for person, names in people.items():
        for name in names:
            known.setdefault(name.casefold(), []).append(person)
    lengths = sorted({len(name) for names in people.values() for name in names}, reverse=True)
    found: dict[int, Named] = {}
    at = -1
    for _ in range(MOST_SIGNS):
        at = text.find("@", at + 1)
        if at < 0:
            break
        if at and (text[at - 1].isalnum() or text[at - 1] in "_@./"):
            # An address, or a part of one.
            continue
        name = _name_at(text, at + 1, known, lengths)
        for person in known.get(name.casefold(), ()) if name else ():
            found.setdefault(person, Named(person, name))
    return list(found.values())[:MOST_MENTIONS]


def _name_at(text: str, start: int, known: Mapping[str, object], lengths: Sequence[int]) -> str:
    for length in lengths:
        name = text[start : start + length]
        if len(name) == length and name.casefold() in known and not _goes_on(text, start + length):
            return name
    return ""


def _goes_on(text: str, end: int) -> bool:
    return end < len(text) and (text[end].isalnum() or text[end] == "_")
