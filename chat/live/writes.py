"""Writes of tabs: what the channels of a process store, in one transaction every two seconds at most."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from django.db import transaction

from chat.core.errors import is_database_unavailable
from chat.core.threads import DatabaseThreads

logger = logging.getLogger(__name__)

# SQLite has one writer at a time, and answers come first. Nobody notices that a sign of another person
# takes two seconds.
WRITE_SECONDS = 2.0

Value = TypeVar("Value", bound=Hashable, covariant=True)


class Writer(Protocol[Value]):
    """Something that a channel wants to store. Its methods are called on the event loop, also after its tab
    has closed."""

    def value(self) -> Value | None:
        """The value at the moment of writing; ``None`` if there is nothing to store any more."""
        ...

    def note_written(self, *, is_stored: bool) -> None:
        """The transaction has been committed. ``is_stored``: whether it contains the value."""
        ...


# A store writes the values of all tabs with one statement, and returns those that it has stored. It is called
# in a database thread, in the transaction of all stores.
Store = Callable[[Sequence[Any]], Collection[Any]]


class _Batch(NamedTuple):
    """The writers of one store, each with its value."""

    store: Store
    taken: Sequence[tuple[Writer[Hashable], Hashable]]

    @property
    def values(self) -> list[Hashable]:
        return [value for _, value in self.taken]


class TabWrites:
    """The writes of all tabs of a process. A database that is unavailable is tried again."""

    def __init__(self) -> None:
        self._threads = DatabaseThreads("tab-writes", size=1)
        self._wanted: dict[Store, dict[Writer[Hashable], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._due_at = 0.0

    def want(self, store: Store, writer: Writer[Hashable]) -> None:
        """Writes the writer's value soon. A writer that waits already is written once."""
        self._wanted.setdefault(store, {})[writer] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_wanted(), name="tab-writes")

    @property
    def is_idle(self) -> bool:
        """True if nothing waits and nothing is being written."""
        return not self._wanted and (self._task is None or self._task.done())

    async def close(self) -> None:
        """Writes what is waiting, without a pause, and ends the thread."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._write(self._take())
        self._wanted.clear()
        await self._threads.close()

    async def _write_wanted(self) -> None:
        loop = asyncio.get_running_loop()
        while self._wanted:
            await asyncio.sleep(max(0.0, self._due_at - loop.time()))
            self._due_at = loop.time() + WRITE_SECONDS
            batches = self._take()
            try:
                await self._write(batches)
            except asyncio.CancelledError:
                # The process stops. Values that the thread is writing are written twice, which changes nothing.
                self._want_again(batches)
                raise

    def _take(self) -> list[_Batch]:
        wanted, self._wanted = self._wanted, {}
        batches = []
        for store, writers in wanted.items():
            found = [(writer, writer.value()) for writer in writers]
            taken = [(writer, value) for writer, value in found if value is not None]
            if taken:
                batches.append(_Batch(store, taken))
        return batches

    async def _write(self, batches: Sequence[_Batch]) -> None:
        if not batches:
            return
        try:
            stored = await self._threads.call(_store_all, batches)
        except Exception as error:
            if is_database_unavailable(error):
                logger.warning("tab_writes.postponed error=%s", type(error).__name__)
                self._want_again(batches)
                return
            logger.exception("tab_writes.failed")
            stored = [() for _ in batches]
        for batch, values in zip(batches, stored, strict=True):
            for writer, value in batch.taken:
                writer.note_written(is_stored=value in values)

    def _want_again(self, batches: Sequence[_Batch]) -> None:
        for batch in batches:
            again = self._wanted.setdefault(batch.store, {})
            again.update(dict.fromkeys(writer for writer, _ in batch.taken))


def _store_all(batches: Sequence[_Batch]) -> list[Collection[Hashable]]:
    """Stores everything in one transaction. If a store fails, the others are stored without it."""
    try:
        with transaction.atomic():
            return [batch.store(batch.values) for batch in batches]
    except Exception as error:
        if is_database_unavailable(error):
            raise
    return [_store_alone(batch) for batch in batches]


def _store_alone(batch: _Batch) -> Collection[Hashable]:
    try:
        with transaction.atomic():
            return batch.store(batch.values)
    except Exception as error:
        if is_database_unavailable(error):
            raise
        logger.exception("tab_writes.failed store=%s", batch.store.__module__)
        return ()


tab_writes = TabWrites()
