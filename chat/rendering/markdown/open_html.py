"""HTML of the block that is being written: each change costs what came, not what is there.

The HTML is always the one that `render_part` gives for the whole source. Its beginning is frozen up to
a place in a paragraph, an entry of a list or behind a row, where nothing waits for its other end. Only
the rest is rendered again: by `read_line` where it is simple, else by the parser behind a skeleton
(`leaves`), else with everything before it. Every step checks what it can, and a property test the rest.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from chat.rendering.markdown.inline import PLAIN
from chat.rendering.markdown.leaves import (
    START,
    Leaf,
    beginning_of,
    leaf_at_end,
    read_lines,
    without_closing,
)
from chat.rendering.markdown.parser import References, Scope
from chat.rendering.markdown.renderer import Rendered, render_growing
from chat.rendering.markdown.rows import BODY, CLOSING, CLOSING_OF_BODY, Rows
from chat.rendering.parts import common_length, utf16_length

# "-" may become a list item, a rule, or turn the paragraph into a heading.
MARKS_ONLY = re.compile(r"[ \t]*[-=*_+#>|:`~]+[ \t]*")
# A word in front of a space that stands before further text.
_WORD_BEFORE_MORE = re.compile(rf"(?:^|(?<=\s)){PLAIN}*[^\W_][,.;!?)]?(?= +[^\s])")
# Text that only adds to a paragraph, wherever it stands: without marks, addresses and lines. "#" ends a heading.
_ADDED_WORDS = re.compile(rf"(?:(?!#){PLAIN}| )+")
_LAST_WORD = re.compile(rf"(?:^|\s)({PLAIN}*[^\W_])( *)\Z")
# Readers of the changes are hardly ever further behind.
_MOST_CHANGES = 8
# A text has to grow by this factor after a vain attempt to freeze more of it.
_GROWTH = 1.5


@dataclass(frozen=True, slots=True)
class Frozen:
    """HTML that does not change any more, where its source begins, and the leaf that it begins in."""

    html: str
    begin: int
    leaf: Leaf | None


class OpenHtml:
    """The HTML of a growing source. ``render``: the whole source as HTML, which is what this gives.

    ``head``: what is put before the source, such as the head of a table that goes on with it."""

    def __init__(self, scope: Scope, render: Callable[[str], str], head: str = "") -> None:
        self._scope = scope
        self._render = render
        self._frozen: list[Frozen] = []
        self._frozen_length = self._frozen_units = 0
        # The place where the source of the rest begins, and the number of list entries before it.
        self._at = self._items = 0
        self._shown = ""
        # The source: all of it in pieces, and what stands behind the frozen part.
        self._source: list[str] = [head] if head else []
        self._rest = head
        self._news: list[str] = []
        self._leaf: Leaf | None = None
        self._rows: Rows | None = None
        self._has_body = False
        self._next_attempt = 0
        # Spaces at the end of the source, if words behind them are added to the text as they are, and the end
        # tags behind that text. All of a plain rest is words.
        self._spaces: str | None = None
        self._closing = ""
        self._is_plain = False
        # How much of the version before each of the last ones it kept.
        self._kept: list[tuple[int, int]] = []
        self.version = 0

    # --- the source -------------------------------------------------------------------------

    def add(self, text: str) -> None:
        self._news.append(text)
        self._source.append(text)

    def cut(self, end: int) -> None:
        """Takes the last ``end`` characters from the source, because another element goes on."""
        source = "".join(self._source)
        length = len(source) - end
        self._source, self._news, self._spaces = [source[:length]], [""], None
        if self._at > length and self._rows is not None:
            self._begin_again()
        while self._at > length:
            last = self._frozen.pop()
            self._at, self._leaf = last.begin, last.leaf
            self._frozen_length -= len(last.html)
            self._frozen_units -= utf16_length(last.html)
            self._items -= last.html.count("<li")
        self._rest = source[self._at : length]

    def close(self) -> None:
        """Nobody asks for HTML of the latest text any more, only for what pages hold of this."""
        self._news = []

    @property
    def unsettled_length(self) -> int:
        """Characters that each change renders again."""
        return len(self._rest)

    # --- the HTML ---------------------------------------------------------------------------

    def html(self) -> str:
        return self.html_from(0)

    def html_from(self, start: int) -> str:
        """The HTML without its first ``start`` characters."""
        self._update()
        at = self._frozen_length
        pieces = [self._shown[max(start - at, 0) :]]
        for frozen in reversed(self._frozen):
            if at <= start:
                break
            at -= len(frozen.html)
            pieces.append(frozen.html[max(start - at, 0) :])
        return "".join(reversed(pieces))

    def kept_since(self, version: int) -> tuple[int, int]:
        """The length of a version's HTML that is still there, in characters and in UTF-16 code units."""
        self._update()
        count = self.version - version
        if not count:
            units = self._frozen_units + utf16_length(self._shown)
            return self._frozen_length + len(self._shown), units
        # Both lengths of a pair are of the same place, so the smallest pair is the smallest in both.
        return min(self._kept[-count:]) if count <= len(self._kept) else (0, 0)

    def _update(self) -> None:
        if not self._news:
            return
        news = "".join(self._news)
        self._news = []
        self._rest += news
        if self._spaces is not None and _ADDED_WORDS.fullmatch(news):
            self._add_words(self._spaces + news)
            return
        frozen, count = self._frozen, len(self._frozen)
        length, units, old = self._frozen_length, self._frozen_units, self._shown
        self._spaces = None
        self._shown = self._render_rest()
        if self._frozen is frozen:
            new = _join(frozen[count:], self._shown)
        else:
            # Everything was rendered again.
            length = units = 0
            old, new = _join(frozen[:count], old), _join(self._frozen, self._shown)
        kept = common_length(old, new)
        if kept < len(old) or kept < len(new):
            self._note_change(length + kept, units + utf16_length(old[:kept]))

    def _note_change(self, kept: int, kept_units: int) -> None:
        self.version += 1
        self._kept.append((kept, kept_units))
        if len(self._kept) > 2 * _MOST_CHANGES:
            del self._kept[:_MOST_CHANGES]

    # --- rendering ----------------------------------------------------------------------------

    def _render_rest(self) -> str:
        if self._rows is not None:
            shown = self._render_rows(self._rows)
        else:
            shown = self._render_lines()
            if shown is None and self._leaf is not None:
                shown = self._render_behind(self._leaf)
            if shown is not None and self._may_have_long_numbers(shown):
                return self._render_all(freezes=False)
        return shown if shown is not None else self._render_all()

    def _may_have_long_numbers(self, shown: str) -> bool:
        """The first tag of a list says when its numbers have three digits."""
        first = self._leaf.unordered_from if self._leaf is not None else None
        return first is not None and first + self._items + shown.count("<li") > 99

    def _freeze(self, html: str, length: int) -> None:
        """Freezes HTML that follows what is frozen, and drops the source of it."""
        if html:
            self._frozen.append(Frozen(html, self._at, self._leaf))
            self._frozen_length += len(html)
            self._frozen_units += utf16_length(html)
            self._items += html.count("<li")
        self._rest = self._rest[length:]
        self._at += length
        self._next_attempt = 0

    def _begin_again(self) -> None:
        self._frozen, self._frozen_length, self._frozen_units = [], 0, 0
        self._rest = "".join(self._source)
        self._source = [self._rest]
        self._at = self._items = 0
        self._leaf = self._rows = None

    def _render_all(self, *, freezes: bool = True) -> str:
        self._begin_again()
        text = _visible(self._rest)
        rendered = render_growing(text, self._scope) if text.strip() else None
        if rendered is None:
            return self._render(text)
        shown = None
        if freezes:
            shown = self._settled(text, rendered, START) or self._in_table(text, rendered)
        if shown is None:
            shown = rendered.html
            self._note_last_word(shown)
        return shown

    # Simple lines.

    def _render_lines(self) -> str | None:
        leaf = self._leaf or self._begin()
        if leaf is None:
            return None
        has_references = self._scope.has_references
        lines = read_lines(_visible(self._rest), leaf, has_references=has_references)
        if lines is None:
            return None
        self._leaf = leaf
        self._freeze(lines.settled_html, lines.settled)
        self._leaf = lines.settled_leaf
        text = self._rest.rstrip(" ")
        if lines.html == text and _ADDED_WORDS.fullmatch(self._rest):
            self._spaces, self._is_plain = self._rest[len(text) :], True
            self._closing = lines.leaf.closing
        return lines.html + lines.leaf.closing

    def _begin(self) -> Leaf | None:
        self._begin_again()
        text = self._rest.lstrip("\n")
        beginning = beginning_of(text)
        if beginning is None:
            return None
        self._freeze(beginning.html, len(self._rest) - len(text) + beginning.mark)
        return beginning.leaf

    # HTML that the parser renders behind a skeleton.

    def _render_behind(self, leaf: Leaf) -> str | None:
        before = before_rest(leaf.skeleton)
        text = _visible(leaf.skeleton + self._rest)
        rendered = render_growing(text, self._scope) if before else None
        if rendered is None or not rendered.html.startswith(before):
            return None
        shown = self._settled(text, rendered, leaf) or rendered.html[len(before) :]
        self._note_last_word(shown)
        return shown

    def _settled(self, text: str, rendered: Rendered, leaf: Leaf) -> str | None:
        """Freezes as much as possible. Returns the HTML of the rest. ``text`` begins with the
        skeleton of the leaf."""
        skeleton = len(leaf.skeleton)
        line = text.rfind("\n") + 1
        ends = [found.end() for found in _WORD_BEFORE_MORE.finditer(text, max(line, skeleton))]
        if not ends or ends[-1] <= skeleton or len(text) < self._next_attempt:
            return None
        front = text[: ends[-1]]
        before = before_rest(leaf.skeleton) if skeleton else ""
        settled = render_growing(front, self._scope)
        html = without_closing(settled.html) if settled is not None else ""
        is_beginning = html.startswith(before) and rendered.html.startswith(html)
        found = None
        if settled is not None and is_beginning and html.endswith(front[-1]):
            found = leaf_at_end(front, settled.tokens, settled.html[len(html) :])
        if found is None or not before_rest(found.skeleton):
            self._next_attempt = int(len(text) * _GROWTH)
            return None
        self._freeze(html[len(before) :], len(front) - skeleton)
        self._leaf = found
        return rendered.html[len(html) :]

    # Words, which are most of what comes, are added to the text before them without reading it again.

    def _note_last_word(self, shown: str) -> None:
        """Lets words be added to a text that waits for something, after a vain attempt to freeze more."""
        last_line = self._rest[self._rest.rfind("\n") + 1 :]
        word = _LAST_WORD.search(last_line) if self._next_attempt else None
        text = without_closing(shown)
        if word is not None and any(map(str.isalpha, last_line)) and text.endswith(word[1]):
            self._spaces, self._is_plain = word[2], False
            self._closing = shown[len(text) :]

    def _add_words(self, words: str) -> None:
        added = words.rstrip(" ")
        self._spaces = words[len(added) :]
        text = self._shown[: len(self._shown) - len(self._closing)]
        kept, units = self._frozen_length + len(text), self._frozen_units + utf16_length(text)
        text += added
        place = text.rfind(" ") if self._is_plain else 0
        if place > 0:
            self._freeze(text[:place], place)
            self._leaf = self._leaf and self._leaf.behind(place)
            text = text[place:]
        self._shown = text + self._closing
        if added:
            self._note_change(kept, units)

    # Tables.

    def _in_table(self, text: str, rendered: Rendered) -> str | None:
        """Goes on row by row if the text ends in a table with a complete head."""
        opened = next(
            (t for t in reversed(rendered.tokens) if t.level == 0 and t.nesting > 0), None
        )
        lines = text.split("\n")
        start = opened.map[0] if opened is not None and opened.map else 0
        if opened is None or opened.type != "table_open" or len(lines) <= start + 2:
            return None
        head = "\n".join(lines[start : start + 2])
        body = rendered.html.rfind(BODY)
        front = rendered.html[:body] if body >= 0 else rendered.html.removesuffix(CLOSING)
        self._freeze(front, sum(len(line) + 1 for line in lines[: start + 2]))
        self._has_body = False
        self._rows = Rows(head, self._scope)
        shown = self._render_rows(self._rows)
        if shown is None or _join(self._frozen, shown) != rendered.html:
            self._begin_again()
            return None
        return shown

    def _render_rows(self, rows: Rows) -> str | None:
        *complete, last = self._rest.split("\n")
        html = rows.add(complete)
        is_shown = bool(last.strip()) and not MARKS_ONLY.fullmatch(last)
        row = rows.render(last) if is_shown else ""
        if html is None or row is None:
            return None
        if html:
            begin = "" if self._has_body else BODY
            self._has_body = True
            self._freeze(begin + html, len(self._rest) - len(last))
        if self._has_body:
            return row + CLOSING_OF_BODY
        return f"{BODY}{row}{CLOSING_OF_BODY}" if row else CLOSING


@lru_cache(maxsize=256)
def before_rest(skeleton: str) -> str:
    """The HTML of a skeleton, up to where the rest continues it."""
    rendered = render_growing(skeleton, References().scope())
    return without_closing(rendered.html) if rendered else ""


def _join(frozen: list[Frozen], shown: str) -> str:
    return "".join([*(one.html for one in frozen), shown])


def _visible(text: str) -> str:
    """A text without a last line that has not said yet what it is."""
    before, newline, line = text.rpartition("\n")
    return before if newline and MARKS_ONLY.fullmatch(line) else text
