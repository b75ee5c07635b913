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
    tab.say(
        type="hello",
        room=run.room.hex,
        epoch=epoch,
        runs=[cursor_message(run.id, cursor)],
        channels={},
    )


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


async def test_page_with_scripts_of_another_version_goes_on_until_it_reloads(
    run: LiveRun, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.viewer.HEARTBEAT_SECONDS", 0.05)
    told = {"gone": True, "reason": "restored"}

    greet(tab, run, f"{await threads.call(read_database_identity)}.{'0' * 16}")
    await run.tell("It goes on.")
    await tab.until_seq(run.id, len(run.entries))

    # Pages that have just reloaded ignore it at first.
    await tab.until(lambda tab: tab.said.count(told) > 1)
    assert tab.close_code is None


def place_in(server: PostgreSQL) -> tuple[object, ...] | None:
    with psycopg.connect(server.url(MIGRATED)) as connection:
        return connection.execute(_PLACE).fetchone()


def is_in_recovery(server: PostgreSQL) -> bool:
    with psycopg.connect(server.url(MIGRATED)) as connection:
        row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        return row is None or bool(row[0])


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
        soon(lambda: not is_in_recovery(server))

        assert place_in(server) != before
