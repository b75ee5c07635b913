"""The text of HTML for a model: headings, paragraphs, lists, tables and links, without scripts.

Child processes run it: deep nesting costs a parser time in proportion to its square, and only a process can be limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import BinaryIO
from urllib.parse import urljoin

import msgspec
import nh3

from chat.documents.readers import encodings
from chat.documents.readers.form import Order, Page

_HIDDEN = {"script", "style", "template", "svg", "math", "iframe", "object", "canvas", "video"}
# Elements that pages of the web have beside their text.
_BESIDE = {
    *("noscript", "nav", "footer", "aside", "form", "button", "select", "textarea", "dialog"),
    "menu",
}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_BLOCKS = {
    *("p", "div", "section", "article", "main", "header", "blockquote", "pre", "figure"),
    *("figcaption", "table", "tr", "ul", "ol", "dl", "dt", "dd", "address", "hr", "title"),
    *_HEADINGS,
}
_MAIN = ("main", "article")
_LISTS = ("ul", "ol")
_CELLS = ("td", "th")
_KEPT = {*_BLOCKS, *_CELLS, "a", "li", "br", "code"}
# The main part is the page if it has at least these characters.
_LEAST_MAIN = 200
_LINK_CHARACTERS = 500
# The declaration is within these bytes of a page (HTML Standard, 4.2.5.4).
_DECLARATION_BYTES = 1024
_DECLARATION = re.compile(
    rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadablePage:
    title: str
    text: str


# --- files -----------------------------------------------------------------------------------------


def prime() -> None:
    whole("<p>")


def read(file: BinaryIO, order: Order) -> Iterator[Page]:
    body = file.read()
    declared = _DECLARATION.search(body[:_DECLARATION_BYTES])
    html = encodings.decode(body, declared=declared[1].decode() if declared else "")
    yield Page(text=whole(html))


def whole(html: str) -> str:
    """All text of a page that somebody has chosen, below its title."""
    reader = _Reader("")
    reader.feed(_cleaned(html, _HIDDEN))
    reader.close()
    title, text = _title_of(reader), _tidy(reader.pieces)
    return "\n\n".join(filter(None, (title, text)))


# --- pages of the web ------------------------------------------------------------------------------


def read_frames(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """The title and the text of the page in ``file``, whose address is ``order``, as JSON."""
    page = readable(file.read().decode("utf-8", "replace"), order.decode())
    yield msgspec.json.encode({"title": page.title, "text": page.text})


def readable(html: str, url: str) -> ReadablePage:
    """The page at ``url``, without its menus. If it has a main part, only that."""
    reader = _Reader(url)
    reader.feed(_cleaned(html, _HIDDEN | _BESIDE))
    reader.close()
    return ReadablePage(title=_title_of(reader), text=reader.main_text())


def _cleaned(html: str, dropped: set[str]) -> str:
    """The cleaner parses as browsers do, so what it gives is well formed."""
    return nh3.clean(
        html,
        tags=_KEPT,
        clean_content_tags=dropped,
        attributes={"a": {"href"}},
        link_rel=None,
        url_schemes={"http", "https"},
    )


def _title_of(reader: _Reader) -> str:
    return " ".join("".join(reader.title).split())[:200]


class _Reader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.pieces: list[str] = []
        self._url = url
        self._in_title = False
        self._pre = 0
        # The open lists: the number of the last item, or None in lists without numbers.
        self._lists: list[int | None] = []
        # How deep within cells of tables. There, everything is on one line.
        self._cells = 0
        # True after the mark of an item, until it has text.
        self._is_marked = False
        self._hrefs: list[tuple[str, int]] = []
        # How deep within main parts, where the outermost begins, and where each was.
        self._depth = 0
        self._began = 0
        self._mains: list[tuple[int, int]] = []

    def main_text(self) -> str:
        mains = [_tidy(self.pieces[start:end]) for start, end in self._mains]
        longest = max(mains, key=len, default="")
        return longest if len(longest) >= _LEAST_MAIN else _tidy(self.pieces)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
            return
        if tag in _MAIN:
            if not self._depth:
                self._began = len(self.pieces)
            self._depth += 1
        self._pre += tag == "pre"
        self._cells += tag in _CELLS
        self._add(self._opening(tag))
        self._is_marked = tag == "li" or (self._is_marked and tag not in _LISTS)
        if tag in _LISTS:
            self._lists.append(0 if tag == "ol" else None)
        if tag == "a":
            self._hrefs.append((dict(attributes).get("href") or "", len(self.pieces)))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
            return
        if tag == "a" and self._hrefs:
            self._end_link(*self._hrefs.pop())
        if tag in _LISTS and self._lists:
            self._lists.pop()
        self._add(self._closing(tag))
        self._pre -= tag == "pre"
        self._cells -= tag in _CELLS and self._cells > 0
        if tag in _MAIN and self._depth:
            self._depth -= 1
            if not self._depth:
                self._mains.append((self._began, len(self.pieces)))

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
            return
        text = data if self._pre and not self._cells else re.sub(r"\s+", " ", data)
        if self._is_marked:
            text = text.lstrip()
            self._is_marked = not text
        self._add(text)

    def _add(self, piece: str) -> None:
        if piece:
            self.pieces.append(piece)

    def _opening(self, tag: str) -> str:
        if self._cells:
            is_outermost = tag in _CELLS and self._cells == 1
            return self._space(tag) + ("| " if is_outermost else "")
        if tag == "li":
            return self._mark()
        if tag in _LISTS and self._lists:
            return ""
        if self._is_marked and tag in _BLOCKS:
            # The item begins with this block.
            return _HEADINGS.get(tag, "")
        return _OPENINGS.get(tag, "")

    def _closing(self, tag: str) -> str:
        if self._cells:
            return self._space(tag)
        return "" if tag in _LISTS and self._lists else _CLOSINGS.get(tag, "")

    def _space(self, tag: str) -> str:
        """The mark that is left of a block within a cell."""
        is_apart = not self.pieces or self.pieces[-1].endswith(" ") or tag not in _OPENINGS
        return "" if is_apart else " "

    def _mark(self) -> str:
        """The mark before an item, indented in lists within lists."""
        indent = "  " * (len(self._lists) - 1)
        if not self._lists or self._lists[-1] is None:
            return f"\n{indent}- "
        self._lists[-1] += 1
        return f"\n{indent}{self._lists[-1]}. "

    def _end_link(self, href: str, start: int) -> None:
        """Puts the address behind the words of a link to another page."""
        words = "".join(self.pieces[start:]).strip()
        try:
            target = urljoin(self._url, href)
        except ValueError:
            return
        is_page = target.startswith(("http://", "https://")) and not href.startswith("#")
        if href and words and is_page and len(target) <= _LINK_CHARACTERS and words != target:
            self.pieces.append(f" ({target})")


_OPENINGS: Mapping[str, str] = {
    **dict.fromkeys(_BLOCKS, "\n\n"),
    "tr": "\n",
    "br": "\n",
    "td": " | ",
    "th": " | ",
    **{tag: f"\n\n{mark}" for tag, mark in _HEADINGS.items()},
}
_CLOSINGS: Mapping[str, str] = dict.fromkeys(_BLOCKS - {"tr"}, "\n\n")


# A heading, an item or a row without text.
_ONLY_MARK = re.compile(r"\s*(#+|-|\d+\.|[| ]+)")


def _tidy(pieces: list[str]) -> str:
    """Without spaces around lines, but for the indents of code, and with at most one empty line in between."""
    lines: list[str] = []
    for line in "".join(pieces).split("\n"):
        kept = line.rstrip()
        kept = kept if kept.startswith("  ") else kept.removeprefix(" ")
        if _ONLY_MARK.fullmatch(kept):
            kept = ""
        if kept or (lines and lines[-1]):
            lines.append(kept)
    return "\n".join(lines).strip()
