"""A viewer that does not keep up loses its place, and nobody else's."""

import asyncio
from collections.abc import Callable

import pytest

from chat.live.viewer import CLOSE_BEHIND, UNACKNOWLEDGED_BYTES
from tests.live.conftest import LiveRun, OpenTab, threads
from tests.live.connection import SOON_SECONDS, Tab
from tests.live.test_pages import until_equal

PIECE = "".join(f"Words of a long paragraph, number {number}.\n\n" for number in range(500))


async def fall_behind(tab: Tab, hearing: Tab, run: LiveRun) -> None:
    """Says so much that whoever does not acknowledge gets no more of it."""
    await run.tell("A long story.\n\n")
    while tab.received_bytes <= UNACKNOWLEDGED_BYTES:
        await run.add(PIECE)
        await hearing.until_seq(run.id, len(run.entries))
    # What went out just before may still arrive; after this nothing does.
    for _ in range(2):
        await run.add(PIECE)
        await hearing.until_seq(run.id, len(run.entries))


async def turn_away(tab: Tab, run: LiveRun) -> None:
    """Leaves the run without acknowledging; returns when the server has taken note."""
    tab.say(type="unfollow", run=run.id.hex)
    # The messages of one socket are handled in order, and this one is answered.
    tab.hello(run.row.conversation.public_id)
    await tab.until(lambda tab: any("room" in message for message in tab.messages))


@pytest.fixture
async def hearing(open_tab: OpenTab, bobs_session: str, run: LiveRun) -> Tab:
    tab = open_tab(bobs_session)
    tab.follow(run.id)
    return tab


@pytest.fixture
async def deaf(open_tab: OpenTab, bobs_session: str, run: LiveRun) -> Tab:
    tab = open_tab(bobs_session, is_deaf=True)
    tab.follow(run.id)
    return tab


async def test_a_viewer_that_never_acknowledges_is_sent_no_more(
    run: LiveRun, hearing: Tab, deaf: Tab
) -> None:
    await fall_behind(deaf, hearing, run)
    # Not of messages: that the connection lives is said in any case, on a busy machine just now.
    count = len(deaf.frames(run.id))

    for _ in range(10):
        await run.add(PIECE)
        await hearing.until_seq(run.id, len(run.entries))

    assert len(deaf.frames(run.id)) == count
    assert deaf.received_bytes < UNACKNOWLEDGED_BYTES + 4 * len(PIECE)
    assert hearing.cursors[run.id][0] == len(run.entries)


async def test_an_acknowledgement_brings_it_from_where_it_is_to_now(
    run: LiveRun, hearing: Tab, deaf: Tab
) -> None:
    await fall_behind(deaf, hearing, run)
    # More than the frames that are kept: it gets one patch of its own.
    for _ in range(25):
        await run.add(PIECE)
        await hearing.until_seq(run.id, len(run.entries))
    count = len(deaf.frames(run.id))

    deaf.acknowledge(run.id)
    await deaf.until_seq(run.id, len(run.entries))

    assert len(deaf.frames(run.id)) == count + 1
    assert deaf.pages[run.id].state() == hearing.pages[run.id].state()
    assert not deaf.frames(run.id)[-1]["replaces"]


