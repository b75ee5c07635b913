"""The feed's contract, with and without a tail: every event once, in order, to the end."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from chat import events as canonical
from chat.actions.endings import columns_of
from chat.models import Run, Runner, RunSegment, RunStatus
from chat.result import Fold, close_open
from chat.runs import feed, segments
from chat.runs.database import readers
from chat.runs.feed import FIRST_SECONDS, RunGone, follow
from chat.runs.lookout import Found, Lookout
from chat.runs.redis_tail import RedisTail
from chat.runs.segments import CHUNK_SEGMENTS, Write, bodies_of, compact
from chat.runs.tail import (
    ENTRY_BYTES,
    FLUSH_TIMES,
    Entry,
    LiveTail,
    MemoryTail,
    NoTail,
    Taking,
)
from chat.runs.writer import SegmentWriter
from tests.runs.conftest import MakeRun, threads

pytestmark = pytest.mark.databases

TAKING = ("nothing", "all", "some")
# A follower without a tail looks often here, so that nothing waits for its second.
POLL_SECONDS = 0.01


class ForgetfulTail(MemoryTail):
    """Keeps one event, and forgets that one at every other look."""

    def __init__(self) -> None:
        super().__init__(limit_bytes=1)
        self._looks = 0

    def read(self, run_id: uuid.UUID, after: int) -> list[Entry]:
        self._looks += 1
        if self._looks % 2:
            self.forget(run_id)
        return super().read(run_id, after)


class OverRedis:
    """What one process publishes and another one reads."""

    def __init__(self, url: str) -> None:
        key = f"tributary:test:{uuid.uuid4().hex}"
        self._runner = RedisTail(url, key=key, secret="s", keeps_own=False, listens=False)
        self._server = RedisTail(url, key=key, secret="s", keeps_own=False, listens=True)
        self.publish = self._runner.publish
        self.read = self._server.read
        self.wait = self._server.wait
        self.forget = self._server.forget

    async def __aenter__(self) -> LiveTail:
        await self._runner.start()
        await self._server.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._runner.close()
        await self._server.close()


TAILS = {"no tail": NoTail, "memory": MemoryTail, "a tail that forgets": ForgetfulTail}


@pytest.fixture(params=[*TAILS, "Redis"])
async def tail(request: pytest.FixtureRequest) -> AsyncIterator[LiveTail]:
    if request.param in TAILS:
        yield TAILS[request.param]()
        return
    async with OverRedis(request.getfixturevalue("redis_url")) as tail:
        yield tail


class Author:
    """Writes a run's log as an execution does: committed first, then shown."""

    def __init__(self, run: Run, writer: SegmentWriter, tail: LiveTail) -> None:
        self.run = run
        self.entries: list[Entry] = []
        self._fold = Fold()
        self._writer = writer
        self._tail = tail

    async def begin(self) -> None:
        await self.write(canonical.ChatStart(model_instance_id="m"), canonical.MessageStart(item=0))

    async def add(self, *texts: str) -> None:
        await self.write(*(canonical.MessageDelta(item=0, content=text) for text in texts))

    async def end(self) -> None:
        await self.write(*close_open(self._fold, "stopped"), is_end=True)

    async def write(self, *events: canonical.Event, is_end: bool = False) -> None:
        for seq, event in enumerate(events, start=len(self.entries) + 1):
            event.seq = seq
            self._fold.add(event)
        entries = bodies_of(events)
        await self._writer.append(
            Write(
                run_pk=self.run.pk,
                runner=self.run.runner_id,
                entries=entries,
                columns=columns_of(events[-1]) if is_end else {},
                is_end=is_end,
                conversation_pk=self.run.conversation_id,
            )
        )
        self.entries += entries
        self._tail.publish(self.run.public_id, entries)


@pytest.fixture
async def writer(transactional_db: None) -> AsyncIterator[SegmentWriter]:
    writer = SegmentWriter()
    writer.start()
    yield writer
    await writer.close()
    await readers.close()
    await threads.close()


def claimed(make_run: Callable[[], Run]) -> Run:
    run = make_run()
    run.runner = Runner.objects.create(host="here", pid=1)
    run.status = RunStatus.RUNNING
    run.save()
    return run


@pytest.fixture
async def author(make_run: MakeRun, writer: SegmentWriter, tail: LiveTail) -> Author:
    return Author(await threads.call(claimed, make_run), writer, tail)


