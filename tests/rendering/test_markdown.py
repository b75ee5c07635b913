"""Markdown becomes HTML: the same in one go and streamed, without loss, and at a bounded cost."""

import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chat.rendering import markdown
from chat.rendering.markdown import html as markdown_html
from chat.rendering.markdown import parser, render, render_blocks
from chat.rendering.markdown.flow import Flow
from chat.rendering.markdown.highlight import MAX_CHARACTERS, highlight
from tests.rendering.counting import with_calls
from tests.rendering.documents import documents
from tests.rendering.dom import Element, parse
from tests.rendering.stories import MARKDOWN, cut
from tests.support.selection import examples


def shown(source: str) -> Element:
    return parse(render(source))


def elements_in(parent: Element) -> list[str]:
    return [child.outer() for child in parent.children if not isinstance(child, str)]


def streamed(text: str, size: int) -> list[str]:
    """The blocks that a flow closed when the text came in pieces of this size."""
    flow = Flow("x", 1)
    for seq, part in enumerate(cut(text, size), start=2):
        flow.feed(part, seq)
    flow.finish(len(text) + 2)
    sections = parse(flow.html()).find_all(class_="blocks")
    return [block for section in sections for block in elements_in(section)]


def reloaded(text: str) -> list[str]:
    return [block for html in render_blocks(text, "x") for block in elements_in(parse(html))]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
def test_streamed_blocks_equal_reloaded_ones(size: int) -> None:
    assert streamed(MARKDOWN, size) == reloaded(MARKDOWN)


@examples(400)
@given(document=documents, size=st.integers(1, 25))
@example(document="```\n\t", size=1)
def test_streamed_blocks_equal_reloaded_ones_in_any_document(document: str, size: int) -> None:
    assert streamed(document, size) == reloaded(document)


# --- completeness -----------------------------------------------------------------------------

# All marks but those that turn letters into syntax: ordinals, links, entities.
marks = st.text("ab12 *_>-#~`|=+\n\t\\<", max_size=200)


@examples(500)
@given(document=marks)
def test_every_letter_and_digit_is_shown(document: str) -> None:
    text = shown(document).text().replace("Copy", "")

    assert Counter(filter(str.isalnum, document)) <= Counter(filter(str.isalnum, text))


def without_breaks(html: str) -> str:
    return re.sub(r"\s*\n\s*<", "<", re.sub(r">\s*\n\s*", ">", html)).strip()


@examples(300)
@given(document=documents)
def test_single_blocks_equal_the_parsed_whole(document: str) -> None:
    document += "\n"
    env = {"references": markdown.References().scope()}
    tokens = parser.full_parser.parse(markdown.clean_source(document), env)
    markdown_html.align_without_style(tokens)
    rendered = parser.full_parser.renderer.render(tokens, parser.full_parser.options, env)
    whole = markdown_html.dress(markdown_html.clean(rendered))

    ours = render(document)

    assert 'class="source"' in ours or without_breaks(ours) == without_breaks(whole)


NESTED = {
    "quotes": lambda depth: "> " * depth + "deep77",
    "lists": lambda depth: "".join("  " * i + f"- a{i}\n" for i in range(depth)),
    "ordered": lambda depth: "".join("   " * i + f"1. a{i}\n" for i in range(depth)),
    "emphasis": lambda depth: "*a" * depth + "*" * depth,
    "brackets": lambda depth: "[" * depth + "deep77" + "](https://x.org)" * depth,
    "mixed": lambda depth: "> - " * depth + "deep77",
}


@pytest.mark.parametrize("shape", NESTED)
def test_deeply_nested_text_is_shown(shape: str, subtests: pytest.Subtests) -> None:
    for depth in (1, 2, 10, 24, 49, 50, 51, 99, 100, 101, 150, 200):
        with subtests.test(msg=f"depth {depth}"):
            source = NESTED[shape](depth)

            text = shown(source).text()

            assert [w for w in re.findall(r"a\d+|deep77", source) if w not in text] == []


