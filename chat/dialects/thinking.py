"""Splits ``<think>…</think>`` at the start of a message from the text after it."""

from typing import Literal

OPENING = "<think>"
CLOSING = "</think>"

Mode = Literal["auto", "off", "assume_open"]
Piece = tuple[Literal["reasoning", "message"], str]
_Place = Literal["before", "opened", "inside", "closed", "outside"]

# An answer that begins with more whitespace than this has no tag; holding it back would cost
# quadratic time.
_MOST_BLANKS = 256


class ThinkSplitter:
    """The splitter of one choice. A possible part of a tag is held back until it is decided.

    Whitespace around the tags comes from the template and is dropped; the native turn keeps the
    original text. If an opening tag is never closed, everything is reasoning.
    """

    def __init__(self, mode: Mode = "auto") -> None:
        self._place: _Place = "outside" if mode == "off" else "before"
        self._is_assumed_open = mode == "assume_open"
        self._held = ""

    @property
    def is_transparent(self) -> bool:
        """Whether text passes unchanged from now on, so that the caller may skip the splitter."""
        return self._place == "outside" and not self._held

    def feed(self, text: str) -> list[Piece]:
        pieces: list[Piece] = []
        text = self._held + text
        self._held = ""
        if self._place == "before":
            text = self._open(text)
        if self._place == "opened":
            text = self._skip_blanks(text, then="inside")
        if self._place == "inside":
            text = self._inside(text, pieces)
        if self._place == "closed":
            text = self._skip_blanks(text, then="outside")
        if self._place == "outside" and text:
            pieces.append(("message", text))
        return pieces

    def disable(self) -> list[Piece]:
        """There is a separate reasoning member, so tags in the text are text."""
        if self._place in ("opened", "inside"):
            return []
        held, self._held = self._held, ""
        self._place = "outside"
        return [("message", held)] if held else []

    def close(self) -> list[Piece]:
        """The text that was held back when the message ended."""
        held, self._held = self._held, ""
        if not held:
            return []
        kind: Literal["reasoning", "message"] = "message"
        if self._place == "inside" or (self._is_assumed_open and self._place == "before"):
            kind = "reasoning"
        return [(kind, held)]

    def _open(self, text: str) -> str:
        stripped = text.lstrip()
        if stripped.startswith(OPENING):
            self._place = "opened"
            return stripped[len(OPENING) :]
        if OPENING.startswith(stripped) and len(text) <= _MOST_BLANKS:
            self._held = text
            return ""
        self._place = "inside" if self._is_assumed_open else "outside"
        return text

    def _skip_blanks(self, text: str, *, then: _Place) -> str:
        text = text.lstrip()
        if text:
            self._place = then
        return text

    def _inside(self, text: str, pieces: list[Piece]) -> str:
        reasoning, tag, rest = text.partition(CLOSING)
        if tag:
            self._place = "closed"
        else:
            kept = len(text) - _overlap(text, CLOSING)
            reasoning, self._held, rest = text[:kept], text[kept:], ""
        if reasoning:
            pieces.append(("reasoning", reasoning))
        return rest


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of ``text`` that is a beginning of ``tag``."""
    for length in range(min(len(text), len(tag) - 1), 0, -1):
        if tag.startswith(text[-length:]):
            return length
    return 0
