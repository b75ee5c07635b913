"""Marks ranges of a Markdown source in the text of the HTML that was made of it.

The parser keeps no offsets within a line. So the text of the HTML is found again in the source:
both have the same words in the same order, and the source also has syntax in between.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from html import escape, unescape

from chat.rendering.markdown.html import dress
from chat.rendering.markdown.parser import References, Scope
from chat.rendering.markdown.renderer import (
    Span,
    clean_source,
    outline,
    render_block,
    render_whole,
)

# Matches tags with ">" in an attribute, too, which the cleaner lets pass.
_TAG = re.compile(r'(<(?:"[^"]*"|[^">])*>)')
# The address of a link is syntax; its letters must not be taken for those behind it.
_ADDRESS = re.compile(r"(?<=\]\()[^\s()]+")
# This many characters find their place anywhere; fewer only at the beginning of a text, or nearby.
_SURE = 4
_WINDOWS = (8, _SURE, 2, 1)
_FAR, _NEAR = 4096, 16

# HTML of a piece of text, which is given with the number of its range.
Show = Callable[[int, str], str]


def render_ranges(pieces: list[str], prefix: str, show: Show) -> str:
    """The Markdown that the pieces make together as safe HTML, with what is shown of each piece as
    ``show`` says, which escapes it. Syntax is not shown."""
    cleaned = _cleaned(pieces)
    ends: list[int] = []
    for piece in cleaned:
        ends.append(len(piece) + (ends[-1] if ends else 0))
    references = References()
    found = outline("".join(cleaned), references.scope())
    starts = [0]
    for line in found.lines:
        starts.append(starts[-1] + len(line) + 1)

    def render(span: Span, scope: Scope) -> str:
        source = found.source(span)
        html = render_block(source, scope, dress=str)
        # Code that is marked gets no colors and no tools.
        return dress(_marked(html, source, ends, starts[span.start], show))

    return "".join(render_whole(found, references, prefix, render))


def _cleaned(pieces: list[str]) -> list[str]:
    """Each piece as it is in the cleaned text of all."""
    cleaned, is_after_return = [], False
    for piece in pieces:
        whole = piece[1:] if is_after_return and piece.startswith("\n") else piece
        cleaned.append(clean_source(whole))
        is_after_return = piece.endswith("\r")
    return cleaned


def _marked(html: str, source: str, ends: list[int], start: int, show: Show) -> str:
    links = unescape("".join(_TAG.findall(html)))
    source = _ADDRESS.sub(
        lambda found: "\0" * len(found[0]) if found[0] in links else found[0], source
    )
    done, at = [], 0
    for number, piece in enumerate(_TAG.split(html)):
        # White space between the parts of a table or a list holds no elements.
        if number % 2 or not piece.strip():
            done.append("<code>" if piece.startswith("<code ") else piece)
            continue
        for text, place in _places(unescape(piece), source, at):
            if place is None:
                done.append(escape(text, quote=False))
                continue
            at = place + len(text)
            done += _shown(text, start + place, ends, show)
    return "".join(done)


def _shown(text: str, place: int, ends: list[int], show: Show) -> Iterator[str]:
    """A text of the source, from a place in it on, range by range."""
    at = 0
    while at < len(text):
        number = bisect_right(ends, place + at)
        if number == len(ends):
            # The newline that ends the last line.
            yield escape(text[at:], quote=False)
            return
        length = ends[number] - place - at
        yield show(number, text[at : at + length])
        at += length


def _places(text: str, source: str, at: int) -> Iterator[tuple[str, int | None]]:
    """The parts of a text, each with its place in the source, from ``at`` on; None without one."""
    shown = 0
    while shown < len(text):
        place = _place(text, shown, source, at)
        if place is None:
            yield text[shown], None
            shown += 1
            continue
        length = _common(text, shown, source, place)
        yield text[shown : shown + length], place
        shown, at = shown + length, place + length


def _place(text: str, shown: int, source: str, at: int) -> int | None:
    for size in _WINDOWS:
        window = text[shown : shown + size]
        is_sure = len(window) >= _SURE or not shown
        place = source.find(window, at, at + (_FAR if is_sure else _NEAR))
        if place >= 0:
            return place
    return None


def _common(text: str, shown: int, source: str, place: int) -> int:
    """How many characters are the same from there on."""
    most = min(len(text) - shown, len(source) - place)
    same = (n for n in range(most) if text[shown + n] != source[place + n])
    return next(same, most)
