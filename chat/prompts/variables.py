"""The variables of a prompt: ``{{name}}`` in its text. They are only ever replaced, never evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from chat.events import Json
from chat.models import VariableKind

# A letter, then letters, digits, spaces, hyphens and underscores. All else between braces is text, such as code of
# other template languages.
_PLACE = re.compile(r"\{\{[ \t]*([^\W\d_](?:[\w \-]{0,38}[\w\-])?)[ \t]*\}\}")


class Variable(Struct, frozen=True, kw_only=True):
    """A variable as a version stores it. ``default`` is a text, whatever the kind; ``choices`` are for a choice."""

    name: str
    kind: VariableKind = VariableKind.TEXT
    default: str = ""
    choices: tuple[str, ...] = ()


def names_in(text: str) -> list[str]:
    """The names of the variables, in the order in which they first appear."""
    return list(dict.fromkeys(found[1] for found in _PLACE.finditer(text)))


def variables_of(text: str, stored: Json) -> list[Variable]:
    """The variables of the text with their settings; those without are short texts."""
    known = {each.name: each for each in msgspec.convert(stored, list[Variable])}
    return [known.get(name) or Variable(name=name) for name in names_in(text)]


def to_stored(variables: Iterable[Variable]) -> Json:
    # As the database gives it back: JSON has no tuples.
    return [{**msgspec.to_builtins(each), "choices": list(each.choices)} for each in variables]


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with the values in place of its variables. A value is never looked at again: one with braces stays as it
    is."""
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), text)


def in_words(variables: Sequence[Variable]) -> str:
    return ", ".join(each.name for each in variables)
