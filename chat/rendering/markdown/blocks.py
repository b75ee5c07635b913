"""Blocks of growing Markdown: those that are closed, and the open one at the end."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from markdown_it.common.utils import unescapeAll

from chat.rendering.markdown.extensions import DEFINITION, open_formula
from chat.rendering.markdown.html import CODE_CLOSE, fence_open
from chat.rendering.markdown.parser import References, Scope
from chat.rendering.markdown.renderer import (
    Outline,
    Span,
    begins_words,
    closes_fence,
    is_words,
    outline,
    render_block,
    render_marked,
    render_whole,
)
from chat.rendering.parts import GrowingText
from chat.rendering.safety import reveal

# Blocks per section: the browser skips layout and paint of the sections that nobody sees.
SECTION_BLOCKS = 40
# The open block is rendered again as a whole with every frame up to here (3 ms of Markdown).
OPEN_CHARACTERS = 4096
# How much a long tail must grow before it is searched again in vain. The fourth root of four:
# four times the text then costs four times the searching, whatever the length.
GROWTH = 2**0.5
# A short tail is searched in vain so often before it must grow as well: its lines may be of one
# letter each, and look like the beginning of something else.
VAIN_SEARCHES = 8

# The kind of a tail in which a displayed formula is not closed yet.
OPEN_FORMULA = "open_formula"

_LIST_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_BLOCK_START = re.compile(r" {0,3}(?:#|>|[-*+_=|]|\d{1,9}[.)]|```|~~~|\$\$|\\\[)")
_FORMULA_END = re.compile(r"(?:\$\$|\\\])\s*$")
MARKS_ONLY = re.compile(r"[ \t]*[-=*_+#>|:`~]+[ \t]*")


# Something of ours in the text: the place in its source, in characters, and the HTML.
Mark = tuple[int, str]


class Block:
    """A closed top-level block. Once it is HTML it forgets what it was made from: a live answer has
    hundreds of them."""

    __slots__ = ("_html", "_origin")

    def __init__(self, source: str, scope: Scope, marks: Sequence[Mark] = ()) -> None:
        self._origin: tuple[str, Scope, Sequence[Mark]] | None = source, scope, marks
        self._html = ""

    @property
    def html(self) -> str:
        origin = self._origin
        if origin is not None:
            source, scope, marks = origin
            made = (
                render_marked(source, scope, list(marks)) if marks else render_block(source, scope)
            )
            self._html, self._origin = made, None
        return self._html


class Fence:
    """An open code block: its lines are shown as they come, highlighted only when it closes."""

    def __init__(self, opening: str, markup: str, seq: int) -> None:
        self.opened_seq = seq
        self.markup = markup
        self.source = [opening, "\n"]
        self.length = len(opening) + 1
        self.shown = GrowingText()
        self._indent = len(opening) - len(opening.lstrip(" "))
        self.label = reveal(unescapeAll(opening.strip()[len(markup) :]).strip())
        # The beginning of a line that may yet turn out to be the closing one.
        self._held = ""
        self._is_line_shown = False

    def feed(self, text: str, seq: int) -> str | None:
        """Take text; when the block closes, what is left of it, else None."""
        while text:
            line, newline, rest = text.partition("\n")
            if self._feed_line(line, newline, seq):
                return rest
            text = rest
        return None

    def _feed_line(self, text: str, newline: str, seq: int) -> bool:
        """Take a line or a part of one. True when this completed the closing line."""
        self.source += (text, newline)
        self.length += len(text) + len(newline)
        if self._is_line_shown:
            self.shown.add(reveal(text) + newline, seq)
            self._is_line_shown = not newline
            return False
        line = self._held + text
        if newline and closes_fence(line, self.markup):
            return True
        self._held = "" if newline or not self._may_close(line) else line
        if not self._held:
            self.shown.add(reveal(self._without_indent(line)) + newline, seq)
            self._is_line_shown = bool(line) and not newline
        return False

    def _may_close(self, line: str) -> bool:
        stripped = line.lstrip(" ")
        return len(line) - len(stripped) <= 3 and not stripped.rstrip(" \t").strip(self.markup[0])

    def _without_indent(self, line: str) -> str:
        spaces = len(line) - len(line.lstrip(" "))
        return line[min(spaces, self._indent) :]

    def html(self, id: str, text: str) -> str:
        return f'{fence_open(self.label)}<code id="{id}">{text}</code>{CODE_CLOSE}'


class Words:
    """An open paragraph while it is words alone: what comes is appended, nothing rendered anew."""

    def __init__(self) -> None:
        # The event since which it is on the page; 0 before its first letter.
        self.opened_seq = 0
        self.shown = GrowingText()

    def take(self, text: str, seq: int) -> bool:
        """False when it is something else than words, and for good."""
        if not self.opened_seq:
            text = text.lstrip("\n")
            if text and not begins_words(text):
                return False
        if not is_words(text):
            return False
        if text and not self.opened_seq:
            self.opened_seq = seq
        self.shown.add(text, seq)
        return True


class OpenBlock:
    """The unfinished tail: the source of the last block and whatever follows it.

    ``settled`` is the front of a long one, shown in parts that are not rendered again while it
    grows; ``loose`` is the rest, rendered with every frame.
    """

    def __init__(self, text: str = "", kind: str = "", markup: str = "") -> None:
        self.settled: list[str] = []
        self.loose: list[str] = [text] if text else []
        self.length = self.loose_length = len(text)
        self.kind = kind
        self.markup = markup
        self.next_search = OPEN_CHARACTERS
        # A short tail is not searched before it is as long as that.
        self.next_short_search = 0
        self.vain_searches = 0
        self.has_failed = False

    def add(self, text: str) -> None:
        self.loose.append(text)
        self.length += len(text)
        self.loose_length += len(text)

    def loose_text(self) -> str:
        if len(self.loose) > 1:
            self.loose = ["".join(self.loose)]
        return self.loose[0] if self.loose else ""

    def text(self) -> str:
        return "".join(self.settled) + self.loose_text()

    def search_failed(self) -> None:
        self.vain_searches += 1
        if self.length > OPEN_CHARACTERS:
            self.has_failed = True
            self.next_search = int(self.length * GROWTH)
        elif self.vain_searches >= VAIN_SEARCHES:
            self.next_short_search = int(self.length * GROWTH)

    def may_end(self, line: str, is_after_blank: bool) -> bool:
        """Whether a line looks like the beginning of another block. A wrong no only delays."""
        if not line or line.isspace():
            return False
        if self.kind in ("bullet_list_open", "ordered_list_open"):
            return line[0] not in " \t" and not self._continues_list(line)
        if self.kind in (DEFINITION, "code_block") and line.startswith(("    ", "\t")):
            return False
        if self.kind == "blockquote_open":
            return is_after_blank or not line.lstrip(" ").startswith(">")
        if self.kind == OPEN_FORMULA:
            return is_after_blank or _FORMULA_END.search(line) is not None
        if self.kind in ("paragraph_open", "table_open"):
            return is_after_blank or _BLOCK_START.match(line) is not None
        return True

    def _continues_list(self, line: str) -> bool:
        match = _LIST_ITEM.match(line)
        return match is not None and match.group().rstrip().endswith(self.markup)

    def settle(self) -> str:
        """Move the front of the loose text over to the settled one; give what was moved."""
        text = self.loose_text()
        cut = self._cut(text)
        self.settled.append(text[:cut])
        self.loose = [text[cut:]]
        self.loose_length = len(text) - cut
        return text[:cut]

    def _cut(self, text: str) -> int:
        """A place where the loose text reads well when it is torn apart."""
        if self.kind in ("bullet_list_open", "ordered_list_open"):
            starts = [m.start() for m in re.finditer(rf"^{_LIST_ITEM.pattern}", text, re.MULTILINE)]
            if starts and starts[-1] > 0:
                return starts[-1]
        return text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)


class Whole:
    """A block of a text that is complete: it has its HTML from the text as a whole."""

    def __init__(self, html: str) -> None:
        self.html = html


def closed_blocks(text: str, prefix: str, marks: Sequence[Mark] = ()) -> list[Whole]:
    """The blocks of a text that is complete, with marks, each in the block before its place."""
    references = References()
    found = outline(text, references.scope())
    starts = [0, *accumulate(len(line) + 1 for line in found.lines)]
    # The definition of a note may move.
    hosts = [span for span in found.spans if span.kind != DEFINITION] or found.spans
    begins = [starts[span.start] for span in hosts]
    own: dict[Span, list[Mark]] = {span: [] for span in hosts}
    for offset, html in sorted(marks):
        number = max(bisect_left(begins, offset) - 1, 0)
        if begins:
            own[hosts[number]].append((offset - begins[number], html))

    def render(span: Span, scope: Scope) -> str:
        return Block(found.source(span), scope, own.get(span, ())).html

    return [Whole(html) for html in render_whole(found, references, prefix, render)]


def render_part(text: str, block: OpenBlock, scope: Scope) -> str:
    """A piece of an open block by itself; a table's rows get their head before them."""
    if not text.strip():
        return ""
    if block.kind == "table_open" and block.settled:
        text = "\n".join([*block.settled[0].split("\n", 2)[:2], text])
    found = outline(text, scope)
    formula = "\n".join(found.lines[found.sure_lines :])
    if not formula.startswith(("$$", "\\[")):
        return _render_spans(found, scope)
    before = outline("\n".join(found.lines[: found.sure_lines]), scope)
    return _render_spans(before, scope) + open_formula(formula)


def _render_spans(found: Outline, scope: Scope) -> str:
    for _, label, definition in found.definitions:
        scope[label] = definition
    return "".join(render_block(found.source(span), scope) for span in found.spans)
