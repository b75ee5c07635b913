"""Messages that continue an answer on a page, without the part of its open blocks that the page
has."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import msgspec

from chat.rendering.parts import (
    APPEND,
    MORPH,
    REPLACE,
    GrowingHtml,
    Patch,
    Patches,
    checked,
    common_length,
    utf16_length,
)

# Keeping less is not worth the dependence on earlier frames.
LEAST_KEPT_CHARACTERS = 16
# The longest tag that is put around a block which closes.
LONGEST_HEAD_CHARACTERS = 128
# Open blocks whose HTML is remembered: one for each text that is being written.
MOST_BLOCKS = 8

_encoder = msgspec.json.Encoder()

_SWAPS = {REPLACE: "=", MORPH: "~", APPEND: "+"}

# Element, kind of change and content. If a part of the content is left out, the content is the HTML
# after it, followed by the element of the open block whose HTML begins with that part, its length
# in UTF-16 code units, and the HTML before it.
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
    """HTML that a page knows if it got every shared frame from ``since`` on: ``source`` at a version."""

    since: int
    source: str | GrowingHtml
    version: int = 0

    def kept(self, source: GrowingHtml) -> tuple[int, int]:
        """The length of this HTML that is still the beginning of ``source``, in characters and UTF-16 units."""
        return source.kept_since(self.version) if self.source is source else (0, 0)

    def html(self) -> str:
        """The part of it that the source still begins with."""
        if isinstance(self.source, str):
            return self.source
        return self.source.html_from(0)[: self.source.kept_since(self.version)[0]]


class OpenBlocks:
    """The HTML of the open blocks on pages that got the shared frames.

    A frame only has the length that stays and the HTML that follows. Changes of earlier words, such
    as the end of an emphasis, make the part that stays shorter. A block that closes also starts
    from it.
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
        for patch in patches:
            held = (
                (self._next.get(patch.like) or self._held.get(patch.like)) if patch.like else None
            )
            block, one = self._shorten(patch, held, after)
            short.append(one)
            since = min(since, block.since)
            if is_open_block(patch.target):
                self._next[patch.target] = block
        return short, since

    def _shorten(
        self, patch: Patch, held: HeldBlock | None, after: int
    ) -> tuple[HeldBlock, ShortPatch]:
        """A patch without what pages hold, and what they hold after it."""
        target, swap, source = self._short(patch.target), _SWAPS[patch.swap], patch.source
        head, kept, units, tail = "", 0, 0, ""
        if isinstance(source, str):
            before = held.html() if held is not None else ""
            start, end = common_part(before, source) if before else (0, 0)
            head, kept, tail = source[:start], end - start, source[end:]
            units = utf16_length(source[start:end])
            block = HeldBlock(after, source)
        else:
            kept, units = held.kept(source) if held is not None else (0, 0)
            tail = source.html_from(kept)
            block = HeldBlock(after, source, source.version)
        if held is None or kept < LEAST_KEPT_CHARACTERS:
            return block, (target, swap, checked(patch.target, patch.content))
        block.since = min(after, held.since)
        return block, (
            target,
            swap,
            checked(patch.target, tail),
            self._short(patch.like),
            units,
            head,
        )

    def _short(self, target: str) -> str:
        """The target within its answer, or as a whole with a mark."""
        is_inside = target.startswith(self._prefix)
        return target[len(self._prefix) :] if is_inside else f"#{target}"

    def confirm(self) -> None:
        """Marks the last patches as sent in a shared frame."""
        for target, block in self._next.items():
            self._held.pop(target, None)
            if block.source != "":
                self._held[target] = block
        self._next = {}
        while len(self._held) > MOST_BLOCKS:
            del self._held[next(iter(self._held))]

    def forget(self) -> None:
        """The next frame contains open blocks as a whole."""
        self._held, self._next = {}, {}


def is_open_block(target: str) -> bool:
    """Returns whether pages hold the HTML of this element."""
    return target.endswith("-open")


def common_part(before: str, after: str) -> tuple[int, int]:
    """The place in ``after`` of the beginning of ``before``, as start and end: at its beginning, or in an
    element around it, such as a new section."""
    start = max(0, after.find(before[:LEAST_KEPT_CHARACTERS], 0, LONGEST_HEAD_CHARACTERS))
    return start, start + common_length(before, after[start:])


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
