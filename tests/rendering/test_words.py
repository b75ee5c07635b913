"""A paragraph of words alone: rendered without the parser, and appended to while it grows."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chat import events
from chat.rendering import markdown
from chat.rendering.patches import Answer
from tests.rendering.dom import Page, parse

RUN = "0" * 32
LINES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60) | st.text(
    "abc \"'(@$#-+=.:;!?%/{}^1) \u00a0\u3000\u200b\u202e\ufeff\u2028é…😀", min_size=1, max_size=30
)


@given(line=LINES)
@example(line="a # b")
@example(line="a  ")
@example(line=" ")
@example(line="\"quoted\" and 'quoted'")
@example(line="$5 {x} ^2 = 1) + 2. - 3: http://example.org/?a=b me@example.org")
def test_words_are_what_the_parser_would_make_of_them(line: str) -> None:
    line = markdown.clean_source(line).rstrip(" \n")
    if not (markdown.begins_words(line) and markdown.is_words(line)):
        return

    shortcut = markdown.render_block(line, markdown.References().scope())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(markdown, "begins_words", lambda text: False)
        assert shortcut == markdown.render_block(line, markdown.References().scope())


def answer_of(*pieces: str) -> Answer:
    answer = Answer(RUN)
    answer.apply(events.ChatStart(model_instance_id="m", seq=1))
    answer.apply(events.MessageStart(item=0, seq=2))
    for number, piece in enumerate(pieces, start=3):
        answer.apply(events.MessageDelta(item=0, content=piece, seq=number))
    return answer


def test_open_paragraph_of_words_is_sent_once() -> None:
    answer = answer_of("The river ", "is high", " today")

    patches = answer.patches_since(4)

    assert " today" in patches
    assert "river" not in patches


def test_paragraph_is_closed_by_the_blank_line_behind_it() -> None:
    answer = answer_of("The river.", "\n", "\n", "The mill ", "stands")

    assert "river" in answer.patches_since(4)
    assert "river" not in answer.patches_since(5)
    assert "stands" in answer.patches_since(6)
    assert "mill" not in answer.patches_since(6)


@pytest.mark.parametrize(
    "pieces",
    [
        ("The river ", "is *very* ", "high"),
        ("The river", "\n===\n", "below"),
        ("The river", "\n| a |\n|---|\n", "| b |\n"),
        ("\n\n", "The ", "river\n\n", "\n\n", "mill"),
        ("1", ". first", " of it"),
        ("The river\n\n", "```\ncode", " more\n```\n", "and ", "words"),
        ("word " * 900, "and more", " of it\n\n", "next"),
    ],
)
def test_page_is_the_same_wherever_it_joined(pieces: tuple[str, ...]) -> None:
    for joined in range(2, len(pieces) + 3):
        page = Page(RUN, answer_of(*pieces[: joined - 2]).snapshot())
        for shown in range(joined, len(pieces) + 2):
            page.apply(answer_of(*pieces[: shown - 1]).patches_since(shown))
        assert page.answer.inner() == parse(answer_of(*pieces).snapshot()).inner()
