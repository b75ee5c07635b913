"""Splitting reasoning between tags from the text, wherever the text is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.dialects.thinking import Mode, ThinkSplitter, has_lone_closing

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
    ("auto", "<mm:think>a</mm:think>b", "a", "b"),
    ("auto", "<seed:think>a</seed:think>\nb", "a", "b"),
    ("auto", "◁think▷a◁/think▷b", "a", "b"),
    ("auto", "[THINK]a[/THINK]b", "a", "b"),
    ("auto", "<|channel>thought\na<channel|>b", "a", "b"),
    ("auto", "<|START_THINKING|>a<|END_THINKING|>b", "a", "b"),
    ("auto", "<|inner_prefix|>a<|inner_suffix|>b", "a", "b"),
    ("auto", "<thinking>\na</thinking>\nb", "a", "b"),
    ("auto", "<thought>a</thought> b <thought>c</thought>", "a", "b <thought>c</thought>"),
    ("auto", "<thought>a</thought>", "", "<thought>a</thought>"),
    ("auto", "<thinking>a</thinking> \n", "", "<thinking>a</thinking> \n"),
    ("auto", "<thinking>a</think>b", "", "<thinking>a</think>b"),
    ("auto", "<think>a</think><think>b</think>c", "a\n\nb", "c"),
    ("auto", "<think>a</think>\n<thought>b</thought>c", "a\n\nb", "c"),
    ("auto", "<think>a `</think>` b</think>c", "a `</think>` b", "c"),
    ("auto", "<think>a `</think>b", "a `", "b"),
    ("auto", "`<think>`a</think>", "", "`<think>`a</think>"),
    ("assume_open", "a[/THINK]b", "a", "b"),
    (
        "auto",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
        "a",
        "b",
    ),
    (
        "auto",
        "<|start|>assistant<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
        "",
        "a\n\nb",
    ),
    ("auto", "<|channel|>analysis<|message|>a<b <|x|", "a<b <|x|", ""),
    (
        "auto",
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
        "",
        "commentary to=functions.f json\n{}",
    ),
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


@given(
    st.lists(
        st.sampled_from(
            [
                "<think>",
                "</think>",
                "<",
                "think",
                ">",
                " ",
                "a",
                "\n",
                "/",
                "`",
                "<thought>",
                "</thought>",
                "<|end|>",
                "<|channel|>",
            ]
        )
    )
)
def test_any_cut_of_any_text_changes_nothing(parts: list[str]) -> None:
    assert split("auto", parts) == split("auto", ["".join(parts)])


STRICT: list[tuple[str, str, str]] = [
    ("<think>a</think>b", "a", "b"),
    (" <think> a</think> b", " a"[1:], "b"),
    ("<think>a", "", "<think>a"),
    (" <think>a</think>", "", " <think>a</think>"),
    ("[THINK]a[/THINK]\nb", "a", "b"),
]


def test_strict_marks_count_if_they_are_closed_and_text_follows(subtests: pytest.Subtests) -> None:
    for text, reasoning, message in STRICT:
        with subtests.test(text=text):
            for cut in range(len(text)):
                splitter = ThinkSplitter()
                pieces = splitter.feed("")
                splitter.be_strict()
                pieces += splitter.feed(text[:cut]) + splitter.feed(text[cut:]) + splitter.close()

                assert "".join(t for kind, t in pieces if kind == "reasoning") == reasoning
                assert "".join(t for kind, t in pieces if kind == "message") == message


def test_separate_reasoning_after_the_mark_makes_it_strict() -> None:
    splitter = ThinkSplitter()

    assert splitter.feed(" <think>") == []
    splitter.be_strict()

    assert splitter.feed("x") == []
    assert splitter.close() == [("message", " <think>x")]


def test_endless_pair_is_not_held_back() -> None:
    splitter = ThinkSplitter()

    pieces = splitter.feed("<thought>") + [p for _ in range(100) for p in splitter.feed("a" * 999)]

    assert splitter.is_transparent
    assert sum(len(text) for _, text in pieces) == len("<thought>") + 99_900


def test_lone_closing_mark_is_found_outside_of_code() -> None:
    assert has_lone_closing("a</think>b")
    assert has_lone_closing("a[/THINK]b")
    assert not has_lone_closing("<think>a</think>b")
    assert not has_lone_closing("a `</think>` b")
    assert not has_lone_closing("```\n</think>\n```")


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
