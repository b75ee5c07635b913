"""The difference of two texts by lines: counted for cards, laid out for pages, with bounded cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

# Steps of the comparison at worst: a hundredth of a second for a card, which is made anew while
# others wait for their frames; two seconds for a page, which is one thread's.
CARD_STEPS = 100_000
PAGE_STEPS = 10_000_000
# Unchanged lines that are shown before and after a change.
CONTEXT_LINES = 3
# Limits of a page: lines, and characters of a line.
SHOWN_LINES = 2_000
SHOWN_LETTERS = 2_000

Kind = Literal["same", "added", "removed"]
# An opcode of ``difflib``: the operation, and its lines of the old and of the new text.
Step = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """``old`` and ``new`` are line numbers from 1, where that text has the line."""

    kind: Kind
    text: str
    old: int | None = None
    new: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDiff:
    """``hunks`` are the changes with their surroundings, in order. ``is_exact`` is false where the
    texts were too different to look for what they share."""

    hunks: Sequence[Sequence[DiffLine]]
    added: int
    removed: int
    is_exact: bool
    is_cut: bool


def count_changes(old: str, new: str) -> tuple[int, int]:
    """The numbers of added and removed lines; an upper bound for very different texts."""
    # A version with only another title has the same text, which costs nothing to compare.
    if old == new:
        return 0, 0
    before, after = _lines(old), _lines(new)
    steps = _steps(before, after, CARD_STEPS)
    if steps is not None:
        return _count(steps)
    lines, earlier = Counter(after), Counter(before)
    return (lines - earlier).total(), (earlier - lines).total()


def compare(old: str, new: str, *, most_steps: int = PAGE_STEPS) -> TextDiff:
    before, after = _lines(old), _lines(new)
    steps = _steps(before, after, most_steps)
    is_exact = steps is not None
    steps = steps or [("replace", 0, len(before), 0, len(after))]
    added, removed = _count(steps)
    hunks, is_cut = _cut(_hunks(steps, before, after))
    return TextDiff(hunks=hunks, added=added, removed=removed, is_exact=is_exact, is_cut=is_cut)


def _lines(text: str) -> list[str]:
    """The lines as editors count them: the last newline does not begin another line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _steps(before: Sequence[str], after: Sequence[str], most: int) -> list[Step] | None:
    """The steps that turn one into the other; ``None`` if finding them could take more than ``most``."""
    shortest = min(len(before), len(after))
    start = next((at for at in range(shortest) if before[at] != after[at]), shortest)
    end = next(
        (at for at in range(shortest - start) if before[-1 - at] != after[-1 - at]),
        shortest - start,
    )
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if _worst_case(old, new) > most:
        return None
    inner = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    middle = [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in inner]
    head: list[Step] = [("equal", 0, start, 0, start)] if start else []
    tail: list[Step] = (
        [("equal", len(before) - end, len(before), len(after) - end, len(after))] if end else []
    )
    return [*head, *middle, *tail]


def _worst_case(old: Sequence[str], new: Sequence[str]) -> int:
    """The number of steps that difflib needs at worst: the pairs of equal lines, for each common block."""
    counts = Counter(new)
    pairs = sum(counts[line] for line in old)
    return min(len(old), len(new), pairs) * (len(old) + pairs)


def _count(steps: Sequence[Step]) -> tuple[int, int]:
    changed = [step for step in steps if step[0] != "equal"]
    return sum(d - c for _, _, _, c, d in changed), sum(b - a for _, a, b, _, _ in changed)


def _hunks(
    steps: Sequence[Step], before: Sequence[str], after: Sequence[str]
) -> Iterator[list[DiffLine]]:
    """Changes that are close to each other share their surroundings. A change that is longer than
    what is shown is cut after one more line, which tells that: it may have millions."""
    hunk: list[DiffLine] = []
    for position, (tag, a, b, c, d) in enumerate(steps):
        if tag != "equal":
            most = SHOWN_LINES + 1
            hunk += [_line("removed", before[at], old=at) for at in range(a, min(b, a + most))]
            hunk += [_line("added", after[at], new=at) for at in range(c, min(d, c + most))]
            continue
        is_first, is_last = position == 0, position == len(steps) - 1
        if not is_first and not is_last and b - a <= 2 * CONTEXT_LINES:
            hunk += _same(before, range(a, b), c - a)
            continue
        if not is_first:
            yield [*hunk, *_same(before, range(a, min(b, a + CONTEXT_LINES)), c - a)]
        hunk = [] if is_last else _same(before, range(max(a, b - CONTEXT_LINES), b), c - a)
    if hunk:
        yield hunk


def _same(before: Sequence[str], places: range, shift: int) -> list[DiffLine]:
    """Unchanged lines; ``shift`` leads from their places in the old text to those in the new."""
    return [_line("same", before[at], old=at, new=at + shift) for at in places]


def _line(kind: Kind, text: str, *, old: int | None = None, new: int | None = None) -> DiffLine:
    shown = text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}…"
    return DiffLine(
        kind=kind,
        text=shown,
        old=None if old is None else old + 1,
        new=None if new is None else new + 1,
    )


def _cut(hunks: Iterator[list[DiffLine]]) -> tuple[list[list[DiffLine]], bool]:
    shown: list[list[DiffLine]] = []
    room = SHOWN_LINES
    for hunk in hunks:
        if len(hunk) > room:
            return ([*shown, hunk[:room]] if room else shown), True
        shown.append(hunk)
        room -= len(hunk)
    return shown, False
