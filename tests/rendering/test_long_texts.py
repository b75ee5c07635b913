"""Texts and blocks too long for a page: shown up to a cut, and behind it slice after slice."""

import re
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import events
from chat.events import Event
from chat.rendering.markdown import flow
from chat.rendering.patches import Answer
from tests.rendering.documents import documents_with_notes
from tests.rendering.dom import parse
from tests.rendering.stories import RUN, answer_after, answer_of, cut, end, message, numbered, told
from tests.rendering.test_replay import check_batches_of_any_size, check_patches_from_any_cut
from tests.support.selection import examples

WORDS = " ".join(f"word{n}" for n in range(120))
TABLE = "| name | size |\n|---|---|\n" + "".join(f"| row{n} | {n} |\n" for n in range(60))
CODE = "```python\n" + "".join(f"line{n} = {n}\n" for n in range(60)) + "```\n"
LIST = "".join(f"- entry{n}\n" for n in range(60))
PARAGRAPHS = "".join(f"Paragraph{n} *here*.\n\n" for n in range(60))
LONG = {"words": WORDS, "table": TABLE, "code": CODE, "list": LIST, "paragraphs": PARAGRAPHS}
NUMBERED = re.compile(r"(?:word|row|line|entry|Paragraph)\d+")

_AFTER = re.compile(r'data-part="/r/[0-9a-f-]+/part/([^"]+)/"')


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "PAGE_CHARACTERS", 600)
        patch.setattr(flow, "SLICE_CHARACTERS", 300)
        patch.setattr(flow, "BLOCK_CHARACTERS", 200)
        patch.setattr(flow, "CODE_CHARACTERS", 300)
        yield


def slices_of(answer: Answer) -> list[str]:
    """The message as the page shows it, and then what each press of its button brings."""
    shown = parse(answer.snapshot()).find(f"r{RUN}-i0")
    found = [shown.inner() if shown else ""]
    while asked := _AFTER.search(found[-1]):
        html = answer.part(asked[1])
        assert html is not None
        found.append(html)
    return found


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_slices_bring_each_word_once(text: str) -> None:
    slices = slices_of(answer_of(*told(text, size=50)))

    assert len(slices) > 2
    shown = " ".join(parse(html).text() for html in slices)
    assert NUMBERED.findall(shown) == NUMBERED.findall(text)


@examples(40)
@given(st.lists(documents_with_notes | st.sampled_from([*LONG.values()]), max_size=6), st.data())
def test_cut_is_where_it_is_however_the_text_comes(texts: list[str], data: st.DataObject) -> None:
    text = "\n\n".join(texts)
    whole = slices_of(answer_of(*told(text, size=len(text) + 1)))

    size = data.draw(st.sampled_from([7, 60, 199, 201]))

    assert slices_of(answer_of(*told(text, size=size))) == whole


@pytest.mark.parametrize("text", [*LONG.values(), "".join(LONG.values())], ids=[*LONG, "all"])
def test_live_page_is_the_reloaded_page(text: str) -> None:
    story = numbered([*message(text + "\n\n[word7]: https://example.org\n", size=40), end()])

    check_patches_from_any_cut(story)
    check_batches_of_any_size(story)


def thought(text: str, *, size: int) -> list[Event]:
    deltas = [events.ReasoningDelta(content=some, item=1) for some in cut(text, size)]
    return [events.ReasoningStart(item=1), *deltas, events.ReasoningEnd(item=1)]


@pytest.mark.parametrize("size", [1, 7, 60, 201])
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_page_is_the_same_without_the_rest(text: str, size: int) -> None:
    text = text.replace("\n", "\r\n")
    story = numbered([*thought(text, size=size), *message(text, size=size), end()])
    whole, live = answer_after(story), Answer(RUN, keeps_rest=False)

    for event in story:
        live.apply(event)

    assert live.snapshot() == whole.snapshot()
    assert live.replacement() == whole.replacement()


def test_live_answer_has_no_text_that_no_page_shows() -> None:
    live = Answer(RUN, keeps_rest=False)
    tracemalloc.start()
    for number in range(2000):
        live.apply(events.MessageDelta(item=0, content=f"word{number} " * 1000))
    text = live.snapshot() + "word0 " * 1_000_000
    ended = end("cut")
    ended.result.output = [events.MessageItem(content=text)]
    live.apply(ended)
    del text, ended

    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert size_bytes < 2_000_000


def test_slices_of_a_table_have_its_head_and_those_of_code_its_language() -> None:
    for html in slices_of(answer_of(*told(TABLE)))[1:]:
        assert parse(html).find_all("th")[0].text() == "name"
    for html in slices_of(answer_of(*told(CODE)))[1:]:
        assert parse(html).find_all("span", "language")[0].text() == "python"


def test_rest_is_offered_when_the_text_is_complete() -> None:
    story = numbered([*message(WORDS), end()])

    live = answer_after(story[:-2]).snapshot()
    ended = answer_after(story).snapshot()

    assert "You can see the rest when it is complete." in live
    assert "Show more" not in live
    assert "more characters" in ended
    assert "Download text" in ended


def test_pages_that_cannot_ask_say_how_much_is_missing() -> None:
    answer = answer_of(*told(WORDS))
    answer.unfold()

    assert "Show more" not in answer.snapshot()
    assert "more characters" in answer.snapshot()


@pytest.mark.parametrize("name", ["9999999-0-0", "5-9-7", "1-0", "1-0-0-0", "-1-0-0", "1-2-3"])
def test_made_up_slices_are_not_there(name: str) -> None:
    answer = answer_of(*told(WORDS))

    assert answer.part(f"r{RUN}-i0-flow-{name}") is None