def test_block_that_the_parser_would_cut_is_shown_as_source() -> None:
    html = render("> " * 120 + "buried")

    assert html.startswith('<pre class="source"')
    assert "buried" in parse(html).text()


def test_syntax_is_not_taken_for_lost_text(subtests: pytest.Subtests) -> None:
    for source in (
        "[a](https://x.org/%20b%C3%BC 'T9') and <https://x.org/ü?q=1>",
        "&copy; &eacute; &#65; &amp; `&amp;`",
        "7. seven\n8. eight",
        "- [x] done",
        "[t][Some Label]\n\n[some label]: https://x.org 'Title'",
        "> [inner]: https://x.org/in 'T'\n> [inner]",
        "```python title=one.py\nx\n```",
        "![alt](https://x.org/i.png 'T')",
        "[![badge](https://x.org/i.svg)](https://y.org)",
        "Straße ﬁ İ ǆ",
    ):
        with subtests.test(msg=source):
            assert 'class="source"' not in render(source)


# --- elements ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("*a*", '<p dir="auto"><em>a</em></p>'),
        ("~~a~~", '<p dir="auto"><s>a</s></p>'),
        ("a<b>", '<p dir="auto">a&lt;b&gt;</p>'),
        ("a  \nb", '<p dir="auto">a<br>\nb</p>'),
        ("www.x.org", '<p dir="auto">www.x.org</p>'),
        ("a\0b\ud800c", '<p dir="auto">a\ufffdb\ufffdc</p>'),
    ],
    ids=["emphasis", "strikethrough", "tag", "line break", "bare host", "invalid characters"],
)
def test_plain_text(source: str, expected: str) -> None:
    assert render(source) == expected


def test_tasks_are_disabled_checkboxes() -> None:
    boxes = shown("- [x] a\n- [ ] b").find_all("input")

    assert [("checked" in box.attributes) for box in boxes] == [True, False]
    assert all("disabled" in box.attributes for box in boxes)
    assert [box.attributes["aria-label"] for box in boxes] == ["Task", "Task"]


def test_table_cells_are_aligned_without_style() -> None:
    html = render("| a | b |\n|:--|--:|\n| 1 | 2 |")

    assert 'align="right"' in html
    assert "style" not in html


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ("| 1 | 2 | 3 |", ["1", "2 | 3"]),
        ("|1|2|3|4|", ["1", "2|3|4"]),
        ("1 | 2 | 3", ["1", "2 | 3"]),
        (r"| 1 | a \| b | `c\|d` |", ["1", "a | b | <code>c|d</code>"]),
        ("| 1 | 2 | | |", ["1", "2"]),
        ("| 1 || 3 |", ["1", "| 3"]),
        ("| 1 | **2 | 3** |", ["1", "<strong>2 | 3</strong>"]),
        ("| 1 |", ["1", ""]),
        (r"| 1 | 2 \|", ["1", "2 |"]),
        # Lines within a cell. No other tag is one, and no text of a paragraph.
        ("| a<br>b | c <BR/> d<br />e |", ["a<br>\nb", "c<br>\nd<br>\ne"]),
        ("| **a<br>b** | [c<br>d](https://x.org) |", ["<strong>a<br>\nb</strong>", "c<br>\nd"]),
        (
            r"| `<br>` \<br> | <br x> <b> |",
            ["<code>&lt;br&gt;</code> &lt;br&gt;", "&lt;br x&gt; &lt;b&gt;"],
        ),
        ("| 1 | a<br>b | c<br>d |", ["1", "a<br>\nb | c<br>\nd"]),
    ],
)
def test_rows_keep_all_that_stands_in_them(row: str, cells: list[str]) -> None:
    table = shown(f"| h | i |\n|---|---|\n{row}\n| y | z |\n")

    found = [cell.inner() for cell in table.find_all("td")]
    assert [re.sub("<a [^>]*>|</a>", "", cell) for cell in found] == [*cells, "y", "z"]


