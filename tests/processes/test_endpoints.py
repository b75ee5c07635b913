"""The live endpoints of a real server, over real sockets."""

import contextlib
import uuid
from uuid import UUID

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from chat import dialects
from chat.demo.script import Gate, lmstudio_events, lmstudio_run, stream
from chat.events import decode_result
from chat.management.commands.decode import decode
from chat.result import Fold, fold
from chat.runs.public import response_id_of
from tests.fixtures import core_of
from tests.processes.test_crashes import ANSWER, SEEN, UNSEEN, assert_ended, assert_kept
from tests.support.processes.site import Site
from tests.support.processes.viewers import Program, Tab, open_socket, page_of, watching

pytestmark = pytest.mark.process


def events_of(run: UUID) -> str:
    return f"/api/v1/runs/{run}/events"


def test_everybody_in_the_team_sees_the_same_answer_at_the_same_time(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="rest"), UNSEEN))
    site.start()
    run = site.send("Where does the river run?")
    tabs = [Tab(site, run, by=name) for name in ("Alice", "Bob", "Vera")]
    for tab in tabs:
        tab.until_shown(run, "runs down")

    late = Tab(site, run, by="Alice")
    late.until_shown(run, "runs down")
    site.fake.release("rest")

    for tab in (*tabs, late):
        tab.until_over(run)
    entries = assert_ended(site, run, "completed")
    assert {tab.pages[run].state() for tab in (*tabs, late)} == {page_of(run, entries).state()}
    for tab in (*tabs, late):
        tab.leave()


def test_a_long_answer_arrives_whole_at_a_page_and_at_a_program(site: Site) -> None:
    words = [f"word{number} and **more** of it.\n\n" for number in range(3000)]
    site.fake.script(stream(lmstudio_events(lmstudio_run(*words)), split_bytes=777))
    site.start()
    run = site.send("Tell me everything")

    with watching(site, run) as (program, tab):
        program.until_ended()
        tab.until_over(run)

    entries = assert_ended(site, run, "completed")
    assert len(program.frames) == len(entries)
    assert_kept(program, tab, run, entries)
    assert b"".join(frame.raw for frame in program.frames) in program.raw


def test_what_a_program_receives_is_lm_studios_stream_and_says_the_same(site: Site) -> None:
    site.fake.script(stream(ANSWER))
    site.start()
    run = site.send("Where does the river run?")
    site.until_ended(run)

    with site.browser("Bob") as browser:
        received = browser.get(events_of(run)).content

    parser = dialects.get("lmstudio").parser(model="asked", options={})
    read = fold(decode(parser, iter([received]), Fold()))
    stored = decode_result(site.run(run)["result"])
    stored.response_id = response_id_of(run)
    assert core_of(read) == core_of(stored)
    assert (read.ext.status, read.ext.stop) == (stored.ext.status, stored.ext.stop)
    assert read.ext.vendor == []


def test_a_page_learns_of_a_colleague_s_turn(site: Site) -> None:
    site.fake.script(stream(ANSWER), stream(ANSWER))
    site.start()
    run = site.send("Where does the river run?")
    site.until_ended(run)
    room = site.conversation_of(run)
    tab = Tab(site, by="Vera", room=room)
    tab.until(lambda tab: tab.messages)
    known = tab.messages[-1]["revision"]

    site.retry(run, by="Bob")

    tab.until(lambda tab: tab.messages[-1].get("revision", 0) > known)
    assert tab.messages[-1]["room"] == room.hex
    tab.leave()


def test_whoever_is_removed_in_mid_stream_receives_nothing_more(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="rest"), UNSEEN))
    site.start()
    run = site.send("Where does the river run?")

    with watching(site, run) as (program, tab):
        tab.until_shown(run, "runs down")
        # As the admin or another process would do it: nobody rings.
        site.rows("DELETE FROM chat_membership WHERE role = 'member'")
        tab.until_ended()
        program.until_ended()
        site.fake.release("rest")
        assert_ended(site, run, "completed")

    assert tab.messages[-1] == {"gone": True, "reason": "access"}
    assert tab.close_code == 4403
    assert b"to the sea" not in program.raw
    assert program.failure is None
    with site.browser("Bob") as browser:
        assert browser.get(events_of(run)).status_code == 404


def test_whoever_is_signed_out_everywhere_is_closed_as_signed_out(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="rest"), UNSEEN))
    site.start()
    run = site.send("Where does the river run?")
    tab = Tab(site, run)
    tab.until_shown(run, "runs down")

    site.rows("DELETE FROM django_session WHERE session_key = ?", site.world.sessions["Bob"])
    tab.until_ended()

    assert tab.messages[-1] == {"gone": True, "reason": "signed-out"}
    assert tab.close_code == 4401
    tab.leave()


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1"])
def test_a_websocket_from_another_origin_gets_no_handshake(site: Site, origin: str | None) -> None:
    site.start()

    with pytest.raises(InvalidStatus) as refused, open_socket(site, by="Alice", origin=origin):
        pass

    assert refused.value.response.status_code == 403


def test_a_websocket_without_a_session_is_told_and_closed(site: Site) -> None:
    site.start()

    with open_socket(site) as socket:
        words = socket.recv(timeout=20)
        with contextlib.suppress(ConnectionClosed):
            socket.recv(timeout=20)

    assert words == '{"gone":true,"reason":"signed-out"}'
    assert socket.close_code == 4401


def test_streams_and_refusals_share_a_connection(site: Site) -> None:
    site.fake.script(stream(ANSWER))
    site.start()
    run = site.send("Where does the river run?")
    site.until_ended(run)

    with site.browser("Bob") as browser:
        whole = browser.get(events_of(run))
        missing = browser.get(events_of(uuid.uuid4()))
        rest = browser.get(events_of(run), headers={"Last-Event-ID": "3"})
    with site.browser("Charlie") as stranger:
        foreign = stranger.get(events_of(run))

    assert whole.text.endswith(rest.text)
    assert 0 < len(rest.text) < len(whole.text)
    assert (foreign.status_code, foreign.content) == (missing.status_code, missing.content)
    assert foreign.status_code == 404


def test_a_stream_is_not_compressed_and_says_that_it_must_not_be_kept(site: Site) -> None:
    site.fake.script(stream(ANSWER))
    site.start()
    run = site.send("Where does the river run?")
    site.until_ended(run)

    with site.browser("Bob") as browser:
        answer = browser.get(events_of(run), headers={"Accept-Encoding": "gzip, br"})

    assert "content-encoding" not in answer.headers
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert answer.headers["x-accel-buffering"] == "no"


def test_a_program_that_leaves_is_let_go_and_the_run_goes_on(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="rest"), UNSEEN))
    site.start()
    run = site.send("Where does the river run?")
    program = Program(site, run)
    program.until_event("message.delta")

    program.leave()
    site.fake.release("rest")

    assert_ended(site, run, "completed")
    assert "Traceback" not in site.log
