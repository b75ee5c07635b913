"""A page that was rendered from another database is told to load itself anew."""

import psycopg
import pytest

from chat.core.database_identity import _PLACE, page_database_identity, read_database_identity
from tests.live.conftest import LiveRun, OpenTab, threads
from tests.live.connection import Tab, cursor_message
from tests.support.databases import MIGRATED, migrated_postgres
from tests.support.processes.site import soon
from tests.support.servers import PostgreSQL


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
    greet(tab, run, await threads.call(page_database_identity))

    await run.tell("It goes on.")
    await tab.until_seq(run.id, len(run.entries))

    assert tab.close_code is None


async def test_page_with_scripts_of_another_version_is_loaded_anew(run: LiveRun, tab: Tab) -> None:
    # The same database, as an earlier version said it.
    greet(tab, run, await threads.call(read_database_identity))

    await tab.until_closed()

    assert tab.said == [{"gone": True, "reason": "restored"}]


def place_in(server: PostgreSQL) -> tuple[object, ...] | None:
    with psycopg.connect(server.url(MIGRATED)) as connection:
        return connection.execute(_PLACE).fetchone()


@pytest.mark.slow
@pytest.mark.needs("postgresql")
def test_restore_to_a_point_in_time_makes_another_epoch() -> None:
    with PostgreSQL(copy_of=migrated_postgres()) as server:
        before = place_in(server)
        server.stop()
        server.start()
        assert place_in(server) == before
        server.stop()

        # As with a base backup: it replays the log that is there, and goes on with another timeline.
        (server.data / "recovery.signal").touch()
        with (server.data / "postgresql.auto.conf").open("a") as file:
            file.write("restore_command = 'false'\n")
        server.start()
        soon(lambda: not (server.data / "recovery.signal").exists())

        assert place_in(server) != before
