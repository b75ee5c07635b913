"""The log of one run while it is written: merge, number, commit, publish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from uuid import UUID
from weakref import WeakSet

from django.conf import settings
from django.utils import timezone

from chat import events as canonical
from chat.core import metrics
from chat.core.threads import DatabaseThreads
from chat.core.waiting import Signal
from chat.dialects.base import Ending
from chat.result import Fold
from chat.runs.answer_memory import (
    LARGE_BYTES,
    LARGE_TEXT_BYTES,
    AnswerMemory,
    held_bytes,
    return_memory,
)
from chat.runs.attempts import AttemptOutcome
from chat.runs.event_buffer import EventBuffer, LogEntry
from chat.runs.outcomes import (
    PreparedOutcome,
    columns_of,
    has_consequences,
    is_short,
    prepare_outcome,
)
from chat.runs.segments import SegmentWrite, bodies_of
from chat.runs.writer import SegmentWriter


class Budget:
    """Limits the bytes that all runs have read but not committed. Over the limit nobody reads on until some
    are committed, so that upstreams wait instead of memory growing. For use on one event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.room = Signal()
        self.room.set()

    @property
    def has_room(self) -> bool:
        return self.held_bytes < self.limit_bytes

    def change(self, by_bytes: int) -> None:
        self.held_bytes += by_bytes
        if self.has_room:
            self.room.set()
        else:
            self.room.clear()


# Reading from the upstream pauses while this much waits for the database: more than a minute of a usual
# answer, and little enough that fifty servers that send as fast as they can do not fill the memory.
RUN_PENDING_BYTES = 1024 * 1024
# Largest merged delta, so that no single event contains a whole long answer.
MERGED_CHARACTERS = 64 * 1024

# Types whose text is merged with that of an adjacent event of the same item, and the field with it.
_TEXT_MEMBER = {
    canonical.MessageDelta: "content",
    canonical.ReasoningDelta: "content",
    canonical.RefusalDelta: "content",
    canonical.ToolCallDelta: "fragment",
}
# Of adjacent events of these types only the latest is kept.
_LATEST = (canonical.ModelLoadProgress, canonical.PromptProcessingProgress)
# The key by which adjacent events belong to the same item.
_ITEM_OF: dict[type[canonical.Event], Callable[[Any], tuple[object, ...]]] = {
    canonical.MessageDelta: attrgetter("item", "choice"),
    canonical.ReasoningDelta: attrgetter("item", "choice"),
    canonical.RefusalDelta: attrgetter("item", "choice", "category"),
    canonical.ToolCallDelta: attrgetter("item", "choice", "call_id"),
}
_TOKENS = (canonical.MessageDelta, canonical.ReasoningDelta, canonical.ToolCallDelta)


# How long the first event waits for a second one. Most servers send a first frame that only names the
# model together with the first text, and a commit of its own costs as much as that of the text.
START_SECONDS = 0.05


def nothing() -> None:
    """Does nothing: there is no source to drain."""


@dataclass(slots=True)
class _Pending:
    """An event without a seq, with the pieces of text that were merged into it."""

    event: canonical.Event
    pieces: list[str]
    size: int

    def joined(self) -> canonical.Event:
        if len(self.pieces) > 1:
            setattr(self.event, _TEXT_MEMBER[type(self.event)], "".join(self.pieces))
        return self.event


