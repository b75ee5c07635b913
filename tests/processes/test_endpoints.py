"""The live endpoints of a real server, over real sockets. One site for all tests of this file."""

import contextlib
import uuid
from collections.abc import Iterator
from uuid import UUID

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from chat import dialects
from chat.demo.script import Gate, lmstudio_events, lmstudio_run, stream
from chat.events import decode_result
from chat.management.commands.decode import decode
from chat.result import Fold, fold
from chat.runs.public_events import response_id_of
from tests.fixtures import core_of
from tests.support.pages import page_of
from tests.support.processes.runs import (
    ANSWER,
    SEEN,
    SEEN_END,
    UNSEEN,
    assert_ended,
    assert_kept,
)
from tests.support.processes.site import SOON_SECONDS, Site
from tests.support.processes.viewers import Program, Tab, open_socket, watching

pytestmark = pytest.mark.process
QUESTION = "Where does the river run?"


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    if not shared_site.is_alive:
        shared_site.start()
    yield shared_site
    shared_site.settle()


@pytest.fixture
def ended(site: Site) -> UUID:
    """A completed run."""
    site.fake.script(stream(ANSWER))
    run = site.send(QUESTION)
    site.until_ended(run)
    return run


@pytest.fixture
def half_answered(site: Site) -> UUID:
    """A run that waits at the gate ``rest``."""
    site.fake.script(stream(SEEN, Gate(name="rest"), UNSEEN))
    return site.send(QUESTION)


@contextlib.contextmanager
def deleted(site: Site, table: str, column: str, value: str) -> Iterator[None]:
    """Deletes rows as the admin or another process would, without any notification, and puts them
    back afterwards."""
    rows = site.rows(f"SELECT * FROM {table} WHERE {column} = ?", value)
    site.rows(f"DELETE FROM {table} WHERE {column} = ?", value)
    try:
        yield
    finally:
        for row in rows:
            places = ", ".join("?" * len(row))
            site.rows(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *row.values())


def events_of(run: UUID) -> str:
    return f"/api/v1/runs/{run}/events"


def get_events(
    site: Site, run: UUID, *, by: str = "Bob", headers: dict[str, str] | None = None
) -> httpx.Response:
    with site.browser(by) as browser:
        return browser.get(events_of(run), headers=headers)


def test_team_sees_the_same_answer(site: Site, half_answered: UUID) -> None:
    run = half_answered
    tabs = [Tab(site, run, by=name) for name in ("Alice", "Bob", "Vera")]
    for tab in tabs:
        tab.until_shown(run, SEEN_END)

    late = Tab(site, run, by="Alice")
    late.until_shown(run, SEEN_END)
    site.fake.release("rest")

    for tab in (*tabs, late):
        tab.until_over(run)
    entries = assert_ended(site, run, "completed")
    assert {tab.pages[run].state() for tab in (*tabs, late)} == {page_of(run, entries).state()}
    for tab in (*tabs, late):
        tab.leave()


@pytest.mark.slow
def test_long_answer_arrives_whole(site: Site) -> None:
    words = [f"word{number} and **more** of it.\n\n" for number in range(3000)]
    site.fake.script(stream(lmstudio_events(lmstudio_run(*words)), split_bytes=777))
    run = site.send("Tell me everything")

    with watching(site, run) as (program, tab):
        program.until_ended()
        tab.until_over(run)

    entries = assert_ended(site, run, "completed")
    assert len(program.frames) == len(entries)
    assert_kept(program, tab, run, entries)
    assert b"".join(frame.raw for frame in program.frames) in program.raw


def test_event_stream_reads_as_an_lmstudio_stream(site: Site, ended: UUID) -> None:
    received = get_events(site, ended).content

    parser = dialects.get("lmstudio").parser(model="asked", options={})
    read = fold(decode(parser, iter([received]), Fold()))
    stored = decode_result(site.run(ended)["result"])
    stored.response_id = response_id_of(ended)
    assert core_of(read) == core_of(stored)
    assert (read.ext.status, read.ext.stop) == (stored.ext.status, stored.ext.stop)
    assert read.ext.vendor == []


def test_page_learns_of_a_colleagues_turn(site: Site, ended: UUID) -> None:
    room = site.conversation_of(ended)
    tab = Tab(site, by="Vera", room=room)
    tab.until(lambda tab: tab.messages)
    known = tab.messages[-1]["revision"]
    site.fake.script(stream(ANSWER))

    site.retry(ended, by="Bob")

    tab.until(lambda tab: tab.messages[-1].get("revision", 0) > known)
    assert tab.messages[-1]["room"] == room.hex
    tab.leave()


def test_removed_member_receives_nothing_more(site: Site, half_answered: UUID) -> None:
    run = half_answered

    with watching(site, run) as (program, tab):
        tab.until_shown(run, SEEN_END)
        with deleted(site, "chat_membership", "role", "member"):
            tab.until_ended()
            program.until_ended()
            site.fake.release("rest")
            assert_ended(site, run, "completed")
            refused = get_events(site, run)

    assert tab.messages[-1] == {"gone": True, "reason": "access"}
    assert tab.close_code == 4403
    assert b"to the sea" not in program.raw
    assert program.failure is None
    assert refused.status_code == 404


def test_ended_session_closes_its_tabs(site: Site, half_answered: UUID) -> None:
    tab = Tab(site, half_answered)
    tab.until_shown(half_answered, SEEN_END)

    with deleted(site, "django_session", "session_key", site.world.sessions["Bob"]):
        tab.until_ended()

    assert tab.messages[-1] == {"gone": True, "reason": "signed-out"}
    assert tab.close_code == 4401
    tab.leave()


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1"])
def test_websocket_from_another_origin_gets_403(site: Site, origin: str | None) -> None:
    with pytest.raises(InvalidStatus) as refused, open_socket(site, by="Alice", origin=origin):
        pass

    assert refused.value.response.status_code == 403


def test_websocket_without_session_is_told_and_closed(site: Site) -> None:
    with open_socket(site) as socket:
        message = socket.recv(timeout=SOON_SECONDS)
        with contextlib.suppress(ConnectionClosed):
            socket.recv(timeout=SOON_SECONDS)

    assert message == '{"gone":true,"reason":"signed-out"}'
    assert socket.close_code == 4401


def test_streams_and_refusals_share_a_connection(site: Site, ended: UUID) -> None:
    with site.browser("Bob") as browser:
        whole = browser.get(events_of(ended))
        missing = browser.get(events_of(uuid.uuid4()))
        rest = browser.get(events_of(ended), headers={"Last-Event-ID": "3"})
    foreign = get_events(site, ended, by="Charlie")

    assert whole.text.endswith(rest.text)
    assert 0 < len(rest.text) < len(whole.text)
    assert (foreign.status_code, foreign.content) == (missing.status_code, missing.content)
    assert foreign.status_code == 404


def test_stream_is_neither_compressed_nor_cached(site: Site, ended: UUID) -> None:
    answer = get_events(site, ended, headers={"Accept-Encoding": "gzip, br"})

    assert "content-encoding" not in answer.headers
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert answer.headers["x-accel-buffering"] == "no"


def test_run_goes_on_when_its_reader_leaves(site: Site, half_answered: UUID) -> None:
    program = Program(site, half_answered)
    program.until_event("message.delta")

    program.leave()
    site.fake.release("rest")

    assert_ended(site, half_answered, "completed")
    assert "Traceback" not in site.log
