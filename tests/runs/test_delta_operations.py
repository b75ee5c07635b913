"""How many characters are worked on for each character of an answer, while pages see it grow.

Every delta has a frame, which is the most that can be asked for. A test that fails shows all figures.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from uuid import UUID

import pytest
from linkify_it import LinkifyIt
from markdown_it import MarkdownIt

from chat.live.frames import Envelope, OpenBlocks
from chat.rendering.markdown import html, inline, renderer
from chat.rendering.patches import Answer
from tests.rendering.stories import RUN, told

PARSER, ADDRESSES, CLEANER = "parser", "address finder", "cleaner"
CHARACTERS = 5_000
SIZES = (5, 24)

SENTENCE = "The river is high today and the mill stands still while the water rises at the old weir"
# Head, unit, and how many characters each of the three may be given for one of the answer.
KINDS: dict[str, tuple[str, str, float]] = {
    "plain": ("", f"{SENTENCE}.\n\n", 3),
    "one paragraph": ("", f"{SENTENCE}: it rained, and nobody knows why. ", 3),
    "bold": (
        "",
        "The **river** is high, `mill_2` stands *still*, and **the water** rises: see it. ",
        3,
    ),
    "list": ("", "- **The river** at the weir is high today, the `mill` stands\n", 3),
    "nested list": (
        "",
        "1. The river at the weir is high\n   - the mill stands\n   - it rains\n2. **Rain**: more of it\n"
        "   - in the valley\n   - at `weir_2` and elsewhere\n\nThat is all there is to say.\n\n",
        3,
    ),
    "table": (
        "| where | level | trend |\n|---|:-:|---|\n",
        "| the weir | `7.5` m | **rising** |\n",
        3,
    ),
    "table with lines in cells": (
        "| where | level |\n|---|---|\n",
        "| the weir<br>and the **mill** | 7.5 m<br/>rising | and more |\n",
        3,
    ),
    "Chinese": (
        "",
        "今天**水位：**很高了，磨坊*停*了。请看https://example.org/weir（旧的），还有“桥”。",
        3,
    ),
    "links": (
        "",
        "The [old weir](https://example.org/weir/level) is high, see https://example.org/mill for more. ",
        3,
    ),
    "code": (
        "```python\n",
        "def level(gauge: int) -> float:\n    return gauge * 7.5  # metres\n\n",
        1.5,
    ),
}


def text_of(kind: str, characters: int) -> str:
    head, unit, _ = KINDS[kind]
    text = (head + unit * (characters // len(unit) + 1))[:characters]
    return f"{text.rstrip()}\n```\n" if kind == "code" else text


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The characters that were given to each of the three."""
    count: Counter[str] = Counter()

    def counted(owner: Any, name: str, kind: str) -> None:
        function = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            count[kind] += next(len(one) for one in args if isinstance(one, str))
            return function(*args, **options)

        monkeypatch.setattr(owner, name, call)

    inline._link_parts()
    for method in ("parse", "parseInline"):
        counted(MarkdownIt, method, PARSER)
    for method in ("match", "match_at_start", "test"):
        counted(LinkifyIt, method, ADDRESSES)
    for module in (html, renderer):
        counted(module, "clean", CLEANER)
    return count


def frames_of(kind: str, characters: int, size: int) -> Iterator[str]:
    """The shared frames of an answer, one for each delta."""
    answer, blocks = Answer(RUN), OpenBlocks(UUID(RUN))
    for event in told(text_of(kind, characters), size=size):
        after = answer.seq
        answer.apply(event)
        content, _ = blocks.shorten(answer.changes_since(after), after)
        blocks.confirm()
        yield Envelope(run=RUN, after=after, seq=answer.seq, check="", content=content).encoded()


def test_each_character_is_rendered_few_times(given: Counter[str]) -> None:
    found: dict[tuple[str, int], dict[str, float]] = {}

    for kind in KINDS:
        for size in SIZES:
            given.clear()
            for _ in frames_of(kind, CHARACTERS, size):
                pass
            figures = {name: given[name] / CHARACTERS for name in (PARSER, ADDRESSES, CLEANER)}
            found[kind, size] = figures

    table = "\n".join(f"{kind}, {size}: {figures}" for (kind, size), figures in found.items())
    for (kind, size), figures in found.items():
        assert max(figures.values()) <= KINDS[kind][2], f"{kind} in deltas of {size}:\n{table}"


@contextmanager
def made_strings() -> Iterator[Counter[str]]:
    """Counts the characters of all strings that functions of the renderer and of frames return."""
    made: Counter[str] = Counter()

    def note(frame: FrameType, event: str, value: object) -> None:
        if event == "return" and isinstance(value, str):
            module = frame.f_globals.get("__name__", "")
            if module.startswith(("chat.rendering", "chat.live")):
                made[frame.f_code.co_qualname] += len(value)

    sys.setprofile(note)
    try:
        yield made
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("plain", "nested list")])
def test_frame_costs_the_same_in_a_longer_block(kind: str) -> None:
    """The frames of the last characters of an open block, short and four times as long."""
    costs = []
    for characters in (700, 2_800):
        frames = frames_of(kind, characters, 5)
        for _ in range(characters // 5 - 40):
            next(frames)
        with made_strings() as made:
            for _ in range(38):
                next(frames)
        costs.append(made)

    short, long = (sum(made.values()) for made in costs)
    assert long <= 1.5 * short, f"{short} and {long} characters: {costs[1].most_common(8)}"
