"""What other features add to the conversation page: cards below a run, and refused forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from chat.models import Run


class PageCard(Protocol):
    """A card below a run. The page sends it again when `mark` differs from what it shows."""

    @property
    def hex(self) -> str: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def mark(self) -> str: ...


class PageAmendment(Protocol):
    """Changes the cards of a page before it is rendered, such as a form that was refused."""

    def put_into(self, cards: Iterable[PageCard]) -> None: ...


CardReader = Callable[[Iterable[Run]], Mapping[int, Sequence[PageCard]]]


def _no_cards(runs: Iterable[Run]) -> Mapping[int, Sequence[PageCard]]:
    return {}


_read_cards: CardReader = _no_cards


def use_cards(read: CardReader) -> None:
    """Sets who reads the cards of runs. `chat.apps` calls it once."""
    global _read_cards
    _read_cards = read


def cards_of(runs: Iterable[Run]) -> Mapping[int, Sequence[PageCard]]:
    """The cards below each of these runs, by the run's key, in their order."""
    return _read_cards(runs)
