"""Saying a scene: its parts as tokens, at the pace of a model on a good machine."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Literal

from chat.demo.scenes import Message, Part, Reasoning, Refusal, Scene, ToolCall, ToolFailure

# Without pauses the loop still has to see what clients do; every so many tokens is enough.
TOKENS_PER_BREATH = 16
# An error or a cut comes this far into the last text.
BREAK_AT = 0.6
_BEYOND_FIRST_PLANE = re.compile("[\U00010000-\U0010ffff]")


def _now() -> float:
    return asyncio.get_running_loop().time()


_sleep = asyncio.sleep


class Pace:
    """True time divided by ``speed``, along a schedule that does not drift; 0 means no pauses.

    ``seconds`` is the time that the answer takes at normal speed. All figures in an answer come
    from it, so that they are plausible, and the same, at any speed.
    """

    def __init__(self, speed: float) -> None:
        self.seconds = 0.0
        self._speed = speed
        self._started = _now()
        self._waits = 0

    def beside(self) -> "Pace":
        """Another schedule from now on at the same speed, for what is said at the same time."""
        return Pace(self._speed)

    async def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self._waits += 1
        delay = self._due() - _now() if self._speed else 0.0
        if delay > 0:
            await _sleep(delay)
        elif self._waits % TOKENS_PER_BREATH == 0:
            await _sleep(0)

    def _due(self) -> float:
        return self._started + self.seconds / self._speed


@dataclass(frozen=True, slots=True)
class Begin:
    part: Reasoning | Message | Refusal


@dataclass(frozen=True, slots=True)
class Token:
    part: Reasoning | Message | Refusal
    text: str


@dataclass(frozen=True, slots=True)
class End:
    part: Reasoning | Message | Refusal


@dataclass(frozen=True, slots=True)
class Break:
    """The answer ends in this part although it has more to say."""

    part: Reasoning | Message | Refusal
    cause: Literal["error", "cut", "length"]


Said = Begin | Token | End | ToolCall | ToolFailure | Break


def tokens(text: str, *, splits_a_pair: bool = False) -> Iterator[str]:
    """The text in pieces of 3 to 6 characters, always the same for the same text."""
    chance = random.Random(len(text))  # noqa: S311 (token lengths are no secret)
    start = 0
    while start < len(text):
        end = start + chance.randint(3, 6)
        token = text[start:end]
        start = end
        pair = _BEYOND_FIRST_PLANE.search(token) if splits_a_pair else None
        if pair:
            splits_a_pair = False
            high, low = _halves(pair.group())
            yield token[: pair.start()] + high
            yield low + token[pair.end() :]
        else:
            yield token


def _halves(character: str) -> tuple[str, str]:
    units = character.encode("utf-16-be")
    return tuple(  # type: ignore[return-value]
        units[at : at + 2].decode("utf-16-be", "surrogatepass") for at in (0, 2)
    )


def paired(text: str) -> str:
    """The text with halves of surrogate pairs, which came in two tokens, joined again."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def say(
    scene: Scene, pace: Pace, *, tokens_per_second: float, limit: int | None = None
) -> AsyncIterator[Said]:
    """The parts of a scene in order; stops with a ``Break`` where the scene or the limit says so."""
    left = limit if limit is not None else 1 << 60
    last = _last_text(scene.parts)
    for part in scene.parts:
        if isinstance(part, ToolCall | ToolFailure):
            yield part
            continue
        pieces = list(tokens(part.text, splits_a_pair=getattr(part, "splits_a_pair", False)))
        breaks = scene.ending != "whole" and part is last
        count = int(len(pieces) * BREAK_AT) if breaks else len(pieces)
        yield Begin(part)
        for text in pieces[: min(count, left)]:
            await pace.wait(1 / tokens_per_second)
            yield Token(part, text)
        if left < count:
            yield Break(part, "length")
            return
        left -= count
        if breaks and scene.ending != "whole":
            yield Break(part, scene.ending)
            return
        yield End(part)


def _last_text(parts: tuple[Part, ...]) -> Part | None:
    texts = [part for part in parts if not isinstance(part, ToolCall | ToolFailure)]
    return texts[-1] if texts else None