def test_head_of_a_table_has_lines_and_a_paragraph_has_none() -> None:
    assert shown("| a<br>b |\n|---|").find_all("th")[0].inner() == "a<br>\nb"
    assert render("a<br>b") == '<p dir="auto">a&lt;br&gt;b</p>'


def test_table_ends_where_nearly_all_cells_are_missing() -> None:
    source = "|a" * 100 + "|\n" + "|-" * 100 + "|\n" + "|b\n" * 300

    page = shown(source)

    assert 4_000 < len(page.find_all("td")) < 4_200
    assert page.text().count("b") == 300
    assert streamed(source, 40) == reloaded(source)


def test_pictures_become_links() -> None:
    html = render("![A map](https://evil.example/p.png?q=1)")

    assert "<img" not in html
    assert "Image: A map (evil.example)" in html


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("[bank.example](https://evil.example/)", " (evil.example)"),
        ("[https://bank.example/login](https://evil.example/)", " (evil.example)"),
        ("[evil.example](https://evil.example/)", ""),
        ("[the manual](https://docs.example/)", ""),
    ],
)
def test_link_that_names_another_host_shows_the_true_one(source: str, note: str) -> None:
    page = shown(source)

    (link,) = page.find_all("a")
    assert page.text() == link.text() + note


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "/logout",
        "//evil.example",
        "vbscript:x",
        "a.html",
    ],
)
def test_only_links_to_the_web_become_links(url: str) -> None:
    page = shown(f"[label]({url}) and [x][y]\n\n[y]: {url}\n")

    assert page.find_all("a") == []
    assert url in page.text()


def test_addresses_in_text_become_links(subtests: pytest.Subtests) -> None:
    for source, addresses in (
        ("See https://example.org/a_b_c?x=*2*y.", ["https://example.org/a_b_c?x=*2*y"]),
        ("(http://example.org:8080/(a)) or ana@example.org!",
         ["http://example.org:8080/(a)", "mailto:ana@example.org"]),
        ("README.md, asyncio.run, 10.0.0.1, example.org, //example.org, ftp://example.org", []),
        ("`https://example.org` [here](https://example.org)", ["https://example.org"]),
        ("javascript://example.org and https://", []),
    ):  # fmt: skip
        with subtests.test(msg=source):
            links = parse(render(source)).find_all("a")

            assert [link.attributes["href"] for link in links] == addresses


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_streamed_addresses_equal_reloaded_ones(size: int) -> None:
    source = (
        "Look at https://example.org/a and write to ana@example.org: https://x.org\n\nThen: stop."
    )

    assert streamed(source, size) == reloaded(source)


def test_links_give_no_access_to_the_opening_page() -> None:
    html = render("[a](https://x.org)")

    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'target="_blank"' in html


# The parser refuses this URL first; a browser on a page without TLS reads it as a path.
def test_cleaner_alone_refuses_links_into_the_application() -> None:
    assert "href" not in markdown_html.clean('<a href="http:/accounts/logout/">x</a>')


@pytest.mark.parametrize("text", ["- a\n- b", "1. a\n2. b", "| a |\n|---|\n| 1 |", "> a\n>\n> b"])
def test_only_elements_with_text_have_a_direction(text: str) -> None:
    html = render(text)

    assert 'dir="auto"' in html
    assert not re.search(r"<(?:ul|ol|table|tbody|tr|blockquote)[^>]* dir=", html)


# --- code -------------------------------------------------------------------------------------


def test_hidden_characters_in_code_are_shown() -> None:
    html = render("`a\u202eb`\n\n```\nc\u200bd\n```\n")

    assert "[U+202E]" in html
    assert "[U+200B]" in html


