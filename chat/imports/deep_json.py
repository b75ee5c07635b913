"""JSON of any depth, read without recursion.

This is slower than the parsers of libraries, which allow about a thousand levels: LibreChat nests
each message in the one before it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypeAlias

from chat.events import Json

# A string, a bracket or a sign, or a run of other characters.
_WORD = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}:,"]|[^\s\[\]{}:,"]++', re.DOTALL)
_CLOSES = {"]": list, "}": dict}
# The next word: a value, the end of a container, or both; the name of a member.
_Next: TypeAlias = Literal["value", "first", "name", "colon", "comma"]


def loads(text: str) -> Json:
    """Returns the value of the text, or raises ``ValueError``. Control characters in strings are accepted;
    NaN and infinities become null."""
    reading = _Reading()
    for found in _WORD.finditer(text):
        reading.read_word(found[0])
    return reading.value()


class _Reading:
    def __init__(self) -> None:
        self._root: list[Any] = []
        # The open containers, and for each the name of the next value.
        self._open: list[Any] = [self._root]
        self._names: list[str] = [""]
        self._next: _Next = "value"

    def read_word(self, word: str) -> None:
        if word in _CLOSES:
            self._close(word)
        elif word == ",":
            self._require(self._next == "comma" and len(self._open) > 1)
            self._next = "name" if isinstance(self._open[-1], dict) else "value"
        elif word == ":":
            self._require(self._next == "colon")
            self._next = "value"
        elif isinstance(self._open[-1], dict) and self._next in ("first", "name"):
            name = _scalar(word)
            self._require(isinstance(name, str))
            self._names[-1] = name
            self._next = "colon"
        else:
            self._require(self._next in ("first", "value"))
            self._add(word)

    def value(self) -> Json:
        self._require(len(self._open) == 1 and len(self._root) == 1)
        return self._root[0]

    def _close(self, word: str) -> None:
        container = self._open.pop()
        self._require(self._next in ("comma", "first") and type(container) is _CLOSES[word])
        self._names.pop()
        self._next = "comma"

    def _add(self, word: str) -> None:
        is_container = word in ("[", "{")
        value: Any = ([] if word == "[" else {}) if is_container else _scalar(word)
        container = self._open[-1]
        if isinstance(container, dict):
            container[self._names[-1]] = value
        else:
            container.append(value)
        self._next = "comma"
        if is_container:
            self._open.append(value)
            self._names.append("")
            self._next = "first"

    def _require(self, is_fine: bool) -> None:
        if not is_fine:
            raise ValueError("no JSON")


def _scalar(word: str) -> Any:
    return json.loads(word, strict=False, parse_constant=lambda _: None)
