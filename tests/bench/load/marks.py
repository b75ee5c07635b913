"""What a stream says: every delta carries its number and the moment at which it was sent.

A mark is ``Z`` with three digits of the number and six of the time, base 36. The time is the
system-wide monotonic clock in units of 10 µs; it begins anew every six hours. Marks are plain
words: neither JSON nor HTML nor Markdown changes them, and the renderer takes them for words.
"""

import itertools
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
UNITS_PER_SECOND = 100_000
NUMBERS = 36**3
_TRIPLES = [a + b + c for a in DIGITS for b in DIGITS for c in DIGITS]
_TRIPLE_BYTES = [triple.encode() for triple in _TRIPLES]
# Some hours before the counter begins anew are enough for any run.
PERIOD = NUMBERS * NUMBERS

MARK = re.compile(rb"Z([0-9a-z]{3})([0-9a-z]{6})")
MARK_BYTES = 10


def now() -> int:
    """The moment in units of 10 µs, as it is in a mark."""
    return (time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 10_000) % PERIOD


def mark(number: int, sent: int) -> bytes:
    return (
        b"Z"
        + _TRIPLE_BYTES[number]
        + _TRIPLE_BYTES[sent // NUMBERS]
        + _TRIPLE_BYTES[sent % NUMBERS]
    )


def seconds_between(sent: int, arrived: int) -> float:
    return ((arrived - sent) % PERIOD) / UNITS_PER_SECOND


def numbers_in(text: str | bytes) -> list[int]:
    """The numbers of all marks in a text, in its order."""
    data = text.encode() if isinstance(text, str) else text
    return [int(number, 36) for number, _ in MARK.findall(data)]


# --- around the marks ----------------------------------------------------------------------

# With its mark, a delta of 24 characters.
WORDS = " of the river "
# Words of a paragraph: about 440 characters, as paragraphs of answers are.
PARAGRAPH = 40


def _plain(number: int) -> tuple[str, str]:
    return "", "\n\n" if number % PARAGRAPH == PARAGRAPH - 1 else " "


def _markdown_pattern() -> list[tuple[str, str]]:
    """What stands before and behind each mark: headings, prose with emphasis and inline code,
    a list, a block of code. Code has its marks in comments, which highlighting leaves whole."""
    pattern = [("## About ", "\n\n")]
    pattern += [("", " "), ("**", "** "), ("", " "), ("`", "` "), ("", ", ")] * 3
    pattern += [("", ".\n\n")]
    pattern += [item for _ in range(5) for item in (("- ", " "), ("", " and "), ("", "\n"))]
    pattern += [("\nThen ", ":\n\n```python\n")]
    pattern += [(f"x_{line} = [{line}, 'a']  # ", "\n") for line in range(10)]
    pattern += [("# ", "\n```\n\n")]
    return pattern


_MARKDOWN = _markdown_pattern()
# The whole answer is one paragraph, with what prose has in it.
_PROSE = [("", " "), ("**", "** "), ("", ": "), ("", " "), ("`", "` "), ("", ", "), ("", ". ")]


def around(kind: str, number: int) -> tuple[str, str]:
    """The text before and behind mark ``number`` of a stream of this kind."""
    if kind == "plain":
        return _plain(number)
    if kind == "words":
        return "", WORDS
    if kind == "paragraph":
        return _PROSE[number % len(_PROSE)]
    return _MARKDOWN[number % len(_MARKDOWN)]


# --- as a server sends it --------------------------------------------------------------------

MODEL = "acme/river-8b"
_HEAD = {
    "id": "chatcmpl-9f3ab27e",
    "object": "chat.completion.chunk",
    "created": 1767225600,
    "model": MODEL,
}


def _event(delta: dict[str, str], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return (
        b"data: %b\n\n" % json.dumps({**_HEAD, "choices": [choice]}, separators=(",", ":")).encode()
    )


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


OPENING = _chunk(_event({"role": "assistant", "content": ""}))
CLOSING = _chunk(_event({}, "stop")) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
DONE = b"data: [DONE]"


class Chunks:
    """The deltas of a kind of stream as chunks of an HTTP body, all but the marks made before."""

    def __init__(self, kind: str, count: int) -> None:
        placed = (_event({"content": "\0".join(around(kind, n))}) for n in range(count))
        self._halves = [event.split(b"\\u0000") for event in placed]
        self._sizes = [
            b"%x\r\n" % (len(before) + MARK_BYTES + len(behind)) for before, behind in self._halves
        ]

    def at(self, number: int, sent: int) -> bytes:
        before, behind = self._halves[number]
        return self._sizes[number] + before + mark(number, sent) + behind + b"\r\n"


# --- what came ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Received:
    """The marks of one stream as they were first seen. Times in units of 10 µs."""

    arrivals: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    # Marks that were skipped when a later one was first seen.
    skipped: int = 0
    # Marks that had been seen before: normal where a block is sent anew, and a fault where bytes
    # are copied. Whether a page shows text twice is found by putting it together.
    repeated: int = 0
    next: int = 0

    def take(self, data: bytes, arrived: int) -> None:
        for number_text, sent_text in MARK.findall(data):
            number = int(number_text, 36)
            if number < self.next:
                self.repeated += 1
                continue
            self.skipped += number - self.next
            self.next = number + 1
            self.arrivals.append(arrived)
            self.sent.append(int(sent_text, 36))

    @property
    def count(self) -> int:
        return len(self.arrivals)


@dataclass(frozen=True, slots=True)
class Conservation:
    lost: int
    doubled: int

    @property
    def holds(self) -> bool:
        return not (self.lost or self.doubled)


def conservation(numbers: Sequence[int], expected: int) -> Conservation:
    """Compares the marks of a whole text with those that were sent: 0 to ``expected`` - 1.

    One that is out of its place counts as doubled: it was moved past another.
    """
    known = set(numbers)
    lost = sum(number not in known for number in range(expected))
    doubled = len(numbers) - len(known & set(range(expected)))
    moved = sum(one > other for one, other in itertools.pairwise(numbers))
    return Conservation(lost=lost, doubled=doubled + (moved if not doubled else 0))
