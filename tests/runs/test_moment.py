"""A commit takes what has come until the moment it is made, not until the one before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from chat import events as canonical
from chat.demo.fake import FakeUpstream
from chat.demo.script import Gate, lmstudio_event, lmstudio_events, lmstudio_run, stream
from chat.models import Run, RunSegment
from chat.runs import reading, segments
from chat.runs.segments import Write, read_entries
from chat.runs.writer import SegmentWriter
from tests.runs.conftest import MakeRun, StartRunner, threads
from tests.runs.test_execution import TEXT, until, until_ended

pytestmark = pytest.mark.usefixtures("by_thread")

FIRST, *_, LAST = lmstudio_run("one two three")
BEGINNING = lmstudio_events([FIRST, {"type": "message.start"}])
END = lmstudio_events([{"type": "message.end"}, LAST])


def word(text: str) -> bytes:
    return lmstudio_event({"type": "message.delta", "content": text})


class Busy:
    """The writer's database, which takes its time for one run, and all others wait for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.with_run: int | None = None
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()
        self._commit = segments.commit
        monkeypatch.setattr(segments, "commit", self)

    def __call__(self, writes: Sequence[Write]) -> list[Exception | None]:
        if any(write.run_pk == self.with_run for write in writes):
            self.has_begun.set()
            assert self.may_go_on.wait(30)
        return self._commit(writes)


def words_by_segment(run: Run) -> list[list[str]]:
    """The texts of the message deltas, as they were committed together."""
    found = []
    for first, last in RunSegment.objects.filter(run=run).values_list("first_seq", "last_seq"):
        entries = [one for one in read_entries(run.pk) if first <= one.seq <= last]
        events = [canonical.decode(entry.body) for entry in entries]
        found.append([one.content for one in events if isinstance(one, canonical.MessageDelta)])
    return [words for words in found if words]


async def test_what_comes_before_the_next_commit_is_in_it(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "PAUSE_SECONDS", 3600)
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.05)
    busy = Busy(monkeypatch)
    fake.script(
        stream(
            *(BEGINNING, word("one "), Gate(name="two"), word("two "), Gate(name="three")),
            *(word("three"), Gate(name="end"), END),
        ),
        stream(TEXT),
    )
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    await until(lambda: words_by_segment(run) == [["one "]])
    other = await threads.call(make_run)
    busy.with_run = other.pk
    await until(busy.has_begun.is_set)

    for gate, following in (("two", "three"), ("three", "end")):
        fake.release(gate)
        await fake.until(lambda fake, following=following: following in fake.waiting)
        await asyncio.sleep(0.1)
    busy.may_go_on.set()
    await until(lambda: len(words_by_segment(run)) > 1)
    fake.release("end")
    ended = await until_ended(run)

    assert ended.status == "completed"
    assert await threads.call(words_by_segment, run) == [["one "], ["two three"]]


@pytest.fixture
async def writer(transactional_db: None) -> SegmentWriter:
    return SegmentWriter()


async def test_who_has_nothing_or_fails_when_asked_hears_of_it_and_nothing_is_committed(
    writer: SegmentWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[object] = []
    monkeypatch.setattr(segments, "commit", committed.append)

    def fail() -> Write:
        raise LookupError("broken")

    asks: list[Callable[[], Write | None]] = [lambda: None, fail]
    writer.start()
    waiting = [writer.append_when_asked(run_pk, ask) for run_pk, ask in enumerate(asks)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    await writer.close()

    assert outcomes[0] is None
    assert isinstance(outcomes[1], LookupError)
    assert committed == []


async def test_nobody_is_asked_before_the_commit_is_due(
    writer: SegmentWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    begun, may_end = threading.Event(), threading.Event()

    def commit(writes: Sequence[Write]) -> list[Exception | None]:
        order.append("commit")
        begun.set()
        assert may_end.wait(30)
        return [None for _ in writes]

    def ask(name: str) -> Callable[[], Write | None]:
        def answer() -> Write:
            order.append(name)
            return Write(run_pk=1, runner=None, entries=[])  # type: ignore[arg-type]

        return answer

    monkeypatch.setattr(segments, "commit", commit)
    writer.start()
    first = asyncio.create_task(writer.append_when_asked(1, ask("first")))
    await until(begun.is_set)
    second = asyncio.create_task(writer.append_when_asked(1, ask("second")))
    await asyncio.sleep(0.05)
    order.append("ended")
    may_end.set()
    await asyncio.gather(first, second)
    await writer.close()

    assert order == ["first", "commit", "ended", "second", "commit"]
