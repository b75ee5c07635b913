"""The tail in memory: recent events of runs, and who waits for them."""

from __future__ import annotations

import asyncio
import uuid

from chat.runs.event_buffer import ENTRY_BYTES, FLUSH_TIMES, Entry, MemoryTail, Taking
from tests.runs.helpers import PATIENCE_SECONDS

RUN = uuid.uuid4()


def some_entries(first: int, last: int) -> list[Entry]:
    return [Entry(seq, b"x" * 10) for seq in range(first, last + 1)]


def tail_for(entries: int) -> MemoryTail:
    return MemoryTail(limit_bytes=entries * (10 + ENTRY_BYTES))


def start_waiting(
    tail: MemoryTail, after: int, *, taking: Taking | None = None
) -> asyncio.Task[int]:
    return asyncio.create_task(tail.wait(RUN, after, timeout_seconds=3600, taking=taking))


async def ended(waiting: asyncio.Task[int]) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await waiting


def test_tail_gives_all_that_follows_or_nothing() -> None:
    tail = tail_for(5)
    for seq in range(1, 9):
        tail.publish(RUN, some_entries(seq, seq))

    assert tail.read(RUN, 0) == []
    assert tail.read(RUN, 2) == []
    assert tail.read(RUN, 3) == some_entries(4, 8)
    assert tail.read(RUN, 8) == []
    assert tail.read(RUN, 100) == []


def test_flush_is_kept_whole_unless_it_is_a_flood() -> None:
    tail = tail_for(5)
    tail.publish(RUN, some_entries(1, 8))
    tail.publish(RUN, some_entries(9, 28))

    assert tail.read(RUN, 7) == []
    assert tail.read(RUN, 8) == some_entries(9, 28)

    kept = 5 * FLUSH_TIMES
    last = 28 + kept + 60
    tail.publish(RUN, some_entries(29, last))
    assert tail.read(RUN, last - kept) == some_entries(last - kept + 1, last)
    assert tail.read(RUN, last - kept - 1) == []


def test_newest_event_is_kept_whatever_its_size() -> None:
    tail = MemoryTail(limit_bytes=5)
    tail.publish(RUN, some_entries(1, 1))

    assert tail.read(RUN, 0) == some_entries(1, 1)


async def test_waiting_for_an_unknown_run_leaves_no_memory() -> None:
    tail = MemoryTail()

    for _ in range(10):
        await tail.wait(uuid.uuid4(), 0, timeout_seconds=0)

    assert tail._runs == {}


async def test_publishing_wakes_everybody_who_waits() -> None:
    tail = MemoryTail()
    waiting = [start_waiting(tail, 0) for _ in range(3)]
    await asyncio.sleep(0)

    tail.publish(RUN, some_entries(1, 1))

    for each in waiting:
        await ended(each)
    assert tail.read(RUN, 0) == some_entries(1, 1)


async def test_known_entries_that_come_late_wake_nobody() -> None:
    tail = MemoryTail()
    tail.publish(RUN, some_entries(1, 1))
    waiting = start_waiting(tail, 5)

    for seq in range(2, 6):
        await asyncio.sleep(0)
        tail.publish(RUN, some_entries(seq, seq))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    tail.publish(RUN, some_entries(6, 6))

    await ended(waiting)


async def test_taken_entries_wake_nobody() -> None:
    tail, taken = MemoryTail(), []

    def take(entries: list[Entry]) -> bool:
        if entries[-1].seq > 5:
            return False
        taken.extend(entries)
        return True

    tail.publish(RUN, some_entries(1, 2))
    waiting = start_waiting(tail, 1, taking=Taking(take, 3600))
    for seq in (3, 4):
        await asyncio.sleep(0)
        tail.publish(RUN, some_entries(seq, seq))
    await asyncio.sleep(0)
    assert taken == some_entries(2, 4)
    assert not waiting.done()
    # Refused as a whole.
    tail.publish(RUN, some_entries(5, 6))

    assert await ended(waiting) == 4
    assert tail.read(RUN, 4) == some_entries(5, 6)


async def test_nothing_is_taken_behind_a_gap() -> None:
    tail, taken = MemoryTail(), []

    def take(entries: list[Entry]) -> bool:
        taken.extend(entries)
        return True

    waiting = start_waiting(tail, 1, taking=Taking(take, 3600))
    await asyncio.sleep(0)
    tail.publish(RUN, some_entries(3, 3))

    assert await ended(waiting) == 1
    assert taken == []


async def test_forgetting_all_wakes_who_waits() -> None:
    tail = MemoryTail()
    waiting = start_waiting(tail, 5)
    await asyncio.sleep(0)

    tail.forget_all()

    await ended(waiting)
