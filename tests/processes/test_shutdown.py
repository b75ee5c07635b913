"""The server is told to end: runs get their time, then everything says goodbye."""

import pytest

from chat.demo.script import Gate, stream
from tests.processes.test_crashes import (
    ANSWER,
    SEEN,
    UNSEEN,
    assert_can_be_tried_again,
    assert_can_go_on,
    assert_ended,
    assert_kept,
    text_of,
)
from tests.support.processes.site import Site
from tests.support.processes.viewers import watching

pytestmark = pytest.mark.process


def test_runs_that_end_in_time_are_completed_before_the_server_ends(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="rest"), UNSEEN))
    site.start(DRAIN_SECONDS="20")
    run = site.send("Where does the river run?")

    with watching(site, run) as (program, tab):
        tab.until_shown(run, "runs down")
        site.process.terminate()
        site.fake.release("rest")
        exit_code = site.process.wait(30)
        program.until_ended()
        tab.until_ended()

    entries = assert_ended(site, run, "completed")
    assert exit_code == 0
    assert program.frames[-1].event == "chat.end"
    assert_kept(program, tab, run, entries)
    assert tab.close_code == 1012


def test_runs_that_do_not_end_in_time_are_interrupted_with_their_text(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="never")))
    site.start(DRAIN_SECONDS="0.2")
    run = site.send("Where does the river run?")

    with watching(site, run) as (program, tab):
        tab.until_shown(run, "runs down")
        exit_code = site.terminate()
        program.until_ended()
        tab.until_ended()

    entries = assert_ended(site, run, "interrupted")
    assert exit_code == 0
    assert text_of(site, run) == "The river runs **down**"
    assert_kept(program, tab, run, entries)
    assert tab.close_code == 1012
    assert site.value("SELECT count(*) FROM chat_runner") == 0
    site.fake.wait_until(lambda fake: fake.disconnects == 1)
    site.start()
    assert_can_go_on(site, run, program, tab)
    assert_can_be_tried_again(site, run)
    assert site.fake.posts == 2


def test_a_run_that_still_waits_in_line_keeps_its_place(site: Site) -> None:
    site.rows("UPDATE chat_upstream SET concurrency_limit = 1")
    site.fake.script(stream(SEEN, Gate(name="never")), stream(ANSWER))
    site.start(DRAIN_SECONDS="0.2")
    site.send("Where does the river run?")
    site.fake.wait_until(lambda fake: fake.waiting == ["never"])
    waiting = site.send("And the other one?", by="Bob")

    exit_code = site.terminate()

    assert exit_code == 0
    assert site.run(waiting)["status"] == "queued"
    assert site.fake.posts == 1
    site.start()
    assert_ended(site, waiting, "completed")
    assert site.fake.posts == 2
