"""Work is linear in the text, counted in characters, for any syntax."""

from dataclasses import dataclass
from html import escape

import pytest

from chat.events import Event
from chat.rendering.markdown import Outline, Scope, blocks, flow, open_html
from chat.rendering.markdown.renderer import Rendered
from chat.rendering.patches import Answer
from tests.rendering.stories import RUN, answer_after, told
from tests.support.selection import EXHAUSTIVE

# `make test` divides the length of a text, of a frame and of an open block by the same number.
SCALE = 1 if EXHAUSTIVE else 4
DELTAS = 2500 // SCALE
DELTA_CHARACTERS = 6
# A frame for every fortieth delta: 240 characters, as with a fast model.
DELTAS_PER_FRAME = 40 // SCALE
SHORT_BLOCK_CHARACTERS = 4000 // SCALE

# Each search is the square root of two as far from the one before: how often that is for each character.
MOST_IN_VAIN = 2**0.5 / (2**0.5 - 1)

UNITS = {
    "plain": "Some sentence of *several* words that goes on. " * 5 + "\n\n",
    "list": "- item with **some** words\n",
    "loose list": "1. item with **some** words\n\n",
    "nested list": "- a\n  - b with words\n    - c and more\n",
    "table": "| a cell | another **cell** |\n",
    "paragraph": "word *word* word word\n",
    "one line": "word **word** word ",
    "quote": "> word *word* word word\n",
    "fence": "x = f(1, 'two')  # three\n",
    "formulas": "$$\na = b^2\n+ c\n$$\n",
    "open formula": "+ c_1 \\\\\n",
    "half formulas": "$$ a\n\\[ b\n",
    "definitions": "[a]: https://x.org\n",
    "notes": "word[^a]\n\n[^a]: note\n",
}
HEADS = {"open formula": "$$\n", "table": "| h | i |\n|---|---|\n", "fence": "```py\n"}


@dataclass
class Work:
    """Characters that were searched for the end of a block, rendered, and sent."""

    searched: int = 0
    rendered: int = 0
    sent: int = 0


def story(kind: str, deltas: int) -> list[Event]:
    length = deltas * DELTA_CHARACTERS
    text = HEADS.get(kind, "") + UNITS[kind] * (length // len(UNITS[kind]) + 1)
    return told(text[:length], size=DELTA_CHARACTERS)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    work = Work()
    search = flow.outline

    def outline(text: str, scope: Scope) -> Outline:
        work.searched += len(text)
        return search(text, scope)

    def render_block(source: str, scope: Scope) -> str:
        work.rendered += len(source)
        return f"<p>{escape(source)}</p>"

    def render_growing(text: str, scope: Scope) -> Rendered | None:
        work.rendered += len(text)
        return render(text, scope)

    render = open_html.render_growing
    monkeypatch.setattr(open_html, "render_growing", render_growing)
    monkeypatch.setattr(blocks, "FIRST_SEARCH", blocks.FIRST_SEARCH // SCALE)
    open_characters = blocks.OPEN_CHARACTERS // SCALE
    for module in (blocks, flow):
        monkeypatch.setattr(module, "OPEN_CHARACTERS", open_characters)
        monkeypatch.setattr(module, "outline", outline)
    monkeypatch.setattr(blocks, "render_block", render_block)
    return work


def cost(work: Work, kind: str, deltas: int) -> Work:
    before = Work(work.searched, work.rendered, work.sent)
    answer = Answer(RUN)
    seen = 0
    for event in story(kind, deltas):
        answer.apply(event)
        if event.seq - seen >= DELTAS_PER_FRAME:
            work.sent += len(answer.patches_since(seen))
            seen = answer.seq
    work.sent += len(answer.patches_since(seen))
    return Work(
        work.searched - before.searched, work.rendered - before.rendered, work.sent - before.sent
    )


# What stands in an open formula costs nothing until it is too long for one.
@pytest.mark.parametrize("kind", [kind for kind in UNITS if kind != "open formula"])
def test_work_grows_linearly_with_the_text(kind: str, work: Work) -> None:
    small, large = cost(work, kind, DELTAS), cost(work, kind, 4 * DELTAS)

    assert large.sent <= 4.4 * small.sent
    assert large.rendered <= 4.4 * small.rendered + blocks.OPEN_CHARACTERS
    # Only the longer text is searched in vain, as a block without an end.
    in_vain = MOST_IN_VAIN * 4 * DELTAS * DELTA_CHARACTERS
    assert large.searched <= 4.4 * small.searched + in_vain


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("| a |\n|---|\n", "| y |\n"),
        ("- a\n", "y\n"),
        ("> a\n", "y\n"),
        ("[^1]: a\n", "y\n"),
        ("[^1]: a\n", "\n    y\n"),
        ("", "    y\n"),
        ("a\n", "2. y\n"),
    ],
)
def test_short_lines_are_not_searched_one_by_one(head: str, line: str, work: Work) -> None:
    text = head + line * (SHORT_BLOCK_CHARACTERS // len(line))

    answer_after(told(text, size=DELTA_CHARACTERS))

    assert work.searched <= 20 * blocks.OPEN_CHARACTERS


@pytest.mark.parametrize(
    "kind", ["list", "table", "paragraph", "one line", "quote", "open formula"]
)
def test_frames_render_only_the_end_of_an_open_block(kind: str, work: Work) -> None:
    deltas = 2 * DELTAS

    spent = cost(work, kind, deltas)

    frames = deltas / DELTAS_PER_FRAME
    assert spent.rendered <= frames * 1.5 * blocks.OPEN_CHARACTERS
    assert spent.searched <= frames * 2 * blocks.OPEN_CHARACTERS


def test_closed_block_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []
    render = blocks.render_block

    def render_block(source: str, scope: Scope) -> str:
        rendered.append(source)
        return render(source, scope)

    monkeypatch.setattr(blocks, "render_block", render_block)
    answer = Answer(RUN)
    for event in told("".join(f"paragraph {i}\n\n" for i in range(200)), size=DELTA_CHARACTERS):
        answer.apply(event)
        answer.snapshot()

    assert rendered.count("paragraph 7") <= 4
