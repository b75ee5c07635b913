"""Paragraphs of words alone are rendered without the parser, and appended to while they grow."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chat import events
from chat.rendering import markdown
from chat.rendering.patches import Answer
from tests.rendering.dom import Page, parse
from tests.rendering.stories import RUN, answer_of

LINES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60) | st.text(
    "abc \"'(@$#-+=.:;!?%/{}^1) \u00a0\u3000\u200b\u202e\ufeff\u2028é…😀", min_size=1, max_size=30
)


@given(line=LINES)
@example(line="a # b")
@example(line="a  ")
@example(line=" ")
@example(line="\"quoted\" and 'quoted'")
@example(line="$5 {x} ^2 = 1) + 2. - 3: http://example.org/?a=b me@example.org")
def test_shortcut_equals_the_parser(line: str) -> None:
    line = markdown.clean_source(line).rstrip(" \n")
    if not (markdown.begins_words(line) and markdown.is_words(line)):
        return

    shortcut = markdown.render_block(line, markdown.References().scope())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(markdown, "begins_words", lambda text: False)
        assert shortcut == markdown.render_block(line, markdown.References().scope())


def answer_in(*pieces: str) -> Answer:
    """The answer whose deltas are these, from seq 3 on."""
    return answer_of(
        events.ChatStart(model_instance_id="m"),
        events.MessageStart(item=0),
        *(events.MessageDelta(item=0, content=piece) for piece in pieces),
    )


def test_growing_paragraph_is_sent_once() -> None:
    patches = answer_in("The river ", "is high", " today").patches_since(4)

    assert " today" in patches
    assert "river" not in patches


def test_blank_line_closes_the_paragraph() -> None:
    answer = answer_in("The river.", "\n", "\n", "The mill ", "stands")

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
def test_pages_are_equal_wherever_they_joined(pieces: tuple[str, ...]) -> None:
    expected = parse(answer_in(*pieces).snapshot()).inner()

    for joined in range(len(pieces) + 1):
        page = Page(RUN, answer_in(*pieces[:joined]).snapshot())
        for count in range(joined + 1, len(pieces) + 1):
            page.apply(answer_in(*pieces[:count]).patches_since(count + 1))

        assert page.answer.inner() == expected