def test_code_block_has_a_file_name(subtests: pytest.Subtests) -> None:
    for info, name in (
        ("python", "code.py"),
        ("C++", "code.cpp"),
        ("json", "code.json"),
        ("", "code.txt"),
        ("brainstorm", "code.txt"),
        ('js title="src/app.min.js"', "app.min.js"),
        ("python:tools/one.py", "one.py"),
        ("yaml {1.5} ..", "code.yaml"),
        ("sh ../../.bashrc", "code.sh"),
        ('txt "><img src=x>.png', "code.txt"),
    ):
        with subtests.test(msg=info):
            elements = shown(f"```{info}\nx\n```").elements()

            names = [e.attributes["data-file"] for e in elements if "data-file" in e.attributes]
            assert names == [name]


@pytest.mark.parametrize("info", ["python", "js title=a.js", "", "c&amp;b.txt"])
def test_open_code_block_has_the_same_tools_as_a_closed_one(info: str) -> None:
    flow = Flow("x", 1)
    flow.feed(f"```{info}\nx = 1\n", 2)

    (open_bar,) = parse(flow.html()).find_all(class_="code-bar")
    (closed_bar,) = shown(f"```{info}\nx = 1\n```").find_all(class_="code-bar")
    assert open_bar.inner() == closed_bar.inner()


@pytest.mark.parametrize("fence", ["````", "~~~~"])
@pytest.mark.parametrize("size", [1, 1000])
def test_code_block_ends_at_as_many_marks_as_began_it(fence: str, size: int) -> None:
    inner = fence[:3]
    source = f"{fence}md\n{inner}sh\nls\n{inner}\nafter\n{fence}\n\nText"

    block, text = streamed(source, size)

    assert f"{inner}sh" in block
    assert "after" in block
    assert text == '<p dir="auto">Text</p>'


def test_code_is_highlighted_by_classes_only() -> None:
    html = render("```python\ndef f(): return '<b>'\n```")

    assert "<span class=hl-keyword>def</span>" in html
    assert "&lt;b&gt;" in html
    assert "style=" not in html


