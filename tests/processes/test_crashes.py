"""The server is killed at every point of a run's life, and started again."""

import json
from collections.abc import Sequence
from uuid import UUID

import pytest

from chat import events as canonical
from chat.demo.script import (
    Gate,
    Hang,
    Pause,
    lmstudio_event,
    lmstudio_events,
    lmstudio_run,
    stream,
)
from chat.result import fold, plain_text
from chat.runs.public import public_json
from chat.runs.tail import Entry
from tests.support.processes.site import Site
from tests.support.processes.viewers import Program, Tab, cursor_of, page_of, watching

pytestmark = pytest.mark.process

ANSWER = lmstudio_events(
    lmstudio_run("The river ", "runs **down** ", "to the sea.", reasoning=["Where ", "to?"])
)
MIDDLE = ANSWER.rindex(b"event: ", 0, ANSWER.index(b"to the sea"))
SEEN, UNSEEN = ANSWER[:MIDDLE], ANSWER[MIDDLE:]


def kinds(entries: Sequence[Entry]) -> list[str]:
    return [type(canonical.decode(entry.body)).__name__ for entry in entries]


def assert_ended(site: Site, run: UUID, status: str) -> list[Entry]:
    """One ending, one result that is the fold of the log, numbers without a gap."""
    row = site.until_ended(run)
    entries = site.entries(run)
    events = [canonical.decode(entry.body) for entry in entries]
    assert row["status"] == status
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert kinds(entries).count("ChatEnd") == 1
    assert isinstance(events[-1], canonical.ChatEnd)
    assert canonical.encode(fold(events)).decode() == row["result"]
    assert json.loads(row["result"])["ext"]["status"] == status
    assert row["last_seq"] == len(events)
    return entries


def assert_kept(program: Program, tab: Tab, run: UUID, entries: Sequence[Entry]) -> None:
    """What was seen before the crash is in the log, under the same numbers, byte for byte."""
    seen = len(program.frames)
    assert program.seqs == list(range(1, seen + 1))
    assert [frame.data.encode() for frame in program.frames] == [
        public_json(entry, run) for entry in entries[:seen]
    ]
    seq, check = tab.cursors[run]
    assert cursor_of(entries[:seq]) == (seq, check)
    assert tab.pages[run].state() == page_of(run, entries[:seq]).state()


def assert_can_go_on(site: Site, run: UUID, program: Program, tab: Tab) -> None:
    """After the restart both come back with what they have, and have everything at the end."""
    entries = site.entries(run)
    again = Program(site, run, after=len(program.frames))
    page = Tab(site, run, pages=tab.pages, cursors=tab.cursors)

    again.until_ended()
    page.until_seq(run, len(entries))

    assert program.seqs + again.seqs == list(range(1, len(entries) + 1))
    assert page.pages[run].state() == page_of(run, entries).state()
    again.leave()
    page.leave()


def assert_can_be_tried_again(site: Site, run: UUID) -> None:
    """A sibling of the answer, with a request of its own."""
    posts = site.fake.posts
    site.fake.script(stream(ANSWER))

    second = site.retry(run)
    row = site.until_ended(second)

    messages = site.rows(
        "SELECT m.* FROM chat_message m JOIN chat_run r ON r.message_id = m.id"
        " WHERE r.public_id IN (?, ?)",
        run.hex,
        second.hex,
    )
    assert row["status"] == "completed"
    assert len({message["id"] for message in messages}) == 2
    assert len({message["parent_id"] for message in messages}) == 1
    assert site.fake.posts == posts + 1


def text_of(site: Site, run: UUID) -> str:
    return plain_text(canonical.decode_result(site.run(run)["result"]))


def test_killed_in_mid_stream_keeps_what_everybody_had_seen(site: Site) -> None:
    site.fake.script(stream(SEEN, Gate(name="rest"), UNSEEN))
    site.start()
    run = site.send("Where does the river run?")

    with watching(site, run) as (program, tab):
        program.until(lambda program: any("down" in frame.data for frame in program.frames))
        tab.until_shown(run, "runs down")
        site.kill9()
        program.until_ended()
        tab.until_ended()
    site.start()

    entries = assert_ended(site, run, "interrupted")
    assert text_of(site, run) == "The river runs **down**"
    assert_kept(program, tab, run, entries)
    assert_can_go_on(site, run, program, tab)
    assert site.fake.posts == 1
    assert_can_be_tried_again(site, run)


def test_killed_between_the_request_and_its_first_event_never_asks_twice(site: Site) -> None:
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
    assert_can_go_on(site, run, program, tab)
    assert site.fake.posts == 1
    assert_can_be_tried_again(site, run)


