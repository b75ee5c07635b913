"""The leaf in which a growing Markdown text ends: a paragraph, a heading or an entry of a list.

The rest of such a text can be rendered without what stands before it, behind a short text with the
same containers: the skeleton. "1. x" stands for the whole list before the end of its first entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from markdown_it.token import Token

from chat.rendering.markdown.inline import PARAGRAPH, read_line

_ITEM = re.compile(r"( *)(?:[-*+]|(\d{1,9})([.)]))( {1,4})(?=\S)")
_CLOSING = re.compile(r"(?:</(?:p|li|ul|ol|blockquote|h[1-6])>\n?)+\Z")
# The parser has a limit of its own, and knows what to do beyond it.
_MOST_NESTED = 20
_ITEM_TAG = '<li dir="auto">'
# Literal marks that a later one could turn into something else.
_WAITING = re.compile(r"[\\`*~$\[<&|]|(?<![^\W_])_|_(?![^\W_])")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place in the text of a block. ``closing``: the end tags behind it."""

    skeleton: str
    closing: str
    # The entry of a tight list that the leaf is the text of.
    entry: Entry | None = None
    has_lines: bool = True
    # The first number of a list whose entries are not numbered in order: a skeleton does not show how many
    # there are.
    unordered_from: int | None = None

    def begin_line(self, line: str) -> tuple[str, int, Leaf] | None:
        """Begins a further line where its effect is certain: returns the HTML between the lines, the length
        of its mark, and the leaf that it is in."""
        if self.has_lines and PARAGRAPH.match(line):
            return "\n", 0, self
        match = _ITEM.match(line)
        # Brackets may be a task.
        if self.entry is None or match is None or line[match.end()] == "[":
            return None
        if not PARAGRAPH.match(line, match.end()):
            return None
        return self._begin_nested(match) or self._begin_next(match[0])

    def _begin_nested(self, mark: re.Match[str]) -> tuple[str, int, Leaf] | None:
        """A list begins below the text of this entry. Only the number 1 may interrupt a text."""
        entry = self.entry
        if entry is None or len(mark[1]) != len(entry.mark) or mark[2] not in (None, "1"):
            return None
        if entry.depth == _MOST_NESTED:
            return None
        tag = "ul" if mark[2] is None else "ol"
        leaf = replace(
            self,
            skeleton=f"{self.skeleton}\n{mark[0]}x",
            closing=f"</li>\n</{tag}>\n{self.closing}",
            entry=Entry(mark[0], _after(mark[0]), tag, self, entry.depth + 1),
        )
        return f"\n<{tag}>\n{_ITEM_TAG}", mark.end(), leaf

    def _begin_next(self, mark: str) -> tuple[str, int, Leaf] | None:
        """The next entry of this list, or of one around it."""
        leaf, html = self, ""
        while leaf.entry is not None and leaf.entry.next_mark != mark:
            if leaf.entry.parent is None:
                return None
            html += f"</li>\n</{leaf.entry.tag}>\n"
            leaf = leaf.entry.parent
        return (f"{html}</li>\n{_ITEM_TAG}", len(mark), leaf._in_next_entry()) if mark else None

    def _in_next_entry(self) -> Leaf:
        assert self.entry is not None
        mark = self.entry.next_mark
        next_mark = _after(mark) if self.unordered_from is None else mark
        before, newline, _ = self.skeleton.rpartition("\n")
        entry = replace(self.entry, mark=mark, next_mark=next_mark)
        return replace(self, skeleton=f"{before}{newline}{mark}x", entry=entry)

    def is_too_complex(self, line: str) -> bool:
        """Marks at the end of a heading are no part of it."""
        return not self.has_lines and "#" in line

    def behind(self, length: int) -> Leaf:
        """The leaf behind so many characters of a text that begins in this one."""
        if not length or self.skeleton:
            return self
        return replace(self, skeleton=f"{self.entry.mark if self.entry else ''}x")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a tight list: its mark with the spaces around it, the mark of the next one (empty where
    the parser has to decide), the tag of the list, and the entry around it."""

    mark: str
    next_mark: str
    tag: str
    parent: Leaf | None
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a text certainly begins: the length of its first mark, its first tags, and its leaf, which no
    skeleton stands for yet."""

    mark: int
    html: str
    leaf: Leaf


# The leaf of a text of which nothing is known.
START = Leaf("", "</p>")
_PARAGRAPH_BEGINS = Beginning(0, '<p dir="auto">', START)


def beginning_of(text: str) -> Beginning | None:
    if PARAGRAPH.match(text):
        return _PARAGRAPH_BEGINS
    match = _ITEM.match(text)
    is_list = match is not None and not match[1] and match[2] in (None, "1")
    if match is None or not is_list or not PARAGRAPH.match(text, match.end()):
        return None
    if text[match.end()] == "[":
        # Perhaps a task.
        return None
    tag = "ul" if match[2] is None else "ol"
    entry = Entry(match[0], _after(match[0]), tag, None)
    leaf = Leaf("", f"</li>\n</{tag}>", entry)
    return Beginning(match.end(), f"<{tag}>\n{_ITEM_TAG}", leaf)


@dataclass(frozen=True, slots=True)
class Lines:
    """Simple lines as HTML. Text that follows never changes the first ``settled`` characters, which
    ``settled_html`` shows, and after which the text is in ``settled_leaf``."""

    settled_html: str
    html: str
    settled: int
    settled_leaf: Leaf
    leaf: Leaf


