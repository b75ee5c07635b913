"""Footnotes: marks become numbers, definitions become a list, and the rest stays as written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import events
from chat.rendering.markdown import render, render_blocks
from chat.rendering.markdown.extensions import NOTES_OF_A_BLOCK, SHOWN_PLACES
from chat.rendering.markdown.flow import Flow
from tests.rendering.counting import with_calls
from tests.rendering.dom import Element, parse
from tests.rendering.stories import answer_of, cut, message
from tests.support.selection import EXHAUSTIVE, examples

MANY = 10_000 if EXHAUSTIVE else 2_000
TEXT = """Rivers[^1] meet *here*[^sea] and here[^1].

[^1]: See **the map**.
[^sea]: https://example.org/sea

    It is salty.

    ```py
    x = 1
    ```

- one[^late]

[^late]: Said later[^deep]
and on.
[^deep]: Deeper.

The end.
"""


def streamed(text: str, size: int) -> str:
    flow = Flow("x", 1)
    for seq, part in enumerate(cut(text, size), start=2):
        flow.feed(part, seq)
    flow.finish(len(text) + 2)
    return "".join(section.inner() for section in parse(flow.html()).find_all("section"))


def reloaded(text: str) -> str:
    return parse("".join(render_blocks(text, "x"))).inner()


def notes_of(html: str) -> list[str]:
    lists = parse(html).find_all("ol", class_="notes")
    entries = [e for each in lists for e in each.children if isinstance(e, Element)]
    return [" ".join(entry.text().replace("↑", "").split()) for entry in entries]


def marks_of(html: str) -> list[str]:
    return [element.text() for element in parse(html).find_all("sup")]


def test_marks_are_numbered_by_first_use() -> None:
    html = render(TEXT)

    assert marks_of(html) == ["1", "2", "1", "3", "4"]
    first, second, *others = notes_of(html)
    assert first == "See the map."
    assert second.startswith("https://example.org/sea")
    assert others == ["Said later4 and on.", "Deeper."]


def test_definitions_move_to_the_end() -> None:
    before, _, _ = render(TEXT).partition('<ol class="notes"')

    assert "See" not in before
    assert "[^" not in before
    assert before.endswith('<p dir="auto">The end.</p>')


def test_note_contains_the_indented_lines_below_it() -> None:
    note = parse(render(TEXT)).find("doc-note2")

    assert note is not None
    assert note.tag == "li"
    assert "It is salty." in note.text()
    assert [code.text() for code in note.find_all("code")] == ["x = 1\n"]


def test_marks_and_notes_link_to_each_other() -> None:
    root = parse(render(TEXT, "x"))

    links = [link for link in root.find_all("a") if "target" not in link.attributes]
    ids = root.ids()
    assert len(ids) == len(set(ids)) == 5 + 4
    assert {link.attributes["href"] for link in links} == {f"#{id}" for id in ids}
    assert all(id.startswith("x-") for id in ids)
    assert all(link.attributes["aria-label"] for link in links)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
def test_streamed_notes_equal_reloaded_ones(size: int) -> None:
    assert streamed(TEXT, size) == reloaded(TEXT)


pieces = st.sampled_from(
    [
        *("text ", "[^1]", "[^a]", "[^1]: ", "[^a]: ", "[^b]:", "\n", "\n\n", "    ", "- ", "> "),
        *("```\n", "# ", "**b**", "[^1](https://x.org)", "[a]: https://x.org\n", "[a]", "\t", "`"),
    ]
)


@examples(300)
@given(document=st.lists(pieces, max_size=30).map("".join), size=st.integers(1, 25))
def test_streamed_notes_equal_reloaded_ones_in_any_document(document: str, size: int) -> None:
    assert streamed(document, size) == reloaded(document)


@pytest.mark.parametrize(
    "source",
    [
        "No definition[^1].",
        "[^1]: Nobody refers to this.",
        "[^1]: It refers to itself[^1].",
        "Empty[^1].\n\n[^1]:\n\nmore",
        "`[^1]` only in code\n\n[^1]: note",
        "    [^1]\n\n[^1]: note",
        "a [^ 1] b [^] c\n\n[^ 1]: x\n[^]: y",
        "> quoted[^1]\n>\n> [^1]: inside a quotation",
    ],
)
def test_marks_and_definitions_without_a_counterpart_stay(source: str) -> None:
    html = render(source)

    assert not marks_of(html)
    assert not notes_of(html)
    assert parse(html).text().count("[^") == source.count("[^")


def test_second_definition_of_a_note_stays_text() -> None:
    html = render("a[^1]\n\n[^1]: first\n[^1]: second")

    assert notes_of(html) == ["first"]
    assert "[^1]: second" in parse(html).text()


def test_alt_texts_contain_no_marks() -> None:
    html = render("# a[^1]\n\n| b[^1] |\n|---|\n| c[^1] |\n\n![d[^1]](https://x.org/i)\n\n[^1]: n")

    assert marks_of(html) == ["1"] * 3
    assert "d[^1]" in parse(html).text()


def test_block_shown_as_source_has_no_marks() -> None:
    html = render("> " * 120 + "deep[^1]\n\n[^1]: note\n")

    assert 'class="source"' in html
    assert "[^1]: note" in parse(html).text()


def test_growing_text_shows_its_notes_as_written() -> None:
    flow = Flow("x", 1)
    flow.feed("One[^1].\n\n[^1]: https://example.org/said\n\nTwo", 2)

    shown = parse(flow.html()).text()

    assert "One[^1]." in shown
    assert "[^1]: https://example.org/said" in shown


def test_citations_and_notes_are_marked_side_by_side() -> None:
    text = "It rains[^1] a lot.\n\n[^1]: Often."
    citation = events.Citation(kind="url", url="https://example.org/rain", end=12)
    *said, ended = message(text)

    answer = answer_of(*said, events.CitationAdd(item=0, citation=citation), ended)

    marks = parse(answer.snapshot()).find_all("sup")
    assert [mark.attributes["class"] for mark in marks] == ["note-mark", "mark"]


def test_each_text_of_an_answer_has_its_own_notes() -> None:
    answer = answer_of(*message(TEXT, item=0), *message(TEXT, item=1))

    ids = parse(answer.snapshot()).ids()
    assert len(ids) == len(set(ids))
    assert sum("-note" in id for id in ids) == 8


# --- many notes -------------------------------------------------------------------------------


def test_long_list_of_notes_is_numbered_across_its_blocks() -> None:
    count = 3 * NOTES_OF_A_BLOCK - 1
    text = "".join(f"[^n{n}]" for n in range(count)) + "\n\n"
    html = render(text + "".join(f"[^n{n}]: note {n}\n" for n in range(count)))

    starts = [each.attributes["start"] for each in parse(html).find_all("ol")]
    assert starts == ["1", "21", "41"]
    assert notes_of(html) == [f"note {n}" for n in range(count)]


def test_note_links_back_to_the_first_marks_only() -> None:
    html = render("[^1] " * 500 + "\n\n[^1]: note")

    assert len(marks_of(html)) == 500
    assert html.count('class="to-mark"') == SHOWN_PLACES


FLOODS = {
    "notes": lambda n: "".join(f"word[^{i}]\n\n[^{i}]: note {i}\n\n" for i in range(n)),
    "chain": lambda n: "[^0]\n\n" + "".join(f"[^{i}]: to [^{i + 1}]\n" for i in range(n)),
    "marks": lambda n: "word[^1]\n\n" * n + "[^1]: note",
    "unused": lambda n: "".join(f"[^{i}]: note {i}\n" for i in range(n)),
    "openings": lambda n: "[^" * n + "\n\n[^1]: note",
    "blank": lambda n: "[^1]\n\n[^1]: note\n" + "\n" * n + "text",
}


@pytest.mark.parametrize("name", FLOODS)
def test_work_grows_linearly_with_the_notes(name: str) -> None:
    flood = FLOODS[name]
    # The first time patterns are compiled and caches are filled.
    render(flood(10))

    _, small = with_calls(render, flood(100))
    _, large = with_calls(render, flood(400))

    assert large <= 4.4 * small


def test_thousands_of_notes_are_all_shown() -> None:
    html = render(FLOODS["notes"](MANY))

    assert len(re.findall(r'<li id="doc-note\d+"', html)) == MANY
