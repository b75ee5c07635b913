"""Blocks of growing Markdown: those that are closed, and the open one at the end."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from markdown_it.common.utils import unescapeAll

from chat.rendering.markdown.extensions import DEFINITION, open_formula
from chat.rendering.markdown.html import CODE_CLOSE, fence_open
from chat.rendering.markdown.open_html import OpenHtml
from chat.rendering.markdown.parser import References, Scope
from chat.rendering.markdown.renderer import (
    Outline,
    Span,
    closes_fence,
    outline,
    render_block,
    render_marked,
    render_whole,
)
from chat.rendering.markdown.rows import render_table
from chat.rendering.parts import GrowingText
from chat.rendering.safety import reveal

# Blocks per section: the browser skips layout and paint of the sections that nobody sees.
SECTION_BLOCKS = 40
# A longer open block is divided: the browser morphs all of an element whose end changes, and a block that
# the parser has to read as a whole takes 3 ms at this length.
OPEN_CHARACTERS = 4096
# A tail of this length is searched although no line looks like its end.
FIRST_SEARCH = 4 * OPEN_CHARACTERS
# The growth of a long tail after a vain search before the next one: four times the text then costs
# four times the searching.
GROWTH = 2**0.5
# A short tail is searched in vain this often before it must grow as well: its lines may be of one
# letter each, and look like the beginning of something else.
VAIN_SEARCHES = 8

# The kind of a tail in which a displayed formula is not closed yet.
OPEN_FORMULA = "open_formula"

_LIST_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_BLOCK_START = re.compile(r" {0,3}(?:#|>|[-*+_=|]|\d{1,9}[.)]|```|~~~|\$\$|\\\[)")
_FORMULA_END = re.compile(r"(?:\$\$|\\\])\s*$")

# Something of ours in the text: the place in its source, in characters, and the HTML.
Mark = tuple[int, str]


class Block:
    """A closed top-level block. It drops its source once it is HTML, because a live answer has
    hundreds."""

    __slots__ = ("_html", "_origin")

    def __init__(self, source: str, scope: Scope, marks: Sequence[Mark] = ()) -> None:
        self._origin: tuple[str, Scope, Sequence[Mark]] | None = source, scope, marks
        self._html = ""

    @property
    def html(self) -> str:
        origin = self._origin
        if origin is not None:
            source, scope, marks = origin
            self._html, self._origin = _render(source, scope, marks), None
        return self._html


def _render(source: str, scope: Scope, marks: Sequence[Mark]) -> str:
    if marks:
        return render_marked(source, scope, list(marks))
    table = render_table(source, scope) if scope.marks is None else None
    return table if table is not None else render_block(source, scope)


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


class OpenBlock:
    """The unfinished tail: the source of the last block and whatever follows it.

    ``settled`` is the front of a long one, shown in parts that do not change while it grows;
    ``html`` shows the rest.
    """

    def __init__(self, scope: Scope, text: str = "", kind: str = "", markup: str = "") -> None:
        self._scope = scope
        self.settled: list[str] = []
        self.loose: list[str] = [text] if text else []
        self.html = self._open_html(text)
        self.length = self.loose_length = len(text)
        self.kind = kind
        self.markup = markup
        self.next_search = FIRST_SEARCH
        # A short tail is not searched before it is as long as that.
        self.next_short_search = 0
        self.vain_searches = 0
        self.has_failed = False

    def _open_html(self, text: str, head: str = "") -> OpenHtml:
        scope = self._scope
        html = OpenHtml(scope, lambda source: render_part(source, scope.fork()), head)
        html.add(text)
        return html

    def add(self, text: str) -> None:
        self.loose.append(text)
        self.html.add(text)
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
        """Returns whether a line looks like the beginning of another block. A wrong no only delays."""
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
        if self.kind == "table_open" and line.startswith("|"):
            return False
        if self.kind in ("paragraph_open", "table_open"):
            return is_after_blank or _BLOCK_START.match(line) is not None
        return True

    def _continues_list(self, line: str) -> bool:
        match = _LIST_ITEM.match(line)
        return match is not None and match.group().rstrip().endswith(self.markup)

    def settle(self) -> tuple[str, OpenHtml]:
        """Moves the front of the loose text over to the settled one. Returns it and its HTML."""
        text = self.loose_text()
        cut = self._cut(text)
        front, html = text[:cut], self.html
        html.cut(len(text) - cut)
        self.settled.append(front)
        self.loose = [text[cut:]]
        self.loose_length = len(text) - cut
        # The rows of a table get its head before them.
        rows_below = self.kind == "table_open"
        head = "\n".join([*self.settled[0].split("\n", 2)[:2], ""]) if rows_below else ""
        self.html = self._open_html(text[cut:], head)
        return front, html

    def _cut(self, text: str) -> int:
        """A good place to divide the loose text."""
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


def render_part(text: str, scope: Scope) -> str:
    """The beginning of some blocks, each rendered by itself."""
    if not text.strip():
        return ""
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
