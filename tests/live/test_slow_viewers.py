"""A viewer that does not keep up is sent no more and finally closed; other viewers go on."""

import asyncio

import pytest

from chat.live.viewer import CLOSE_BEHIND, UNACKNOWLEDGED_BYTES
from tests.live.conftest import Begin, LiveRun, OpenTab, threads
from tests.live.connection import SOON_SECONDS, Tab

# Small amounts for the tests in which only the order of things matters.
FEW_UNACKNOWLEDGED_BYTES = 16 * 1024


def paragraphs(count: int) -> str:
    return "".join(f"Words of a long paragraph, number {number}.\n\n" for number in range(count))


PIECE = paragraphs(40)
LARGE_PIECE = paragraphs(500)


async def fall_behind(
    slow: Tab,
    fast: Tab,
    run: LiveRun,
    *,
    limit_bytes: int = FEW_UNACKNOWLEDGED_BYTES,
    piece: str = PIECE,
) -> None:
    """Writes so much that a viewer which does not acknowledge gets no more of it."""
    await run.tell("A long story.\n\n")
    while slow.received_bytes <= limit_bytes:
        await grow(run, fast, piece)
    # What went out just before may still arrive; nothing does after this.
    await grow(run, fast, piece, times=2)


async def grow(run: LiveRun, fast: Tab, piece: str = PIECE, *, times: int = 1) -> None:
    """The answer grows, and those who keep up have all of it."""
    for _ in range(times):
        await run.add(piece)
        await fast.until_seq(run.id, len(run.entries))


async def turn_away(tab: Tab, run: LiveRun) -> None:
    """Unfollows without acknowledging; returns when the server has taken note."""
    tab.say(type="unfollow", run=run.id.hex)
    # The messages of one socket are handled in order, and this one is answered.
    tab.hello(run.room)
    await tab.until(lambda tab: any("room" in message for message in tab.messages))


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no heartbeat, which would wake a viewer that an acknowledgement should wake."""
    monkeypatch.setattr("chat.live.viewer.UNACKNOWLEDGED_BYTES", FEW_UNACKNOWLEDGED_BYTES)
    monkeypatch.setattr("chat.live.viewer.HEARTBEAT_SECONDS", 3600.0)


@pytest.fixture
def fast(bobs_tab: Tab) -> Tab:
    return bobs_tab


@pytest.fixture
async def slow(open_tab: OpenTab, run: LiveRun) -> Tab:
    """Acknowledges nothing."""
    tab = open_tab(is_deaf=True)
    tab.follow(run.id)
    return tab


@pytest.mark.usefixtures("whole_texts")
async def test_unacknowledged_viewer_is_sent_no_more(run: LiveRun, fast: Tab, slow: Tab) -> None:
    await fall_behind(slow, fast, run, limit_bytes=UNACKNOWLEDGED_BYTES, piece=LARGE_PIECE)
    # Heartbeats do not count: they are sent in any case.
    count = len(slow.frames(run.id))

    await grow(run, fast, LARGE_PIECE, times=5)

    assert len(slow.frames(run.id)) == count
    assert slow.received_bytes < UNACKNOWLEDGED_BYTES + 4 * len(LARGE_PIECE)
    assert fast.cursors[run.id][0] == len(run.entries)


@pytest.mark.usefixtures("small_limit")
async def test_acknowledgement_brings_one_patch_to_now(run: LiveRun, fast: Tab, slow: Tab) -> None:
    await fall_behind(slow, fast, run)
    # More than the shared frames that are kept: it needs a patch of its own.
    await grow(run, fast, times=25)
    count = len(slow.frames(run.id))

    slow.acknowledge(run.id)
    await slow.until_seq(run.id, len(run.entries))

    assert len(slow.frames(run.id)) == count + 1
    assert slow.pages[run.id].state() == fast.pages[run.id].state()
    assert not slow.frames(run.id)[-1]["replaces"]


@pytest.mark.usefixtures("small_limit")
async def test_acknowledgement_of_a_single_large_frame_frees_it(run: LiveRun, slow: Tab) -> None:
    await run.tell(LARGE_PIECE, size=len(LARGE_PIECE))
    await slow.until_seq(run.id, len(run.entries))
    assert slow.received_bytes > FEW_UNACKNOWLEDGED_BYTES

    slow.acknowledge(run.id)
    await run.add("The end.")

    await slow.until_seq(run.id, len(run.entries))


@pytest.mark.usefixtures("small_limit")
async def test_slightly_late_viewer_gets_the_shared_frames(
    run: LiveRun, fast: Tab, slow: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The frames of these tests hold paragraphs, not words.
    monkeypatch.setattr("chat.live.broadcaster.RING_BYTES", 128 * 1024)
    monkeypatch.setattr("chat.live.broadcaster.FEW_BYTES", 128 * 1024)
    await fall_behind(slow, fast, run)
    missed = len(fast.frames(run.id)) - len(slow.frames(run.id))

    slow.acknowledge(run.id)
    await slow.until_seq(run.id, len(run.entries))

    assert missed > 0
    assert slow.frames(run.id)[-missed:] == fast.frames(run.id)[-missed:]
    assert slow.pages[run.id].state() == fast.pages[run.id].state()


@pytest.mark.usefixtures("small_limit")
async def test_viewer_behind_too_long_is_closed_and_resumes(
    run: LiveRun,
    fast: Tab,
    slow: Tab,
    open_tab: OpenTab,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await fall_behind(slow, fast, run)
    assert slow.close_code is None

    with monkeypatch.context() as patch:
        patch.setattr("chat.live.viewer.BEHIND_SECONDS", -1.0)
        await run.add("One more word.")
        await slow.until_closed()
    assert slow.close_code == CLOSE_BEHIND

    back = open_tab()
    back.follow(run.id, run.entries[: slow.cursors[run.id][0]])
    await run.end()

    await run.assert_shown(back)
    await run.assert_shown(fast)


@pytest.mark.usefixtures("small_limit")
async def test_unfollowed_run_is_not_counted(
    run: LiveRun, fast: Tab, slow: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fall_behind(slow, fast, run)

    await turn_away(slow, run)
    monkeypatch.setattr("chat.live.viewer.BEHIND_SECONDS", -1.0)
    slow.follow(run.id, run.entries)
    await run.add("One more word.")
    await slow.until_seq(run.id, len(run.entries))

    assert slow.close_code is None


@pytest.fixture
def frequent_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set before a tab opens, which sets the timer for its first one."""
    monkeypatch.setattr("chat.live.viewer.HEARTBEAT_SECONDS", 0.02)


