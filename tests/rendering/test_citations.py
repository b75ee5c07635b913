"""What is shown around a text: its sources and their marks, other choices, probabilities."""

import pytest

from chat import events
from chat.events import Event
from chat.rendering.markdown import flow
from tests.rendering.dom import parse
from tests.rendering.shown import page_of, text_of
from tests.rendering.stories import RUN, answer_of, message

MARK = f"r{RUN}-i0-m1"
SOURCE = f"r{RUN}-i0-src1"


# --- sources ------------------------------------------------------------------------------------


def cited(text: str, *places: int | None, ended: bool = True) -> list[Event]:
    """A text with a source that ends at each of these places."""
    sources = [
        events.Citation(kind="url", title=f"Page {number}", url=f"https://x.org/{number}", end=end)
        for number, end in enumerate(places, start=1)
    ]
    *said, last = message(text)
    added = [events.CitationAdd(item=0, citation=source) for source in sources]
    return [*said, *added, *([last] if ended else [])]


def links_of(*story: Event) -> dict[str, str]:
    """The ids that links inside the answer lead to, by the link's id or its text."""
    own = [e for e in page_of(*story).find_all("a") if e.attributes["href"].startswith("#")]
    return {e.attributes.get("id", e.text()): e.attributes["href"][1:] for e in own}


def test_mark_and_source_link_to_each_other() -> None:
    story = cited("The weir is **old**. It leaks.", 20, 30)

    links = links_of(*story)
    assert "The weir is old.1 It leaks.2" in text_of(*story)
    assert links[MARK] == SOURCE
    assert links["↑"] == f"r{RUN}-i0-m2"
    assert page_of(*story).find(f"r{RUN}-i0-src2")


def test_marks_appear_when_the_text_is_complete() -> None:
    assert MARK not in links_of(*cited("The weir.\n\nIt leaks.", 9, ended=False))
    assert MARK in links_of(*cited("The weir.\n\nIt leaks.", 9))


def test_source_that_comes_after_the_end_has_its_mark() -> None:
    *story, last = cited("The weir.\n\nIt leaks.", 9, ended=False)

    assert "The weir.1" in text_of(*story, events.MessageEnd(item=0), last)


def test_marks_after_the_end_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The weir leaks."
    monkeypatch.setattr(flow, "LATE_CHARACTERS", 2 * len(text))
    *story, one, two, three = cited(text, 3, 8, 15, ended=False)

    shown = text_of(*story, events.MessageEnd(item=0), one, two, three)

    assert "The1 weir2 leaks." in shown
    assert "Sources 3" in shown


@pytest.mark.parametrize("place", [None, 0, 10_000])
def test_source_without_a_place_has_no_mark(place: int | None) -> None:
    story = cited("The weir is old.", place)

    assert links_of(*story) == {}
    assert "Page 1" in text_of(*story)


@pytest.mark.parametrize("place", [4, 12, 24])
def test_mark_breaks_no_link(place: int) -> None:
    page = page_of(*cited("See [the weir](https://example.org/weir) here.", place))

    links = page.find_all("a")
    link = next(e for e in links if e.attributes.get("rel", "").startswith("noopener"))
    assert link.attributes["href"] == "https://example.org/weir"
    assert link.find_all("a") == [link]
    assert page.find(MARK)


def test_mark_is_not_inside_code() -> None:
    page = page_of(*cited("```\nweir = 1\n```", 8))

    assert page.find_all("code")[0].text() == "weir = 1\n"


def test_symbols_of_the_text_are_no_marks() -> None:
    page = page_of(*cited("In braille \u2801\u2802 it says.", 11))

    assert "In braille \u2801\u2802 it says." in page.words()
    assert page.find(MARK)


def test_source_cited_twice_is_listed_once() -> None:
    source = events.Citation(kind="url", title="Weir", url="https://x.org/w", cited_text="oak")
    citations = [events.CitationAdd(item=0, citation=source) for _ in range(3)]

    text = text_of(*message("x"), *citations)

    assert "Sources 1" in text
    assert text.count("oak") == 1


# --- choices and probabilities ---------------------------------------------------------------


def test_each_of_several_choices_has_a_button() -> None:
    two = page_of(*message("One."), *message("Two.", choice=1))

    buttons = [e for e in two.elements() if e.attributes.get("type") == "radio"]
    assert [(e.attributes["value"], "checked" in e.attributes) for e in buttons] == [
        ("0", True),
        ("1", False),
    ]
    assert page_of(*message("One.")).find_all("input") == []


ENTRY = {"token": "weir", "logprob": -0.5, "top_logprobs": [{"token": "dam", "logprob": -1.5}]}
LEGACY = {"tokens": ["weir"], "token_logprobs": [-0.5], "top_logprobs": [{"dam": -1.5}]}


def with_logprobs(entry: object, text: str = "weir") -> list[Event]:
    *said, ended = message(text)
    return [*said, events.LogprobsAdd(item=0, tokens=[entry]), ended]


def probabilities_of(entry: object, text: str = "weir") -> str:
    return str(answer_of(*with_logprobs(entry, text)).part(f"r{RUN}-i0-odds"))


@pytest.mark.parametrize("entry", [ENTRY, LEGACY], ids=["entry", "legacy"])
def test_probabilities_are_a_view_of_their_own(entry: dict[str, object]) -> None:
    elements = parse(probabilities_of(entry)).elements()

    token = next(e for e in elements if "title" in e.attributes)
    assert token.attributes["class"] == "odd odd-3"
    assert token.attributes["title"] == "“weir” 61%. Alternatives: “dam” 22%"
    assert "dam" not in answer_of(*with_logprobs(entry)).snapshot()


def tokens_shown(*texts: str) -> list[str]:
    tokens = [{"token": text, "logprob": -0.1} for text in texts]
    *said, ended = message("".join(texts))
    answer = answer_of(*said, events.LogprobsAdd(item=0, tokens=tokens), ended)
    return [e.text() for e in parse(str(answer.part(f"r{RUN}-i0-odds"))).find_all(class_="odd-4")]


def test_probabilities_are_shown_in_the_rendered_text() -> None:
    _, *shown = tokens_shown("The ", "**", "weir", "**", " leaks")

    assert shown == ["The ", "weir", " leaks"]


def test_probabilities_of_a_long_text_are_cut() -> None:
    _, *shown = tokens_shown("word " * 6000, "word " * 500, "more")

    assert [len(text) for text in shown] == [6000 * len("word ") - 1]


def test_probabilities_need_no_alternatives() -> None:
    assert "“weir” 61%" in probabilities_of({**LEGACY, "top_logprobs": []})


@pytest.mark.parametrize("logprob", [10**400, -(10**400), float("-inf")])
def test_probability_beyond_all_floats_is_shown(logprob: float) -> None:
    entry = {"token": "weir", "logprob": logprob, "top_logprobs": {"dam": logprob}}

    assert "“weir”" in probabilities_of(entry, "By the weir.")


@pytest.mark.parametrize(
    "entry", [{}, None, 7, {"token": 1, "logprob": -1}, {"token": "x", "logprob": "y"}]
)
def test_invalid_probabilities_are_left_out(entry: object) -> None:
    assert "Token probabilities" not in text_of(*with_logprobs(entry))
