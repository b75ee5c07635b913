"""Followers of a run's log get every event once, in order and to the end, with any tail or none."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from chat import events as canonical
from chat.core.lossy_channel import LossyChannel
from chat.core.threads import readers
from chat.models import Run, Runner, RunSegment, RunStatus
from chat.result import Fold, close_open
from chat.runs import log_follower, segments
from chat.runs import writer as pace
from chat.runs.event_buffer import EventBuffer, LogEntry, MemoryEventBuffer, NullEventBuffer
from chat.runs.log_compaction import compact
from chat.runs.log_follower import BatchedLogReader, NewEntries, RunGone, follow_log
from chat.runs.outcomes import columns_of
from chat.runs.redis_event_buffer import RedisEventBuffer
from chat.runs.segments import CHUNK_SEGMENTS, SegmentWrite, bodies_of
from chat.runs.writer import SegmentWriter
from tests.runs.helpers import PATIENCE_SECONDS, threads
from tests.support.run_fixtures import Claim, MakeRun
from tests.support.selection import sample

# A sample of them runs on PostgreSQL in `make test`: those with a mark of their own.
pytestmark = pytest.mark.databases(slow=True)

TAKING = ("nothing", "all", "some")
SEEDS = range(4)
# A follower without a tail looks often here, so that nothing waits for its second.
POLL_SECONDS = 0.01


class ForgetfulTail(MemoryEventBuffer):
    """Keeps one event, and forgets that one at every other look."""

    def __init__(self) -> None:
        super().__init__(limit_bytes=1)
        self._looks = 0

    def read(self, run_id: uuid.UUID, after: int) -> list[LogEntry]:
        self._looks += 1
        if self._looks % 2:
            self.forget(run_id)
        return super().read(run_id, after)


class OverRedis:
    """What one process publishes and another one reads."""

    def __init__(self, url: str) -> None:
        prefix = f"tributary:test:{uuid.uuid4().hex}"
        self._channels = [LossyChannel(url, secret="s", prefix=prefix) for _ in range(2)]
        runner = RedisEventBuffer(keeps_own=False, listens=False)
        server = RedisEventBuffer(keeps_own=False, listens=True)
        for buffer, channel in zip((runner, server), self._channels, strict=True):
            buffer.start(channel)
        self.publish = runner.publish
        self.read = server.read
        self.wait = server.wait
        self.forget = server.forget

    async def __aenter__(self) -> EventBuffer:
        for channel in self._channels:
            await channel.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        for channel in self._channels:
            await channel.__aexit__()


TAILS = {
    "no tail": NullEventBuffer,
    "memory": MemoryEventBuffer,
    "a tail that forgets": ForgetfulTail,
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer pauses for as long as a commit takes, not for ten times as long."""
    monkeypatch.setattr(pace, "COMMIT_SHARE", 2)


@pytest.fixture(params=[*TAILS, "Redis"])
async def buffer(request: pytest.FixtureRequest) -> AsyncIterator[EventBuffer]:
    if request.param in TAILS:
        yield TAILS[request.param]()
        return
    async with OverRedis(request.getfixturevalue("redis_server").url) as buffer:
        yield buffer


class Author:
    """Writes a run's log as an execution does: committed first, then shown."""

    def __init__(self, run: Run, writer: SegmentWriter, buffer: EventBuffer) -> None:
        self.run = run
        self.buffer = buffer
        self.entries: list[LogEntry] = []
        self._fold = Fold()
        self._writer = writer

    async def begin(self) -> None:
        await self.write(canonical.ChatStart(model_instance_id="m"), canonical.MessageStart(item=0))

    async def add(self, *texts: str) -> None:
        await self.write(*(canonical.MessageDelta(item=0, content=text) for text in texts))

    async def end(self) -> None:
        await self.write(*close_open(self._fold, "stopped"), is_end=True)

    async def write(self, *events: canonical.Event, is_end: bool = False) -> None:
        write = self.next(*events, is_end=is_end)
        await self._writer.append(write)
        self.buffer.publish(self.run.public_id, write.entries)

    async def commit(self, *texts: str) -> None:
        """Each in a segment of its own, without the writer's pauses in between."""
        writes = [self.next(canonical.MessageDelta(item=0, content=text)) for text in texts]
        await threads.call(lambda: [segments.commit([write]) for write in writes])
        for write in writes:
            self.buffer.publish(self.run.public_id, write.entries)

    def next(self, *events: canonical.Event, is_end: bool = False) -> SegmentWrite:
        for seq, event in enumerate(events, start=len(self.entries) + 1):
            event.seq = seq
            self._fold.add(event)
        entries = bodies_of(events)
        self.entries += entries
        return SegmentWrite(
            run_pk=self.run.pk,
            runner=self.run.runner_id,
            entries=entries,
            columns=columns_of(events[-1]) if is_end else {},
            is_end=is_end,
            conversation_pk=self.run.conversation_id,
        )


