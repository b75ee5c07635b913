"""Footnotes: marks that become numbers, definitions that become a list, and what stays as it was."""

import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat import events
from chat.rendering.flow import Flow
from chat.rendering.markdown import render, render_blocks
from chat.rendering.notes import NOTES_OF_A_BLOCK, SHOWN_PLACES
from chat.rendering.patches import Answer
from tests.rendering.dom import Element, parse
from tests.rendering.stories import RUN, cut, message, numbered

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
    flow.end(len(text) + 2)
    sections = [e for e in parse(flow.html()).elements() if e.tag == "section"]
    return "".join(section.inner() for section in sections)


def elements(html: str, tag: str) -> list[Element]:
    return [element for element in parse(html).elements() if element.tag == tag]


def notes_of(html: str) -> list[str]:
    lists = [e for e in elements(html, "ol") if e.attributes.get("class") == "notes"]
    entries = [e for each in lists for e in each.children if isinstance(e, Element)]
    return [" ".join(entry.text().replace("↑", "").split()) for entry in entries]


def marks_of(html: str) -> list[str]:
    return [element.text() for element in elements(html, "sup")]


def test_marks_are_numbered_in_the_order_of_their_first_use() -> None:
    html = render(TEXT)

    assert marks_of(html) == ["1", "2", "1", "3", "4"]
    first, second, *others = notes_of(html)
    assert first == "See the map."
    assert second.startswith("https://example.org/sea")
    assert others == ["Said later4 and on.", "Deeper."]


def test_definitions_leave_the_place_where_they_were_written() -> None:
    before, _, _ = render(TEXT).partition('<ol class="notes"')

    assert "See" not in before
    assert "[^" not in before
    assert before.endswith('<p dir="auto">The end.</p>')


def test_a_note_holds_what_is_indented_below_it() -> None:
    [note] = [e for e in elements(render(TEXT), "li") if e.attributes.get("id") == "doc-note2"]

    assert "It is salty." in note.text()
    assert [e.text() for e in note.elements() if e.tag == "code"] == ["x = 1\n"]


def test_every_mark_leads_to_its_note_and_every_note_back() -> None:
    root = parse(render(TEXT, "x"))

    links = {e.attributes["href"] for e in root.elements() if e.tag == "a"}
    ids = [e.attributes["id"] for e in root.elements() if "id" in e.attributes]
    assert len(ids) == len(set(ids)) == 5 + 4
    assert links == {f"#{id}" for id in ids}
    assert all(id.startswith("x-") for id in ids)
    assert all(e.attributes["aria-label"] for e in root.elements() if e.tag == "a")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
def test_notes_that_streamed_are_those_of_a_reload(size: int) -> None:
    assert streamed(TEXT, size) == parse("".join(render_blocks(TEXT, "x"))).inner()


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
def test_what_has_no_counterpart_stays_as_it_is_written(source: str) -> None:
    html = render(source)

    assert not marks_of(html)
    assert not notes_of(html)
    assert parse(html).text().count("[^") == source.count("[^")


def test_of_two_definitions_the_first_counts_and_the_second_stays() -> None:
    html = render("a[^1]\n\n[^1]: first\n[^1]: second")

    assert notes_of(html) == ["first"]
    assert "[^1]: second" in parse(html).text()


def test_a_mark_in_a_heading_a_table_and_a_picture_is_what_can_be_there() -> None:
    html = render("# a[^1]\n\n| b[^1] |\n|---|\n| c[^1] |\n\n![d[^1]](https://x.org/i)\n\n[^1]: n")

    assert marks_of(html) == ["1"] * 3
    assert "d[^1]" in parse(html).text()


def test_a_block_that_is_shown_as_its_source_has_no_marks() -> None:
    html = render("| a | b |\n|---|---|\n| 1 | 2[^1] | surplus |\n\n[^1]: note\n")

    assert 'class="source"' in html
    assert "[^1]: note" in parse(html).text()


def test_while_a_text_grows_its_notes_are_read_as_they_are_written() -> None:
    flow = Flow("x", 1)
    flow.feed("One[^1].\n\n[^1]: https://example.org/said\n\nTwo", 2)

    shown = parse(flow.html()).text()

    assert "One[^1]." in shown
    assert "[^1]: https://example.org/said" in shown


def test_marks_of_sources_and_of_notes_stand_side_by_side() -> None:
    text = "It rains[^1] a lot.\n\n[^1]: Often."
    cited = events.Citation(kind="url", url="https://example.org/rain", end=12)
    said = message(text)
    answer = Answer(RUN)
    for event in numbered([*said[:-1], events.CitationAdd(item=0, citation=cited), said[-1]]):
        answer.apply(event)

    classes = [e.attributes["class"] for e in elements(answer.snapshot(), "sup")]
    assert classes == ["note-mark", "mark"]


def test_two_texts_of_an_answer_have_notes_of_their_own() -> None:
    answer = Answer(RUN)
    for event in numbered([*message(TEXT, item=0), *message(TEXT, item=1)]):
        answer.apply(event)

    ids = [e.attributes["id"] for e in parse(answer.snapshot()).elements() if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    assert sum("-note" in id for id in ids) == 8


pieces = st.sampled_from(
    [
        *("text ", "[^1]", "[^a]", "[^1]: ", "[^a]: ", "[^b]:", "\n", "\n\n", "    ", "- ", "> "),
        *("```\n", "# ", "**b**", "[^1](https://x.org)", "[a]: https://x.org\n", "[a]", "\t", "`"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(document=st.lists(pieces, max_size=30).map("".join), size=st.integers(1, 25))
def test_any_document_in_any_split_gives_the_notes_of_a_reload(document: str, size: int) -> None:
    assert streamed(document, size) == parse("".join(render_blocks(document, "x"))).inner()


def test_each_block_of_a_long_list_goes_on_counting() -> None:
    count = 3 * NOTES_OF_A_BLOCK - 1
    text = "".join(f"[^n{n}]" for n in range(count)) + "\n\n"
    html = render(text + "".join(f"[^n{n}]: note {n}\n" for n in range(count)))

    starts = [e.attributes["start"] for e in elements(html, "ol")]
    assert starts == ["1", "21", "41"]
    assert notes_of(html) == [f"note {n}" for n in range(count)]


def test_a_note_leads_back_to_some_of_its_marks() -> None:
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
def test_four_times_the_notes_cost_four_times_the_work(name: str) -> None:
    def calls(count: int) -> int:
        made = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal made
            made += 1

        text = FLOODS[name](count)
        sys.setprofile(note)
        try:
            render(text)
        finally:
            sys.setprofile(None)
        return made

    calls(10)
    small, large = calls(100), calls(400)

    assert large <= 4.4 * small


def test_ten_thousand_notes_are_all_there() -> None:
    html = render(FLOODS["notes"](10_000))

    assert len(re.findall(r'<li id="doc-note\d+"', html)) == 10_000
