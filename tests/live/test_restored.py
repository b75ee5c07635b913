"""A page that was rendered from another database is told to load itself anew."""

import pytest
from django.templatetags.static import static

from chat.live.epoch import page_epoch, read_epoch
from project.static_files import static_mark
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
    greet(tab, run, await threads.call(page_epoch))

    await run.tell("It goes on.")
    await tab.until_seq(run.id, len(run.entries))

    assert tab.close_code is None


async def test_page_with_scripts_of_another_version_is_loaded_anew(run: LiveRun, tab: Tab) -> None:
    # The same database, as an earlier version said it.
    greet(tab, run, await threads.call(read_epoch))

    await tab.until_closed()

    assert tab.said == [{"gone": True, "reason": "restored"}]


def test_scripts_of_another_version_have_other_addresses() -> None:
    assert static("js/live.js") == f"/static/js/live.js?v={static_mark()}"
