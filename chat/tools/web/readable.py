"""The text of an HTML page for a model: headings, paragraphs, lists and links, without menus and scripts.

A child process runs it (`chat.tools.web.reader`): deep nesting costs a parser time in proportion to its square, and
only a process can be limited.
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

_DROPPED = {
    *("script", "style", "noscript", "template", "nav", "footer", "aside", "form", "svg", "math"),
    *("iframe", "object", "button", "select", "textarea", "dialog", "menu", "canvas", "video"),
}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_BLOCKS = {
    *("p", "div", "section", "article", "main", "header", "blockquote", "pre", "figure"),
    *("figcaption", "table", "tr", "ul", "ol", "dl", "dt", "dd", "address", "hr", "title"),
    *_HEADINGS,
}
_MAIN = ("main", "article")
_KEPT = {*_BLOCKS, "a", "li", "br", "td", "th", "code"}
# The main part is the page if it has at least these characters.
_LEAST_MAIN = 200
_LINK_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadablePage:
    title: str
    text: str


def read_frames(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """The title and the text of the page in ``file``, whose address is ``order``, as JSON."""
    page = readable(file.read().decode("utf-8", "replace"), order.decode())
    yield msgspec.json.encode({"title": page.title, "text": page.text})


def readable(html: str, url: str) -> ReadablePage:
    """The page at ``url``. The cleaner parses as browsers do, so what is read afterwards is well formed."""
    cleaned = nh3.clean(
        html,
        tags=_KEPT,
        clean_content_tags=_DROPPED,
        attributes={"a": {"href"}},
        link_rel=None,
        url_schemes={"http", "https"},
    )
    reader = _Reader(url)
    reader.feed(cleaned)
    reader.close()
    return ReadablePage(title=" ".join("".join(reader.title).split())[:200], text=reader.text())


class _Reader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self._url = url
        self._pieces: list[str] = []
        self._in_title = False
        self._pre = 0
        self._hrefs: list[tuple[str, int]] = []
        # How deep within main parts, where the outermost begins, and where each was.
        self._depth = 0
        self._began = 0
        self._mains: list[tuple[int, int]] = []

    def text(self) -> str:
        mains = [_tidy(self._pieces[start:end]) for start, end in self._mains]
        longest = max(mains, key=len, default="")
        return longest if len(longest) >= _LEAST_MAIN else _tidy(self._pieces)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
            return
        if tag in _MAIN:
            if not self._depth:
                self._began = len(self._pieces)
            self._depth += 1
        self._pre += tag == "pre"
        self._pieces.append(_OPENINGS.get(tag, ""))
        if tag == "a":
            self._hrefs.append((dict(attributes).get("href") or "", len(self._pieces)))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
            return
        if tag == "a" and self._hrefs:
            self._end_link(*self._hrefs.pop())
        self._pieces.append(_CLOSINGS.get(tag, ""))
        self._pre -= tag == "pre"
        if tag in _MAIN and self._depth:
            self._depth -= 1
            if not self._depth:
                self._mains.append((self._began, len(self._pieces)))

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        else:
            self._pieces.append(data if self._pre else re.sub(r"\s+", " ", data))

    def _end_link(self, href: str, start: int) -> None:
        """Puts the address behind the words of a link to another page."""
        words = "".join(self._pieces[start:]).strip()
        try:
            target = urljoin(self._url, href)
        except ValueError:
            return
        is_page = target.startswith(("http://", "https://")) and not href.startswith("#")
        if href and words and is_page and len(target) <= _LINK_CHARACTERS and words != target:
            self._pieces.append(f" ({target})")


_OPENINGS: Mapping[str, str] = {
    **dict.fromkeys(_BLOCKS, "\n\n"),
    "tr": "\n",
    "li": "\n- ",
    "br": "\n",
    "td": " | ",
    "th": " | ",
    **{tag: f"\n\n{mark}" for tag, mark in _HEADINGS.items()},
}
_CLOSINGS: Mapping[str, str] = dict.fromkeys(_BLOCKS - {"tr"}, "\n\n")


def _tidy(pieces: list[str]) -> str:
    """Without spaces around lines, but for the indents of code, and with at most one empty line in between."""
    lines: list[str] = []
    for line in "".join(pieces).split("\n"):
        kept = line.rstrip()
        kept = kept if kept.startswith("  ") else kept.removeprefix(" ")
        if not kept.strip("#-| "):
            kept = ""
        if kept or (lines and lines[-1]):
            lines.append(kept)
    return "\n".join(lines).strip()
