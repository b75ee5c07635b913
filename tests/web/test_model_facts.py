"""Facts about models in a few words."""

from __future__ import annotations

import pytest

from chat.web.model_facts import tokens_in_words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (999, "999"),
        (1000, "1K"),
        (8192, "8K"),
        (128_000, "128K"),
        (131_072, "128K"),
        (200_100, "200K"),
        (1_048_576, "1M"),
        (1_250_000, "1.25M"),
    ],
)
def test_tokens_are_written_as_vendors_write_them(count: int, words: str) -> None:
    assert tokens_in_words(count) == words
