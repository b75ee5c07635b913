"""Untrusted texts as parts of a Markdown document: readers see the same text, but it contains no
HTML, loads nothing, and ends where its part ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from chat.events import Json
from chat.rendering.safety import is_safe_link, one_newline, reveal, storable

# The parser behaves like common renderers: HTML is HTML, and every address is a link.
_parser = MarkdownIt("commonmark", {"html": True, "maxNesting": 200}).enable("table")
_parser.validateLink = lambda url: True  # type: ignore[method-assign]
# The inline parser is not linear: longer paragraphs, and those with more links, are shown as source.
MOST_CHARACTERS = 64 * 1024
MOST_LINK_WORK = 100_000_000

_MARKUP = re.compile(r"([\\`*_\[\]<>#&~|!$])")
# A code span, an address in angle brackets, the beginning of a tag or of a picture.
_ACTIVE = re.compile(
    r"(?P<code>(?<![`\\])(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<link><(?:https?://|mailto:)[^\s<>]*>)"
    r"|<(?=[A-Za-z/!?])|!(?=\[)",
    re.DOTALL,
)
_PARAGRAPH_END = re.compile(r"(\n[ \t]*\n)")
_JOINERS = ("\u200c", "\u200d")
_AT_JOINERS = re.compile("([\u200c\u200d])")
_TICKS = re.compile("`+")
_SCHEME = re.compile(r"\s*[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_END = "tributary-end-of-text"
_CODE = ("fence", "code_block")
_FORBIDDEN = frozenset({"html_block", "html_inline", "image"})


def line_of(text: str) -> str:
    """A name or a title: one line without any markup. Invisible characters are shown, except for the
    joiners of emoji and of some scripts, which are part of words."""
    shown = "".join(
        each if each in _JOINERS else reveal(each) for each in _AT_JOINERS.split(storable(text))
    )
    return _MARKUP.sub(r"\\\1", " ".join(shown.split()))


def fenced(text: str, language: str = "") -> str:
    """A text as a block of code, in a fence that the text doesn't contain."""
    text = one_newline(storable(text)).strip("\n")
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    language = language if language.replace("-", "").replace("+", "").isalnum() else ""
    return f"{fence}{language}\n{text}\n{fence}"


def fenced_json(value: Json) -> str:
    return fenced(json.dumps(value, ensure_ascii=False, indent=2), "json")


def quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def link_to(url: str, title: str) -> str:
    """A link, or only its title if a page would not link the address."""
    words = line_of(title) or line_of(url)
    return f"[{words}](<{quote(url, safe=_KEPT)}>)" if is_safe_link(url) else words


_KEPT = "".join(map(chr, range(0x21, 0x7F))).translate({ord(letter): None for letter in "<>\\"})


def contained(text: str) -> str:
    """Markdown of a person or a model as a part of the document; as source if it can't be
    contained."""
    text = one_newline(storable(text)).strip("\n")
    if _is_too_much(text):
        return fenced(text)
    harmless = _with_end(_escaped(text))
    return fenced(text) if harmless is None else harmless


def _is_too_much(text: str) -> bool:
    return any(
        len(part) > MOST_CHARACTERS
        or len(part) * max(part.count("["), part.count("://")) > MOST_LINK_WORK
        for part in _PARAGRAPH_END.split(text)
    )


def _escaped(text: str) -> str:
    """The text with a backslash before each tag and each picture outside of code."""
    lines = text.split("\n")
    is_code = [False] * len(lines)
    for token in _parser.parse(text):
        if token.type in _CODE and token.map:
            first, end = token.map
            is_code[first:end] = [True] * (min(end, len(lines)) - first)
    return "\n".join(_parts(lines, is_code))


def _parts(lines: Iterable[str], is_code: Iterable[bool]) -> Iterator[str]:
    words: list[str] = []
    for line, is_source in zip(lines, is_code, strict=True):
        if not is_source:
            words.append(line)
            continue
        if words:
            yield _escaped_words("\n".join(words))
            words = []
        yield line
    if words:
        yield _escaped_words("\n".join(words))


def _escaped_words(text: str) -> str:
    return "".join(_ACTIVE.sub(_escape, part) for part in _PARAGRAPH_END.split(text))


def _escape(match: re.Match[str]) -> str:
    return match[0] if match["code"] or match["link"] else f"\\{match[0]}"


def _with_end(text: str) -> str | None:
    """The text, with its last block of code closed; ``None`` if it would affect other parts."""
    tokens, addresses = _parsed(text)
    if not _ends(tokens) and tokens and tokens[-1].type == "fence":
        text = f"{text}\n{tokens[-1].markup}"
        tokens, addresses = _parsed(text)
    is_harmless = not _FORBIDDEN.intersection(token.type for token in _all(tokens))
    return text if _ends(tokens) and is_harmless and all(map(_is_harmless, addresses)) else None


def _parsed(text: str) -> tuple[list[Token], list[str]]:
    """The tokens, and the addresses of all links, including definitions that only other parts of
    the document may use."""
    environment: dict[str, Any] = {}
    tokens = _parser.parse(f"{text}\n\n{_END}\n", environment)
    addresses = [str(token.attrs["href"]) for token in _all(tokens) if "href" in token.attrs]
    defined = environment.get("references", {}).values()
    return tokens, [*addresses, *(str(each["href"]) for each in defined)]


def _ends(tokens: list[Token]) -> bool:
    """Returns whether the text ends before the part that follows it."""
    last = tokens[-3:]
    return len(last) == 3 and last[0].level == 0 and last[1].content == _END


def _all(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _is_harmless(address: str) -> bool:
    return is_safe_link(address) or not _SCHEME.match(address)
