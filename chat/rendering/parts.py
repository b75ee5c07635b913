"""The pieces of an answer's page: each knows since when it is there and when it last changed.

A part turns a page that shows it as it was at any earlier ``seq`` into one that shows it as it is
now. It can do so for every ``seq`` because all it remembers are sequence numbers.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from html import escape
from typing import ClassVar, NamedTuple, Protocol

# htmx rewrites these in a message as text, before anything is parsed. Content is escaped and
# sanitised, so they cannot occur; if one does, sending it would hand the page to its author.
_UNSAFE = re.compile(r"</?hx-|</?template|<head", re.IGNORECASE)


class UnsafePatch(Exception):
    """The content would break out of its patch element: a bug in a renderer."""


REPLACE, MORPH, APPEND = "innerHTML", "innerMorph", "beforeend"


class GrowingHtml(Protocol):
    """HTML that grows at its end. Each change has a number, the version."""

    version: int

    def html_from(self, start: int) -> str: ...

    def kept_since(self, version: int) -> tuple[int, int]: ...


class Patch(NamedTuple):
    """A change that htmx makes to one element. ``like``: the element of an open block whose HTML may
    contain the beginning of the content (empty if there is none)."""

    target: str
    swap: str
    source: str | GrowingHtml
    like: str

    @property
    def content(self) -> str:
        source = self.source
        return source if isinstance(source, str) else source.html_from(0)


def checked(target: str, content: str) -> str:
    if _UNSAFE.search(content):
        raise UnsafePatch(target)
    return content


def partial(target: str, swap: str, content: str) -> str:
    """One patch as htmx reads it."""
    content = checked(target, content)
    return f'<hx-partial hx-target="#{target}" hx-swap="{swap}">{content}</hx-partial>'


class Patches:
    """The patches of one frame, in order. Consecutive appends to one element are joined."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, str, list[str] | GrowingHtml, str]] = []

    def replace(self, target: str, content: str) -> None:
        self._entries.append((target, REPLACE, [content], target))

    def morph(self, target: str, html: GrowingHtml) -> None:
        """Morph the content, which keeps the reader's selection. For small elements only."""
        self._entries.append((target, MORPH, html, target))

    def append(self, target: str, content: str, *, like: str = "") -> None:
        last = self._entries[-1] if self._entries else None
        if last is not None and last[:2] == (target, APPEND) and isinstance(last[2], list):
            last[2].append(content)
        elif content:
            self._entries.append((target, APPEND, [content], like))

    def __iter__(self) -> Iterator[Patch]:
        for target, swap, some, like in self._entries:
            yield Patch(target, swap, "".join(some) if isinstance(some, list) else some, like)

    def render(self) -> str:
        return "".join(partial(patch.target, patch.swap, patch.content) for patch in self)


# Size of the pieces in which a whole answer is sent again, in characters. Larger blocks stay whole.
PIECE_CHARACTERS = 16 * 1024

# An append to an element that is already on the page: target and HTML.
Piece = tuple[str, str]


class Part:
    """One element with an id. ``opened_seq`` is the event that created it, ``changed_seq`` the last one
    that changed it or a part in it."""

    def __init__(self, id: str, seq: int) -> None:
        self.id = id
        self.opened_seq = seq
        self.changed_seq = seq
        self.parent: Part | None = None

    def touch(self, seq: int) -> None:
        self.changed_seq = seq
        if self.parent is not None:
            self.parent.child_changed(self, seq)

    def child_changed(self, child: "Part", seq: int) -> None:
        self.touch(seq)

    def html(self) -> str:
        """The whole element."""
        raise NotImplementedError

    def patch(self, since: int, patches: Patches) -> None:
        """Add the patches that update the element from its state at `since` (`opened_seq <= since`)."""
        raise NotImplementedError

    def shell(self) -> str:
        """The element without what `pieces` then appends."""
        return self.html()

    def pieces(self) -> Iterator[Piece]:
        """The content of the shell in order, as appends of limited size."""
        return iter(())


