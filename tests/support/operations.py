"""Counts what an answer costs besides its text: statements, transactions of several of them, and
hand-overs of work between the event loop and threads, each with the pool of threads that did it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from chat.runs.pg_writer import AsyncSegmentWriter

# Where statements of the event loop itself are counted.
EVENT_LOOP = "event loop"
STATEMENT, TRANSACTION, HAND_OVER = "statement", "transaction", "hand-over"
# With them SQLite begins a transaction; psycopg does the same without a statement of ours.
_BEGIN = ("BEGIN", "BEGIN IMMEDIATE")


class Operation(NamedTuple):
    """``where`` is the pool of threads; ``text`` is the statement, or what was handed over."""

    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind:<12}{self.where:<14}{' '.join(self.text.split())[:150]}"


class Operations(list[Operation]):
    """In their order. ``str`` of it is the table that a failed test shows."""

    def without(self, *pools: str) -> Operations:
        """Those of other pools of threads than these."""
        return Operations(each for each in self if each.where not in pools)

    def count(self, kind: str) -> int:  # type: ignore[override]  # not of equal operations
        return sum(each.kind == kind for each in self)

    def __str__(self) -> str:
        return "\n".join(["", *map(str, self)])


def _pool_here() -> str:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread().name.rpartition("_")[0]
    return EVENT_LOOP


@contextmanager
def counted_operations() -> Iterator[Operations]:
    """The operations of the whole process while the block runs: of Django's cursors, also those
    that `chat.core.prepared` makes, and of the connection on the event loop."""
    found = Operations()

    def note(kind: str, text: object, where: str = "") -> None:
        found.append(Operation(kind, where or _pool_here(), str(text)))

    with pytest.MonkeyPatch.context() as patch:
        _note_statements(patch, note)
        _note_transactions(patch, note)
        _note_hand_overs(patch, note)
        yield found


def _note_statements(patch: pytest.MonkeyPatch, note: Any) -> None:
    execute, on_loop = CursorWrapper._execute_with_wrappers, AsyncSegmentWriter.first_column

    def executed(self: Any, sql: str, params: Any, many: bool, executor: Any) -> Any:
        if sql not in _BEGIN:
            note(STATEMENT, sql)
        return execute(self, sql, params, many, executor)

    async def executed_on_loop(self: Any, text: str, values: Any) -> Any:
        note(STATEMENT, text)
        return await on_loop(self, text, values)

    patch.setattr(CursorWrapper, "_execute_with_wrappers", executed)
    patch.setattr(AsyncSegmentWriter, "first_column", executed_on_loop)


def _note_transactions(patch: pytest.MonkeyPatch, note: Any) -> None:
    enter = transaction.Atomic.__enter__

    def entered(self: transaction.Atomic) -> None:
        database: BaseDatabaseWrapper = transaction.get_connection(self.using)
        if not database.in_atomic_block:
            note(TRANSACTION, "BEGIN … COMMIT")
        enter(self)

    patch.setattr(transaction.Atomic, "__enter__", entered)


def _note_hand_overs(patch: pytest.MonkeyPatch, note: Any) -> None:
    """Into a thread and back counts once; a call that a thread leaves to the loop, once more."""
    into_thread = asyncio.BaseEventLoop.run_in_executor
    to_loop = asyncio.BaseEventLoop.call_soon_threadsafe

    def handed(self: Any, executor: Any, function: Any, *args: Any) -> Any:
        pool = getattr(executor, "_thread_name_prefix", "") or "to_thread"
        note(HAND_OVER, _name_of(function), pool)
        return into_thread(self, executor, function, *args)

    def handed_to_loop(self: Any, callback: Any, *args: Any, **options: Any) -> Any:
        # Not the result of a thread, which belongs to the hand-over above.
        is_result = "_set_state" in _name_of(callback)
        if not is_result and _pool_here() != EVENT_LOOP:
            note(HAND_OVER, _name_of(callback))
        return to_loop(self, callback, *args, **options)

    patch.setattr(asyncio.BaseEventLoop, "run_in_executor", handed)
    patch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", handed_to_loop)


def _name_of(function: Any) -> str:
    """The name of what is called; of a call of `DatabaseThreads`, that of its function."""
    cells = dict(
        zip(
            getattr(getattr(function, "__code__", None), "co_freevars", ()),
            getattr(function, "__closure__", None) or (),
            strict=True,
        )
    )
    inner = cells["function"].cell_contents if "function" in cells else function
    while hasattr(inner, "func"):
        # What `asyncio.to_thread` calls is the first argument, behind the context.
        inner = inner.args[0] if inner.args and callable(inner.args[0]) else inner.func
    return str(getattr(inner, "__qualname__", inner))
