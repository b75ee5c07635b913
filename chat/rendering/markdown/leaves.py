"""Where a growing Markdown text ends: in a paragraph, a heading or an entry of a list.

The rest of such a text can be rendered without what stands before it, behind a short text with the
same containers: the skeleton. "1. x" stands for the whole list before the end of its first entry.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from markdown_it.token import Token

from chat.rendering.markdown.inline import PARAGRAPH
from chat.rendering.markdown.parser import References
from chat.rendering.markdown.renderer import render_growing

_ITEM = re.compile(r"( *)(?:[-*+]|(\d{1,9})([.)]))( {1,4})(?=\S)")
_CLOSING = re.compile(r"(?:</(?:p|li|ul|ol|blockquote|h[1-6])>\n?)+\Z")
_NEXT_ITEM = '</li>\n<li dir="auto">'
# Literal marks that a later one could turn into something else.
_WAITING = re.compile(r"[\\`*~$\[<&|]|(?<![^\W_])_|_(?![^\W_])")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place in the text of a block. ``closing``: the end tags behind it. ``next_item``: the mark with
    which a line begins the next entry of the same list; empty where the parser has to decide."""

    skeleton: str
    closing: str
    next_item: str = ""
    has_lines: bool = True
    # The first number of a list whose entries are not numbered in order: a skeleton does not show how many
    # there are.
    unordered_from: int | None = None

    def begin_line(self, line: str) -> "tuple[str, int, Leaf] | None":
        """What a further line does, if it is certain: the HTML between the lines, the length of its
        mark, and the leaf that it is in."""
        if self.next_item and line.startswith(self.next_item):
            content = line[len(self.next_item) :]
            # Brackets may be a task.
            if PARAGRAPH.match(content) and content[0] != "[":
                return _NEXT_ITEM, len(self.next_item), self._in_next_item()
        if self.has_lines and PARAGRAPH.match(line):
            return "\n", 0, self
        return None

    def is_too_complex(self, line: str) -> bool:
        """Marks at the end of a heading are no part of it."""
        return not self.has_lines and "#" in line

    def behind(self, length: int) -> "Leaf":
        """The leaf after so many characters of the paragraph that it is the beginning of."""
        return IN_PARAGRAPH if length and not self.skeleton else self

    def _in_next_item(self) -> "Leaf":
        before = self.skeleton.rpartition("\n")[0]
        skeleton = f"{before}\n{self.next_item}x" if before else f"{self.next_item}x"
        is_in_order = self.unordered_from is None
        next_item = _after(self.next_item) if is_in_order else self.next_item
        return replace(self, skeleton=skeleton, next_item=next_item)


# The beginning of a text, which no skeleton stands for.
START = Leaf("", "</p>")
IN_PARAGRAPH = Leaf("x", "</p>")


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


@lru_cache(maxsize=256)
def before_rest(skeleton: str) -> str:
    """The HTML of a skeleton, up to where the rest continues it."""
    rendered = render_growing(skeleton, References().scope())
    return without_closing(rendered.html) if rendered else ""


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
    """Where the elements begin that are open behind these tokens."""
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
    mark = ""
    is_loose: bool | None = False
    before = -1
    unordered_from: int | None = None
    for opened, item in zip(around[::2], around[1::2], strict=False):
        line = (tokens[item].map or [0])[0]
        match = _ITEM.match(lines[line])
        is_loose = _is_loose(tokens, opened)
        is_item = tokens[item].type == "list_item_open" and len(around) % 2 == 0
        if match is None or line == before or is_loose is None or not is_item:
            return None
        if not _is_numbered_in_order(tokens, opened, item):
            unordered_from = max(unordered_from or 0, _first_number(tokens[opened]))
        before, mark = line, match[0]
        skeleton += [f"{mark}x", ""] if is_loose else [f"{mark}x"]
    if is_loose:
        # The next paragraph of the same entry.
        skeleton.append(" " * len(mark) + "x")
    next_item = "" if is_loose else mark if unordered_from is not None else _after(mark)
    return Leaf("\n".join(skeleton), closing, next_item, unordered_from=unordered_from)


def _is_loose(tokens: list[Token], opened: int) -> bool | None:
    """Whether the entries of a list are paragraphs; None if none of them has begun with text."""
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
