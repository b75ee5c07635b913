"""Lists that a hostile answer makes endless: some of them is shown, and how much is not."""

import pytest

from chat import events
from chat.rendering import texts
from chat.rendering.anatomy import SHOWN_ENTRIES
from chat.rendering.patches import Answer
from tests.rendering.stories import RUN, message, numbered

SOURCES = 3 * SHOWN_ENTRIES


def cited(number: int) -> events.Event:
    citation = events.Citation(kind="url", url=f"https://example.org/{number}", title=str(number))
    return events.CitationAdd(item=0, citation=citation)


def test_of_many_sources_the_first_are_shown_and_all_counted() -> None:
    answer = Answer(RUN)
    for event in numbered([*message("Cited."), *map(cited, range(SOURCES))]):
        answer.apply(event)
    html = answer.snapshot()

    assert html.count("<li") == SHOWN_ENTRIES
    assert f'<span class="figure">{SOURCES}</span>' in html
    assert f"and {SOURCES - SHOWN_ENTRIES} more" in html


def test_a_source_is_read_once_however_many_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str | None] = []
    source_of = texts._source

    def noted(citation: events.Citation, id: str, number: int) -> texts.Source:
        read.append(citation.title)
        return source_of(citation, id, number)

    monkeypatch.setattr(texts, "_source", noted)
    answer = Answer(RUN)
    for event in numbered([*message("Cited."), *map(cited, range(50))]):
        answer.apply(event)

    assert read == [str(number) for number in range(50)]


MANY = SHOWN_ENTRIES + 1234


@pytest.mark.parametrize(
    ("entry", "event"),
    [
        ("<li", events.AskQuestion(ask_id="a", question="?", options=["o"] * MANY)),
        ("<li", events.AskQuestion(ask_id="a", question="?", fields=[{"name": "f"}] * MANY)),
        (
            "<li",
            events.MockupUpdate(
                op="created", bundle_id="b", files=[{"path": str(n)} for n in range(MANY)]
            ),
        ),
    ],
    ids=["options", "fields", "files"],
)
def test_of_long_lists_the_beginning_is_shown(entry: str, event: events.Event) -> None:
    answer = Answer(RUN)
    answer.apply(numbered([event])[0])
    html = answer.snapshot()

    assert html.count(entry) == SHOWN_ENTRIES
    assert "and 1,234 more" in html


def test_of_many_media_of_one_item_the_first_are_shown() -> None:
    answer = Answer(RUN)
    media = [
        events.MediaUpdate(item=0, media_id=str(n), media_type="audio/wav", data="AAAA")
        for n in range(MANY)
    ]
    for event in numbered(media):
        answer.apply(event)
    html = answer.snapshot()

    assert html.count("<figure") == SHOWN_ENTRIES
    assert "and 1,234 more" in html
