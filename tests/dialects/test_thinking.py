"""Splitting reasoning between tags from the text, wherever the text is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.dialects.thinking import Mode, ThinkSplitter

CASES: list[tuple[Mode, str, str, str]] = [
    ("auto", "<think>a</think>b", "a", "b"),
    ("auto", " \n<think>\na\n</think>\n\nb", "a\n", "b"),
    ("auto", "<think></think>b", "", "b"),
    ("auto", "<think>a", "a", ""),
    ("auto", "<think>a</thi", "a</thi", ""),
    ("auto", "b<think>a</think>", "", "b<think>a</think>"),
    ("auto", "<thinking>b", "", "<thinking>b"),
    ("auto", " <thi", "", " <thi"),
    ("auto", "  b", "", "  b"),
    ("auto", "<think>a<b></think>c</think>d", "a<b>", "c</think>d"),
    ("auto", "", "", ""),
    ("off", "<think>a</think>b", "", "<think>a</think>b"),
    ("assume_open", "a</think>b", "a", "b"),
    ("assume_open", "<think>a</think>b", "a", "b"),
    ("assume_open", "a", "a", ""),
    ("assume_open", "<thi", "<thi", ""),
]


def split(mode: Mode, chunks: list[str]) -> tuple[str, str]:
    splitter = ThinkSplitter(mode)
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)] + splitter.close()
    texts = {"reasoning": "", "message": ""}
    for kind, text in pieces:
        assert text
        texts[kind] += text
    return texts["reasoning"], texts["message"]


def test_text_is_split_wherever_it_is_cut(subtests: pytest.Subtests) -> None:
    for mode, text, reasoning, message in CASES:
        with subtests.test(mode=mode, text=text):
            assert split(mode, [text]) == (reasoning, message)
            assert split(mode, list(text)) == (reasoning, message)
            for cut in range(len(text)):
                assert split(mode, [text[:cut], text[cut:]]) == (reasoning, message)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "think", ">", " ", "a", "\n", "/"])))
def test_any_cut_of_any_text_changes_nothing(parts: list[str]) -> None:
    assert split("auto", parts) == split("auto", ["".join(parts)])


def test_separate_reasoning_disables_tags() -> None:
    splitter = ThinkSplitter()

    held = splitter.feed(" <thi")

    assert held == []
    assert splitter.disable() == [("message", " <thi")]
    assert splitter.feed("nk>x") == [("message", "nk>x")]


def test_nothing_is_held_back_after_the_message_began() -> None:
    splitter = ThinkSplitter()

    splitter.feed("Hello")

    assert splitter.is_transparent
    assert splitter.feed("<think>") == [("message", "<think>")]


def test_endless_blanks_are_not_held_back() -> None:
    splitter = ThinkSplitter()

    pieces = [piece for _ in range(1000) for piece in splitter.feed("\n")]

    assert splitter.is_transparent
    assert sum(len(text) for _, text in pieces) == 1000
