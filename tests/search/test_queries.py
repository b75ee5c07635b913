"""The query language: what is typed becomes a query, and a query the same text again."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.search.tokens import Query, operator, parse

PIECES = st.sampled_from(
    [
        *("willow", "in autumn", '"in autumn"', "-spring", '-"late spring"', "東京都", "a:b", "x:"),
        *("from:ana", 'from:"Ana Lima"', "FROM:Ben", "model:demo/writer", 'server:"LM Studio"'),
        *(
            "has:file",
            "has:image",
            "is:shared",
            "is:pinned",
            "in:Bridge",
            'in:"Neue Brücke"',
            "before:2026-11-01",
            "after:2026-02-03",
        ),
        *('"', "-", "has:nothing", "-from:ana", "before:soon", "from:", 'from:""', "\x00", "  "),
    ]
)


def understood(query: Query) -> tuple[object, ...]:
    """All of a query that decides what is found."""
    words = [
        [(one.tokens, one.is_prefix) for one in each] for each in (query.wanted, query.excluded)
    ]
    return (*words, query.filters)


@given(st.lists(PIECES, max_size=8).map(" ".join) | st.text(max_size=60))
def test_query_as_text_is_the_same_query(text: str) -> None:
    query = parse(text)

    again = parse(str(query))

    assert understood(again) == understood(query)
    assert str(again) == str(query)
    assert again.ignored == ()


def test_filters_and_words_are_told_apart() -> None:
    query = parse('wil from:"Ana Lima" "in autumn" has:file has:image after:2026-02-03 -spring oa')

    assert query.words == 'wil "in autumn" -spring oa'
    assert query.filters == [
        ("from", "ana lima"),
        ("after", "2026-02-03"),
        ("has", "file"),
        ("has", "image"),
    ]
    assert [(one.text, one.is_prefix) for one in query.wanted] == [
        ("wil", False),
        ("in autumn", False),
        ("oa", True),
    ]


def test_last_value_of_a_filter_counts() -> None:
    query = parse("from:ana from:ben before:2026-01-01 before:2026-02-01")

    assert (query.person, query.before) == ("ben", date(2026, 2, 1))


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("has:nothing willow", "has:nothing"),
        ("willow before:soon", "before:soon"),
        ("-from:ana willow", "-from:ana"),
        ('from:"" willow', "from:"),
    ],
)
def test_operators_that_are_not_understood_are_noted(text: str, ignored: str) -> None:
    query = parse(text)

    assert query.ignored == (ignored,)
    assert query.words.strip() == "willow"


def test_words_before_a_filter_are_whole_words() -> None:
    assert [parse(text).wanted[0].is_prefix for text in ("wil", "wil ", "wil from:ana")] == [
        True,
        False,
        False,
    ]


def test_value_with_spaces_is_quoted() -> None:
    assert operator("from", 'Ana "A" Lima') == 'from:"Ana  A  Lima"'
    assert operator("model", "demo/writer") == "model:demo/writer"