@pytest.mark.usefixtures("small_limit", "frequent_heartbeats")
async def test_idle_viewer_gets_heartbeats_and_stays_open(
    run: LiveRun, fast: Tab, slow: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fall_behind(slow, fast, run)
    await turn_away(slow, run)

    monkeypatch.setattr("chat.live.viewer.BEHIND_SECONDS", -1.0)
    before = slow.heartbeats
    await slow.until(lambda tab: tab.close_code or tab.heartbeats > before + 10)

    assert slow.close_code is None


@pytest.mark.usefixtures("small_limit")
async def test_viewer_behind_a_growing_answer_gets_heartbeats(
    run: LiveRun, fast: Tab, slow: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fall_behind(slow, fast, run)
    monkeypatch.setattr("chat.live.viewer.HEARTBEAT_SECONDS", 0.1)
    before = slow.heartbeats

    # Wakes the sending task again and again, as an answer does, and frees nothing.
    async with asyncio.timeout(SOON_SECONDS):
        while slow.heartbeats == before:
            slow.say(type="ack", runs={run.id.hex: 0})
            await asyncio.sleep(0.01)

    assert slow.close_code is None


@pytest.mark.usefixtures("small_limit")
async def test_backlog_delays_only_the_runs_of_the_same_tab(
    begin: Begin, run: LiveRun, fast: Tab, slow: Tab
) -> None:
    other = await threads.call(begin)
    slow.follow(other.id)
    fast.follow(other.id)
    await fall_behind(slow, fast, run)
    await other.tell("Beside it")
    await fast.until_seq(other.id, len(other.entries))
    assert slow.cursors[other.id][0] == 0

    slow.acknowledge(run.id)
    await slow.until_seq(other.id, len(other.entries))

    assert slow.pages[other.id].state() == fast.pages[other.id].state()
