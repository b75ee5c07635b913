"""Inline Markdown without the parser: words, emphasis, code, links and addresses in their usual form.

Answers consist of little else. Each construct is read only in a form that means the same whatever
stands around it; everything else is left to the parser. A property test compares the two.
"""

import re
from dataclasses import dataclass
from functools import cache
from html import escape

from chat.rendering.markdown.cjk import ADDRESS_ENDS, CJK
from chat.rendering.markdown.html import clean
from chat.rendering.safety import reveal

# The first line of a paragraph, whatever follows in it. Such a line also goes on with a paragraph.
PARAGRAPH = re.compile(
    r"[^\s#>\-+*_=|\d`~$\[\\:<]|\*\*?[^\s*]|_[^\s_]|`[^`]|\d+[^\d.)]|\[[^\[\]\\^\n]*\][^:\n]"
)
# Characters that have no meaning in a line. The cleaner rewrites white space other than spaces.
PLAIN = r"[^\s\\`*_~$\[\]<>&|@:\x00-\x1f\x7f-\x9f]"
# An underscore inside a word means nothing, and a colon only something in an address.
_INSIDE_WORD = r"(?<=[^\W_])_+(?=[^\W_])"
_WORDS = rf"(?:(?:{PLAIN}| )++|:(?!/)|{_INSIDE_WORD})"
# Nothing that is read here has a "<", so nothing could become an element, were it not escaped.
_CODE = r"(?<!`)`(?!`| )(?:[^`<\s\x00-\x1f\x7f-\x9f]| )++`(?!`)"
# A mark of emphasis follows nothing, a space or a parenthesis, so that no letter can keep it from opening.
_BEFORE = r"(?<![^ (])"
# Addresses and stars also follow a letter or a mark of a script without spaces between words.
_BEFORE_UNSPACED = rf"(?<![^ ({CJK}])"
_EMPHASIZED = rf"(?! )(?:{_WORDS}|{_CODE})++(?<! )"
_HOST = r"[a-z0-9]+(?:-+[a-z0-9]+)*+"
# Names in xn-- are shown in another form than they are written.
_ADDRESS = (
    rf"https?://(?![^\s{ADDRESS_ENDS}]*xn--){_HOST}(?:\.{_HOST})*+"
    r"(?:/(?:[A-Za-z0-9/]|[_-]+(?=[A-Za-z0-9/])|\.(?=[A-Za-z0-9]))*+)?"
)
_LABEL = rf"(?! )(?:(?:{PLAIN}| )++|{_INSIDE_WORD})++(?<! )"


def _emphasis(name: str, mark: str, *, before: str = _BEFORE, after: str = "") -> str:
    """The pattern of text between two marks. Nothing that may follow keeps the second one from closing."""
    after_word = rf"(?<=[^\W_]{mark})(?=[ .,;:!?)…]|\Z)"
    return (
        rf"{before}{mark}(?!{mark[:2]})(?P<{name}>{_EMPHASIZED}){mark}(?!{mark[:2]})"
        rf"(?:{after_word}|(?=[ {after}]|\Z))"
    )


_UNIT = re.compile(
    "|".join(
        (
            rf"{_BEFORE_UNSPACED}(?P<address>{_ADDRESS})(?=[ ){ADDRESS_ENDS}]|[.,;!?](?: |\Z)|\Z)",
            rf"(?P<text>{_WORDS}++)",
            _emphasis("strong", r"\*\*", before=_BEFORE_UNSPACED, after=CJK),
            _emphasis("em", r"\*", before=_BEFORE_UNSPACED, after=CJK),
            _emphasis("underscored", "_"),
            rf"(?P<code>{_CODE})",
            rf"(?<![!\]])\[(?P<label>{_LABEL})\]\((?P<to>{_ADDRESS})\)",
            r"(?P<reference>\[\^?[^\W_]+\](?![\[(:]))",
            r"(?P<pipe>\|)",
            r"(?P<sign>[\]>]|&(?= |\w+[^\w;]|\w*\Z)|(?<= )\*(?= )|(?<!~)~(?!~))",
        )
    )
)
# The beginnings of constructs, which are shown as they are written until their end comes.
_OPEN = re.compile(
    rf"(?:(?:\*{{1,3}}|_{{1,3}}|~~|`|\$|\[\^?){_WORDS}*+|{_BEFORE_UNSPACED}https?:/{{0,2}}"
    rf"|(?<!!)(?P<before>\[{_LABEL}\](?:\((?:(?:h|ht|htt|https?|https?:/{{0,2}})(?=\Z))?+)?+)"
    rf"(?P<to>(?<=\(){_ADDRESS})?+)\Z"
)
_DOMAIN = re.compile(r"[\w-]\.[a-z]{2,}", re.IGNORECASE)
# Words up to the last of them.
_WORDS_BEFORE = re.compile(rf".*[ ({CJK}]")
# Scripts without spaces between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SAMPLE_LINK = "https://example.org/"


