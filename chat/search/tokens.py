"""Text as tokens, the same for what is indexed and for what is searched for, on every database.

A token is a word without case and accents. Scripts that write without spaces (Chinese, Japanese,
Korean, Thai and their neighbours) become overlapping pairs of characters: 東京都 is 東京, 京都, 都.
A searched word of such a script is the sequence of its pairs, so it is found inside longer words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any

# Characters without spaces between words: Thai to Myanmar, Khmer, kana and CJK, Hangul, and the
# ideographs outside the basic plane.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u3400-\u4dbf"
    "\u4e00-\u9fff\ua9e0-\ua9ff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and the like belong to their word; `\w` leaves them out.
_MARKS = "".join(
    chr(code)
    for start, end in ((0x0300, 0x1E00), (0x20D0, 0x2100), (0x3099, 0x309B), (0xA66F, 0xAC00))
    for code in range(start, end)
    if unicodedata.category(chr(code)).startswith("M")
)
_WORD = re.compile(rf"[^\W_][^\W_{_MARKS}]*(?:[{_MARKS}]+[^\W_]*)*")
_ASCII_WORD = re.compile("[0-9a-z]+")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_RUNS = re.compile(f"[{_UNSPACED}{_MARKS}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# A longer token is no word but a key or encoded bytes; its beginning is indexed.
TOKEN_CHARACTERS = 64


def tokens_of(text: str) -> list[str]:
    """The tokens of a text in their order. An ordinary answer takes less than a millisecond."""
    if text.isascii():
        return [word[:TOKEN_CHARACTERS] for word in _ASCII_WORD.findall(text.lower())]
    words = _WORD.findall(folded(text))
    if not _IS_UNSPACED.search(text):
        return [word[:TOKEN_CHARACTERS] for word in words]
    return [token for word in words for run in _RUNS.findall(word) for token in _pairs(run)]


def folded(text: str) -> str:
    """Without case and accents."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    # Korean syllables are put together again.
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))


