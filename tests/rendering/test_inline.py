"""Simple lines are rendered without the parser, and open blocks are added to while they grow."""

from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chat import events
from chat.live.frames import OpenBlocks, ShortPatch
from chat.rendering import markdown
from chat.rendering.markdown import renderer
from chat.rendering.markdown.inline import PARAGRAPH, read_line
from chat.rendering.patches import Answer
from tests.rendering.dom import Page, parse
from tests.rendering.stories import RUN, answer_of
from tests.support.selection import EXHAUSTIVE

PIECES = st.sampled_from(
    [
        *(
            "word",
            "a",
            "The",
            "foo_bar",
            " ",
            " ",
            "  ",
            "**",
            "*",
            "_",
            "`",
            "``",
            "[",
            "]",
            "(",
            ")",
        ),
        *(
            "](",
            "https://",
            "http:/",
            "https://x.org/a",
            "x.org",
            "://",
            "/",
            ":",
            "@",
            "me@x.org",
            "&",
        ),
        *(
            "&amp;",
            "&lt",
            "<",
            "<b>",
            ">",
            "$",
            "$$",
            "~",
            "~~",
            "!",
            "![",
            "\\",
            "|",
            ".",
            ",",
            ";",
            "?",
        ),
        *(
            "-",
            "--",
            "1",
            "12",
            "é",
            "看",
            "。",
            "“",
            "”",
            "😀",
            "__init__",
            "**b**",
            "`c d`",
            "[1]",
            "[^1]",
        ),
        *(
            "[l](https://x.org/y)",
            "#",
            "=",
            "+",
            "'",
            '"',
            "mailto:",
            "xn--",
            "…",
            "\u200d",
            "²",
            "{",
            "}",
        ),
        *(
            "^",
            "%",
            "ﬁ",
            "İ",
            "\u00a0",
            "\u3000",
            "\u200b",
            "\u202e",
            "\ufeff",
            "(",
            "ftp://x.org",
            "-_",
        ),
        *(
            "字",
            "한",
            "，",
            "）",
            "（",
            "：",
            "**字**",
            "*。*",
            "__字__",
            "https://字",
            "\ufe00",
            "\U000e0100",
            "<br>",
            "——",
        ),
    ]
)
LINES = st.lists(PIECES, min_size=1, max_size=14).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60
)


def by_the_parser(line: str) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(renderer, "_simple", lambda source, scope: None)
        return markdown.render_block(line, markdown.References().scope())


@settings(max_examples=8_000 if EXHAUSTIVE else 200)
@given(line=LINES, more=st.lists(PIECES, max_size=5).map("".join))
@example(line="a # b", more=" c")
@example(line="看**水**", more="**")
@example(line="见https://x.org", more="a@x.org")
@example(line="**Note:** 5 * 3, f(*a) and snake_case", more="*")
@example(line="$5 {x} ^2 = 1) + 2. - 3: http://example.org/?a=b me@example.org", more="$")
@example(line="[a [b] c](https://example.org/d_e) `**f**`", more="")
def test_simple_line_equals_the_parser(line: str, more: str) -> None:
    line = markdown.clean_source(line).replace("\n", " ").rstrip(" ")
    simple = read_line(line, has_references=False) if PARAGRAPH.match(line) else None
    if simple is None:
        return

    assert f'<p dir="auto">{simple.html}</p>' == by_the_parser(line)
    longer = by_the_parser(markdown.clean_source(line + more).replace("\n", " "))
    assert longer.startswith(f'<p dir="auto">{simple.html[: simple.settled_html]}')


@pytest.mark.parametrize(
    "line",
    [
        "The river is high today (see the weir), isn't it?",
        "**Note:** the `level of` the *mill*, and snake_case & more",
        "Read [the report](https://example.org/a_b/c.html), or https://example.org/d.",
        "水位很高。磨坊停了",
        "**注意：**水位**很高**了，见https://example.org/a（说明）。磨坊*停了*吗",
        "The river of the valley\nis high today",
        "- the river\n- the **mill**\n  - stands `still`\n- and more",
        "1. the river\n2. the mill\n   - stands\n3. and more",
    ],
)
def test_usual_lines_need_no_parser(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(renderer, "full_parser")

    assert parse(markdown.render_block(line, markdown.References().scope())).words()


def answer_in(*pieces: str) -> Answer:
    """The answer whose deltas are these, from seq 3 on."""
    return answer_of(
        events.ChatStart(model_instance_id="m"),
        events.MessageStart(item=0),
        *(events.MessageDelta(item=0, content=piece) for piece in pieces),
    )


def shared_frames(*pieces: str) -> list[list[ShortPatch]]:
    """The frames of these deltas, one for each."""
    answer, blocks = Answer(RUN), OpenBlocks(UUID(RUN))
    frames = []
    answer.apply(events.ChatStart(model_instance_id="m", seq=1))
    answer.apply(events.MessageStart(item=0, seq=2))
    for seq, piece in enumerate(pieces, 3):
        answer.apply(events.MessageDelta(item=0, content=piece, seq=seq))
        frames.append(blocks.shorten(answer.changes_since(seq - 1), seq - 1)[0])
        blocks.confirm()
    return frames


@pytest.mark.parametrize(
    "pieces",
    [
        ("The river ", "is **high**, ", "and: the `mill` ", "stands", " still"),
        (
            "- The river at the weir\n",
            "- is **high",
            "** today\n",
            "- and",
            " the mill stands still",
        ),
        ("| where | level |\n|---|---|\n", "| the weir | 7 |\n", "| the ", "mill | `8`", " m |\n"),
        ("> The river of the valley ", "is high", " *today* ", "and", " the mill stands still"),
    ],
)
def test_what_stays_is_sent_once(pieces: tuple[str, ...]) -> None:
    sent = [str(frame) for frame in shared_frames(*pieces)]

    assert "river" in sent[0] or "where" in sent[0]
    assert "still" in sent[-1] or "8" in sent[-2]
    for later in sent[2:]:
        assert "river" not in later
        assert "where" not in later


def test_blank_line_closes_the_paragraph() -> None:
    answer = answer_in("The river.", "\n", "\n", "The mill ", "stands")

    assert "river" in answer.patches_since(4)
    assert "river" not in answer.patches_since(5)
    assert "stands" in answer.patches_since(6)


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
