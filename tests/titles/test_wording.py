"""The title in what a model wrote, whatever that is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.titles.wording import MOST_QUOTED, request_text, title_in

WRITTEN = [
    ("Bread at home", "Bread at home"),
    ("  \n\n# Bread at home\n\nHere is why …", "Bread at home"),
    ('"Bread at home."', "Bread at home"),
    ("**Title:** «Brot zu Hause»", "Brot zu Hause"),
    ("title: `Bread`", "Bread"),
    ("「自家製パン」", "自家製パン"),
    ("<think>The user wants\n\na title.</think>\n\nBread at home", "Bread at home"),
    ("<think>It never ends", ""),
    ("- Bread [at home](https://example.org)", "Bread at home"),
    ("Bread\tat   home", "Bread at home"),
    ("\u202eemoh ta\x1b[31m daerB\x00", "emoh ta[31m daerB␀"),
    ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ("", ""),
    ("```\n```", ""),
    ("…", ""),
    ('"".', ""),
    ("\ud800 lone", "? lone"),
]


def test_title_is_one_clean_line(subtests: pytest.Subtests) -> None:
    for written, title in WRITTEN:
        with subtests.test(ascii(written)):
            assert title_in(written) == title


def test_long_text_is_cut() -> None:
    assert len(title_in("word " * 100_000)) <= 61
    assert len(title_in("x" * 1_000_000)) <= 61


@given(st.text())
def test_any_text_gives_a_line_that_can_be_stored(written: str) -> None:
    title = title_in(written)

    assert len(title) <= 200
    assert title == title.strip()
    assert len(title.splitlines()) <= 1
    assert not {"Cc", "Cs", "Co"} & {unicodedata.category(letter) for letter in title}


def test_request_quotes_no_more_than_the_beginning() -> None:
    text = request_text("q" * 100_000, "a" * 100_000)

    assert text.count("q" * MOST_QUOTED) == text.count("a" * MOST_QUOTED) == 1
    assert len(text) < 2 * MOST_QUOTED + 300
