"""A page that follows a run, from any position, shows what a reload would show."""

import asyncio
from typing import Any

import pytest

from chat import events as canonical
from chat.live.broadcaster import RunBroadcaster, broadcasters
from chat.live.viewer import CLOSE_LATER
from chat.rendering.parts import Patches
from chat.rendering.patches import Answer
from chat.runs.configured_buffer import event_buffer
from tests.live.conftest import Begin, LiveRun, OpenTab, threads
from tests.live.connection import Tab, until
from tests.rendering.stories import MARKDOWN, RICH, told
from tests.support.pages import cursor_of, page_of

STORIES = {"rich": RICH, "markdown": told(MARKDOWN, size=7)}
LONG = "".join(f"Paragraph {number} of a long answer.\n\n" for number in range(3000))
# A checksum that fits no log.
FOREIGN = "deadbeef"
with_and_without_hub = pytest.mark.parametrize(
    "has_hub", [True, False], ids=["with a hub", "without a hub"]
)


@pytest.fixture
def every_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between frames."""
    monkeypatch.setattr("chat.live.broadcaster.FRAME_SECONDS", 0.0)


@pytest.mark.parametrize("at_once", [1, 7])
@pytest.mark.parametrize("name", STORIES)
async def test_followed_page_equals_a_reload(
    run: LiveRun, bobs_tab: Tab, name: str, at_once: int
) -> None:
    await run.replay(STORIES[name], at_once=at_once)

    await run.assert_shown(bobs_tab)


async def test_frames_cover_the_log_without_gaps(
    every_change: None, run: LiveRun, bobs_tab: Tab
) -> None:
    await run.replay(STORIES["markdown"])
    await bobs_tab.until_over(run.id)

    frames = bobs_tab.frames(run.id)
    assert [frame["after"] for frame in frames] == [0, *(frame["seq"] for frame in frames[:-1])]
    assert [frame["check"] for frame in frames] == [
        cursor_of(run.entries[: frame["seq"]])[1] for frame in frames
    ]
    assert [frame["live"] for frame in frames] == [True] * (len(frames) - 1) + [False]


async def test_first_change_is_shown_at_once(
    run: LiveRun, bobs_tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.broadcaster.FRAME_SECONDS", 3600.0)
    monkeypatch.setattr("chat.live.broadcaster.LONGEST_FRAME_SECONDS", 3600.0)

    await run.say(canonical.ChatStart(model_instance_id="m"))

    await bobs_tab.until_seq(run.id, 1)


async def test_rapid_changes_share_frames(
    run: LiveRun, bobs_tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.broadcaster.FRAME_SECONDS", 0.15)

    await run.tell("A word, and many more of them after it.", size=1)
    await run.end()

    await run.assert_shown(bobs_tab)
    assert len(bobs_tab.frames(run.id)) < len(run.entries) / 2


async def test_no_empty_frame_delays_the_next_words(
    run: LiveRun, bobs_tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"_share": 0, "_say_when_next": 0}

    def count(name: str) -> None:
        called = getattr(RunBroadcaster, name)

        def counted(broadcaster: RunBroadcaster, *args: Any) -> None:
            made[name] += 1
            called(broadcaster, *args)

        monkeypatch.setattr(RunBroadcaster, name, counted)

    count("_share")
    count("_say_when_next")
    monkeypatch.setattr("chat.live.broadcaster.FRAME_SECONDS", 0.05)

    await run.say(canonical.ChatStart(model_instance_id="m"))
    await run.tell("Words that come faster than frames are made.", size=2)
    await bobs_tab.until_seq(run.id, len(run.entries))
    # An empty frame would be made when the next one may be, and so before the next words.
    now, broadcaster = asyncio.get_running_loop().time, broadcasters._broadcasters[run.id]
    for text in ("More, ", "and the last ones."):
        await until(lambda: now() > broadcaster._due)
        await run.add(text)
        await bobs_tab.until_seq(run.id, len(run.entries))

    assert 1 < made["_say_when_next"] <= made["_share"]


async def test_frame_is_sent_directly_when_nobody_waits(
    every_change: None, run: LiveRun, bobs_tab: Tab
) -> None:
    await run.tell("Some words, ")
    for _ in range(8):
        await bobs_tab.until_seq(run.id, len(run.entries))
        await run.add("and a few more, ")
    await run.end()

    await run.assert_shown(bobs_tab)
    assert 0 < bobs_tab.sent_at_once < len(bobs_tab.frames(run.id))


async def test_failing_connection_harms_no_other(
    run: LiveRun, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, other = open_tab(), open_tab()

    def fail(text: str) -> None:
        raise ValueError("a connection in an unknown state")

    for tab in (broken, other):
        tab.follow(run.id)
    await run.say(canonical.ChatStart(model_instance_id="m"))
    for tab in (broken, other):
        await tab.until_seq(run.id, 1)
    monkeypatch.setattr(broken, "sending", fail)

    await run.tell(MARKDOWN)
    await run.end()

    await run.assert_shown(other)
    await broken.until_closed()
    # It comes back with its cursor, and asks who it is.
    assert broken.close_code == CLOSE_LATER


async def test_two_viewers_get_identical_frames(run: LiveRun, open_tab: OpenTab) -> None:
    one, other = open_tab(), open_tab()
    for tab in (one, other):
        tab.follow(run.id)
    await run.say(canonical.ChatStart(model_instance_id="m"))
    for tab in (one, other):
        await tab.until_seq(run.id, 1)

    await run.replay(STORIES["markdown"][1:])

    await run.assert_shown(one)
    await run.assert_shown(other)
    assert one.frames(run.id)[1:] == other.frames(run.id)[1:]


async def test_late_page_gets_what_it_lacks(run: LiveRun, open_tab: OpenTab) -> None:
    await run.tell(MARKDOWN)
    late = open_tab()
    late.follow(run.id)
    await late.until_seq(run.id, len(run.entries))

    await run.add("And more.")
    await run.end()

    await run.assert_shown(late)
    assert not any(frame["replaces"] for frame in late.frames(run.id))


@with_and_without_hub
@pytest.mark.parametrize("share", [0.3, 0.97])
async def test_page_resumes_from_its_cursor(
    run: LiveRun, open_tab: OpenTab, share: float, has_hub: bool
) -> None:
    first = open_tab()
    if has_hub:
        first.follow(run.id)
    await run.tell(MARKDOWN)
    if has_hub:
        await first.until_seq(run.id, len(run.entries))

    back = open_tab()
    back.follow(run.id, run.entries[: int(len(run.entries) * share)])
    await back.until_seq(run.id, len(run.entries))
    await run.end()

    await run.assert_shown(back)
    assert not any(frame["replaces"] for frame in back.frames(run.id))


@with_and_without_hub
async def test_unknown_cursor_gets_the_whole_answer(
    begin: Begin,
    open_tab: OpenTab,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
    has_hub: bool,
) -> None:
    monkeypatch.setattr("chat.live.broadcaster.CATCH_UP_SECONDS", 0.1)

    for name, cursor in {
        "another log": (9, FOREIGN),
        "no checksum": (9, ""),
        "the beginning of nothing": (0, FOREIGN),
        "below zero": (-1, "00000000"),
        "from the future": (10_000, FOREIGN),
    }.items():
        with subtests.test(msg=name):
            run = await threads.call(begin)
            await run.tell(MARKDOWN, size=40)
            if has_hub:
                other = open_tab()
                other.follow(run.id)
                await other.until_seq(run.id, len(run.entries))

            tab = open_tab()
            tab.follow(run.id, cursor=cursor)
            await tab.until(lambda tab, run=run: tab.frames(run.id))
            await run.end()

            await run.assert_shown(tab)
            assert tab.frames(run.id)[0]["replaces"]


async def test_run_of_another_process_arrives_from_the_database(
    begin: Begin, open_tab: OpenTab
) -> None:
    run = await threads.call(begin, is_local=False)
    tab = open_tab()
    tab.follow(run.id)

    await run.tell(MARKDOWN)
    await run.end()

    await run.assert_shown(tab)


async def test_resync_brings_the_whole_answer(run: LiveRun, bobs_tab: Tab) -> None:
    await run.tell(MARKDOWN)
    await bobs_tab.until_seq(run.id, len(run.entries))

    bobs_tab.pages[run.id] = page_of(run.id, [])
    bobs_tab.say(type="resync", run=run.id.hex)
    await bobs_tab.until(lambda tab: tab.frames(run.id)[-1]["replaces"])
    await run.end()

    await run.assert_shown(bobs_tab)


# --- replacements in pieces ----------------------------------------------------------------


async def test_pieces_of_a_replacement_build_the_answer(run: LiveRun, open_tab: OpenTab) -> None:
    await run.tell(LONG, size=20_000)
    tab = open_tab()
    tab.follow(run.id, cursor=(3, FOREIGN))
    await run.end()

    await run.assert_shown(tab)
    assert len([frame for frame in tab.frames(run.id) if frame["replaces"]]) > 2


async def test_only_the_last_piece_has_a_cursor_and_the_end(
    run: LiveRun, open_tab: OpenTab
) -> None:
    await run.tell(LONG, size=20_000)
    await run.end()
    tab = open_tab()
    tab.follow(run.id, cursor=(3, FOREIGN))
    await run.assert_shown(tab)

    pieces = [frame for frame in tab.frames(run.id) if frame["replaces"]]
    assert len(pieces) > 2
    assert [frame["live"] for frame in pieces] == [True] * (len(pieces) - 1) + [False]
    assert [frame["check"] for frame in pieces[:-1]] == [""] * (len(pieces) - 1)

    # A page whose connection breaks between two pieces has no cursor: it gets all of them again.
    back = open_tab()
    back.follow(run.id, cursor=(pieces[0]["seq"], pieces[0]["check"]))

    await run.assert_shown(back)
    assert back.frames(run.id)[0]["replaces"]


# --- hubs ----------------------------------------------------------------------------------


async def test_ended_run_is_sent_to_late_pages(run: LiveRun, open_tab: OpenTab) -> None:
    await run.replay(RICH, at_once=5)
    event_buffer.forget(run.id)

    tab = open_tab()
    tab.follow(run.id, run.entries[:11])

    await run.assert_shown(tab)


async def test_hub_closes_after_its_last_viewer(
    run: LiveRun, bobs_tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.broadcaster.LINGER_SECONDS", 0.0)
    await run.tell("Hello")
    await bobs_tab.until_seq(run.id, len(run.entries))

    bobs_tab.say(type="unfollow", run=run.id.hex)

    await until(lambda: run.id not in broadcasters._broadcasters)
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not {name for name in names if run.id.hex in name}


async def test_failing_answer_harms_no_other(
    begin: Begin, run: LiveRun, bobs_tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = await threads.call(begin)
    changes_since = Answer.changes_since

    def fail(answer: Answer, seq: int) -> Patches:
        if answer._id == f"r{poisoned.id.hex}":
            raise ValueError("poison")
        return changes_since(answer, seq)

    monkeypatch.setattr(Answer, "changes_since", fail)
    bobs_tab.follow(poisoned.id)

    await poisoned.tell("Poison")
    await run.tell(MARKDOWN)
    await run.end()

    await run.assert_shown(bobs_tab)
    assert bobs_tab.frames(poisoned.id) == []
