"""A commit takes what has come until the moment it is made, not until the one before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from chat import events as canonical
from chat.models import Run, RunSegment
from chat.runs import reader, segments
from chat.runs.segments import SegmentWrite, read_entries
from chat.runs.writer import SegmentWriter
from tests.runs.helpers import (
    PATIENCE_SECONDS,
    TEXT,
    let_others_work,
    threads,
    until,
    until_ended,
)
from tests.support.run_fixtures import Execute
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import (
    Gate,
    lmstudio_event,
    lmstudio_events,
    lmstudio_run,
    stream,
)

pytestmark = pytest.mark.usefixtures("by_thread")

FIRST, *_, LAST = lmstudio_run("one two three")
BEGINNING = lmstudio_events([FIRST, {"type": "message.start"}])
END = lmstudio_events([{"type": "message.end"}, LAST])


def word(text: str) -> bytes:
    return lmstudio_event({"type": "message.delta", "content": text})


class BlockedCommit:
    """Once ``spared`` is set, a commit for any other run does not end before it may, and all wait
    for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spared: int | None = None
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self._commit = segments.commit
        monkeypatch.setattr(segments, "commit", self)

    def __call__(self, writes: Sequence[SegmentWrite]) -> list[Exception | None]:
        if self.spared and any(write.run_pk != self.spared for write in writes):
            self.has_begun.set()
            assert self.may_end.wait(PATIENCE_SECONDS)
        return self._commit(writes)


def words_by_segment(run: Run) -> list[list[str]]:
    """The texts of the message deltas, as they were committed together."""
    found = []
    for first, last in RunSegment.objects.filter(run=run).values_list("first_seq", "last_seq"):
        entries = [one for one in read_entries(run.pk) if first <= one.seq <= last]
        events = [canonical.decode(entry.body) for entry in entries]
        found.append([one.content for one in events if isinstance(one, canonical.MessageDelta)])
    return [words for words in found if words]


async def test_commit_takes_what_came_before_it(
    fake: FakeUpstream, begin: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PAUSE_SECONDS", 3600)
    blocked = BlockedCommit(monkeypatch)
    run = await begin(
        stream(
            *(BEGINNING, word("one "), Gate(name="two"), word("two "), Gate(name="three")),
            *(word("three"), Gate(name="end"), END),
        ),
        stream(TEXT),
    )
    await until(lambda: words_by_segment(run) == [["one "]])
    blocked.spared = run.pk
    await begin()
    await until(blocked.has_begun.is_set)

    for gate, following in (("two", "three"), ("three", "end")):
        fake.release(gate)
        await fake.until(lambda fake, following=following: following in fake.waiting)
        await let_others_work()
    blocked.may_end.set()
    await until(lambda: len(words_by_segment(run)) > 1)
    fake.release("end")
    ended = await until_ended(run)

    assert ended.status == "completed"
    assert await threads.call(words_by_segment, run) == [["one "], ["two three"]]


@pytest.fixture
async def new_writer(transactional_db: None) -> AsyncIterator[SegmentWriter]:
    """Not started before the test has put something in the place of ``segments.commit``."""
    writer = SegmentWriter()
    yield writer
    await writer.close()


async def test_run_with_nothing_to_write_is_not_committed(
    new_writer: SegmentWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[object] = []
    monkeypatch.setattr(segments, "commit", committed.append)

    def fail() -> SegmentWrite:
        raise LookupError("broken")

    asks: list[Callable[[], SegmentWrite | None]] = [lambda: None, fail]
    new_writer.start()
    waiting = [new_writer.append_at_commit(run_pk, ask) for run_pk, ask in enumerate(asks)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    await new_writer.close()

    assert outcomes[0] is None
    assert isinstance(outcomes[1], LookupError)
    assert committed == []


async def test_runs_are_asked_only_when_the_commit_is_due(
    new_writer: SegmentWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    has_begun, may_end = threading.Event(), threading.Event()

    def commit(writes: Sequence[SegmentWrite]) -> list[Exception | None]:
        order.append("commit")
        has_begun.set()
        assert may_end.wait(PATIENCE_SECONDS)
        return [None for _ in writes]

    def ask(name: str) -> Callable[[], SegmentWrite | None]:
        def answer() -> SegmentWrite:
            order.append(name)
            return SegmentWrite(run_pk=1, runner=None, entries=[])  # type: ignore[arg-type]

        return answer

    monkeypatch.setattr(segments, "commit", commit)
    new_writer.start()
    first = asyncio.create_task(new_writer.append_at_commit(1, ask("first")))
    await until(has_begun.is_set)
    second = asyncio.create_task(new_writer.append_at_commit(1, ask("second")))
    await let_others_work()
    order.append("ended")
    may_end.set()
    await asyncio.gather(first, second)

    assert order == ["first", "commit", "ended", "second", "commit"]
