"""A body may have the bytes of some pictures, but not as many small values as fit into them."""

from __future__ import annotations

import json

import pytest

from chat.programs.errors import ApiError
from chat.programs.requests import read_request


def test_millions_of_small_values_are_refused_before_they_are_made() -> None:
    body = b'{"model": "m", "input": "x", "parameters": {"a": [%s[]]}}' % (b"[]," * 1_000_000)

    with pytest.raises(ApiError, match="too many values"):
        read_request(body)


@pytest.mark.parametrize("text", [",[{" * 100_000, '",' * 100_000, "\\" * 99_999 + "[," * 50_000])
def test_whatever_a_text_is_full_of_it_is_one_value(text: str) -> None:
    assert read_request(json.dumps({"model": "m", "input": text}).encode()).text == text


@pytest.mark.parametrize(
    "body", [b'"' * 99_999 + b"[," * 50_000, b'{"' + b"\\" * 99_999 + b"[" * 50_000]
)
def test_what_is_no_json_is_said_in_reasonable_time(body: bytes) -> None:
    with pytest.raises(ApiError):
        read_request(body)
