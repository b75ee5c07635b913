"""Pages that follow a run, from any moment on, show what a reload would show."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from chat import events as canonical
from chat.live.hub import Hub, hubs
from chat.live.viewer import CLOSE_LATER
from chat.runs.tails import live_tail
from tests.live.conftest import LiveRun, OpenTab, threads
from tests.live.connection import Tab, cursor_of, fresh_page, page_of
from tests.rendering.stories import MARKDOWN, RICH, told

STORIES = {"rich": RICH, "markdown": told(MARKDOWN, size=7)}
LONG = "".join(f"Paragraph {number} of a long answer.\n\n" for number in range(3000))


async def until_equal(tab: Tab, run: LiveRun) -> None:
    """At the end the page shows what a reload shows, under the same cursor."""
    await tab.until_over(run.id)
    run.row = await threads.call(type(run.row).objects.get, pk=run.row.pk)
    expected = await threads.call(fresh_page, run.row)
    assert tab.pages[run.id].state() == expected.state()
    assert tab.cursors[run.id] == cursor_of(run.entries)


@pytest.mark.parametrize("at_once", [1, 7])
@pytest.mark.parametrize("name", STORIES)
async def test_a_page_that_follows_shows_what_a_reload_shows(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, name: str, at_once: int
) -> None:
    tab = open_tab(bobs_session)
    tab.follow(run.id)

    await run.replay(STORIES[name], at_once=at_once)

    await until_equal(tab, run)


async def test_frames_cover_the_log_without_a_gap_and_say_so(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.hub.FRAME_SECONDS", 0.0)
    tab = open_tab(bobs_session)
    tab.follow(run.id)

    await run.replay(STORIES["markdown"])
    await tab.until_over(run.id)

    frames = tab.frames(run.id)
    assert [frame["after"] for frame in frames] == [0, *(frame["seq"] for frame in frames[:-1])]
    assert [frame["check"] for frame in frames] == [
        cursor_of(run.entries[: frame["seq"]])[1] for frame in frames
    ]
    assert [frame["live"] for frame in frames] == [True] * (len(frames) - 1) + [False]


async def test_the_first_change_after_a_quiet_moment_does_not_wait(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.hub.FRAME_SECONDS", 3600.0)
    monkeypatch.setattr("chat.live.hub.LONGEST_FRAME_SECONDS", 3600.0)
    tab = open_tab(bobs_session)
    tab.follow(run.id)

    await run.say(canonical.ChatStart(model_instance_id="m"))

    await tab.until_seq(run.id, 1)


async def test_changes_in_a_rush_share_frames(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.hub.FRAME_SECONDS", 0.15)
    tab = open_tab(bobs_session)
    tab.follow(run.id)

    await run.tell("A word, and many more of them after it.", size=1)
    await run.end()

    await until_equal(tab, run)
    assert len(tab.frames(run.id)) < len(run.entries) / 2


async def test_no_frame_is_made_of_nothing_and_puts_off_the_next_words(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"_share": 0, "_say_when_next": 0}

    def count(name: str) -> None:
        called = getattr(Hub, name)

        def counted(hub: Hub, *args: Any) -> None:
            made[name] += 1
            called(hub, *args)

        monkeypatch.setattr(Hub, name, counted)

    count("_share")
    count("_say_when_next")
    monkeypatch.setattr("chat.live.hub.FRAME_SECONDS", 0.1)
    tab = open_tab(bobs_session)
    tab.follow(run.id)

    await run.say(canonical.ChatStart(model_instance_id="m"))
    await run.tell("Words that come faster than frames are made.", size=2)
    await tab.until_seq(run.id, len(run.entries))
    # The time of the frame that there was nothing for.
    await asyncio.sleep(0.3)

    assert 1 < made["_say_when_next"] <= made["_share"]


async def test_a_frame_goes_out_at_once_where_nobody_has_to_wait(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    tab = open_tab(bobs_session)
    tab.follow(run.id)

    await run.tell("Some words, one after the other, and a few more.", size=4)
    await run.end()

    await until_equal(tab, run)
    assert 0 < tab.sent_at_once < len(tab.frames(run.id))


async def test_a_connection_that_fails_while_it_is_sent_to_takes_no_other_with_it(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, other = open_tab(bobs_session), open_tab(bobs_session)

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

    await until_equal(other, run)
    await broken.until_closed()
    # It comes back with its cursor, and asks who it is.
    assert broken.close_code == CLOSE_LATER


async def test_two_viewers_get_the_very_same_frames(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    one, other = open_tab(bobs_session), open_tab(bobs_session)
    for tab in (one, other):
        tab.follow(run.id)
    await run.say(canonical.ChatStart(model_instance_id="m"))
    for tab in (one, other):
        await tab.until_seq(run.id, 1)

    await run.replay(STORIES["markdown"][1:])

    await until_equal(one, run)
    await until_equal(other, run)
    assert one.frames(run.id)[1:] == other.frames(run.id)[1:]


async def test_a_page_that_comes_late_gets_what_it_lacks_and_goes_on(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    await run.tell(MARKDOWN)
    late = open_tab(bobs_session)
    late.follow(run.id)
    await late.until_seq(run.id, len(run.entries))

    await run.add("And more.")
    await run.end()

    await until_equal(late, run)
    assert not any(frame["replaces"] for frame in late.frames(run.id))


@pytest.mark.parametrize("has_hub", [True, False], ids=["with a hub", "without a hub"])
@pytest.mark.parametrize("share", [0.3, 0.97])
async def test_a_page_comes_back_in_mid_stream_with_its_cursor(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, share: float, has_hub: bool
) -> None:
    first = open_tab(bobs_session)
    if has_hub:
        first.follow(run.id)
    await run.tell(MARKDOWN)
    if has_hub:
        await first.until_seq(run.id, len(run.entries))

    back = open_tab(bobs_session)
    back.follow(run.id, run.entries[: int(len(run.entries) * share)])
    await back.until_seq(run.id, len(run.entries))
    await run.end()

    await until_equal(back, run)
    assert not any(frame["replaces"] for frame in back.frames(run.id))


@pytest.mark.parametrize("has_hub", [True, False], ids=["with a hub", "without a hub"])
@pytest.mark.parametrize(
    "cursor",
    [
        pytest.param((9, "deadbeef"), id="another log"),
        pytest.param((9, ""), id="no checksum"),
        pytest.param((0, "deadbeef"), id="the beginning of nothing"),
        pytest.param((-1, "00000000"), id="below zero"),
        pytest.param((10_000, "deadbeef"), id="from the future"),
    ],
)
async def test_a_cursor_of_another_log_gets_the_whole_answer_and_nothing_before_it(
    run: LiveRun,
    open_tab: OpenTab,
    bobs_session: str,
    monkeypatch: pytest.MonkeyPatch,
    cursor: tuple[int, str],
    has_hub: bool,
) -> None:
    monkeypatch.setattr("chat.live.hub.CATCH_UP_SECONDS", 0.1)
    await run.tell(MARKDOWN)
    if has_hub:
        other = open_tab(bobs_session)
        other.follow(run.id)
        await other.until_seq(run.id, len(run.entries))

    tab = open_tab(bobs_session)
    tab.follow(run.id, cursor=cursor)
    await tab.until(lambda tab: tab.frames(run.id))
    await run.end()

    await until_equal(tab, run)
    assert tab.frames(run.id)[0]["replaces"]


async def test_a_run_whose_runner_is_elsewhere_arrives_without_tail_and_doorbell(
    begin: Callable[..., LiveRun], open_tab: OpenTab, bobs_session: str
) -> None:
    run = await threads.call(begin, is_heard=False)
    tab = open_tab(bobs_session)
    tab.follow(run.id)

    await run.tell(MARKDOWN)
    await run.end()

    await until_equal(tab, run)


async def test_a_page_that_wants_everything_anew_gets_it(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    tab = open_tab(bobs_session)
    tab.follow(run.id)
    await run.tell(MARKDOWN)
    await tab.until_seq(run.id, len(run.entries))

    tab.pages[run.id] = page_of(run.id, [])
    tab.say(type="resync", run=run.id.hex)
    await tab.until(lambda tab: tab.frames(run.id)[-1]["replaces"])
    await run.end()

    await until_equal(tab, run)


async def test_a_replacement_comes_in_pieces_that_build_the_answer(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    await run.tell(LONG, size=20_000)
    tab = open_tab(bobs_session)
    tab.follow(run.id, cursor=(3, "deadbeef"))
    await run.end()

    await until_equal(tab, run)
    pieces = [frame for frame in tab.frames(run.id) if frame["replaces"]]
    assert len(pieces) > 2


async def test_only_the_last_piece_says_where_the_page_stands_and_that_the_run_has_ended(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    await run.tell(LONG, size=20_000)
    await run.end()
    tab = open_tab(bobs_session)
    tab.follow(run.id, cursor=(3, "deadbeef"))
    await until_equal(tab, run)

    pieces = [frame for frame in tab.frames(run.id) if frame["replaces"]]
    assert len(pieces) > 2
    assert [frame["live"] for frame in pieces] == [True] * (len(pieces) - 1) + [False]
    assert [frame["check"] for frame in pieces[:-1]] == [""] * (len(pieces) - 1)


async def test_a_connection_that_breaks_between_two_pieces_costs_nothing(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    await run.tell(LONG, size=20_000)
    await run.end()
    tab = open_tab(bobs_session)
    tab.follow(run.id, cursor=(3, "deadbeef"))
    await until_equal(tab, run)
    first = tab.frames(run.id)[0]

    back = open_tab(bobs_session)
    back.follow(run.id, cursor=(first["seq"], first["check"]))

    await until_equal(back, run)
    assert back.frames(run.id)[0]["replaces"]


async def test_an_ended_run_is_given_to_whoever_still_asks(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    await run.replay(RICH, at_once=5)
    live_tail.forget(run.id)

    tab = open_tab(bobs_session)
    tab.follow(run.id, run.entries[:11])

    await until_equal(tab, run)


async def test_a_hub_goes_some_time_after_its_last_viewer(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.hub.LINGER_SECONDS", 0.0)
    tab = open_tab(bobs_session)
    tab.follow(run.id)
    await run.tell("Hello")
    await tab.until_seq(run.id, len(run.entries))

    tab.say(type="unfollow", run=run.id.hex)

    async with asyncio.timeout(10):
        while run.id in hubs._hubs:
            await asyncio.sleep(0.01)
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not {name for name in names if run.id.hex in name}


async def test_an_answer_that_cannot_be_shown_takes_no_other_with_it(
    begin: Callable[..., LiveRun],
    run: LiveRun,
    open_tab: OpenTab,
    bobs_session: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poisoned = await threads.call(begin)
    from chat.rendering.patches import Answer

    patches_since = Answer.patches_since

    def fail(answer: Answer, seq: int) -> str:
        if answer._id == f"r{poisoned.id.hex}":
            raise ValueError("poison")
        return patches_since(answer, seq)

    monkeypatch.setattr(Answer, "patches_since", fail)
    tab = open_tab(bobs_session)
    tab.follow(poisoned.id)
    tab.follow(run.id)

    await poisoned.tell("Poison")
    await run.tell(MARKDOWN)
    await run.end()

    await until_equal(tab, run)
    assert tab.frames(poisoned.id) == []