class RunLog:
    """Numbers events, commits them, and only then publishes them.

    Adjacent deltas are merged while the previous commit is running, so the log has no more events
    than commits need.
    """

    def __init__(  # noqa: PLR0913 - what identifies the run, and what all runs share
        self,
        *,
        run_pk: int,
        run_id: UUID,
        conversation_pk: int,
        runner: UUID,
        writer: SegmentWriter,
        buffer: EventBuffer,
        threads: DatabaseThreads,
        budget: Budget | None = None,
        memory: AnswerMemory | None = None,
        on_first_event: Callable[[], None] = lambda: None,
    ) -> None:
        self.fold = Fold()
        self.seq = 0
        # Called right before a commit: the reader adds what it has received.
        self.drain_source: Callable[[], None] = nothing
        self._is_commit_requested = False
        self._run_pk = run_pk
        self._run_id = run_id
        self._conversation_pk = conversation_pk
        self._runner = runner
        self._writer = writer
        self._buffer = buffer
        self._threads = threads
        # Uncommitted bytes of this log; the budget counts those of all logs.
        self._budget = budget or Budget(settings.PENDING_BYTES)
        self._held_bytes = 0
        self._memory = memory or AnswerMemory(settings.ANSWERS_BYTES)
        self._on_first_event = on_first_event
        # Whether the end stores more than the answer's text.
        self.has_consequences = False
        # What the upstream has sent so far: deltas, and all bytes.
        self.received_deltas = 0
        self.received_bytes = 0
        self._received_events = 0
        self._counted_deltas = 0
        self._writing_bytes = 0
        self._pending: list[_Pending] = []
        self._pending_bytes = 0
        self._raw: list[bytes] = []
        self._columns: dict[str, object] = {}
        self._seen_first_event = False
        self._seen_first_token = False
        self._is_closing = False
        self._wanted = Signal()
        self._has_room = Signal()
        self._has_room.set()
        self._flushed = Signal()
        self._flushed.set()
        self._pump = asyncio.create_task(self._commit_until_closed(), name=f"log-{run_id.hex}")
        _open.add(self)

    async def begin(
        self, committed: Iterable[canonical.Event], opening: Iterable[canonical.Event]
    ) -> None:
        """Continues after the events that an earlier attempt has ``committed``, and commits ``opening``
        before it returns. Call once, before `add`. Raises ``OwnershipLost``."""
        for event in committed:
            self.seq = event.seq
            self.fold.add(event)
        entries = self._number(opening)
        if entries:
            await self._writer.append(self._write(entries, columns={}))
            self._publish(entries)

    # --- in ------------------------------------------------------------------------

    def add(self, events: Iterable[canonical.Event], *, raw: bytes = b"") -> None:
        """Adds events in order, with the raw bytes they came from."""
        for event in events:
            self._received_events += 1
            if not self._seen_first_token:
                self._note_times(event)
            if not self._merge(event):
                self._append(event)
        if raw:
            self._raw.append(raw)
            self.received_bytes += len(raw)
            self._pending_bytes += len(raw)
        # Raw bytes without events are written with the next event.
        if self._pending:
            if self._pending_bytes > RUN_PENDING_BYTES:
                self._has_room.clear()
            self._hold(self._pending_bytes + self._writing_bytes)
            self._flushed.clear()
        self._wanted.set()

    def request_commit(self) -> None:
        """Requests a commit of the events that `drain_source` will add."""
        self._is_commit_requested = True
        self._flushed.clear()
        self._wanted.set()

    @property
    def has_begun(self) -> bool:
        """Whether the times of the first event and the first token are known."""
        return self._seen_first_token

    def _hold(self, held_bytes: int) -> None:
        self._budget.change(held_bytes - self._held_bytes)
        self._held_bytes = held_bytes

    @property
    def has_room(self) -> bool:
        """Whether `room` would return at once."""
        return self._has_room.is_set() and self._budget.has_room and not self._pump.done()

    async def room(self) -> None:
        """Waits until the uncommitted bytes of this run and of all runs are within their limits. Raises the
        error that ended the log, such as lost ownership."""
        while not self.has_room:
            if self._pump.done():
                self._pump.result()
                return
            short = self._budget.room if self._has_room.is_set() else self._has_room
            waiting = asyncio.create_task(short.wait())
            try:
                await asyncio.wait({waiting, self._pump}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()

    @property
    def limit_reached(self) -> int:
        """The limit for the text in memory that this answer has passed, in bytes; otherwise 0."""
        return self._memory.share_bytes if self._memory.must_end(self._run_pk) else 0

    async def flushed(self, seconds: float) -> None:
        """Waits until everything added or requested is committed, at most ``seconds``."""
        await self._flushed.wait(seconds)

    @property
    def ended(self) -> asyncio.Task[None]:
        """A task that is done when the log cannot be written any more."""
        return self._pump

    def _append(self, event: canonical.Event) -> None:
        member = _TEXT_MEMBER.get(type(event))
        text = str(getattr(event, member)) if member else ""
        self.received_deltas += member is not None
        self._pending.append(_Pending(event, [text] if member else [], len(text)))
        self._pending_bytes += len(text) + 64

    def _merge(self, event: canonical.Event) -> bool:
        if not self._pending:
            return False
        last = self._pending[-1]
        if type(last.event) is not type(event):
            return False
        if isinstance(event, _LATEST):
            last.event = event
            return True
        member = _TEXT_MEMBER.get(type(event))
        if member is None or last.size > MERGED_CHARACTERS:
            return False
        item_of = _ITEM_OF[type(event)]
        if item_of(last.event) != item_of(event):
            return False
        text = str(getattr(event, member))
        last.pieces.append(text)
        self.received_deltas += 1
        last.size += len(text)
        self._pending_bytes += len(text)
        return True

    def _note_times(self, event: canonical.Event) -> None:
        if not self._seen_first_event:
            self._seen_first_event = True
            self._columns["first_event_at"] = timezone.now()
            self._on_first_event()
        if not self._seen_first_token and isinstance(event, _TOKENS):
            self._seen_first_token = True
            self._columns["first_token_at"] = timezone.now()

    # --- out -----------------------------------------------------------------------

    async def _commit_until_closed(self) -> None:
        while not (self._is_closing and not self._pending):
            await self._wanted.wait()
            self._wanted.clear()
            if self._has_only_start and not self._is_closing:
                await self._wanted.wait(START_SECONDS)
                self._wanted.clear()
            await self._commit_pending()
            if not self._pending:
                self._flushed.set()

    @property
    def _has_only_start(self) -> bool:
        return (
            self.seq == 0
            and len(self._pending) == 1
            and isinstance(self._pending[0].event, canonical.ChatStart)
        )

    async def _commit_pending(self) -> None:
        if not (self._pending or self._is_commit_requested):
            # SSE comments alone need no commit; their bytes are written with the next events.
            return
        entries: list[LogEntry] = []

        def write() -> SegmentWrite | None:
            """Called right before the commit, so that it includes events of the pause before it."""
            self.drain_source()
            self._is_commit_requested = False
            if not self._pending:
                return None
            pending, self._pending = self._pending, []
            self._pending_bytes = 0
            self._has_room.set()
            columns, self._columns = self._columns, {}
            events = [waiting.joined() for waiting in pending]
            entries.extend(self._number(events))
            self._memory.add(self._run_pk, held_bytes(events, entries, _TEXT_MEMBER))
            return self._write(entries, columns=columns)

        await self._writer.append_at_commit(self._run_pk, write)
        if entries:
            self._publish(entries)

    def _number(self, events: Iterable[canonical.Event]) -> list[LogEntry]:
        numbered = list(events)
        for event in numbered:
            self.seq += 1
            event.seq = self.seq
            self.fold.add(event)
        return bodies_of(numbered)

    def _write(
        self,
        entries: list[LogEntry],
        *,
        columns: dict[str, object],
        result: canonical.Result | None = None,
        prepared: PreparedOutcome | None = None,
        attempt: AttemptOutcome | None = None,
    ) -> SegmentWrite:
        raw, self._raw = b"".join(self._raw), []
        self._count(len(entries), len(raw))
        write = SegmentWrite(
            run_pk=self._run_pk,
            runner=self._runner,
            entries=entries,
            raw=raw,
            columns=columns,
            is_end=result is not None,
            result=result,
            prepared=prepared or {},
            attempt=attempt,
            conversation_pk=self._conversation_pk,
        )
        self._writing_bytes = write.size_bytes
        return write

    def _publish(self, entries: list[LogEntry]) -> None:
        """Publishes committed entries."""
        self._writing_bytes = 0
        # Bytes without events do not count as waiting for the database.
        self._hold(self._pending_bytes if self._pending else 0)
        self._buffer.publish(self._run_id, entries)

    @property
    def pending_bytes(self) -> int:
        """Bytes that were read and are not committed yet."""
        return self._pending_bytes + self._writing_bytes

    def _count(self, logged: int, size_bytes: int) -> None:
        """Updates the metrics with what came since the last commit."""
        received, self._received_events = self._received_events, 0
        deltas, self._counted_deltas = (
            self.received_deltas - self._counted_deltas,
            self.received_deltas,
        )
        metrics.RECEIVED_EVENTS.add(received)
        metrics.RECEIVED_DELTAS.add(deltas)
        metrics.RECEIVED_BYTES.add(size_bytes)
        metrics.LOGGED_EVENTS.add(logged)

    async def finish(
        self,
        closing: Iterable[canonical.Event],
        ending: Ending,
        *,
        t: int,
        attempt: AttemptOutcome | None = None,
    ) -> canonical.Result:
        """Commits what is pending, then the closing events with the one ``chat.end``, the result,
        the terminal status and the outcome of the last attempt in one transaction. Raises
        ``OwnershipLost``."""
        self._is_closing = True
        self._wanted.set()
        await self._pump
        is_large = (
            self._memory.held(self._run_pk) >= LARGE_TEXT_BYTES
            or self.received_bytes >= LARGE_BYTES
        )
        async with self._memory.turn(is_large=is_large):
            return await self._end(closing, ending, t, attempt, is_large=is_large)

    async def _end(
        self,
        closing: Iterable[canonical.Event],
        ending: Ending,
        t: int,
        attempt: AttemptOutcome | None,
        *,
        is_large: bool,
    ) -> canonical.Result:
        if is_large:
            # In a thread, because the event loop would be blocked for too long.
            ended = await asyncio.to_thread(self._conclude, closing, ending, t)
            if self._memory.held(self._run_pk) >= LARGE_BYTES:
                await asyncio.to_thread(return_memory)
        else:
            ended = self._conclude(closing, ending, t)
        entries, result, columns = ended
        bodies = [entry.body for entry in entries]
        if is_short(result):
            prepared = prepare_outcome(self._run_pk, result, bodies)
        else:
            prepared = await self._threads.call_until_there(
                prepare_outcome, self._run_pk, result, bodies
            )
        self.has_consequences = has_consequences(result, prepared)
        write = self._write(
            entries,
            columns={**self._columns, **columns},
            result=result,
            prepared=prepared,
            attempt=attempt,
        )
        await self._writer.append(write)
        self._publish(entries)
        return result

    def _conclude(
        self, closing: Iterable[canonical.Event], ending: Ending, t: int
    ) -> tuple[list[LogEntry], canonical.Result, dict[str, object]]:
        entries = self._number(closing)
        end = canonical.ChatEnd(result=self.fold.result(ending), t=t)
        # The result has the text as a whole; the pieces would be in memory beside it.
        self.fold = Fold()
        entries += self._number([end])
        return entries, end.result, columns_of(end)

    async def abandon(self) -> None:
        """Stops writing without an ending: another runner owns the run, or the process is ending."""
        _open.discard(self)
        self._pump.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._pump
        self._hold(0)
        self._memory.forget(self._run_pk)


# The open logs, for the metrics.
_open: WeakSet[RunLog] = WeakSet()
metrics.PENDING_BYTES.read_from(lambda: {"": sum(log.pending_bytes for log in _open)})
