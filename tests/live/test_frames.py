"""Shared frames leave out the HTML that pages hold: a page that has got them all can put it back."""

from __future__ import annotations

import json
import random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.events import Event
from chat.live.frames import Envelope, OpenBlocks, common_part
from chat.rendering.parts import common_length, utf16_length
from chat.rendering.patches import Answer
from tests.live.conftest import LiveRun, OpenTab
from tests.live.connection import Tab
from tests.rendering.dom import Page
from tests.rendering.replay_stories import FIXTURES, STORIES, recorded
from tests.rendering.stories import RUN, answer_after, told
from tests.support.open_blocks import completed
from tests.support.selection import EXHAUSTIVE, sample

RECORDINGS = sorted(FIXTURES.rglob("*.events.jsonl"))
UNUSUAL = {
    "beyond the basic plane": told("🌊 *water* 🌊🌊 and **more 🛶** " * 40, size=3),
    "retroactive": told(
        "- one\n- two\n- **three**\n\n  loose\n\nA head\nof two *lines*\n====\n\n| a | b\n|---|---\n| `c` | d",
        size=1,
    ),
}


class SharedPage:
    """A page that is sent shared frames, and what it holds of open blocks."""

    def __init__(self, answer: Answer) -> None:
        self.page = Page(RUN, answer.snapshot(), answer.phase())
        self.held: dict[str, str] = {}
        self.seq = self.since = answer.seq


def check_shared_frames(story: list[Event], seed: int) -> None:
    """Frames of random length; pages join, leave out a frame and catch up with a patch of their own."""
    choose = random.Random(seed)
    live, blocks = Answer(RUN), OpenBlocks(UUID(RUN))
    pages = [SharedPage(live)]
    while live.seq < len(story):
        after = live.seq
        for event in story[after : after + choose.choice((1, 1, 2, 3, 9, 40))]:
            live.apply(event)
        patches = live.changes_since(after)
        content, since = blocks.shorten(patches, after)
        if choose.random() < 0.1:
            # A frame that is given up.
            content, since = blocks.shorten(patches, after)
        blocks.confirm()
        frame = json.loads(frame_of(live, after, content))
        for one in pages:
            if one.seq == after and since >= one.since and choose.random() > 0.05:
                one.page.apply(completed(frame, one.held))
                one.seq = live.seq
        whole = {one.target: one.content for one in patches if one.target.endswith("-open")}
        for target, html in whole.items():
            short = target.removeprefix(f"r{RUN}-")
            assert all(one.held[short] == html for one in pages if one.seq == live.seq)
        for one in pages:
            if one.seq != live.seq and choose.random() < 0.5:
                blocks.forget()
                one.page.apply(live.patches_since(one.seq))
                one.seq = one.since = live.seq
        if choose.random() < 0.1 and len(pages) < 4:
            pages.append(SharedPage(live))
    expected = Page(RUN, live.snapshot(), live.phase()).state()
    for one in pages:
        one.page.apply(live.patches_since(one.seq))
        assert one.page.state() == expected


def frame_of(answer: Answer, after: int, content: object) -> str:
    frame = Envelope(run=RUN, after=after, seq=answer.seq, check="", content=content)  # type: ignore[arg-type]
    return frame.encoded()


@pytest.mark.parametrize("name", [*STORIES, *UNUSUAL])
def test_pages_hold_what_the_server_holds(name: str) -> None:
    for seed in range(4 if EXHAUSTIVE else 2):
        check_shared_frames((STORIES | UNUSUAL)[name], seed)


def test_pages_hold_what_the_server_holds_of_recordings(subtests: pytest.Subtests) -> None:
    for file in sample(RECORDINGS, 20):
        with subtests.test(msg=file.name):
            check_shared_frames(recorded(file), 1)


@given(st.text(alphabet="ab🌊<"), st.text(alphabet="ab🌊<"), st.text(alphabet="ab🌊<"))
def test_what_stays_is_as_long_as_possible(common: str, before: str, after: str) -> None:
    length = common_length(common + before, common + after)

    assert (common + before)[:length] == (common + after)[:length]
    assert length >= len(common)
    assert (common + before)[length : length + 1] != (common + after)[length : length + 1] or (
        length == min(len(common + before), len(common + after))
    )


def test_a_block_in_a_new_section_is_found() -> None:
    block = "<p>The river is high today, and"

    start, end = common_part(block + "</p>", f"<section>{block} more</p></section>")

    assert (start, end) == (len("<section>"), len("<section>") + len(block))


def test_lengths_are_those_of_javascript() -> None:
    assert utf16_length("a🌊é") == 4
    assert utf16_length("abc") == 3


def test_little_is_sent_again_of_a_list() -> None:
    story = told("- an *entry* of a list\n" * 60, size=10)
    live, blocks, sent = Answer(RUN), OpenBlocks(UUID(RUN)), 0

    for event in story:
        after = live.seq
        live.apply(event)
        content, _ = blocks.shorten(live.changes_since(after), after)
        blocks.confirm()
        sent += sum(len(part) for _, _, *rest in content for part in rest if isinstance(part, str))

    assert sent < 4 * len(answer_after(story).snapshot())


async def test_page_of_an_older_version_gets_frames_of_its_own(
    run: LiveRun, bobs_tab: Tab, open_tab: OpenTab
) -> None:
    old = open_tab()
    old.show(run.id, [])
    old.say(type="follow", run=run.id.hex, seq=0, check="00000000")

    await run.tell("- an *entry* of the list\n- another")
    for tab in (bobs_tab, old):
        await tab.until_seq(run.id, len(run.entries))

    assert all(isinstance(frame["content"], str) for frame in old.frames(run.id))
    assert old.pages[run.id].state() == bobs_tab.pages[run.id].state()


async def test_page_that_joins_inside_a_block_gets_it_once(
    run: LiveRun, bobs_tab: Tab, open_tab: OpenTab
) -> None:
    await run.tell("- an *entry* of the list\n")
    await bobs_tab.until_seq(run.id, len(run.entries))
    # From this frame on bob's page holds the list.
    await run.add("- another")
    await bobs_tab.until_seq(run.id, len(run.entries))

    late = open_tab()
    late.follow(run.id, run.entries)
    for number in range(3):
        await run.add(f" and *more* {number}")
        for tab in (bobs_tab, late):
            await tab.until_seq(run.id, len(run.entries))

    own, *shared = late.frames(run.id)
    assert "entry" in own["content"]
    assert shared == bobs_tab.frames(run.id)[-len(shared) :]
    assert all("entry" not in str(frame) for frame in shared[1:])
    assert late.pages[run.id].state() == bobs_tab.pages[run.id].state()
