"""An answer in two halves, and what must be true of a run of a real site."""

import json
from collections.abc import Sequence
from uuid import UUID

from chat import events as canonical
from chat.result import fold, plain_text
from chat.runs.event_buffer import LogEntry
from tests.support.pages import cursor_of, page_of, sent
from tests.support.processes.site import Site
from tests.support.processes.viewers import Program, Tab
from tests.support.upstream.script import lmstudio_events, lmstudio_run, stream

ANSWER = lmstudio_events(
    lmstudio_run("The river ", "runs **down** ", "to the sea.", reasoning=["Where ", "to?"])
)
MIDDLE = ANSWER.rindex(b"event: ", 0, ANSWER.index(b"to the sea"))
SEEN, UNSEEN = ANSWER[:MIDDLE], ANSWER[MIDDLE:]
ANSWER_TEXT = "The river runs **down** to the sea."
SEEN_TEXT = "The river runs **down**"
# As a page shows the end of ``SEEN``.
SEEN_END = "runs down"


def kinds(entries: Sequence[LogEntry]) -> list[str]:
    return [type(canonical.decode(entry.body)).__name__ for entry in entries]


def text_of(site: Site, run: UUID) -> str:
    return plain_text(canonical.decode_result(site.run(run)["result"]))


def assert_ended(site: Site, run: UUID, status: str) -> list[LogEntry]:
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


def assert_kept(program: Program, tab: Tab, run: UUID, entries: Sequence[LogEntry]) -> None:
    """What was seen before a crash is in the log, under the same numbers, byte for byte."""
    seen = len(program.frames)
    assert program.seqs == list(range(1, seen + 1))
    assert [frame.data for frame in program.frames] == sent(run, entries[:seen])
    seq, check = tab.cursors[run]
    assert cursor_of(entries[:seq]) == (seq, check)
    assert tab.pages[run].state() == page_of(run, entries[:seq]).state()


def assert_resumes(site: Site, run: UUID, program: Program, tab: Tab) -> None:
    """After a restart both come back with what they have, and have everything at the end."""
    entries = site.entries(run)
    again = Program(site, run, after=len(program.frames))
    page = Tab(site, run, pages=tab.pages, cursors=tab.cursors)

    again.until_ended()
    page.until_seq(run, len(entries))

    assert program.seqs + again.seqs == list(range(1, len(entries) + 1))
    assert page.pages[run].state() == page_of(run, entries).state()
    again.leave()
    page.leave()


def assert_can_retry(site: Site, run: UUID) -> None:
    """A retry is a sibling of the answer, with a request of its own."""
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
