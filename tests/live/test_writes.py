"""Writes of tabs: how often there is a transaction, and what becomes of writes that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

import pytest
from django.db import OperationalError, connection

from chat.live import writes
from chat.live.writes import TabWrites
from tests.live.connection import until


class Note:
    """Wants a number to be stored."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.results: list[bool] = []

    def value(self) -> int | None:
        return self.number

    def note_written(self, *, is_stored: bool) -> None:
        self.results.append(is_stored)


class Recorder:
    """A store that records its calls. The first ``failures`` fail."""

    def __init__(self, *failures: Exception) -> None:
        self.calls: list[list[int]] = []
        self._failures = list(failures)

    def __call__(self, values: Sequence[int]) -> Collection[int]:
        assert connection.in_atomic_block
        if self._failures:
            raise self._failures.pop(0)
        self.calls.append(list(values))
        return [value for value in values if value % 2]


@pytest.fixture
async def tab_writes(transactional_db: None) -> AsyncIterator[TabWrites]:
    tab_writes = TabWrites()
    yield tab_writes
    await tab_writes.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before transactions, which pass at once."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pass_at_once(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(writes.asyncio, "sleep", pass_at_once)
    return pauses


async def test_all_writes_share_a_transaction_every_two_seconds(
    tab_writes: TabWrites, pauses: list[float]
) -> None:
    store, notes = Recorder(), [Note(number) for number in range(40)]

    for _ in range(3):
        for note in notes:
            tab_writes.want(store, note)
            tab_writes.want(store, note)
        await until(lambda: all(note.results for note in notes))
        for note in notes:
            note.results.clear()
    assert len(store.calls) == 3
    assert all(sorted(call) == list(range(40)) for call in store.calls)
    waited = [pause for pause in pauses if pause > 1]
    assert len(waited) == 2
    assert sum(waited) == pytest.approx(2 * writes.WRITE_SECONDS, abs=1)


async def test_each_writer_learns_whether_it_was_stored(
    tab_writes: TabWrites, pauses: list[float]
) -> None:
    store, odd, even = Recorder(), Note(1), Note(2)

    tab_writes.want(store, odd)
    tab_writes.want(store, even)
    await until(lambda: even.results)

    assert (odd.results, even.results) == ([True], [False])


async def test_failing_store_takes_nothing_from_the_others(
    tab_writes: TabWrites, pauses: list[float]
) -> None:
    broken, store = Recorder(KeyError("broken"), KeyError("broken")), Recorder()
    lost, kept = Note(1), Note(3)

    tab_writes.want(broken, lost)
    tab_writes.want(store, kept)
    await until(lambda: kept.results)

    assert (lost.results, kept.results) == ([False], [True])


async def test_database_that_is_away_is_tried_again(
    tab_writes: TabWrites, pauses: list[float]
) -> None:
    store, note = Recorder(OperationalError("locked")), Note(1)

    tab_writes.want(store, note)
    await until(lambda: note.results)

    assert (store.calls, note.results) == ([[1]], [True])


async def test_waiting_writes_are_written_when_the_process_stops(
    tab_writes: TabWrites,
) -> None:
    store, first, second = Recorder(), Note(1), Note(3)
    tab_writes.want(store, first)
    await until(lambda: first.results)

    tab_writes.want(store, second)
    await tab_writes.close()

    assert second.results == [True]
