"""The messages that continue an answer on a page, and how much of its open blocks each one leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import msgspec

from chat.rendering.parts import APPEND, MORPH, REPLACE, Patches

# Keeping less is not worth the dependence on earlier frames.
LEAST_KEPT_CHARACTERS = 16
# The longest tag that is put around a block which closes.
LONGEST_HEAD_CHARACTERS = 128
# Open blocks whose HTML is remembered: one for each text that is being written.
MOST_BLOCKS = 8

_encoder = msgspec.json.Encoder()

_SWAPS = {REPLACE: "=", MORPH: "~", APPEND: "+"}

# Element, kind of change and content. If a part of the content is left out, the content is what follows
# it, and then come the element of the open block whose HTML begins with that part, its length in UTF-16 code
# units, and what is before it.
ShortPatch = tuple[str, str, str] | tuple[str, str, str, str, int, str]


class ViewerFrame(msgspec.Struct, frozen=True, gc=False):
    """One message to the browser. It changes a page at ``after`` into the page at ``seq``.

    ``since``: a shared frame is only for pages that got every shared frame from this seq on. ``None``: a
    frame for one page, which needs nothing but the page itself.
    """

    after: int
    seq: int
    text: str
    since: int | None = None


@dataclass(slots=True)
class HeldBlock:
    """HTML that a page knows if it got every shared frame from ``since`` on."""

    since: int
    html: str


class OpenBlocks:
    """The HTML of the open blocks, as the pages hold it that got the shared frames.

    A frame then only says how much of it stays and what follows. Whatever changes earlier words, such as
    the end of an emphasis, only makes the part that stays shorter. A block that closes is taken from it, too.
    """

    def __init__(self, run_id: UUID) -> None:
        self._prefix = f"r{run_id.hex}-"
        self._held: dict[str, HeldBlock] = {}
        self._next: dict[str, HeldBlock] = {}

    def shorten(self, patches: Patches, after: int) -> tuple[list[ShortPatch], int]:
        """The patches of the next shared frame, and its ``since``. They count as sent only with `confirm`,
        because the frame may be given up."""
        self._next = {}
        short: list[ShortPatch] = []
        since = after
        for target, swap, content, like in patches:
            block = HeldBlock(after, content)
            held = (self._next.get(like) or self._held.get(like)) if like else None
            start, end = common_part(held.html, content) if held is not None else (0, 0)
            if held is None or end - start < LEAST_KEPT_CHARACTERS:
                short.append((self._short(target), _SWAPS[swap], content))
            else:
                head, tail = content[:start], content[end:]
                part = self._short(like), utf16_length(content[start:end]), head
                short.append((self._short(target), _SWAPS[swap], tail, *part))
                block.since = held.since
                since = min(since, held.since)
            if is_open_block(target):
                self._next[target] = block
        return short, since

    def _short(self, target: str) -> str:
        """Within its answer, or whole with a mark."""
        is_inside = target.startswith(self._prefix)
        return target[len(self._prefix) :] if is_inside else f"#{target}"

    def confirm(self) -> None:
        """The last difference is in a shared frame."""
        for target, block in self._next.items():
            self._held.pop(target, None)
            if block.html:
                self._held[target] = block
        self._next = {}
        while len(self._held) > MOST_BLOCKS:
            del self._held[next(iter(self._held))]

    def forget(self) -> None:
        """The next frame contains open blocks as a whole."""
        self._held, self._next = {}, {}


def is_open_block(target: str) -> bool:
    """Whether pages hold the HTML of this element."""
    return target.endswith("-open")


def common_part(before: str, after: str) -> tuple[int, int]:
    """Where in ``after`` the beginning of ``before`` is, as start and end: at its beginning, or in an
    element around it, such as a new section."""
    start = max(0, after.find(before[:LEAST_KEPT_CHARACTERS], 0, LONGEST_HEAD_CHARACTERS))
    return start, start + common_length(before, after[start:])


def common_length(before: str, after: str) -> int:
    """The length of the common beginning. Slices are compared, which is much faster than characters."""
    low, high = 0, min(len(before), len(after))
    middle = high
    while low < high:
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
        middle = (low + high + 1) // 2
    return low


def utf16_length(text: str) -> int:
    """The length as JavaScript counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


class Envelope(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The message of a frame. ``replaces``: its content does not depend on what the page showed before."""

    run: str
    after: int
    seq: int
    replaces: bool = False
    check: str
    live: bool = True
    content: str | list[ShortPatch]

    def encoded(self) -> str:
        return _encoder.encode(self).decode()
