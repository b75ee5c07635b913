"""The HTML of a growing block is at every moment what a full render of its source gives."""

from itertools import cycle

from hypothesis import example, given, settings
from hypothesis import strategies as st

from chat.rendering.markdown import clean_source
from chat.rendering.markdown.blocks import render_part
from chat.rendering.markdown.open_html import MARKS_ONLY, OpenHtml
from chat.rendering.markdown.parser import References, Scope
from chat.rendering.markdown.renderer import outline, render_block
from chat.rendering.markdown.rows import render_table
from chat.rendering.parts import utf16_length
from tests.rendering.documents import documents, documents_with_notes
from tests.support.selection import EXHAUSTIVE

WORDS = st.sampled_from(
    [
        *(
            "the river",
            "high",
            "it's",
            "snake_case",
            "a*b",
            "$5",
            "*em*",
            "_em_",
            "**strong**",
            "***",
        ),
        *(
            "`code x`",
            "`",
            "``",
            "**",
            "*",
            "_",
            "[",
            "]",
            "](",
            "[a](https://x.org/b)",
            "[1]",
            "[^1]",
        ),
        *(
            "https://x.org/a_b",
            "https:",
            "me@x.org",
            ":",
            "&",
            "&amp;",
            "<b>",
            "<",
            "|",
            "\\",
            "\\[x\\]",
        ),
        *(
            "$x$",
            "$$",
            "~~gone~~",
            "!",
            "![i](https://x.org/i.png)",
            "看水位。高",
            "é🌊",
            ".",
            ",",
            "2",
            "(a)",
        ),
        *(
            "水",
            "，",
            "）",
            "**水位。**",
            "看**（图）**的",
            "*이것(a)*은",
            "看https://x.org/a，",
            "（https://x.org）",
            "字\ufe00**",
            "<br>",
            "a<BR />b",
            "<br",
        ),
    ]
)
LINES = st.lists(WORDS, min_size=1, max_size=7).flatmap(
    lambda words: st.sampled_from(["", " "]).map(lambda space: space.join(words))
)
MARKS = st.sampled_from(
    [
        *(
            "",
            "",
            "",
            "- ",
            "- ",
            "* ",
            "1. ",
            "2. ",
            "10. ",
            "  - ",
            "   - ",
            "    ",
            "> ",
            "> - ",
            "# ",
        ),
        *(
            "## ",
            "| ",
            "- [ ] ",
            "- **",
            "**",
            "```",
            "---",
            "===",
            "|---|---|",
            "| a | b |",
            "$$",
            "[a]: ",
        ),
    ]
)
BREAKS = st.sampled_from(["\n", "\n", "\n", "\n\n", "  \n", " \n"])
SOURCES = st.lists(st.tuples(MARKS, LINES | st.just(""), BREAKS), min_size=1, max_size=9).map(
    lambda lines: "".join(part for line in lines for part in line)
)


def check_every_moment(source: str, sizes: list[int], scope: Scope) -> None:
    html = OpenHtml(scope, lambda text: render_part(text, scope.fork()))
    versions: dict[int, str] = {}
    at = 0
    for size in cycle(sizes):
        html.add(source[at : at + size])
        at += size
        before, newline, line = source[:at].rpartition("\n")
        shown = before if newline and MARKS_ONLY.fullmatch(line) else source[:at]

        assert html.html() == render_part(shown, scope.fork()), source[:at]
        for version, held in versions.items():
            kept, units = html.kept_since(version)
            assert html.html() == held[:kept] + html.html_from(kept)
            assert units == utf16_length(held[:kept])
        versions[html.version] = html.html()
        if at >= len(source):
            return


@settings(max_examples=400 if EXHAUSTIVE else 50)
@given(
    source=SOURCES | documents | documents_with_notes,
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4),
)
@example(source="| a | b |\n|---|---|\n| `c` | d\n| e | f | g |\n| h", sizes=[1])
@example(source="| a | b |\n|---|---|\n| c<br>d | **e<br/>f** | g | |\n| h `<br>` |", sizes=[1])
@example(source="看**注意：**这里，见https://x.org/a（说明）和**https://x.org/b**的", sizes=[1])
@example(source="1. x\n1. y z\n\n   w v\n", sizes=[1])
@example(source="- a\n  ```py\n  x = 1\n  ```\n- b c", sizes=[2])
@example(source="1. y z w\n" * 120, sizes=[300])
@example(source="1. y z w\n" * 120, sizes=[700, 1])
@example(source="head of it\n===\nmore words", sizes=[3])
def test_html_is_that_of_a_full_render(source: str, sizes: list[int]) -> None:
    check_every_moment(clean_source(source), sizes, References().scope())


CELLS = st.lists(WORDS, max_size=3).map(" ".join) | st.lists(WORDS, max_size=3).map("<br>".join)
ROWS = st.lists(st.lists(CELLS, max_size=4).map(lambda cells: f"|{'|'.join(cells)}|"), max_size=5)


@given(rows=ROWS, head=st.sampled_from(["|a|b|\n|---|:-:|", "| a |\n|--:|", "|a|b|c|\n|-|-|-|"]))
def test_table_is_that_of_the_parser(rows: list[str], head: str) -> None:
    source = "\n".join([head, *rows, ""])
    scope = References().scope()

    table = render_table(source, scope)

    if table is not None:
        assert outline(source, scope).spans[0].end == len(rows) + 2
        assert table == render_block(source, scope)