class Reader:
    """A follower in a task of its own. With ``taking`` it takes what comes while it waits: all but the
    end, or each third time nothing."""

    def __init__(
        self, author: Author, tail: LiveTail, after: int = 0, *, taking: str = "nothing"
    ) -> None:
        self.entries: list[Entry] = []
        self.batches = 0
        self._taking = taking
        self._asked = 0
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._read(author.run.public_id, after, tail))

    async def _read(self, run_id: uuid.UUID, after: int, tail: LiveTail) -> None:
        take = None if self._taking == "nothing" else self._take
        async for batch in follow(run_id, after, tail=tail, poll_seconds=POLL_SECONDS, take=take):
            self.entries += batch
            self.batches += 1
            self._changed.set()

    def _take(self, batch: list[Entry]) -> bool:
        self._asked += 1
        if batch[-1].is_end or (self._taking == "some" and self._asked % 3 == 0):
            return False
        self.entries += batch
        self._changed.set()
        return True

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.entries) < count:
                self._changed.clear()
                await self._changed.wait()

    async def done(self) -> list[Entry]:
        async with asyncio.timeout(10):
            await self._task
        return self.entries


@pytest.mark.parametrize("taking", TAKING)
async def test_a_follower_from_the_beginning_gets_every_event_once(
    author: Author, tail: LiveTail, taking: str
) -> None:
    reader = Reader(author, tail, taking=taking)

    await author.begin()
    for number in range(30):
        await author.add(*(f"{number}.{part} " for part in range(number % 4 + 1)))
    await author.end()

    assert await reader.done() == author.entries


@pytest.mark.parametrize("seed", range(4))
async def test_followers_from_anywhere_at_any_moment_get_the_rest(
    author: Author, tail: LiveTail, seed: int
) -> None:
    choose = random.Random(seed)
    readers_ = [(0, Reader(author, tail, taking="all"))]
    await author.begin()

    for number in range(25):
        await author.add(*(f"{number} " for _ in range(choose.randint(1, 6))))
        if choose.random() < 0.4:
            after = choose.randint(0, len(author.entries))
            taking = choose.choice(TAKING)
            readers_.append((after, Reader(author, tail, after, taking=taking)))
        if choose.random() < 0.3:
            await asyncio.sleep(0)
    await author.end()

    for after, reader in readers_:
        assert await reader.done() == author.entries[after:]


async def test_a_follower_that_comes_after_the_end_gets_the_end(
    author: Author, tail: LiveTail
) -> None:
    await author.begin()
    await author.end()

    assert await Reader(author, tail).done() == author.entries
    assert await Reader(author, tail, 2).done() == author.entries[2:]


@pytest.mark.parametrize("beyond", [0, 1, 1000, 10**18])
async def test_a_follower_that_stands_at_the_end_or_behind_it_ends_without_events(
    author: Author, tail: LiveTail, beyond: int
) -> None:
    await author.begin()
    await author.end()

    assert await Reader(author, tail, len(author.entries) + beyond).done() == []


async def test_a_follower_of_a_queued_run_waits_for_it(
    make_run: MakeRun, writer: SegmentWriter, tail: LiveTail
) -> None:
    author = Author(await threads.call(make_run), writer, tail)
    reader = Reader(author, tail)
    await asyncio.sleep(0.05)

    author.run = await threads.call(claim_now, author.run)
    await author.begin()
    await author.end()

    assert await reader.done() == author.entries


def claim_now(run: Run) -> Run:
    return claimed(lambda: run)


async def test_compaction_takes_nothing_from_those_who_follow(
    author: Author, tail: LiveTail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "CATCH_UP_BYTES", 1)
    await author.begin()
    for number in range(40):
        await author.add(f"{number} ")
    await author.end()
    await threads.call(author.run.refresh_from_db)
    tail.forget(author.run.public_id)

    async with aclosing(follow(author.run.public_id, tail=tail)) as batches:
        seen = list(await anext(batches))
        seen += await anext(batches)
        assert await threads.call(compact, author.run)
        async for batch in batches:
            seen += batch

    assert seen == author.entries
    assert await threads.call(RunSegment.objects.filter(run=author.run).count) == 1


async def test_a_long_log_comes_in_pieces(
    author: Author, tail: LiveTail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "CATCH_UP_BYTES", 2000)
    await author.begin()
    for _ in range(30):
        await author.add("x" * 500)
    await author.end()
    tail.forget(author.run.public_id)

    reader = Reader(author, tail)

    assert await reader.done() == author.entries
    assert reader.batches > 5


