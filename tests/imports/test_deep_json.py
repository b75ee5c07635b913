"""JSON of any depth gives what the library gives, where that can read it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.imports.deep_json import loads
from tests.support.selection import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@examples(100)
@given(VALUES, st.sampled_from([None, 1]))
def test_value_is_that_of_the_library(value: Any, indent: int | None) -> None:
    assert loads(json.dumps(value, indent=indent)) == value


@examples(100)
@given(st.text('[]{}:,"1 a\\', max_size=8))
def test_other_text_is_refused_as_by_the_library(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            loads(text)
    else:
        assert loads(text) == expected


def test_depth_has_no_limit() -> None:
    value = loads('[{"a":' * 20_000 + "1" + "}]" * 20_000)

    depth = 0
    while isinstance(value, list):
        value, depth = value[0]["a"], depth + 1
    assert (depth, value) == (20_000, 1)
