"""The tail in memory: recent events of runs, and who waits for them."""

from __future__ import annotations

import asyncio
import uuid

from chat.runs.event_buffer import ENTRY_BYTES, FLUSH_TIMES, Consumer, LogEntry, MemoryEventBuffer
from tests.runs.helpers import PATIENCE_SECONDS

RUN = uuid.uuid4()


def some_entries(first: int, last: int) -> list[LogEntry]:
    return [LogEntry(seq, b"x" * 10) for seq in range(first, last + 1)]


def tail_for(entries: int) -> MemoryEventBuffer:
    return MemoryEventBuffer(limit_bytes=entries * (10 + ENTRY_BYTES))


def start_waiting(
    buffer: MemoryEventBuffer, after: int, *, consumer: Consumer | None = None
) -> asyncio.Task[int]:
    return asyncio.create_task(buffer.wait(RUN, after, timeout_seconds=3600, consumer=consumer))


async def ended(waiting: asyncio.Task[int]) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await waiting


def test_tail_gives_all_that_follows_or_nothing() -> None:
    buffer = tail_for(5)
    for seq in range(1, 9):
        buffer.publish(RUN, some_entries(seq, seq))

    assert buffer.read(RUN, 0) == []
    assert buffer.read(RUN, 2) == []
    assert buffer.read(RUN, 3) == some_entries(4, 8)
    assert buffer.read(RUN, 8) == []
    assert buffer.read(RUN, 100) == []


def test_flush_is_kept_whole_unless_it_is_a_flood() -> None:
    buffer = tail_for(5)
    buffer.publish(RUN, some_entries(1, 8))
    buffer.publish(RUN, some_entries(9, 28))

    assert buffer.read(RUN, 7) == []
    assert buffer.read(RUN, 8) == some_entries(9, 28)

    kept = 5 * FLUSH_TIMES
    last = 28 + kept + 60
    buffer.publish(RUN, some_entries(29, last))
    assert buffer.read(RUN, last - kept) == some_entries(last - kept + 1, last)
    assert buffer.read(RUN, last - kept - 1) == []


def test_newest_event_is_kept_whatever_its_size() -> None:
    buffer = MemoryEventBuffer(limit_bytes=5)
    buffer.publish(RUN, some_entries(1, 1))

    assert buffer.read(RUN, 0) == some_entries(1, 1)


async def test_waiting_for_an_unknown_run_leaves_no_memory() -> None:
    buffer = MemoryEventBuffer()

    for _ in range(10):
        await buffer.wait(uuid.uuid4(), 0, timeout_seconds=0)

    assert buffer._runs == {}


async def test_publishing_wakes_everybody_who_waits() -> None:
    buffer = MemoryEventBuffer()
    waiting = [start_waiting(buffer, 0) for _ in range(3)]
    await asyncio.sleep(0)

    buffer.publish(RUN, some_entries(1, 1))

    for each in waiting:
        await ended(each)
    assert buffer.read(RUN, 0) == some_entries(1, 1)


async def test_known_entries_that_come_late_wake_nobody() -> None:
    buffer = MemoryEventBuffer()
    buffer.publish(RUN, some_entries(1, 1))
    waiting = start_waiting(buffer, 5)

    for seq in range(2, 6):
        await asyncio.sleep(0)
        buffer.publish(RUN, some_entries(seq, seq))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    buffer.publish(RUN, some_entries(6, 6))

    await ended(waiting)


async def test_taken_entries_wake_nobody() -> None:
    buffer, taken = MemoryEventBuffer(), []

    def take(entries: list[LogEntry]) -> bool:
        if entries[-1].seq > 5:
            return False
        taken.extend(entries)
        return True

    buffer.publish(RUN, some_entries(1, 2))
    waiting = start_waiting(buffer, 1, consumer=Consumer(take, 3600))
    for seq in (3, 4):
        await asyncio.sleep(0)
        buffer.publish(RUN, some_entries(seq, seq))
    await asyncio.sleep(0)
    assert taken == some_entries(2, 4)
    assert not waiting.done()
    # Refused as a whole.
    buffer.publish(RUN, some_entries(5, 6))

    assert await ended(waiting) == 4
    assert buffer.read(RUN, 4) == some_entries(5, 6)


async def test_nothing_is_taken_behind_a_gap() -> None:
    buffer, taken = MemoryEventBuffer(), []

    def take(entries: list[LogEntry]) -> bool:
        taken.extend(entries)
        return True

    waiting = start_waiting(buffer, 1, consumer=Consumer(take, 3600))
    await asyncio.sleep(0)
    buffer.publish(RUN, some_entries(3, 3))

    assert await ended(waiting) == 1
    assert taken == []


async def test_forgetting_all_wakes_who_waits() -> None:
    buffer = MemoryEventBuffer()
    waiting = start_waiting(buffer, 5)
    await asyncio.sleep(0)

    buffer.forget_all()

    await ended(waiting)
