"""SIGTERM: runs get their time to end, then viewers are told and the server exits."""

import pytest

from tests.support.processes.runs import (
    ANSWER,
    SEEN,
    SEEN_END,
    SEEN_TEXT,
    UNSEEN,
    assert_can_retry,
    assert_ended,
    assert_kept,
    assert_resumes,
    text_of,
)
from tests.support.processes.site import SOON_SECONDS, Site
from tests.support.processes.viewers import watching
from tests.support.upstream.script import Gate, stream

pytestmark = pytest.mark.process


def test_sigterm_lets_runs_finish(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="rest"), UNSEEN))
    site.start(DRAIN_SECONDS="20")
    run = site.send("Where does the river run?")

    with watching(site, run) as (program, tab):
        tab.until_shown(run, SEEN_END)
        site.process.terminate()
        site.fake.release("rest")
        exit_code = site.process.wait(SOON_SECONDS)
        program.until_ended()
        tab.until_ended()

    entries = assert_ended(site, run, "completed")
    assert exit_code == 0
    assert program.frames[-1].event == "chat.end"
    assert_kept(program, tab, run, entries)
    assert tab.close_code == 1012


@pytest.mark.slow
def test_sigterm_interrupts_unfinished_runs(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="never")))
    site.start(DRAIN_SECONDS="0.2")
    run = site.send("Where does the river run?")

    with watching(site, run) as (program, tab):
        tab.until_shown(run, SEEN_END)
        exit_code = site.terminate()
        program.until_ended()
        tab.until_ended()

    entries = assert_ended(site, run, "interrupted")
    assert exit_code == 0
    assert text_of(site, run) == SEEN_TEXT
    assert_kept(program, tab, run, entries)
    assert tab.close_code == 1012
    assert site.value("SELECT count(*) FROM chat_runner") == 0
    site.fake.wait_until(lambda fake: fake.disconnects == 1)
    site.start()
    assert_resumes(site, run, program, tab)
    assert_can_retry(site, run)
    assert site.fake.posts == 2


@pytest.mark.slow
def test_queued_run_survives_sigterm(site: Site) -> None:
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