async def test_a_little_late_it_gets_the_frames_that_the_others_got(
    run: LiveRun, hearing: Tab, deaf: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is falling behind here is paragraphs, not words.
    monkeypatch.setattr("chat.live.hub.RING_BYTES", 128 * 1024)
    monkeypatch.setattr("chat.live.hub.FEW_BYTES", 128 * 1024)
    await fall_behind(deaf, hearing, run)
    missed = len(hearing.frames(run.id)) - len(deaf.frames(run.id))

    deaf.acknowledge(run.id)
    await deaf.until_seq(run.id, len(run.entries))

    assert deaf.frames(run.id)[-missed:] == hearing.frames(run.id)[-missed:]
    assert deaf.pages[run.id].state() == hearing.pages[run.id].state()


async def test_a_viewer_that_stays_behind_is_closed_and_the_others_go_on(
    run: LiveRun, hearing: Tab, deaf: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fall_behind(deaf, hearing, run)
    assert deaf.close_code is None

    monkeypatch.setattr("chat.live.viewer.BEHIND_SECONDS", -1.0)
    await run.add("One more word.")
    await deaf.until_closed()
    await run.end()

    assert deaf.close_code == CLOSE_BEHIND
    await until_equal(hearing, run)


async def test_a_closed_viewer_comes_back_with_its_cursor(
    run: LiveRun,
    hearing: Tab,
    deaf: Tab,
    open_tab: OpenTab,
    bobs_session: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await fall_behind(deaf, hearing, run)
    monkeypatch.setattr("chat.live.viewer.BEHIND_SECONDS", -1.0)
    await run.add("One more word.")
    await deaf.until_closed()
    monkeypatch.undo()

    back = open_tab(bobs_session)
    back.follow(run.id, run.entries[: deaf.cursors[run.id][0]])
    await run.end()

    await until_equal(back, run)


async def test_a_viewer_that_turns_away_from_what_it_did_not_acknowledge_is_not_behind(
    run: LiveRun, hearing: Tab, deaf: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fall_behind(deaf, hearing, run)

    await turn_away(deaf, run)
    monkeypatch.setattr("chat.live.viewer.BEHIND_SECONDS", -1.0)
    deaf.follow(run.id, run.entries)
    await run.add("One more word.")
    await deaf.until_seq(run.id, len(run.entries))

    assert deaf.close_code is None


def heartbeats(tab: Tab) -> int:
    return sum("heartbeat" in message for message in tab.messages)


@pytest.fixture
def quick_heart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a tab opens: its timer for the first one is set then."""
    monkeypatch.setattr("chat.live.viewer.HEARTBEAT_SECONDS", 0.1)


async def test_an_idle_viewer_is_told_that_the_connection_lives_and_is_not_behind(
    quick_heart: None, run: LiveRun, hearing: Tab, deaf: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fall_behind(deaf, hearing, run)
    await turn_away(deaf, run)
    monkeypatch.setattr("chat.live.viewer.BEHIND_SECONDS", -1.0)
    before = heartbeats(deaf)
    await deaf.until(lambda tab: tab.close_code or heartbeats(tab) > before + 10)

    assert deaf.close_code is None


async def test_a_viewer_that_is_behind_an_answer_that_goes_on_hears_that_the_connection_lives(
    run: LiveRun, hearing: Tab, deaf: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fall_behind(deaf, hearing, run)
    monkeypatch.setattr("chat.live.viewer.HEARTBEAT_SECONDS", 0.3)
    heartbeats = sum("heartbeat" in message for message in deaf.messages)

    # Wakes the one who sends, again and again, as an answer does; it frees nothing.
    async with asyncio.timeout(SOON_SECONDS):
        while sum("heartbeat" in message for message in deaf.messages) == heartbeats:
            deaf.say(type="ack", runs={run.id.hex: 0})
            await asyncio.sleep(0.01)

    assert deaf.close_code is None


async def test_one_run_s_backlog_holds_up_the_other_runs_of_the_tab_only(
    begin: Callable[..., LiveRun],
    run: LiveRun,
    hearing: Tab,
    deaf: Tab,
) -> None:
    other = await threads.call(begin)
    deaf.follow(other.id)
    hearing.follow(other.id)
    await fall_behind(deaf, hearing, run)
    await other.tell("Beside it")
    await hearing.until_seq(other.id, len(other.entries))
    assert deaf.cursors[other.id][0] == 0

    deaf.acknowledge(run.id)
    await deaf.until_seq(other.id, len(other.entries))

    assert deaf.pages[other.id].state() == hearing.pages[other.id].state()
