"""Splits reasoning between marks, such as ``<think>…</think>``, from the text after it."""

import re
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from chat.events.thinking_marks import PAIRS

Mode = Literal["auto", "off", "assume_open"]
Piece = tuple[Literal["reasoning", "message"], str]
_Place = Literal["before", "opened", "inside", "trial", "tried", "closed", "outside"]

# An answer in channels begins with one of these (the harmony format of gpt-oss).
_CHANNELS = ("<|channel|>", "<|start|>assistant")
_OPENINGS = (*_CHANNELS, *(pair.opening for pair in PAIRS))
_CLOSINGS = tuple(pair.closing for pair in PAIRS)

# An answer that begins with more whitespace than this has no mark; holding it back would cost
# quadratic time.
_MOST_BLANKS = 256
# A pair that may be text is given up after this many characters, because nothing is shown meanwhile.
_MOST_TRIED = 64 * 1024


class ThinkSplitter:
    """The splitter of one message. A possible part of a mark is held back until it is decided.

    Marks count at the start of the message and after reasoning. Whitespace around them comes from the
    template and is dropped; the native turn keeps the original text. If an opening mark is never closed,
    everything is reasoning. Where marks are likely to be text (``is_strict``, or words such as
    ``<thought>``), only a pair that is closed and followed by text counts.
    """

    def __init__(self, mode: Mode = "auto", *, is_strict: bool = False) -> None:
        self._place: _Place = "outside" if mode == "off" else "before"
        self._is_assumed_open = mode == "assume_open"
        self._is_strict = is_strict
        self._closings = _CLOSINGS
        self._held = ""
        # The text since an opening mark that may be text.
        self._tried: list[str] = []
        self._tried_characters = 0
        self._channels: _Channels | None = None
        # The separator between further reasoning and the first.
        self._joint = ""

    @property
    def is_transparent(self) -> bool:
        """True if text passes unchanged from now on, so that the caller may skip the splitter."""
        return self._place == "outside" and not self._held and self._channels is None

    @property
    def is_thinking(self) -> bool:
        """True while reasoning that was returned before goes on."""
        if self._channels is not None:
            return self._channels.is_thinking
        return self._place == "inside"

    def feed(self, text: str) -> list[Piece]:
        if self._channels is not None:
            return self._channels.feed(text)
        pieces: list[Piece] = []
        text = self._held + text
        self._held = ""
        if self._place == "before":
            text = self._open(text)
        while text and self._place != "outside":
            text = self._STEPS[self._place](self, text, pieces)
        if self._channels is not None:
            pieces += self._channels.feed(text)
        elif text:
            pieces.append(("message", text))
        return pieces

    def be_strict(self) -> None:
        """Reads marks strictly from now on: the server sends reasoning separately, so they may be text."""
        self._is_strict = True
        if self._place == "opened":
            self._place = "trial"

    @property
    def is_waiting(self) -> bool:
        """True if a closed pair only lacks something that follows it."""
        return self._place == "tried"

    def close(self, *, is_followed: bool = False) -> list[Piece]:
        """The text that was held back when the message ended. ``is_followed``: by a call, or more."""
        if self._channels is not None:
            return self._channels.close()
        if is_followed and self._place == "tried":
            pieces: list[Piece] = []
            self._accept(pieces)
            return pieces
        if self._place == "opened":
            self._tried = []
        held = "".join(self._tried) + self._held
        is_reasoning = self._place == "inside" or (
            self._is_assumed_open and self._place == "before"
        )
        self._tried, self._held = [], ""
        if self._place in ("trial", "tried", "opened"):
            self._place = "outside"
        return [("reasoning" if is_reasoning else "message", held)] if held else []

    # --- what each place does: returns the text that the next place reads -------------------

    def _open(self, text: str) -> str:
        stripped = text.lstrip()
        opening = next((mark for mark in _OPENINGS if stripped.startswith(mark)), None)
        if opening in _CHANNELS:
            self._place = "outside"
            self._channels = _Channels()
            return stripped
        pair = next((pair for pair in PAIRS if pair.opening == opening), None)
        if pair is not None:
            self._closings = (pair.closing,)
            is_sure = pair.is_token and not self._is_strict
            self._place = "opened" if is_sure else "trial"
            # The mark is kept, because the pair may turn out to be text.
            start = text[: len(text) - len(stripped) + len(pair.opening)]
            self._try(start)
            return stripped[len(pair.opening) :]
        if len(text) <= _MOST_BLANKS and any(mark.startswith(stripped) for mark in _OPENINGS):
            self._held = text
            return ""
        self._place = "inside" if self._is_assumed_open else "outside"
        return text

    def _skip_to_reasoning(self, text: str, _pieces: list[Piece]) -> str:
        text = text.lstrip()
        if text:
            self._place = "inside"
            self._tried, self._tried_characters = [], 0
        return text

    def _inside(self, text: str, pieces: list[Piece]) -> str:
        begin, end = _find(text, self._closings)
        if end:
            self._place = "closed"
            self._is_assumed_open = False
        else:
            self._held = text[begin:]
        self._think(text[:begin], pieces)
        return text[end:] if end else ""

    def _trial(self, text: str, _pieces: list[Piece]) -> str:
        begin, end = _find(text, self._closings)
        if end:
            self._try(text[:end])
            self._place = "tried"
            return text[end:]
        self._try(text[:begin])
        self._held = text[begin:]
        if self._tried_characters > _MOST_TRIED:
            self._place = "outside"
            tried, self._tried, self._held = "".join(self._tried), [], ""
            return tried + text[begin:]
        return ""

    def _follow(self, text: str, pieces: list[Piece]) -> str:
        if not text.strip():
            self._held = text
            return ""
        self._accept(pieces)
        return text

    def _accept(self, pieces: list[Piece]) -> None:
        """Something follows the closed pair, so it is reasoning."""
        whole = "".join(self._tried).lstrip()
        self._tried, self._tried_characters = [], 0
        closing = self._closings[0]
        opening = next(pair.opening for pair in PAIRS if pair.closing == closing)
        self._think(whole[len(opening) : -len(closing)].lstrip(), pieces)
        self._held = ""
        self._place = "closed"

    def _after(self, text: str, _pieces: list[Piece]) -> str:
        """Further reasoning may follow."""
        stripped = text.lstrip()
        if any(mark.startswith(stripped) for mark in _OPENINGS):
            self._held = stripped
            return ""
        self._joint = "\n\n"
        return self._open(stripped)

    def _think(self, text: str, pieces: list[Piece]) -> None:
        if text:
            pieces.append(("reasoning", self._joint + text))
            self._joint = ""

    def _try(self, text: str) -> None:
        self._tried.append(text)
        self._tried_characters += len(text)

    _STEPS: ClassVar[Mapping[str, Callable[["ThinkSplitter", str, list[Piece]], str]]] = {
        "opened": _skip_to_reasoning,
        "inside": _inside,
        "trial": _trial,
        "tried": _follow,
        "closed": _after,
    }