async def test_a_run_that_is_erased_while_it_is_followed_is_gone(
    author: Author, tail: LiveTail
) -> None:
    reader = Reader(author, tail)
    await author.begin()
    await reader.until(2)

    await threads.call(Run.objects.filter(pk=author.run.pk).delete)

    with pytest.raises(RunGone):
        await reader.done()


async def test_a_run_that_never_was_is_gone(writer: SegmentWriter, tail: LiveTail) -> None:
    with pytest.raises(RunGone):
        await anext(follow(uuid.uuid4(), tail=tail))


async def test_a_follower_that_is_cancelled_anywhere_leaves_nothing_behind(
    author: Author, tail: LiveTail
) -> None:
    await author.begin()
    for turns in range(12):
        reader = Reader(author, tail)
        for _ in range(turns):
            await asyncio.sleep(0)
        reader._task.cancel()
        await asyncio.wait({reader._task})
        assert reader._task.cancelled()

    late = Reader(author, tail)
    await author.end()
    assert await late.done() == author.entries


async def test_a_gap_is_never_skipped(author: Author, tail: LiveTail) -> None:
    await author.begin()
    for number in range(5):
        await author.add(f"{number} ")
    tail.forget(author.run.public_id)
    missing = RunSegment.objects.filter(run=author.run, first_seq=4)
    await threads.call(missing.delete)

    entries = await threads.call(segments.read_entries, author.run.pk)

    assert [entry.seq for entry in entries] == [1, 2, 3]


# --- the tail in memory ---------------------------------------------------------------------


def some_entries(first: int, last: int, size: int = 10) -> list[Entry]:
    return [Entry(seq, b"x" * size) for seq in range(first, last + 1)]


def test_the_tail_gives_what_follows_or_nothing_at_all() -> None:
    tail, run = MemoryTail(limit_bytes=5 * (10 + ENTRY_BYTES)), uuid.uuid4()
    for seq in range(1, 9):
        tail.publish(run, some_entries(seq, seq))

    assert tail.read(run, 0) == []
    assert tail.read(run, 2) == []
    assert tail.read(run, 3) == some_entries(4, 8)
    assert tail.read(run, 8) == []
    assert tail.read(run, 100) == []


def test_the_tail_keeps_a_flush_whole_unless_it_is_a_flood() -> None:
    tail, run = MemoryTail(limit_bytes=5 * (10 + ENTRY_BYTES)), uuid.uuid4()
    tail.publish(run, some_entries(1, 8))
    tail.publish(run, some_entries(9, 28))

    assert tail.read(run, 7) == []
    assert tail.read(run, 8) == some_entries(9, 28)

    kept = 5 * FLUSH_TIMES
    last = 28 + kept + 60
    tail.publish(run, some_entries(29, last))
    assert tail.read(run, last - kept) == some_entries(last - kept + 1, last)
    assert tail.read(run, last - kept - 1) == []


def test_the_tail_keeps_the_newest_event_whatever_its_size() -> None:
    tail, run = MemoryTail(limit_bytes=5), uuid.uuid4()
    tail.publish(run, some_entries(1, 1))

    assert tail.read(run, 0) == some_entries(1, 1)


async def test_waiting_for_a_run_of_another_process_leaves_no_memory_behind() -> None:
    tail = MemoryTail()

    for _ in range(10):
        await tail.wait(uuid.uuid4(), 0, timeout_seconds=0)

    assert tail._runs == {}


async def test_whoever_waits_is_woken_by_what_is_published() -> None:
    tail, run = MemoryTail(), uuid.uuid4()
    waiting = [asyncio.create_task(tail.wait(run, 0, timeout_seconds=3600)) for _ in range(3)]
    await asyncio.sleep(0)

    tail.publish(run, some_entries(1, 1))

    async with asyncio.timeout(10):
        await asyncio.gather(*waiting)
    assert tail.read(run, 0) == some_entries(1, 1)


async def test_what_comes_late_and_is_known_wakes_nobody() -> None:
    tail, run = MemoryTail(), uuid.uuid4()
    tail.publish(run, some_entries(1, 1))
    waiting = asyncio.create_task(tail.wait(run, 5, timeout_seconds=3600))

    for seq in range(2, 6):
        await asyncio.sleep(0)
        tail.publish(run, some_entries(seq, seq))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    tail.publish(run, some_entries(6, 6))

    async with asyncio.timeout(10):
        await waiting