@pytest.mark.parametrize(
    ("code", "language"),
    [("x = 1", "nosuch"), ("x = 1", ""), ("x = 1\n" * (MAX_CHARACTERS // 5), "python")],
    ids=["unknown language", "no language", "too long"],
)
def test_code_is_not_highlighted(code: str, language: str) -> None:
    assert "<span" not in highlight(code, language)


@examples(60)
@given(code=st.text(max_size=200), language=st.sampled_from(["python", "js", "html", "diff", "sh"]))
def test_highlighting_keeps_every_character(code: str, language: str) -> None:
    code = markdown.clean_source(code)

    assert parse(highlight(code, language)).text() == code


# --- cost -------------------------------------------------------------------------------------

K = 16 * 1024
PATHOLOGICAL = {
    "dollars": "$a " * K,
    "double dollars": "$$a " * K,
    "formula lines": "$$ a\n\\[ b\n" * (K // 8),
    "open formulas": "\\(a \\[b " * K,
    "escapes in formulas": "$" + "\\a" * 2 * K,
    "open brackets": "[" * 4 * K,
    "open pictures": "![" * 2 * K,
    "half links": "[a](" * K,
    "stars": "*a " * K,
    "underscores": "_a_" * K,
    "backticks": "".join("`" * i + " " for i in range(1, 200)),
    "quotes": ">" * 4 * K,
    "markers": "- " * K,
    "pipes": "|a" * 2000 + "\n" + "|-" * 2000,
    "entities": "&" * 4 * K,
    "angles": "<http://" * K,
    "halves of addresses": "://a " * 1000,
    "brackets of a paragraph": "[" * 3100,
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_hostile_text_costs_a_bounded_number_of_calls(name: str) -> None:
    html, calls = with_calls(render, PATHOLOGICAL[name])

    assert html
    assert calls < 3_100_000


def test_endless_paragraph_is_shown_without_markup() -> None:
    html = render("**word** " * 10_000)

    assert "<strong>" not in html
    assert parse(html).text().count("word") == 10_000


def test_html_is_the_same_in_every_process() -> None:
    code = (
        "import sys; from django.conf import settings; settings.configure(USE_I18N=False);"
        "from chat.rendering.markdown import render; print(render(sys.argv[1]))"
    )

    made = [
        subprocess.run(
            [sys.executable, "-c", code, MARKDOWN],
            env={"PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert made[0] == made[1] == (render(MARKDOWN) + "\n").encode()


# --- formulas --------------------------------------------------------------------------------


def formulas(source: str) -> list[tuple[str, str]]:
    return [
        (element.attributes["class"], element.text())
        for element in shown(source).elements()
        if element.attributes.get("class", "").startswith("math")
    ]


def test_formulas_are_elements_with_their_source(subtests: pytest.Subtests) -> None:
    for source, expected in (
        ("a $x_1 + y_2$ b", [("math", "$x_1 + y_2$")]),
        ("so $n$, and $k$.", [("math", "$n$"), ("math", "$k$")]),
        (r"a \(x\) b", [("math", r"\(x\)")]),
        ("see $$x^2$$ here", [("math display", "$$x^2$$")]),
        (r"see \[x^2\] here", [("math display", r"\[x^2\]")]),
        ("$$\na\n+ b\n- c\n$$", [("math display", "$$\na\n+ b\n- c\n$$")]),
        ("Then:\n\\[\n# a = b\n\\]\nand", [("math display", "\\[\n# a = b\n\\]")]),
        ("- so\n\n  $$\n  a\n  $$\n- b", [("math display", "$$\na\n$$")]),
        ("> $$\n> a\n> $$", [("math display", "$$\na\n$$")]),
        ("| a |\n|---|\n| $x^2$ |", [("math", "$x^2$")]),
        (r"$\$5 + \$6$", [("math", r"$\$5 + \$6$")]),
        ("$a < b$", [("math", "$a < b$")]),
        ("**$x$** and *$y*z$*", [("math", "$x$"), ("math", "$y*z$")]),
    ):
        with subtests.test(msg=source):
            assert formulas(source) == expected


def test_text_with_formula_signs_stays_text(subtests: pytest.Subtests) -> None:
    for source in (
        "$5 and $10",
        "between 5$ and 10$",
        "from $5 to 10$.",
        "$5-$10, US$7 and A$8",
        "$HOME/bin:$PATH",
        "`$x$` and `\\(y\\)`",
        r"\$x\$ stays",
        r"\[1\] and \[a link\](x)",
        r"\(a note\)",
        "$$\na\n\nb\n$$",
        "$$\nnever closed",
        "$ x $",
        "```\n$$\nx\n$$\n```",
        "    $$ x $$",
        "Not $this either, nor that$.",
    ):
        with subtests.test(msg=source):
            assert formulas(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "a\n$$\nb\n- c\n$$\nd",
        "> a\n$$\nb\n\nc\n$$\n",
        "a\n$$\nb\n# c\n\n```\n$$\n```\n",
        "- a\n\n  $$\n  b\n  $$\n\nc\n\\[\nd\n\\]\ne\n",
        "$$\n```\na\n$$\n```\nb\n",
        "| a |\n|---|\n$$\nb\n$$\n| c |\n",
        "$$ a\n$$ b\n$$\n",
    ],
)
def test_streamed_formulas_equal_reloaded_ones(source: str, subtests: pytest.Subtests) -> None:
    for size in (1, 2, 3, 7, 50):
        with subtests.test(msg=f"in pieces of {size}"):
            assert streamed(source, size) == reloaded(source)


def test_open_formula_is_shown_as_written() -> None:
    flow = Flow("x", 1)
    flow.feed("So:\n\n$$\na_1 \\\\\n+ b_*", 2)

    (formula,) = parse(flow.html()).find_all(class_="math")
    assert formula.attributes["class"] == "math display"
    assert formula.text() == "$$\na_1 \\\\\n+ b_*"