def _pairs(word: str) -> Iterator[str]:
    if _IS_UNSPACED.match(word):
        for at in range(len(word)):
            yield word[at : at + 2]
    else:
        yield word[:TOKEN_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and where it stands in the text: ``text[start:end]``."""

    token: str
    start: int
    end: int


def located_tokens(text: str) -> Iterator[Token]:
    """The tokens as from `tokens_of`, with places."""
    for word in _WORD.finditer(text):
        start = word.start()
        for run in _RUNS.findall(word[0]):
            tokens = tokens_of(run)
            # The place is the pair's if each character has a token of its own; else the whole run's.
            is_even = len(tokens) == len(run) and _IS_UNSPACED.match(run) is not None
            for at, token in enumerate(tokens):
                first = start + at if is_even else start
                yield Token(token, first, first + len(token) if is_even else start + len(run))
            start += len(run)


# --- queries ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Phrase:
    """Tokens that follow each other. The last one may be the beginning of a word. ``text`` is what
    was typed."""

    tokens: tuple[str, ...]
    is_prefix: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parsed search query. ``str`` gives a text that `parse` reads as the same query.

    ``words`` are what was typed without the filters. ``ignored`` are operators whose value could
    not be understood.
    """

    words: str = ""
    wanted: tuple[Phrase, ...] = ()
    excluded: tuple[Phrase, ...] = ()
    person: str = ""
    project: str = ""
    model: str = ""
    server: str = ""
    has: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    before: date | None = None
    after: date | None = None
    ignored: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if it asks for nothing: neither words nor filters."""
        return not (self.wanted or self.filters)

    @property
    def filters(self) -> list[tuple[str, str]]:
        """Name and value of each filter."""
        found = []
        for name, member in _MEMBERS.items():
            value = getattr(self, member)
            values = sorted(value) if isinstance(value, frozenset) else [value]
            found += [(name, str(each)) for each in values if each]
        return found

    def __str__(self) -> str:
        # The words come last: the last of them may be the beginning of a word.
        return " ".join([*(operator(*each) for each in self.filters), self.words])


# Characters of a query that count, from its beginning.
QUERY_CHARACTERS = 1_000
QUERY_PHRASES = 16
PHRASE_TOKENS = 32
HAS = ("file", "image", "artifact", "question", "tool", "error")
STATES = ("pinned", "archived", "shared")
# The operators, and the members of a query that they set.
_MEMBERS = {
    "from": "person",
    "in": "project",
    "model": "model",
    "server": "server",
    "before": "before",
    "after": "after",
    "has": "has",
    "is": "states",
}
OPERATORS = tuple(_MEMBERS)
_PART = re.compile(r'(-?)(?:([a-z]+):)?(?:"([^"]*)"?|([^\s"]+))', re.IGNORECASE)


def operator(name: str, value: str) -> str:
    """A filter as it is typed: ``from:"Ana Lima"``."""
    value = value.replace('"', " ")
    return f'{name}:"{value}"' if re.search(r"\s", value) else f"{name}:{value}"


def name_key(name: str) -> str:
    """The same for a name and for the value of a filter that stands for it, in which no quotation
    mark can be."""
    return " ".join(name.replace('"', " ").split()).casefold()


@dataclass(slots=True)
class _Reading:
    words: list[str] = field(default_factory=list)
    # True if a space follows the last word, which then is no prefix.
    is_closed: bool = False
    wanted: list[Phrase] = field(default_factory=list)
    excluded: list[Phrase] = field(default_factory=list)
    # The values of filters, by the members of the query.
    values: dict[str, Any] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def parse(text: str) -> Query:
    """Reads ``willows "in autumn" -spring from:ana has:file before:2026-11-01``.

    A word must occur; a quoted phrase must occur as it stands; ``-`` excludes. The last word
    matches as a prefix unless a space or a quotation mark closes it. If a person, project, model,
    server or day has several values, the last one counts. Never raises.
    """
    text = text[:QUERY_CHARACTERS].replace("\x00", " ")
    reading = _Reading()
    end = len(text)
    for part in _PART.finditer(text):
        _read(reading, part, is_last=part.end() == end)
    return Query(
        words=" ".join(reading.words) + (" " if reading.is_closed else ""),
        wanted=tuple(reading.wanted[:QUERY_PHRASES]),
        excluded=tuple(reading.excluded[:QUERY_PHRASES]),
        ignored=tuple(reading.ignored),
        **reading.values,
    )


def words_in(text: str) -> list[Phrase]:
    """The words of a text without operators, each of which may be the beginning of a word."""
    phrases = (_phrase(word, is_prefix=True) for word in text[:QUERY_CHARACTERS].split())
    return [phrase for phrase in phrases if phrase is not None][:QUERY_PHRASES]


def _read(reading: _Reading, part: re.Match[str], *, is_last: bool) -> None:
    minus, name, quoted, bare = part.groups()
    value = quoted if quoted is not None else bare
    if name and _filter(reading, name.lower(), value, is_excluded=bool(minus)):
        return
    if name:
        value = f"{name}:{value}"
    if quoted is not None:
        # A quotation mark that was not closed ends with the text.
        reading.words.append(f'{minus}{f"{name}:" if name else ""}"{quoted}"')
    else:
        reading.words.append(part[0])
    is_prefix = quoted is None and is_last and not minus
    reading.is_closed = quoted is None and not is_last
    phrase = _phrase(value, is_prefix=is_prefix)
    if phrase is not None:
        (reading.excluded if minus else reading.wanted).append(phrase)


def _phrase(text: str, *, is_prefix: bool) -> Phrase | None:
    tokens = tuple(tokens_of(text)[:PHRASE_TOKENS])
    if not tokens:
        return None
    last = tokens[-1]
    if not _IS_UNSPACED.match(last):
        return Phrase(tokens, is_prefix, text)
    # A single character stands in the index only where its word ends; the pair before it has it too.
    if len(tokens) > 1 and len(last) == 1 and tokens[-2][1:] == last:
        return Phrase(tokens[:-1], text=text)
    return Phrase(tokens, len(last) == 1, text)


def _filter(reading: _Reading, name: str, value: str, *, is_excluded: bool) -> bool:
    """Returns whether ``name:`` is an operator. One that can't be understood, or is excluded, is noted."""
    if name not in OPERATORS:
        return False
    value = value.strip()
    lower = value.lower()
    member = _MEMBERS[name]
    known = {"has": HAS, "is": STATES}.get(name)
    try:
        if is_excluded or not value:
            raise ValueError
        if name in ("before", "after"):
            reading.values[member] = date.fromisoformat(value)
        elif known is None:
            reading.values[member] = lower
        elif lower in known:
            reading.values[member] = reading.values.get(member, frozenset()) | {lower}
        else:
            raise ValueError
    except ValueError:
        reading.ignored.append(f"{'-' if is_excluded else ''}{name}:{value}")
    return True
