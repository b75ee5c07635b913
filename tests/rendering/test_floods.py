"""Endless lists in a hostile answer: the beginning is shown, and how much is left out."""

import pytest

from chat import events
from chat.rendering import texts
from chat.rendering.components import SHOWN_ENTRIES
from tests.rendering.stories import answer_of, message

SOURCES = 3 * SHOWN_ENTRIES
MANY = SHOWN_ENTRIES + 1234


def cited(number: int) -> events.Event:
    citation = events.Citation(kind="url", url=f"https://example.org/{number}", title=str(number))
    return events.CitationAdd(item=0, citation=citation)


def test_first_sources_are_shown_and_all_are_counted() -> None:
    html = answer_of(*message("Cited."), *map(cited, range(SOURCES))).snapshot()

    assert html.count("<li") == SHOWN_ENTRIES
    assert f'<span class="figure">{SOURCES}</span>' in html
    assert f"{SOURCES - SHOWN_ENTRIES} more" in html


def test_each_source_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str | None] = []
    source_of = texts._source

    def counted(citation: events.Citation, id: str, number: int) -> texts.Source:
        built.append(citation.title)
        return source_of(citation, id, number)

    monkeypatch.setattr(texts, "_source", counted)
    answer_of(*message("Cited."), *map(cited, range(50)))

    assert built == [str(number) for number in range(50)]


@pytest.mark.parametrize(
    ("tag", "story"),
    [
        ("<li", [events.AskQuestion(ask_id="a", question="?", options=["o"] * MANY)]),
        ("<li", [events.AskQuestion(ask_id="a", question="?", fields=[{"name": "f"}] * MANY)]),
        (
            "<tr",
            [
                events.AskQuestion(
                    ask_id="a",
                    question="?",
                    style="approval",
                    tool="t",
                    arguments={str(n): n for n in range(MANY)},
                )
            ],
        ),
        (
            "<li",
            [
                events.MockupUpdate(
                    op="created", bundle_id="b", files=[{"path": str(n)} for n in range(MANY)]
                )
            ],
        ),
        (
            "<figure",
            [
                events.MediaUpdate(item=0, media_id=str(n), media_type="audio/wav", data="AAAA")
                for n in range(MANY)
            ],
        ),
    ],
    ids=["options", "fields", "arguments", "files", "media"],
)
def test_long_lists_are_cut(tag: str, story: list[events.Event]) -> None:
    html = answer_of(*story).snapshot()

    assert html.count(tag) == SHOWN_ENTRIES
    assert "1,234 more" in html