MakeAuthor = Callable[[EventBuffer], Awaitable[Author]]


@pytest.fixture
def make_author(claim: Claim, writer: SegmentWriter) -> MakeAuthor:
    async def make(buffer: EventBuffer) -> Author:
        return Author(await threads.call(claim), writer, buffer)

    return make


@pytest.fixture
async def author(make_author: MakeAuthor, buffer: EventBuffer) -> Author:
    return await make_author(buffer)


class Reader:
    """A follower in a task of its own. ``consumer`` what comes while it waits means all but the end;
    with "some" it refuses each third time."""

    def __init__(self, author: Author, after: int = 0, *, consumer: str = "nothing") -> None:
        self.entries: list[LogEntry] = []
        self.batches = 0
        self._consumer = consumer
        self._asked = 0
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._read(author.run.public_id, after, author.buffer))

    async def _read(self, run_id: uuid.UUID, after: int, buffer: EventBuffer) -> None:
        take = None if self._consumer == "nothing" else self._take
        async for batch in follow_log(
            run_id, after, buffer=buffer, poll_seconds=POLL_SECONDS, take=take
        ):
            self.entries += batch
            self.batches += 1
            self._changed.set()

    def _take(self, batch: list[LogEntry]) -> bool:
        self._asked += 1
        if batch[-1].is_end or (self._consumer == "some" and self._asked % 3 == 0):
            return False
        self.entries += batch
        self._changed.set()
        return True

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.entries) < count:
                self._changed.clear()
                await self._changed.wait()

    async def done(self) -> list[LogEntry]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._task
        return self.entries

    async def cancel(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        assert self._task.cancelled()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From where the log was read, each time, and what else a test writes there."""
    looks: list[str] = []
    read = log_follower._Log.read

    async def noted(log: log_follower._Log, after: int) -> NewEntries:
        looks.append(f"log {after}")
        return await read(log, after)

    monkeypatch.setattr(log_follower._Log, "read", noted)
    return looks


# --- with each tail -----------------------------------------------------------------------


@pytest.mark.databases
async def test_followers_get_every_event_once(author: Author) -> None:
    followers = [Reader(author, consumer=consumer) for consumer in TAKING]

    await author.begin()
    for number in range(30):
        await author.add(*(f"{number}.{part} " for part in range(number % 4 + 1)))
    await author.end()

    for follower in followers:
        assert await follower.done() == author.entries


async def test_late_followers_get_the_rest(make_author: MakeAuthor, buffer: EventBuffer) -> None:
    for seed in sample(SEEDS, 2):
        author, choose = await make_author(buffer), random.Random(seed)
        followers = [(0, Reader(author, consumer="all"))]
        await author.begin()

        for number in range(25):
            await author.add(*(f"{number} " for _ in range(choose.randint(1, 6))))
            if choose.random() < 0.4:
                after = choose.randint(0, len(author.entries))
                followers.append((after, Reader(author, after, consumer=choose.choice(TAKING))))
            if choose.random() < 0.3:
                await asyncio.sleep(0)
        await author.end()

        for after, follower in followers:
            assert await follower.done() == author.entries[after:]


@pytest.mark.databases
async def test_followers_after_the_end_get_the_rest_and_end(author: Author) -> None:
    await author.begin()
    await author.end()

    assert await Reader(author).done() == author.entries
    assert await Reader(author, 2).done() == author.entries[2:]
    for beyond in (0, 1, 1000, 10**18):
        assert await Reader(author, len(author.entries) + beyond).done() == []


async def test_follower_of_a_queued_run_waits_for_it(
    make_run: MakeRun, writer: SegmentWriter, buffer: EventBuffer, looks: list[str]
) -> None:
    def claim(run: Run) -> None:
        run.runner = Runner.objects.create(host="here", pid=1)
        run.status = RunStatus.RUNNING
        run.save()

    author = Author(await threads.call(make_run), writer, buffer)
    follower = Reader(author)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(looks) < 2:
            await asyncio.sleep(0.01)

    await threads.call(claim, author.run)
    await author.begin()
    await author.end()

    assert await follower.done() == author.entries


async def test_compaction_loses_no_event_of_followers(
    author: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follower, "CATCH_UP_BYTES", 1)
    await author.begin()
    await author.commit(*(f"{number} " for number in range(40)))
    await author.end()
    await threads.call(author.run.refresh_from_db)
    author.buffer.forget(author.run.public_id)

    async with aclosing(follow_log(author.run.public_id, buffer=author.buffer)) as batches:
        seen = list(await anext(batches))
        seen += await anext(batches)
        assert await threads.call(compact, author.run)
        async for batch in batches:
            seen += batch

    assert seen == author.entries
    assert await threads.call(RunSegment.objects.filter(run=author.run).count) == 1


async def test_long_log_comes_in_batches(author: Author, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "CATCH_UP_BYTES", 2000)
    await author.begin()
    await author.commit(*["x" * 500] * 30)
    await author.end()
    author.buffer.forget(author.run.public_id)

    follower = Reader(author)

    assert await follower.done() == author.entries
    assert follower.batches > 5


async def test_missing_run_raises_run_gone(author: Author) -> None:
    follower = Reader(author)
    await author.begin()
    await follower.until(2)

    await threads.call(Run.objects.filter(pk=author.run.pk).delete)

    with pytest.raises(RunGone):
        await follower.done()
    with pytest.raises(RunGone):
        await anext(follow_log(uuid.uuid4(), buffer=author.buffer))


async def test_follower_can_be_cancelled_anywhere(author: Author) -> None:
    await author.begin()
    for turns in range(12):
        follower = Reader(author)
        for _ in range(turns):
            await asyncio.sleep(0)
        await follower.cancel()

    late = Reader(author)
    await author.end()
    assert await late.done() == author.entries


# --- what a follower reads and when ---------------------------------------------------------


async def test_entries_behind_a_gap_are_not_read(make_author: MakeAuthor) -> None:
    author = await make_author(NullEventBuffer())
    await author.begin()
    await author.commit(*"01234")
    missing = RunSegment.objects.filter(run=author.run, first_seq=4)
    await threads.call(missing.delete)

    entries = await threads.call(segments.read_entries, author.run.pk)

    assert [entry.seq for entry in entries] == [1, 2, 3]


async def test_served_follower_does_not_read_the_log(
    make_author: MakeAuthor, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.POLL_SECONDS", 3600.0)
    monkeypatch.setattr(log_follower, "FAST_SECONDS", 0.01)
    monkeypatch.setattr(log_follower, "FIRST_SECONDS", 0.002)
    author = await make_author(MemoryEventBuffer())
    follower = Reader(author, consumer="all")
    await author.begin()
    await author.add("The first words.")
    await follower.until(3)
    before = len(looks)

    for number in range(30):
        await author.add(f"{number} ")
        # Longer than who reads the log listens before it looks there again.
        await asyncio.sleep(log_follower.FIRST_SECONDS)
    await author.end()

    assert await follower.done() == author.entries
    assert len(looks) - before < 5


async def test_lost_tail_is_noticed_after_one_silence(
    make_author: MakeAuthor, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noted(MemoryEventBuffer):
        async def wait(self, *args: Any, **options: Any) -> int:
            looks.append("wait")
            return await super().wait(*args, **options)

    monkeypatch.setattr(f"{__name__}.POLL_SECONDS", 0.05)
    author = await make_author(Noted())
    follower = Reader(author, consumer="all")
    await author.begin()
    await author.add("Words that come over the tail.")
    await follower.until(3)
    author.buffer = NullEventBuffer()

    await author.add("Words that do not.")
    await follower.until(4)
    await author.end()

    assert await follower.done() == author.entries
    # The log was read after one wait, although the tail had just brought something.
    found = looks.index("log 3")
    assert looks[found - 1] == "wait"
    assert looks[found - 2] != "wait"


@pytest.mark.parametrize("count", [1, CHUNK_SEGMENTS - 5])
async def test_log_read_to_its_end_is_not_behind(make_author: MakeAuthor, count: int) -> None:
    # A live log has grown at each look: a follower that counts as behind would never listen.
    author = await make_author(NullEventBuffer())
    await author.begin()
    await author.commit(*map(str, range(count)))
    log = log_follower._Log(author.run.public_id, readers)

    found = await log.read(0)

    assert found.entries == author.entries
    assert not log.is_behind


@pytest.mark.databases
async def test_refused_query_costs_no_other_follower(
    make_author: MakeAuthor,
) -> None:
    author = await make_author(NullEventBuffer())
    await author.begin()
    log_reader = BatchedLogReader()

    async with asyncio.timeout(PATIENCE_SECONDS):
        answers = await asyncio.gather(
            *(log_reader.read_after(author.run.pk, after) for after in (0, 2**80, 1)),
            return_exceptions=True,
        )

    assert [answers[0], answers[2]] == [
        NewEntries(entries=author.entries),
        NewEntries(entries=author.entries[1:]),
    ]
    assert isinstance(answers[1], Exception)