def split(
    text: str, mode: Mode = "auto", *, is_strict: bool = False, is_followed: bool = False
) -> list[Piece]:
    """The pieces of a whole message."""
    splitter = ThinkSplitter(mode, is_strict=is_strict)
    return [*splitter.feed(text), *splitter.close(is_followed=is_followed)]


def begins_with_thinking(text: str) -> bool:
    return any(text.lstrip().startswith(mark) for mark in _OPENINGS)


def has_lone_closing(text: str) -> bool:
    """True if reasoning ends in a text without having begun in it, and outside of code."""
    _, end = _find(text, tuple(pair.closing for pair in PAIRS if pair.is_token))
    if not end or any(pair.opening in text[:end] for pair in PAIRS if pair.is_token):
        return False
    return text.count("```", 0, end) % 2 == 0


def _find(text: str, closings: tuple[str, ...]) -> tuple[int, int]:
    """The place where the first closing mark begins, and where it ends. Without one, the end is 0 and the beginning that of
    a possible part of a mark at the end of the text. A mark between backticks is code."""
    start = 0
    while True:
        found = min(
            ((at, mark) for mark in closings if (at := text.find(mark, start)) >= 0),
            default=None,
        )
        if found is None:
            return max(start, len(text) - _overlap(text, closings)), 0
        begin, end = found[0], found[0] + len(found[1])
        if begin == 0 or text[begin - 1] != "`":
            return begin, end
        if end == len(text):
            return begin - 1, 0
        if text[end] != "`":
            return begin, end
        start = end


def _overlap(text: str, marks: tuple[str, ...]) -> int:
    """Length of the longest end of ``text`` that is a beginning of a mark, with the backtick before it."""
    length = _begun(text, marks)
    return length + text[: len(text) - length].endswith("`")


def _begun(text: str, marks: tuple[str, ...]) -> int:
    """Length of the longest end of ``text`` that is a beginning of a mark."""
    for length in range(min(len(text), max(map(len, marks)) - 1), 0, -1):
        if any(mark.startswith(text[-length:]) for mark in marks):
            return length
    return 0


# --- answers in channels ------------------------------------------------------------------

_NAMES = ("start", "end", "message", "channel", "return", "call", "constrain")
_TOKENS = tuple(f"<|{name}|>" for name in _NAMES)
_TOKEN = re.compile(rf"<\|({'|'.join(_NAMES)})\|>")


class _Channels:
    """Messages of the harmony format: a header that names the channel, then the text. ``analysis`` is
    reasoning. Calls of tools, which the server should have taken out, stay text."""

    def __init__(self) -> None:
        self._held = ""
        self._kind: Literal["reasoning", "message"] = "message"
        self._header: list[str] | None = None
        self._said: Literal["reasoning", "message"] | None = None
        self._is_new = True

    @property
    def is_thinking(self) -> bool:
        return self._kind == "reasoning" and not self._is_new and self._header is None

    def feed(self, text: str) -> list[Piece]:
        pieces: list[Piece] = []
        text = self._held + text
        at = 0
        for token in _TOKEN.finditer(text):
            self._add(text[at : token.start()], pieces)
            self._turn(token[1], pieces)
            at = token.end()
        end = len(text) - _begun(text[at:], _TOKENS)
        self._add(text[at:end], pieces)
        self._held = text[end:]
        return pieces

    def close(self) -> list[Piece]:
        pieces: list[Piece] = []
        held, self._held = self._held, ""
        if self._header:
            held, self._header = "".join(self._header) + held, None
        self._add(held, pieces)
        return pieces

    def _turn(self, name: str, pieces: list[Piece]) -> None:
        if name == "start":
            self._header = []
        elif name == "channel":
            self._header = [*(self._header or ()), " "]
        elif name == "message":
            header = "".join(self._header or ()).removeprefix("assistant").strip()
            self._header = None
            self._is_new = True
            is_call = "to=" in header
            self._kind = "reasoning" if header == "analysis" else "message"
            self._add(f"{header}\n" if is_call else "", pieces)
        elif name != "constrain":
            self._kind = "message"
            self._is_new = True

    def _add(self, text: str, pieces: list[Piece]) -> None:
        if self._header is not None:
            self._header.append(text)
        elif text:
            if self._is_new and self._said == self._kind:
                text = "\n\n" + text
            self._said, self._is_new = self._kind, False
            pieces.append((self._kind, text))