@dataclass(frozen=True, slots=True)
class Line:
    """``html`` is the line so far. Text that follows in the line never changes the first
    ``settled`` characters of the source and ``settled_html`` of the HTML. ``is_open``: its last
    mark is not closed."""

    html: str
    settled: int
    settled_html: int
    is_open: bool


def read_line(text: str, *, has_references: bool) -> Line | None:
    """A line, or its beginning, without spaces at its end. ``None``: it needs the parser.

    ``has_references``: the text defines link references, so that brackets may be links."""
    reader = _Reader(text, has_references)
    return reader.line() if reader.read() else None


class _Reader:
    def __init__(self, text: str, has_references: bool) -> None:
        self._text = text
        self._has_references = has_references
        self._pieces: list[str] = []
        self._length = 0
        self._settled = self._settled_html = 0
        self._is_open = False
        # A line with a bar may become the head of a table, so nothing behind it is settled.
        self._is_settling = True

    def line(self) -> Line:
        return Line("".join(self._pieces), self._settled, self._settled_html, self._is_open)

    def read(self) -> bool:
        text, at = self._text, 0
        while at < len(text):
            unit = _UNIT.match(text, at)
            if unit is not None and unit.lastgroup == "text":
                end = self._add_words(at, unit.end())
                if end > at:
                    at = end
                    continue
                unit = None
            html = self._html(unit) if unit is not None else None
            if unit is None or html is None:
                return self._add_open(at)
            self._add(html)
            at = unit.end()
        return True

    def _add(self, html: str) -> None:
        self._pieces.append(html)
        self._length += len(html)

    def _add_words(self, at: int, end: int) -> int:
        """Adds words up to an address that begins with the last of them. Returns where they end."""
        words = self._text[at:end]
        if self._text.startswith(":/", end):
            before = _WORDS_BEFORE.match(words)
            words = before[0] if before is not None else ""
            end = at + len(words)
        if self._is_settling:
            self._settle(words, at)
        self._add(words)
        return end

    def _settle(self, words: str, at: int) -> None:
        """Settles the text before the last space, or before the last letter of a script without spaces."""
        is_last = at + len(words) == len(self._text)
        complete = words if is_last else words.rstrip(" ")
        place = len(complete)
        if is_last or place == len(words):
            place = len(complete[: complete.rfind(" ") + 1].rstrip(" ")) if " " in complete else -1
        if not words.isascii():
            for letter in _UNSPACED.finditer(words, max(place, 1)):
                place = letter.start()
        if at + place > 0 and place >= 0:
            self._settled = at + place
            self._settled_html = self._length + place

    def _html(self, unit: re.Match[str]) -> str | None:
        kind = unit.lastgroup or ""
        if kind in ("strong", "em", "underscored"):
            tag = "strong" if kind == "strong" else "em"
            return f"<{tag}>{_CODE_IN_WORDS.sub(_code, unit[kind])}</{tag}>"
        if kind == "code":
            return _code(unit)
        if kind == "to":
            label = unit["label"]
            is_plain = label.isprintable() and not _DOMAIN.search(label)
            return _link(unit["to"], label) if is_plain else None
        if kind == "address":
            return _link(unit["address"], unit["address"])
        if kind == "reference" and self._has_references:
            return None
        if kind == "pipe":
            self._is_settling = False
        return escape(unit[0], quote=False)

    def _add_open(self, at: int) -> bool:
        unit = _OPEN.match(self._text, at)
        if unit is None or (self._has_references and self._text[at] == "["):
            return False
        self._is_open = True
        self._add(escape(unit[0] if unit["to"] is None else unit["before"], quote=False))
        if unit["to"] is not None:
            self._add(_link(unit["to"], unit["to"]))
        return True


_CODE_IN_WORDS = re.compile(_CODE)


def _code(unit: re.Match[str]) -> str:
    return f"<code>{escape(reveal(unit[0][1:-1]), quote=False)}</code>"


def _link(address: str, label: str) -> str:
    before, between, after = _link_parts()
    return f"{before}{address}{between}{label}{after}"


@cache
def _link_parts() -> tuple[str, str, str]:
    """The HTML that the cleaner puts around the address and the label of a link."""
    sample = clean(f'<a href="{_SAMPLE_LINK}">-</a>')
    before, _, rest = sample.partition(_SAMPLE_LINK)
    between, _, after = rest.partition("-</a>")
    return before, between, f"</a>{after}"
