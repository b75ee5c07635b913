"""The cuts of a long text: a page shows its beginning, and slices bring the rest."""

from dataclasses import dataclass

from chat.rendering.markdown.renderer import Outline


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of the part of a text that is shown, in characters of its source.

    From ``head`` to ``head_end`` are the lines that a slice from ``at`` needs before it: the head
    of its table, or the fence of its code.
    """

    at: int
    head: int = 0
    head_end: int = 0

    @property
    def name(self) -> str:
        return f"{self.at}-{self.head}-{self.head_end}"


def place_to_tear(text: str) -> int:
    middle = len(text) // 2
    return text.rfind("\n", middle) + 1 or text.rfind(" ", middle) + 1 or len(text)


def head_of(found: Outline, start: int) -> tuple[int, int]:
    """The position of the lines that a slice behind this text needs before it."""
    last = found.spans[-1] if found.spans else None
    lines = {"fence": 1, "table_open": 2}.get(last.kind, 0) if last else 0
    if last is None or not lines:
        return 0, 0
    begin = start + sum(len(line) + 1 for line in found.lines[: last.start])
    return begin, begin + sum(len(line) + 1 for line in found.lines[last.start :][:lines])


def behind(cut: Cut, head_length: int, inner: Cut) -> Cut:
    """A cut of a slice, which begins with the head of what was cut before it, in the whole text."""

    def place(offset: int) -> int:
        in_text = offset >= head_length
        return cut.at + offset - head_length if in_text else cut.head + offset

    has_head = inner.head_end > inner.head
    head = place(inner.head) if has_head else 0
    return Cut(place(inner.at), head, head + inner.head_end - inner.head)
