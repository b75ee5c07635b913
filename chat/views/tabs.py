"""The views of one thing, and its versions, side by side: links, each with an address of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    label: str
    address: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    number: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepper:
    """The version before this one and the one after it, where there are."""

    number: int
    count: int
    before: Step | None
    after: Step | None

    @classmethod
    def of(cls, number: int, numbers: Sequence[int], address: Callable[[int], str]) -> Stepper:
        """``address`` gives that of a version's page."""
        place = numbers.index(number)

        def step(at: int) -> Step | None:
            if not 0 <= at < len(numbers):
                return None
            return Step(number=numbers[at], address=address(numbers[at]))

        return cls(number=number, count=len(numbers), before=step(place - 1), after=step(place + 1))
