"""The server is killed at every point of a run's life, and started again."""

import pytest

from tests.support.pages import sent
from tests.support.processes.runs import (
    ANSWER,
    ANSWER_TEXT,
    SEEN,
    SEEN_END,
    SEEN_TEXT,
    UNSEEN,
    assert_can_retry,
    assert_ended,
    assert_kept,
    assert_resumes,
    kinds,
    text_of,
)
from tests.support.processes.site import Site, soon
from tests.support.processes.viewers import Program, Tab, watching
from tests.support.upstream.script import Gate, Hang, Pause, lmstudio_event, lmstudio_run, stream

pytestmark = pytest.mark.process
QUESTION = "Where does the river run?"


def test_kill_mid_stream_keeps_what_was_seen(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="rest"), UNSEEN))
    site.start()
    run = site.send(QUESTION)

    with watching(site, run) as (program, tab):
        program.until(lambda program: any("down" in frame.data for frame in program.frames))
        tab.until_shown(run, SEEN_END)
        site.kill9()
        program.until_ended()
        tab.until_ended()
    site.start()

    entries = assert_ended(site, run, "interrupted")
    assert text_of(site, run) == SEEN_TEXT
    assert_kept(program, tab, run, entries)
    assert_resumes(site, run, program, tab)
    assert site.fake.posts == 1
    assert_can_retry(site, run)


@pytest.mark.slow
def test_kill_after_request_never_asks_twice(site: Site) -> None:
    site.fake.script(stream(Hang()))
    site.start()
    run = site.send("Anybody there?")

    with watching(site, run) as (program, tab):
        site.fake.wait_until(lambda fake: fake.posts == 1)
        site.kill9()
    site.start()

    entries = assert_ended(site, run, "interrupted")
    assert kinds(entries)[-1] == "ChatEnd"
    assert program.frames == []
    assert_resumes(site, run, program, tab)
    assert site.fake.posts == 1
    assert_can_retry(site, run)


@pytest.mark.slow
def test_kill_between_claim_and_request_asks_once(site: Site) -> None:
    site.fake.script(stream(ANSWER))
    site.start(change="before_request")
    run = site.send(QUESTION)

    with watching(site, run) as (program, tab):
        site.until_stopped_at_place()
        assert site.run(run)["status"] == "running"
        site.kill9()
    assert site.fake.posts == 0
    site.start()

    assert_ended(site, run, "completed")
    assert_resumes(site, run, program, tab)
    assert site.fake.posts == 1
    assert_can_retry(site, run)


@pytest.mark.slow
def test_kill_before_claim_asks_once(site: Site) -> None:
    site.rows("UPDATE chat_upstream SET concurrency_limit = 1")
    site.fake.script(stream(SEEN, Gate(name="rest")), stream(ANSWER))
    site.start()
    first = site.send(QUESTION)
    site.fake.wait_until(lambda fake: fake.waiting == ["rest"])
    waiting = site.send("And the other one?", by="Bob")

    with watching(site, waiting) as (program, tab):
        assert site.run(waiting)["status"] == "queued"
        site.kill9()
    site.start()

    assert_ended(site, first, "interrupted")
    assert_ended(site, waiting, "completed")
    assert_resumes(site, waiting, program, tab)
    assert site.fake.posts == 2
    assert_can_retry(site, waiting)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before_last_commit", "inside_last_commit"])
def test_kill_before_the_last_commit_interrupts(site: Site, place: str) -> None:
    site.fake.script(stream(ANSWER))
    site.start(change=place)
    run = site.send(QUESTION)

    with watching(site, run) as (program, tab):
        tab.until_shown(run, "runs down to the sea.")
        site.until_stopped_at_place()
        site.kill9()
        program.until_ended()
        tab.until_ended()
    site.start()

    entries = assert_ended(site, run, "interrupted")
    assert text_of(site, run) == ANSWER_TEXT
    assert all(frame.event != "chat.end" for frame in program.frames)
    assert_kept(program, tab, run, entries)
    assert_resumes(site, run, program, tab)
    assert site.fake.posts == 1
    assert_can_retry(site, run)


@pytest.mark.slow
def test_kill_after_the_last_commit_completes(site: Site) -> None:
    site.fake.script(stream(ANSWER))
    site.start(change="after_last_commit")
    run = site.send(QUESTION)

    with watching(site, run) as (program, tab):
        site.until_stopped_at_place()
        # There is neither a notification nor a tail: viewers learn of the end from the log alone.
        program.until_event("chat.end")
        tab.until_over(run)
        site.kill9()
    site.start()

    entries = assert_ended(site, run, "completed")
    assert_kept(program, tab, run, entries)
    assert site.fake.posts == 1
    assert_can_retry(site, run)


@pytest.mark.slow
def test_repeated_kills_end_every_run_once(site: Site) -> None:
    site.start()
    runs = []
    for _ in range(3):
        site.fake.script(stream(SEEN, Gate(name="never")))
        runs.append(site.send(QUESTION))
        tab = Tab(site, runs[-1])
        tab.until_shown(runs[-1], SEEN_END)
        site.restart()
        tab.leave()

    for run in runs:
        assert_ended(site, run, "interrupted")
    assert site.fake.posts == 3
    assert site.value("SELECT count(*) FROM chat_runner") == 1


@pytest.mark.slow
def test_kill_during_many_answers_loses_nothing_seen(site: Site) -> None:
    words = lmstudio_run(*(f"word{number} " for number in range(2000)))
    pieces = [part for event in words for part in (lmstudio_event(event), Pause(seconds=0.002))]
    site.rows("UPDATE chat_upstream SET concurrency_limit = 5")
    site.fake.script(stream(*pieces, times=5))
    site.start()
    runs = [site.send(f"Tell story {number}") for number in range(5)]
    programs = [Program(site, run) for run in runs]
    for program in programs:
        program.until(lambda program: len(program.frames) > 30)

    site.kill9()
    for program in programs:
        program.until_ended()
        program.leave()
    site.start()

    for run, program in zip(runs, programs, strict=True):
        entries = assert_ended(site, run, "interrupted")
        seen = [frame.data for frame in program.frames]
        assert seen == sent(run, entries[: len(seen)])
    assert site.fake.posts == 5


@pytest.mark.slow
def test_kill_after_the_request_for_a_title_never_asks_twice(site: Site) -> None:
    site.fake.script(stream(ANSWER), stream(Hang()))
    site.rows(
        "INSERT INTO chat_titlesetting (id, upstream_id, model)"
        " SELECT 1, id, 'small' FROM chat_upstream LIMIT 1"
    )
    site.start()
    site.until_ended(site.send(QUESTION))
    site.fake.wait_until(lambda fake: fake.posts == 2)

    site.kill9()
    site.start()

    soon(lambda: site.value("SELECT reason FROM chat_titlerequest") == "lost")
    assert site.value("SELECT title FROM chat_conversation ORDER BY id DESC LIMIT 1") == QUESTION
    assert site.fake.posts == 2