class Slot(Part):
    """A small element whose content is replaced as a whole."""

    tag: ClassVar[str] = "div"
    classes: ClassVar[str] = ""

    def content(self) -> str:
        raise NotImplementedError

    def html(self) -> str:
        return f'<{self.tag} id="{self.id}" class="{self.classes}">{self.content()}</{self.tag}>'

    def patch(self, since: int, patches: Patches) -> None:
        patches.replace(self.id, self.content())


class Stack(Part):
    """An element to which children are only appended."""

    def __init__(self, id: str, seq: int, *, tag: str = "div", classes: str = "") -> None:
        super().__init__(id, seq)
        self.tag = tag
        self.classes = classes
        self.children: list[Part] = []
        self._opened_seqs: list[int] = []
        # Insertion order is the order of the last change, so a frame looks only at what changed.
        self._by_change: dict[Part, None] = {}

    def add(self, child: Part, seq: int) -> None:
        child.parent = self
        self.children.append(child)
        self._opened_seqs.append(seq)
        self.child_changed(child, seq)

    def child_changed(self, child: Part, seq: int) -> None:
        self._by_change.pop(child, None)
        self._by_change[child] = None
        self.touch(seq)

    def wrap(self, content: str) -> str:
        return f'<{self.tag} id="{self.id}" class="{self.classes}">{content}</{self.tag}>'

    def html(self) -> str:
        return self.wrap("".join(child.html() for child in self.children))

    def shell(self) -> str:
        return self.wrap("")

    def pieces(self) -> Iterator[Piece]:
        for child in self.children:
            html = child.html()
            if len(html) <= PIECE_CHARACTERS:
                yield self.id, html
                continue
            yield self.id, child.shell()
            yield from child.pieces()

    def patch(self, since: int, patches: Patches) -> None:
        for child in self._changed_since(since):
            if child.opened_seq <= since:
                child.patch(since, patches)
        first = bisect_right(self._opened_seqs, since)
        patches.append(self.id, "".join(child.html() for child in self.children[first:]))

    def _changed_since(self, since: int) -> list[Part]:
        changed: list[Part] = []
        for child in reversed(self._by_change):
            if child.changed_seq <= since:
                break
            changed.append(child)
        return changed[::-1]


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


class GrowingText:
    """Growing text as escaped HTML, which knows what was added after any seq."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._seqs: list[int] = []

    def add(self, text: str, seq: int) -> None:
        if text:
            self._texts.append(text)
            self._seqs.append(seq)

    def text(self) -> str:
        return "".join(self._texts)

    def since(self, seq: int) -> str:
        return escape("".join(self._texts[bisect_right(self._seqs, seq) :]), quote=False)


def pieces_of(part: Part, container: str, limit_bytes: int) -> Iterator[Piece]:
    """A part as one piece if it fits, else as its shell and its own pieces."""
    html = part.html()
    if len(html.encode()) <= limit_bytes:
        yield container, html
        return
    yield container, part.shell()
    yield from part.pieces()


def packed(pieces: Iterator[Piece], limit_bytes: int) -> Iterator[str]:
    """Appends, packed into frames of at most ``limit_bytes``. htmx looks up all targets before it changes
    anything, so an element can be appended to only by a frame after the one that brings it."""
    patches, size = Patches(), 0
    brought: list[str] = []
    # Targets that are on the page already; ids are unique, so no later piece contains them.
    present: set[str] = set()
    for target, html in pieces:
        length = len(html.encode())
        is_new = target not in present and any(f'id="{target}"' in one for one in brought)
        if size and (size + length > limit_bytes or is_new):
            yield patches.render()
            patches, size, brought = Patches(), 0, []
            present.clear()
        patches.append(target, html)
        size += length
        brought.append(html)
        present.add(target)
    if size:
        yield patches.render()
