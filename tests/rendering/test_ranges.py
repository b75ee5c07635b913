"""Tokens of a Markdown text, each marked where the rendered text shows it."""

import random
import re
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.rendering.markdown import render, render_ranges
from tests.hostile.grammar import PIECES, texts
from tests.hostile.rules import problems_in
from tests.rendering.documents import documents_with_notes
from tests.rendering.hostile_texts import HOSTILE

WITHOUT_MARKS = re.compile(r"</?hl-\d+>")
MARKED = re.compile(r"<hl-(\d+)>(.*?)</hl-\1>", re.DOTALL)


def marked(*tokens: str) -> str:
    return render_ranges(
        list(tokens),
        "doc",
        lambda number, text: f"<hl-{number}>{escape(text, False)}</hl-{number}>",
    )


def shown(*tokens: str) -> list[tuple[int, str]]:
    """What is shown of which token."""
    return [(int(number), text) for number, text in MARKED.findall(marked(*tokens))]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["Two", " metres"], [(0, "Two"), (1, " metres")]),
        (["A ", "**", "bold", "**", " weir"], [(0, "A "), (2, "bold"), (4, " weir")]),
        (["A ", "**bo", "ld** we", "ir"], [(0, "A "), (1, "bo"), (2, "ld"), (2, " we"), (3, "ir")]),
        (["1.", " one\n", "2", ".", " two"], [(1, " one"[1:]), (4, "two")]),
        (["[", "a", "](https://a.b/", ".", ")", "."], [(1, "a"), (5, ".")]),
        (["5 ", "\\", "*", " 6 &", "amp;", " &eacute;", " 7"], [(0, "5 "), (2, "*"), (3, " 6 &amp;"), (5, " "), (6, " 7")]),
        (["```py\n", "a <", " b\n", "```"], [(1, "a &lt;"), (2, " b\n")]),
        (["a\r", "\nb"], [(0, "a\n"), (1, "b")]),
        (["", "x", ""], [(1, "x")]),
    ],
)  # fmt: skip
def test_each_token_is_marked_where_it_is_shown(
    tokens: list[str], expected: list[tuple[int, str]]
) -> None:
    assert shown(*tokens) == expected


def test_cells_of_a_table_are_marked_and_nothing_between_them() -> None:
    html = marked("| a |", " b |\n|---|---|\n", "| 1 | ", "2 |\n")

    assert [text for _, text in MARKED.findall(html)] == ["a", "b", "1", "2"]
    assert '<div class="table-scroll"' in html


def pieces_of(text: str, rng: random.Random) -> list[str]:
    places = sorted(rng.choices(range(len(text) + 1), k=len(text) // 3))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@given(documents_with_notes, st.randoms(use_true_random=False))
def test_marks_change_nothing_else(text: str, rng: random.Random) -> None:
    unmarked = WITHOUT_MARKS.sub("", marked(text))

    assert WITHOUT_MARKS.sub("", marked(*pieces_of(text, rng))) == unmarked
    if "<code" not in unmarked:
        assert unmarked == render(text)


@given(documents_with_notes)
def test_marks_are_in_their_order(text: str) -> None:
    numbers = [number for number, _ in shown(*text)]

    assert numbers == sorted(numbers)


def test_marked_hostile_texts_are_harmless() -> None:
    rng = random.Random(1)

    def html(text: str) -> str:
        return (
            render_ranges(pieces_of(text, rng), "doc", lambda _, piece: f"<b>{escape(piece)}</b>")
            .replace("<b>", '<span class="odd">')
            .replace("</b>", "</span>")
        )

    hostile = [*HOSTILE, *PIECES, *texts(300, seed=7)]
    found = [(text, problems_in(html(text))) for text in hostile]

    assert [(text, problems) for text, problems in found if problems] == []
