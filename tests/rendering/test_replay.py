"""A snapshot and the patches since then equal a later snapshot, for any cut and any batches."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import events
from chat.events import Event
from chat.rendering.patches import Answer
from tests.rendering.documents import documents, documents_with_notes
from tests.rendering.dom import Page
from tests.rendering.replay_stories import FIXTURES, STORIES, recorded
from tests.rendering.stories import RICH, RUN, answer_after, end, message, numbered, told
from tests.support.selection import EXHAUSTIVE, examples, sample

DIALECTS = sorted({file.parent for file in FIXTURES.rglob("*.events.jsonl")})
# Of a long story every n-th cut, so that a story costs at most this many pages.
MAX_CUTS = 150
FRAME_BYTES = 65536


def page_of(answer: Answer) -> Page:
    return Page(RUN, answer.snapshot(), answer.phase())


def cuts_of(story: list[Event]) -> list[int]:
    step = max(1, len(story) // MAX_CUTS)
    return sorted({*range(0, len(story), step), len(story)})


def check_patches_from_any_cut(story: list[Event]) -> None:
    live, final = Answer(RUN), answer_after(story)
    expected = page_of(final).state()

    for cut in sample(cuts_of(story), 5):
        for event in story[live.seq : cut]:
            live.apply(event)
        page = page_of(live)
        page.apply(final.patches_since(cut))

        assert page.state() == expected


def check_batches_of_any_size(story: list[Event]) -> None:
    for seed in range(3 if EXHAUSTIVE else 1):
        choose = random.Random(seed)
        live = Answer(RUN)
        page = page_of(live)

        while live.seq < len(story):
            seen = live.seq
            for event in story[seen : seen + choose.choice((1, 1, 2, 7, 40))]:
                live.apply(event)
            page.apply(live.patches_since(seen))

            if choose.random() < 0.2 or live.seq == len(story):
                assert page.state() == page_of(answer_after(story[: live.seq])).state()


def check_replacement_frames(story: list[Event]) -> None:
    for count in {len(story), len(story) * 2 // 3, len(story) // 3, 0}:
        answer = answer_after(story[:count])
        expected = page_of(answer).state()

        for limit in (300, 5000, FRAME_BYTES):
            page = Page(RUN, "<p>lost</p>", "lost")
            for frame in answer.replacement(limit):
                page.apply(frame)

            assert page.state() == expected


CHECKS = (check_patches_from_any_cut, check_batches_of_any_size, check_replacement_frames)


@pytest.mark.parametrize("name", STORIES)
def test_patches_replay_a_story(name: str, subtests: pytest.Subtests) -> None:
    for check in CHECKS:
        with subtests.test(msg=check.__name__):
            check(STORIES[name])


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda folder: folder.name)
def test_patches_replay_the_recordings(dialect: Path, subtests: pytest.Subtests) -> None:
    for file in sample(sorted(dialect.glob("*.events.jsonl")), 5):
        story = recorded(file)
        for check in CHECKS:
            with subtests.test(msg=f"{file.name}: {check.__name__}"):
                check(story)


@examples(150)
@given(document=documents | documents_with_notes, size=st.integers(1, 30), since=st.integers(0, 60))
def test_patches_replay_any_document(document: str, size: int, since: int) -> None:
    story = told(document, size=size)
    since = min(since, len(story))
    page = page_of(answer_after(story[:since]))
    final = answer_after(story)

    page.apply(final.patches_since(since))

    assert page.state() == page_of(final).state()


def called(choice: int) -> list[Event]:
    calls: list[Event] = []
    for item in range(1, 80):
        calls += [
            events.ToolCallStart(item=item, choice=choice, tool="gauge"),
            events.ToolCallSuccess(
                item=item, choice=choice, tool="gauge", arguments={}, output="3 m " * 900
            ),
        ]
    return calls


@pytest.mark.parametrize(
    "story",
    [
        told("A paragraph of *some* length.\n\n" * 4000, size=200),
        numbered([*called(choice=0), end()]),
        numbered([*message("First."), *called(choice=1), end()]),
    ],
    ids=["text", "calls", "calls of a second choice"],
)
def test_replacement_frames_keep_to_their_limit(story: list[Event]) -> None:
    frames = answer_after(story).replacement(FRAME_BYTES)

    assert len(frames) > 4
    assert max(len(frame.encode()) for frame in frames) < 66_500


def test_no_new_events_give_no_patch() -> None:
    assert answer_after(RICH).patches_since(len(RICH)) == ""


def test_applying_an_event_twice_changes_nothing() -> None:
    once, twice = Answer(RUN), Answer(RUN)
    for event in RICH:
        once.apply(event)
        twice.apply(event)
        twice.apply(event)

    assert once.snapshot() == twice.snapshot()


def test_rendering_never_changes_an_event() -> None:
    before = [events.encode(event) for event in RICH]

    answer_after(RICH).snapshot()

    assert [events.encode(event) for event in RICH] == before