def read_lines(text: str, leaf: Leaf, *, has_references: bool) -> Lines | None:
    """The lines that follow in a leaf, without the parser, and without the end tags of the last leaf.
    ``None``: some of it needs the parser."""
    html: list[str] = []
    settled = count = at = 0
    settled_leaf = leaf
    lines = text.rstrip(" \n").split("\n")
    for number, line in enumerate(lines):
        mark = 0
        if number:
            begun = leaf.behind(at).begin_line(line)
            if begun is None or lines[number - 1].endswith(" "):
                return None
            # Nothing can change the line before any more.
            settled, count, settled_leaf = at - 1, len(html), leaf
            between, mark, leaf = begun
            html.append(between)
        read = read_line(line[mark:], has_references=has_references)
        is_last = number == len(lines) - 1
        if read is None or (read.is_open and not is_last) or leaf.is_too_complex(line):
            return None
        html += (read.html[: read.settled_html], read.html[read.settled_html :])
        if read.settled:
            settled, count, settled_leaf = at + mark + read.settled, len(html) - 1, leaf
        at += len(line) + 1
    return Lines(
        "".join(html[:count]), "".join(html[count:]), settled, settled_leaf.behind(settled), leaf
    )


def render_simple(text: str, *, has_references: bool) -> str | None:
    """A paragraph or a tight list of simple lines as HTML, for a fraction of the parser's cost."""
    beginning = beginning_of(text)
    if beginning is None:
        return None
    lines = read_lines(text[beginning.mark :], beginning.leaf, has_references=has_references)
    if lines is None:
        return None
    return f"{beginning.html}{lines.settled_html}{lines.html}{lines.leaf.closing}"


def _after(mark: str) -> str:
    """The mark of the entry after the one with this mark."""
    match = _ITEM.match(f"{mark}x")
    if match is None or match[2] is None:
        return mark
    number = int(match[2]) + 1
    # A list says how long its numbers are, in its first tag.
    is_longer = number >= 100 and len(str(number)) > len(match[2])
    return "" if is_longer else f"{match[1]}{number}{match[3]}{match[4]}"


def without_closing(html: str) -> str:
    """HTML up to the end of its last text."""
    return _CLOSING.sub("", html)


def leaf_at_end(text: str, tokens: list[Token], closing: str) -> Leaf | None:
    """The leaf that the text ends in, if nothing in it waits for its other end. ``closing``: the end
    tags behind it in the HTML."""
    last = next((at for at in reversed(range(len(tokens))) if tokens[at].type == "inline"), 0)
    if not last or any(token.nesting >= 0 for token in tokens[last + 1 :]):
        return None
    block = tokens[last - 1]
    literal = (token.content for token in tokens[last].children or () if token.type == "text")
    if block.type not in ("paragraph_open", "heading_open") or _WAITING.search(" ".join(literal)):
        return None
    around = _containers(tokens[: last - 1])
    if block.type == "heading_open":
        skeleton = f"{block.markup} x"
        return Leaf(skeleton, closing, has_lines=False) if not around else None
    if not around:
        return Leaf("x", closing)
    if [tokens[at].type for at in around] == ["blockquote_open"]:
        return Leaf("> x", closing)
    return _leaf_in_lists(text.split("\n"), tokens, around, closing)


def _containers(tokens: list[Token]) -> list[int]:
    """The indexes of the tokens that open the elements around what follows."""
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.nesting > 0:
            opened.append(at)
        elif token.nesting < 0:
            opened.pop()
    return opened


def _leaf_in_lists(
    lines: list[str], tokens: list[Token], around: list[int], closing: str
) -> Leaf | None:
    skeleton: list[str] = []
    mark = known_closing = ""
    leaf: Leaf | None = None
    unordered_from: int | None = None
    has_loose = is_loose = False
    before = -1
    for opened, item in zip(around[::2], around[1::2], strict=False):
        line = (tokens[item].map or [0])[0]
        match = _ITEM.match(lines[line])
        looseness = _is_loose(tokens, opened)
        is_item = tokens[item].type == "list_item_open" and len(around) % 2 == 0
        if match is None or line == before or looseness is None or not is_item:
            return None
        before, mark, is_loose = line, match[0], looseness
        has_loose = has_loose or is_loose
        next_mark = _after(mark)
        if not _is_numbered_in_order(tokens, opened, item):
            unordered_from = max(unordered_from or 0, _first_number(tokens[opened]))
            next_mark = mark
        skeleton += [f"{mark}x", ""] if is_loose else [f"{mark}x"]
        tag = tokens[opened].tag
        known_closing = f"</li>\n</{tag}>" + (f"\n{known_closing}" if known_closing else "")
        entry = Entry(mark, next_mark, tag, leaf, len(skeleton))
        leaf = Leaf("\n".join(skeleton), known_closing, entry, unordered_from=unordered_from)
    if is_loose:
        # The next paragraph of the same entry.
        skeleton.append(" " * len(mark) + "x")
    if leaf is None or has_loose or known_closing != closing:
        return Leaf("\n".join(skeleton), closing, unordered_from=unordered_from)
    return leaf


def _is_loose(tokens: list[Token], opened: int) -> bool | None:
    """True if the entries of a list are paragraphs; None if none of them has begun with text."""
    level = tokens[opened].level + 2
    inside = (t for t in tokens[opened:] if t.type == "paragraph_open" and t.level == level)
    return next((not paragraph.hidden for paragraph in inside), None)


def _is_numbered_in_order(tokens: list[Token], opened: int, item: int) -> bool:
    if tokens[opened].type != "ordered_list_open":
        return True
    level = tokens[item].level
    inside = tokens[opened : item + 1]
    count = sum(token.type == "list_item_open" and token.level == level for token in inside)
    return int(tokens[item].info) == _first_number(tokens[opened]) + count - 1


def _first_number(opened: Token) -> int:
    return int(opened.attrs.get("start", 1))
