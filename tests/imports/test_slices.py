"""Boundaries of conversations in JSON: the same for slices of any length."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.imports import slices
from chat.imports.slices import Incomplete, NotJson, TooDeep, TooMany, outline
from tests.support.selection import examples

LENGTHS = [1, 2, 3, 7, 1 << 20]
TEXTS = st.sampled_from(["", 'a"b\\', "[{,]}", "conversations", "é漢\\u", '",', "\\\\"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**14) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def length(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda number: monkeypatch.setattr(slices, "SLICE_BYTES", number)


def read(body: bytes, *, most: int = 50, most_bytes: int = 10**6) -> list[Any]:
    found = outline(io.BytesIO(body), most=most, deepest=20)
    items = slices.slices(io.BytesIO(body), found, most_bytes=most_bytes)
    return [None if item is None else json.loads(item) for item in items]


@examples(60)
@given(st.lists(VALUES, max_size=4), VALUES, st.booleans())
def test_every_conversation_is_found(values: list[Any], other: Any, is_pretty: bool) -> None:
    single = {"x": other, "n": 1}
    documents: list[tuple[Any, list[Any]]] = [
        (values, values),
        ({"x": other, "conversations": values, "y": [other]}, values),
        (single, [single]),
    ]
    before = slices.SLICE_BYTES
    for document, expected in documents:
        body = json.dumps(document, indent=1 if is_pretty else None, ensure_ascii=is_pretty)
        for length in LENGTHS:
            slices.SLICE_BYTES = length
            try:
                assert read(b"\xef\xbb\xbf " + body.encode() + b"\n") == expected
            finally:
                slices.SLICE_BYTES = before


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", NotJson),
        (b" \n", NotJson),
        (b"<html>", NotJson),
        (b'"text"', NotJson),
        (b"{}\n{}", NotJson),
        (b"[1] x", NotJson),
        (b"[1,2", Incomplete),
        (b"[1,]", Incomplete),
        (b"[,1]", Incomplete),
        (b"[1}", Incomplete),
        (b"{]", Incomplete),
        (b'[{"a', Incomplete),
        (b"[" * 21 + b"]" * 21, TooDeep),
        (b"[" * 21, TooDeep),
        (b"[1,7,3,", TooMany),
    ],
)
def test_other_files_are_named(body: bytes, error: type[Exception], length: Any) -> None:
    for number in LENGTHS:
        length(number)
        with pytest.raises(error):
            read(body, most=2)


def test_scan_ends_at_the_first_conversation_too_many(length: Any) -> None:
    length(100)
    file = io.BytesIO(b"[" + b"1,7,3," * 100_000)

    with pytest.raises(TooMany):
        outline(file, most=30, deepest=20)
    assert file.tell() == 100


def test_conversation_that_is_too_large_leaves_the_others(length: Any) -> None:
    body = json.dumps([{"a": 1}, {"b": "x" * 500}, {"c": 1}]).encode()

    for number in LENGTHS:
        length(number)
        assert read(body, most_bytes=100) == [{"a": 1}, None, {"c": 1}]
