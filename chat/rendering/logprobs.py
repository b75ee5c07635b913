"""Log probabilities of the tokens of a text, rendered when a reader opens the view."""

import math
from collections.abc import Iterator
from html import escape
from itertools import chain, repeat
from typing import TypeGuard

from django.utils.safestring import SafeString
from django.utils.translation import gettext

from chat.events import Json
from chat.rendering import figures
from chat.rendering.components import Foldable, fill, more_note, safe
from chat.rendering.markdown import render_ranges
from chat.rendering.parts import Slot
from chat.rendering.safety import reveal, storable

# Limits of the view; the run's details show all.
SHOWN_TOKENS = 3_000
SHOWN_CHARACTERS = 32_000
SHOWN_RIVALS = 5
# Lowest probability of each class; lower ones have the first class.
_CLASSES = ((0.95, 5), (0.75, 4), (0.5, 3), (0.2, 2))

# Smaller probabilities are 0 as a float.
_LEAST = -1000

# Text, natural logarithm of its probability, and the alternatives.
Token = tuple[str, float, list[tuple[str, float]]]


class Odds(Foldable, Slot):
    """A fold below a complete text whose server sent probabilities."""

    classes = "odds"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self._tokens: list[Token] = []
        self._count = 0
        # Characters of the tokens, also of those that are not shown.
        self._length = 0
        self._is_shown = False

    def add(self, entries: list[Json]) -> None:
        for token in _tokens_of(entries):
            self._count += 1
            self._length += len(token[0])
            if len(self._tokens) < SHOWN_TOKENS and self._length <= SHOWN_CHARACTERS:
                self._tokens.append(token)

    def finish(self, seq: int) -> None:
        if self._tokens:
            self._is_shown = True
            self.touch(seq)

    def content(self) -> str:
        if not self._is_shown:
            return ""
        count = figures.count(self._count)
        heat = self.whole() if self.is_inline else self.later(gettext("Show"))
        return fill("logprobs", count=count, heat=heat)

    def whole(self) -> SafeString:
        opened = [_opening_tag(number, token) for number, token in enumerate(self._tokens)]
        texts = [text for text, _, _ in self._tokens]
        tokens = render_ranges(
            texts,
            self.id,
            lambda number, text: f"{opened[number]}{escape(reveal(text), quote=False)}</span>",
        )
        more = more_note(self._count - len(self._tokens))
        return fill("logprobs_text", tokens=safe(tokens), more=more)


def _tokens_of(entries: list[Json]) -> Iterator[Token]:
    """Reads both formats: an object per token, or parallel lists (legacy completions)."""
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        if isinstance(entry.get("token_logprobs"), list):
            yield from _beside_each_other(entry)
        elif token := _token(entry.get("token"), entry.get("logprob"), entry.get("top_logprobs")):
            yield token


def _beside_each_other(entry: dict[str, Json]) -> Iterator[Token]:
    texts, likely = entry.get("tokens"), entry["token_logprobs"]
    tops = entry.get("top_logprobs")
    # Without alternatives the list may be empty.
    rivals = chain(tops if isinstance(tops, list) else (), repeat(None))
    for text, logprob, top in zip(
        texts if isinstance(texts, list) else (), likely, rivals, strict=False
    ):
        if token := _token(text, logprob, top):
            yield token


def _token(text: Json, logprob: Json, top: Json) -> Token | None:
    if not isinstance(text, str) or not _is_number(logprob):
        return None
    pairs: list[tuple[Json, Json]] = []
    if isinstance(top, dict):
        pairs = list(top.items())
    elif isinstance(top, list):
        pairs = [(one.get("token"), one.get("logprob")) for one in top if isinstance(one, dict)]
    rivals = [(str(name), _bounded(odds)) for name, odds in pairs[:20] if _is_number(odds)]
    rivals = [one for one in rivals if one[0] != text][:SHOWN_RIVALS]
    return text, _bounded(logprob), rivals


def _is_number(value: Json) -> TypeGuard[int | float]:
    return type(value) in (int, float) and value == value


def _bounded(logprob: int | float) -> float:
    """A JSON number as float; integers may exceed the range of floats."""
    return float(min(max(logprob, _LEAST), 0))


def _share(logprob: float) -> float:
    return math.exp(logprob)


def _percent(logprob: float) -> str:
    share = 100 * _share(logprob)
    return figures.percentage(round(share)) if share >= 1 else f"< {figures.percentage(1)}"


def _opening_tag(number: int, token: Token) -> str:
    """The opening tag of each element that shows a part of the token."""
    text, logprob, rivals = token
    share = _share(logprob)
    heat = next((number for least, number in _CLASSES if share >= least), 1)
    others = ", ".join(f"{_visible(name)} {_percent(odds)}" for name, odds in rivals)
    title = f"{_visible(text)} {_percent(logprob)}"
    if others:
        words = gettext("%(token)s. Alternatives: %(others)s")
        title = words % {"token": title, "others": others}
    return f'<span class="odd odd-{heat}" data-token="{number}" title="{escape(title)}">'


def _visible(text: str) -> str:
    """A token with visible white space."""
    return "“" + reveal(storable(text)).replace("\n", "↵").replace("\t", "⇥") + "”"
