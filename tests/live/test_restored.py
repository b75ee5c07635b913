"""A page that was rendered from another database is told to load itself anew."""

import pytest

from chat.live.epoch import read_epoch
from tests.live.conftest import LiveRun, OpenTab, threads
from tests.live.connection import Tab, cursor_message


@pytest.fixture
async def tab(open_tab: OpenTab) -> Tab:
    return open_tab()


def greet(tab: Tab, run: LiveRun, epoch: str) -> None:
    """As a page does that was rendered before the run had events."""
    cursor = tab.show(run.id, [])
    tab.say(type="hello", room=run.room.hex, epoch=epoch, runs=[cursor_message(run.id, cursor)])


async def test_page_from_before_a_restore_is_told_and_closed(run: LiveRun, tab: Tab) -> None:
    await run.tell("What the database says now.")

    greet(tab, run, "0" * 16)
    await tab.until_closed()

    assert tab.said == [{"gone": True, "reason": "restored"}]
    # A code below 4000 lets the page come back, and does not claim that its person lost access.
    assert tab.close_code == 1013


async def test_page_of_the_current_database_goes_on(run: LiveRun, tab: Tab) -> None:
    greet(tab, run, await threads.call(read_epoch))

    await run.tell("It goes on.")
    await tab.until_seq(run.id, len(run.entries))

    assert tab.close_code is None