async def test_what_is_taken_wakes_nobody() -> None:
    tail, run = MemoryTail(), uuid.uuid4()
    taken: list[Entry] = []

    def take(entries: list[Entry]) -> bool:
        if entries[-1].seq > 5:
            return False
        taken.extend(entries)
        return True

    tail.publish(run, some_entries(1, 2))
    waiting = asyncio.create_task(
        tail.wait(run, 1, timeout_seconds=3600, taking=Taking(take, 3600))
    )
    for seq in (3, 4):
        await asyncio.sleep(0)
        tail.publish(run, some_entries(seq, seq))
    await asyncio.sleep(0)
    # What does not follow on that is no business of those who take.
    assert taken == some_entries(2, 4)
    assert not waiting.done()
    tail.publish(run, some_entries(5, 6))

    async with asyncio.timeout(10):
        assert await waiting == 4
    assert tail.read(run, 4) == some_entries(5, 6)


async def test_from_behind_a_gap_nothing_is_taken() -> None:
    tail, run = MemoryTail(), uuid.uuid4()
    taken: list[Entry] = []

    def take(entries: list[Entry]) -> bool:
        taken.extend(entries)
        return True

    waiting = asyncio.create_task(
        tail.wait(run, 1, timeout_seconds=3600, taking=Taking(take, 3600))
    )
    await asyncio.sleep(0)
    tail.publish(run, some_entries(3, 3))

    async with asyncio.timeout(10):
        assert await waiting == 1
    assert taken == []


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From where the log was looked into, each time, and what else a test writes there."""
    said: list[str] = []
    read = feed._Log.read

    async def noted(log: feed._Log, after: int) -> Found:
        said.append(f"log {after}")
        return await read(log, after)

    monkeypatch.setattr(feed._Log, "read", noted)
    return said


async def test_whoever_takes_does_not_look_into_the_log_meanwhile(
    author: Author, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.POLL_SECONDS", 3600.0)
    tail = author._tail = MemoryTail()
    reader = Reader(author, tail, taking="all")
    await author.begin()
    await author.add("The first words.")
    await reader.until(3)
    before = len(said)

    for number in range(30):
        await author.add(f"{number} ")
        # Longer than who reads the log listens before it looks there again.
        await asyncio.sleep(FIRST_SECONDS)
    await author.end()

    assert await reader.done() == author.entries
    assert len(said) - before < 5


async def test_a_tail_that_is_lost_is_noticed_after_one_silence(
    author: Author, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it has just brought something: the log is looked at next, not after another wait."""

    class Losing(MemoryTail):
        async def wait(self, *args: Any, **options: Any) -> int:
            said.append("wait")
            return await super().wait(*args, **options)

    monkeypatch.setattr(f"{__name__}.POLL_SECONDS", 0.2)
    tail = author._tail = Losing()
    reader = Reader(author, tail, taking="all")
    await author.begin()
    await author.add("Words that come over the tail.")
    await reader.until(3)
    author._tail = NoTail()

    await author.add("Words that do not.")
    await reader.until(4)
    await author.end()

    assert await reader.done() == author.entries
    # Between what the tail brought last and the look that found the rest there was one wait.
    found = said.index("log 3")
    assert said[found - 1] == "wait"
    assert said[found - 2] != "wait"


async def test_a_tail_that_begins_anew_lets_nobody_wait() -> None:
    tail, run = MemoryTail(), uuid.uuid4()
    waiting = asyncio.create_task(tail.wait(run, 5, timeout_seconds=3600))
    await asyncio.sleep(0)

    tail.forget_all()

    async with asyncio.timeout(10):
        await waiting


@pytest.mark.parametrize("segments", [1, CHUNK_SEGMENTS - 5])
async def test_whoever_has_read_all_there_was_listens_before_it_looks_again(
    author: Author, segments: int
) -> None:
    """The log of a run that goes on has grown with each look."""
    await author.begin()
    for number in range(segments):
        await author.add(f"{number} ")
    log = feed._Log(author.run.public_id, readers)

    found = await log.read(0)

    assert found.entries == author.entries
    assert not log.is_behind


async def test_a_question_that_the_database_refuses_costs_no_other_follower_the_answer(
    author: Author,
) -> None:
    await author.begin()
    lookout = Lookout()
    key = author.run.pk

    async with asyncio.timeout(10):
        answers = await asyncio.gather(
            *(lookout.look(key, after) for after in (0, 2**80, 1)), return_exceptions=True
        )

    assert [answers[0], answers[2]] == [
        Found(entries=author.entries),
        Found(entries=author.entries[1:]),
    ]
    assert isinstance(answers[1], Exception)
