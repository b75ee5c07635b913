"""The log of one run while it is written: number, commit, publish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from chat import events as canonical
from chat.core import metrics
from chat.core.waiting import Signal
from chat.models import Run
from chat.result import Fold
from chat.result.deferred_tools import has_deferred
from chat.runs.answer_memory import AnswerMemory, held_bytes
from chat.runs.budget import Budget, RunBudget
from chat.runs.delta_merger import DeltaMerger
from chat.runs.event_buffer import EventBuffer, LogEntry
from chat.runs.segments import SegmentWrite, bodies_of
from chat.runs.writer import SegmentWriter

_TOKENS = (canonical.MessageDelta, canonical.ReasoningDelta, canonical.ToolCallDelta)
# How long the first event waits for a second one. Most servers send a first frame that only names the
# model together with the first text, and a commit of its own costs as much as that of the text.
START_SECONDS = 0.05


def nothing() -> None:
    """Does nothing: there is no source to drain."""


class RunLog:
    """Numbers events, commits them, and only then publishes them.

    Adjacent deltas are merged while the previous commit is running, so the log has no more events
    than commits need. `chat.runs.ending` ends it.
    """

    def __init__(
        self,
        run: Run,
        *,
        runner: UUID,
        writer: SegmentWriter,
        buffer: EventBuffer,
        budget: Budget | None = None,
        memory: AnswerMemory | None = None,
        on_first_event: Callable[[], None] = lambda: None,
    ) -> None:
        self.fold = Fold()
        self.seq = 0
        # Counts of what the upstream has sent and the log has written.
        self.received_deltas = 0
        self.received_bytes = 0
        # True if the times of the first event and the first token are known.
        self.has_begun = False
        # Called right before a commit: the reader adds what it has received.
        self.drain_source: Callable[[], None] = nothing
        self.memory = memory or AnswerMemory(settings.ANSWERS_BYTES)
        self.run_pk = run.pk
        self._run_id = run.public_id
        self._defers_tools = has_deferred(run.tools)
        self._conversation_pk = run.conversation_id
        self._runner = runner
        self._writer = writer
        self._buffer = buffer
        self._budget = RunBudget(budget or Budget(settings.PENDING_BYTES))
        self._on_first_event = on_first_event
        self._is_first_event_noted = False
        self._merger = DeltaMerger()
        self._raw: list[bytes] = []
        self._raw_bytes = 0
        self._writing_bytes = 0
        # Columns of the run's row that the next commit sets.
        self._columns: dict[str, object] = {}
        self._is_commit_requested = False
        self._is_closing = False
        self._wanted = Signal()
        self._flushed = Signal()
        self._flushed.set()
        self._pump = asyncio.create_task(
            self._commit_until_closed(), name=f"log-{run.public_id.hex}"
        )

    async def commit_opening(
        self, committed: Iterable[canonical.Event], opening: Iterable[canonical.Event]
    ) -> None:
        """Continues after the events that an earlier attempt has ``committed``, and commits ``opening``
        before it returns. Call once, before `add`. Raises ``OwnershipLost``."""
        for event in committed:
            self.seq = event.seq
            self.fold.add(event)
        entries = self.number(opening)
        if entries:
            await self.commit(self.new_write(entries))

    # --- in ------------------------------------------------------------------------

    def add(self, events: Sequence[canonical.Event], *, raw: bytes = b"") -> None:
        """Adds events in order, with the raw bytes they came from."""
        if events and not self.has_begun:
            self._note_times(events)
            self._mark_start(events)
        self._merger.add(events)
        if raw:
            self._raw.append(raw)
            self._raw_bytes += len(raw)
            self.received_bytes += len(raw)
        # Raw bytes without events are written with the next event.
        if self._merger.event_count:
            self._hold(writing_bytes=self._writing_bytes)
            self._flushed.clear()
        self._wanted.set()

    def _note_times(self, events: Sequence[canonical.Event]) -> None:
        now = timezone.now()
        if not self._is_first_event_noted:
            self._is_first_event_noted = True
            self._columns["first_event_at"] = now
            self._on_first_event()
        if any(isinstance(event, _TOKENS) for event in events):
            self._columns["first_token_at"] = now
            self.has_begun = True

    def _mark_start(self, events: Sequence[canonical.Event]) -> None:
        """Lets viewers know how the calls of the run are to be read."""
        for event in events if self._defers_tools else ():
            if isinstance(event, canonical.ChatStart):
                event.defers_tools = True

    def request_commit(self) -> None:
        """Requests a commit of the events that `drain_source` will add."""
        self._is_commit_requested = True
        self._flushed.clear()
        self._wanted.set()

    def _hold(self, *, writing_bytes: int) -> None:
        self._writing_bytes = writing_bytes
        # Bytes without events do not count as waiting for the database.
        waiting_bytes = self._merger.size_bytes + self._raw_bytes if self._merger.event_count else 0
        self._budget.hold(waiting_bytes, writing_bytes)

    @property
    def has_room(self) -> bool:
        """True if `room` would return at once."""
        return self._budget.has_room and not self._pump.done()

    async def room(self) -> None:
        """Waits until the uncommitted bytes of this run and of all runs are within their limits. Raises the
        error that ended the log, such as lost ownership."""
        waiting = asyncio.create_task(self._budget.wait_for_room())
        try:
            await asyncio.wait({waiting, self._pump}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._pump.done():
            self._pump.result()

    @property
    def limit_reached(self) -> int:
        """The limit for the text in memory that this answer has passed, in bytes; otherwise 0."""
        return self.memory.share_bytes if self.memory.must_end(self.run_pk) else 0

    async def flushed(self, seconds: float) -> None:
        """Waits until everything added or requested is committed, at most ``seconds``."""
        await self._flushed.wait(seconds)

    @property
    def ended(self) -> asyncio.Task[None]:
        """A task that is done when the log cannot be written any more."""
        return self._pump

    # --- out -----------------------------------------------------------------------

    async def _commit_until_closed(self) -> None:
        while not (self._is_closing and not self._merger.event_count):
            await self._wanted.wait()
            self._wanted.clear()
            if self.seq == 0 and self._merger.has_only_start and not self._is_closing:
                await self._wanted.wait(START_SECONDS)
                self._wanted.clear()
            # SSE comments alone need no commit; their bytes are written with the next events.
            if self._merger.event_count or self._is_commit_requested:
                await self._commit_pending()
            if not self._merger.event_count:
                self._flushed.set()

    async def _commit_pending(self) -> None:
        # A method of its own, so that the write is not kept while the log waits for the next one.
        write = await self._writer.append_at_commit(self.run_pk, self._take_write)
        if write is not None:
            self._publish(write.entries)

    def _take_write(self) -> SegmentWrite | None:
        """Called right before the commit, so that it includes events of the pause before it."""
        self.drain_source()
        self._is_commit_requested = False
        if not self._merger.event_count:
            return None
        self.received_deltas += self._merger.delta_count
        metrics.RECEIVED_EVENTS.add(self._merger.event_count)
        metrics.RECEIVED_DELTAS.add(self._merger.delta_count)
        events = self._merger.pop_events()
        entries = self.number(events)
        self.memory.add(self.run_pk, held_bytes(events, entries))
        write = self.new_write(entries)
        self._hold(writing_bytes=write.size_bytes)
        return write

    async def close(self) -> None:
        """Commits what is pending. Then nothing may be added. Raises the error that ended the log."""
        self._is_closing = True
        self._wanted.set()
        await self._pump

    async def commit(self, write: SegmentWrite) -> None:
        """Commits and publishes what `new_write` has made, before `add` or after `close`."""
        await self._writer.append(write)
        self._publish(write.entries)

    def number(self, events: Iterable[canonical.Event]) -> list[LogEntry]:
        """Gives the events the next numbers, and adds them to the fold."""
        numbered = list(events)
        for event in numbered:
            self.seq += 1
            event.seq = self.seq
            self.fold.add(event)
        return bodies_of(numbered)

    def new_write(self, entries: list[LogEntry]) -> SegmentWrite:
        """These entries, with the raw bytes and the columns that have come since the last write."""
        raw, self._raw, self._raw_bytes = b"".join(self._raw), [], 0
        columns, self._columns = self._columns, {}
        metrics.RECEIVED_BYTES.add(len(raw))
        metrics.LOGGED_EVENTS.add(len(entries))
        return SegmentWrite(
            run_pk=self.run_pk,
            runner=self._runner,
            entries=entries,
            raw=raw,
            columns=columns,
            conversation_pk=self._conversation_pk,
        )

    def _publish(self, entries: Sequence[LogEntry]) -> None:
        self._hold(writing_bytes=0)
        self._buffer.publish(self._run_id, entries)

    async def abandon(self) -> None:
        """Stops writing without an ending: another runner owns the run, or the process is ending."""
        self._pump.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._pump
        self._budget.hold(0)
        self.memory.forget(self.run_pk)
