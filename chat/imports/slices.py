"""Reading of a JSON file in slices: one pass finds the places, the number and the depth of its
conversations; another one reads them, one at a time.

Only quotes, brackets and commas are considered, so text that is not strict JSON has boundaries,
too. Neither pass holds more than a slice, except for the conversation that is being read.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

SLICE_BYTES = 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The member of an object with the list of conversations.
_LIST_NAME = b'"conversations"'

# A string up to its quote, or the part of it in the slice; the group is the quote. The quantifiers
# are possessive: nothing is tried twice.
_STRING = rb'"(?:[^"\\]++|\\.)*+(")?+'
_STRING_REST = re.compile(rb'(?:[^"\\]++|\\.)*+(")?+', re.DOTALL)
_SPACES = re.compile(rb"\s*+")
_BRACKETS = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_ELEMENTS = re.compile(_STRING + rb"|[\[\]{},]|[^\s\[\]{},\"]++", re.DOTALL)


class Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class NotJson(Exception):
    """The first value in the file is no list and no object, or something follows it."""


class Incomplete(Exception):
    """The file ends in the middle, or its brackets don't fit."""


class TooMany(Exception):
    """Raised at the first conversation over the limit."""


class TooDeep(Exception):
    """Raised at the first bracket that nests more deeply than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The places where the conversations of a file begin and end, in bytes."""

    starts: array[int] = field(default_factory=lambda: array("Q"))
    ends: array[int] = field(default_factory=lambda: array("Q"))

    def __len__(self) -> int:
        return len(self.starts)


def outline(stream: Stream, *, most: int, deepest: int) -> Outline:
    """The conversations of a list, of the member ``conversations`` of an object, or the object itself.
    Raises one of the errors above."""
    scan = _Scan(most, deepest)
    piece = stream.read(max(SLICE_BYTES, len(_BYTE_ORDER_MARK)))
    if piece.startswith(_BYTE_ORDER_MARK):
        piece = piece.replace(_BYTE_ORDER_MARK, b" " * len(_BYTE_ORDER_MARK), 1)
    rest = b""
    while piece:
        rest = scan.read_slice(rest + piece)
        piece = stream.read(SLICE_BYTES)
    return scan.finish()


def slices(stream: Stream, found: Outline, *, most_bytes: int) -> Iterator[bytes | None]:
    """The bytes of each conversation in turn; ``None`` for one that is longer than ``most_bytes``."""
    buffer = bytearray()
    # The place in the file where the buffer begins.
    base = 0
    for start, end in zip(found.starts, found.ends, strict=True):
        is_wanted = end - start <= most_bytes
        while base + len(buffer) < (end if is_wanted else start):
            if base + len(buffer) <= start:
                base += len(buffer)
                buffer.clear()
            piece = stream.read(SLICE_BYTES)
            if not piece:
                raise Incomplete
            buffer += piece
        yield bytes(memoryview(buffer)[start - base : end - base]) if is_wanted else None
        # Small conversations don't trim the buffer, because that moves the rest.
        if (read := min(len(buffer), end - base)) > SLICE_BYTES:
            del buffer[:read]
            base += read


class _Scan:
    """The state of the first pass between two slices."""

    def __init__(self, most: int, deepest: int) -> None:
        self._most = most
        self._deepest = deepest
        self._found = Outline()
        # The place in the file where the slice begins.
        self._base = 0
        self._depth = 0
        self._is_object = self._is_over = self._has_list = False
        self._whole = (0, 0)
        # The level whose elements are the conversations; 0 outside of their list.
        self._level = 0
        self._start = 0
        self._has_value = False
        self._is_in_string = False
        # The last string of an object's first level: before a bracket it is the name of a member.
        self._string = b""

    def read_slice(self, piece: bytes) -> bytes:
        """Reads a slice, and returns the part to read again with the next one: a backslash at the
        end, which belongs to the character after it."""
        at = 0
        while at < len(piece):
            if self._is_in_string:
                found = _STRING_REST.match(piece, at)
                assert found is not None
                self._end_string(found)
                at = found.end()
                if self._is_in_string:
                    break
            elif self._depth > max(1, self._level):
                at = self._read_inside(piece, at)
            else:
                at = self._read_element(piece, at)
        self._base += at
        return piece[at:]

    def finish(self) -> Outline:
        if not self._is_over:
            raise Incomplete if self._depth else NotJson
        if not self._has_list:
            self._found.starts.append(self._whole[0])
            self._found.ends.append(self._whole[1])
        return self._found

    def _read_inside(self, piece: bytes, at: int) -> int:
        """Reads up to the end of a conversation, in which only brackets and strings count."""
        outer = max(1, self._level)
        depth = self._depth
        for found in _BRACKETS.finditer(piece, at):
            first = piece[found.start()]
            if first == 0x22:
                if found.lastindex is None:
                    self._depth = depth
                    self._end_string(found)
                    return found.end()
            elif first in b"[{":
                depth += 1
                if depth > self._deepest:
                    raise TooDeep
            else:
                depth -= 1
                if depth == outer:
                    self._depth = depth
                    return found.end()
        self._depth = depth
        return len(piece)

    def _read_element(self, piece: bytes, at: int) -> int:
        space = _SPACES.match(piece, at)
        assert space is not None
        found = _ELEMENTS.match(piece, space.end())
        if found is None:
            return len(piece)
        place = self._base + found.start()
        token = found[0]
        if self._depth == 0:
            self._open(token, place)
        elif self._depth == self._level:
            self._read_of_list(token, place)
        else:
            self._read_of_object(token, place)
        if token[:1] == b'"':
            self._string = b""
            self._end_string(found)
        return found.end()

    def _open(self, token: bytes, place: int) -> None:
        if self._is_over or token not in (b"[", b"{"):
            raise NotJson
        self._depth = 1
        self._is_object = token == b"{"
        self._whole = (place, place)
        if not self._is_object:
            self._begin_list(1, place)

    def _begin_list(self, level: int, place: int) -> None:
        # The last of two members with the same name counts, as everywhere in JSON.
        self._found = Outline()
        self._has_list = True
        self._level = level
        self._start = place + 1
        self._has_value = False

    def _read_of_list(self, token: bytes, place: int) -> None:
        if token == b",":
            self._end_element(place)
            self._start = place + 1
        elif token in (b"]", b"}"):
            if self._has_value or len(self._found):
                self._end_element(place)
            self._close(token, place, b"]")
            self._level = 0
        else:
            if not self._has_value and len(self._found) == self._most:
                raise TooMany
            self._has_value = True
            self._depth += token in (b"[", b"{")

    def _end_element(self, place: int) -> None:
        if not self._has_value:
            raise Incomplete
        self._found.starts.append(self._start)
        self._found.ends.append(place)
        self._has_value = False

    def _read_of_object(self, token: bytes, place: int) -> None:
        if token in (b"[", b"{"):
            self._depth += 1
            if token == b"[" and self._string == _LIST_NAME:
                self._begin_list(2, place)
        elif token in (b"]", b"}"):
            self._close(token, place, b"}")

    def _close(self, token: bytes, place: int, expected: bytes) -> None:
        if token != expected:
            raise Incomplete
        self._depth -= 1
        if not self._depth:
            self._is_over = True
            self._whole = (self._whole[0], place + 1)

    def _end_string(self, found: re.Match[bytes]) -> None:
        self._is_in_string = found.lastindex is None
        if self._depth == 1 and len(self._string) <= len(_LIST_NAME):
            self._string += found[0]