def test_killed_after_the_claim_and_before_the_request_asks_once(site: Site) -> None:
    site.fake.script(stream(ANSWER))
    site.start(stops_at="before_request")
    run = site.send("Where does the river run?")

    with watching(site, run) as (program, tab):
        site.until_it_stands_still()
        assert site.run(run)["status"] == "running"
        site.kill9()
    assert site.fake.posts == 0
    site.start()

    assert_ended(site, run, "completed")
    assert_can_go_on(site, run, program, tab)
    assert site.fake.posts == 1
    assert_can_be_tried_again(site, run)


def test_killed_before_the_claim_keeps_the_place_in_line_and_asks_once(site: Site) -> None:
    site.rows("UPDATE chat_upstream SET concurrency_limit = 1")
    site.fake.script(stream(SEEN, Gate(name="rest")), stream(ANSWER))
    site.start()
    first = site.send("Where does the river run?")
    site.fake.wait_until(lambda fake: fake.waiting == ["rest"])
    waiting = site.send("And the other one?", by="Bob")

    with watching(site, waiting) as (program, tab):
        assert site.run(waiting)["status"] == "queued"
        site.kill9()
    site.start()

    assert_ended(site, first, "interrupted")
    assert_ended(site, waiting, "completed")
    assert_can_go_on(site, waiting, program, tab)
    assert site.fake.posts == 2
    assert_can_be_tried_again(site, waiting)


def test_stopped_before_the_claim_stays_stopped_and_never_asks(site: Site) -> None:
    site.rows("UPDATE chat_upstream SET concurrency_limit = 1")
    site.fake.script(stream(SEEN, Gate(name="rest")))
    site.start()
    site.send("Where does the river run?")
    site.fake.wait_until(lambda fake: fake.waiting == ["rest"])
    waiting = site.send("And the other one?", by="Bob")

    with watching(site, waiting) as (program, tab):
        site.stop_run(waiting)
        program.until_ended()
        tab.until_over(waiting)
        site.kill9()
    site.start()

    entries = assert_ended(site, waiting, "stopped")
    assert kinds(entries) == ["ChatStart", "ChatEnd"]
    assert_kept(program, tab, waiting, entries)
    assert site.fake.posts == 1
    assert_can_be_tried_again(site, waiting)


@pytest.mark.parametrize("place", ["before_last_commit", "inside_last_commit"])
def test_killed_before_the_end_was_committed_is_interrupted(site: Site, place: str) -> None:
    site.fake.script(stream(ANSWER))
    site.start(stops_at=place)
    run = site.send("Where does the river run?")

    with watching(site, run) as (program, tab):
        tab.until_shown(run, "runs down to the sea.")
        site.until_it_stands_still()
        site.kill9()
        program.until_ended()
        tab.until_ended()
    site.start()

    entries = assert_ended(site, run, "interrupted")
    assert text_of(site, run) == "The river runs **down** to the sea."
    assert all(frame.event != "chat.end" for frame in program.frames)
    assert_kept(program, tab, run, entries)
    assert_can_go_on(site, run, program, tab)
    assert site.fake.posts == 1
    assert_can_be_tried_again(site, run)


def test_killed_after_the_end_was_committed_is_completed(site: Site) -> None:
    site.fake.script(stream(ANSWER))
    site.start(stops_at="after_last_commit")
    run = site.send("Where does the river run?")

    with watching(site, run) as (program, tab):
        site.until_it_stands_still()
        # Nobody rings and the tail is empty: the log alone tells the viewers.
        program.until_event("chat.end")
        tab.until_over(run)
        site.kill9()
    site.start()

    entries = assert_ended(site, run, "completed")
    assert_kept(program, tab, run, entries)
    assert site.fake.posts == 1
    assert_can_be_tried_again(site, run)


def test_killed_again_and_again_ends_every_run_once(site: Site) -> None:
    site.start()
    runs = []
    for _ in range(3):
        site.fake.script(stream(SEEN, Gate(name="never")))
        runs.append(site.send("Where does the river run?"))
        tab = Tab(site, runs[-1])
        tab.until_shown(runs[-1], "runs down")
        site.restart()
        tab.leave()

    for run in runs:
        assert_ended(site, run, "interrupted")
    assert site.fake.posts == 3
    assert site.value("SELECT count(*) FROM chat_runner") == 1


def test_killed_while_many_answers_rush_in_loses_nothing_of_any(site: Site) -> None:
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
        seen = [frame.data.encode() for frame in program.frames]
        assert seen == [public_json(entry, run) for entry in entries[: len(seen)]]
    assert site.fake.posts == 5
