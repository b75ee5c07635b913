"""An answer as LM Studio's events, even if several runs wrote it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from uuid import UUID

import msgspec
from django.conf import settings

from chat import events as canonical
from chat.core.threads import DatabaseThreads
from chat.dialects.lmstudio.client_events import ClientEvents
from chat.live.broadcaster import THREAD_BYTES
from chat.live.viewer import HEARTBEAT_SECONDS
from chat.models import Run
from chat.public_api import answers
from chat.public_api.call_waiting import CallsState, call_states, calls_state
from chat.public_api.log_stream import Following, encode_events, following
from chat.result.merge import waiting_calls
from chat.runs.event_buffer import LogEntry
from chat.runs.public_events import public_event, with_run
from chat.runs.queue import QueuePositions
from chat.wire.sse import encode_comment, encode_frame

# Separate from the threads of the log followers, because a write may wait for the database's only
# writer.
threads = DatabaseThreads("programs", size=4, answer_seconds=settings.DATABASE_WAIT_SECONDS)
# A stop does not wait behind requests that send messages.
stopping = DatabaseThreads("programs-stop", size=1, answer_seconds=settings.DATABASE_WAIT_SECONDS)


# --- the runs of one answer as one stream (pure) --------------------------------------------------

_OUTCOMES = (canonical.ToolCallSuccess, canonical.ToolCallFailure)


class Joiner:
    """Numbers the items of several runs as one answer. Call ``end_run`` after each run with its
    result, and ``join`` for the events of each run but the first.

    A call that a server runs itself may be requested before a pause and have its outcome after it;
    both are one item, as in `chat.result.merge`.
    """

    def __init__(self) -> None:
        self._count = 0
        # Numbers of the current run, mapped to the numbers in the answer.
        self._numbers: dict[int, int] = {}
        # Calls without an outcome yet, by their ids, and those whose outcome is in this run.
        self._open_calls: dict[str, tuple[int, canonical.ToolCallItem]] = {}
        self._late: dict[int, canonical.ToolCallItem] = {}

    def end_run(self, result: canonical.Result, *, are_calls_given: bool = False) -> None:
        """Keeps the numbers and open calls of a run, before the events of the next one. With ``are_calls_given`` that
        one begins with the outcomes of the calls that waited, in their order."""
        for position, item in enumerate(result.output):
            number = self._number(position)
            if isinstance(item, canonical.ToolCallItem) and _waits_at_its_server(item):
                self._open_calls[item.call_id or ""] = (number, item)
        given = waiting_calls(result) if are_calls_given else []
        self._numbers = {at: self._number(position) for at, (position, _) in enumerate(given)}
        self._late = {}

    def join(self, event: canonical.Event) -> canonical.Event | None:
        """The event with its number in the answer; ``None`` if the answer already has it."""
        if isinstance(event, canonical.ChatStart):
            return None
        if not isinstance(event, canonical.ItemEvent | canonical.ReplayData):
            return event
        if event.item is None or event.choice != 0:
            return event
        if event.item not in self._numbers:
            self._find(event, getattr(event, "call_id", None))
        asked = self._late.get(event.item)
        if asked is not None and not isinstance(event, _OUTCOMES):
            return None
        if asked is not None and isinstance(event, canonical.ToolCallSuccess):
            # Only the run that made the call knows its arguments.
            event.tool, event.arguments = asked.tool, asked.arguments
        event.item = self._number(event.item)
        return event

    def _find(self, event: canonical.ItemEvent | canonical.ReplayData, call_id: str | None) -> None:
        """Gives the item the number of the earlier call that it continues, if any."""
        if call_id in self._open_calls and event.item is not None and call_id is not None:
            self._numbers[event.item], self._late[event.item] = self._open_calls.pop(call_id)

    def _number(self, item: int) -> int:
        if item not in self._numbers:
            self._numbers[item] = self._count
            self._count += 1
        return self._numbers[item]


def _waits_at_its_server(call: canonical.ToolCallItem) -> bool:
    """Returns whether the next run may have the outcome of the call."""
    return bool(call.call_id) and call.status == "pending" and not canonical.is_run_by_client(call)


# --- an answer as a program reads it --------------------------------------------------------------

# The place in the queue is repeated at this interval: another Tributary takes minutes without an
# event for the end of the answer.
PLACE_AGAIN_SECONDS = 60.0
QUEUE = "queue.update"


class AnswerStream:
    """One answer, from its first run through every run that follows a pause.

    ``run_id`` is the current run. With a ``room``, its conversation, a run that waits for calls of ours is such a
    pause.
    Between events the stream sends heartbeats and the place in the
    queue (`set_position`).
    """

    def __init__(self, run_id: UUID, *, stores: bool, room: UUID | None = None) -> None:
        self.run_id = run_id
        # The conversation whose calls are followed.
        self._room = room
        self._runs = [run_id]
        self._joiner = Joiner()
        self._client = ClientEvents()
        self._has_sent_end = False
        self._stores = stores
        self._following: Following | None = None
        self._place: tuple[int, str] | None = None
        self._sent_place: tuple[int, str] | None = None
        self._sent_place_at = 0.0

    def set_position(self, positions: QueuePositions) -> None:
        """Stores the run's place in the queue. Call this on the event loop; it must not wait."""
        number = positions.numbers.get(self.run_id)
        self._place = None if number is None else (number, positions.places.get(self.run_id, ""))
        is_news = self._place not in (None, self._sent_place)
        if is_news and self._following is not None:
            self._following.wake()

    async def bodies(self) -> AsyncGenerator[bytes, None]:
        """The bytes for the client, to the end. It may be cancelled anywhere."""
        async with aclosing(self._batches()) as batches:
            async for batch in batches:
                if batch:
                    yield await self._encoded(batch)
                else:
                    yield self._beat()

    async def until_over(self) -> list[UUID]:
        """Waits for the end, and returns the runs that wrote the answer."""
        async with aclosing(self._batches()) as batches:
            async for _ in batches:
                pass
        return self._runs

    async def _batches(self) -> AsyncGenerator[list[LogEntry], None]:
        """The logs of all runs, with an empty batch after each pause."""
        end: LogEntry | None = None
        is_over = False
        while not is_over:
            async with aclosing(self._run_batches()) as batches:
                async for batch in batches:
                    end = batch[-1] if batch and batch[-1].is_end else None
                    yield batch
            if end is None:
                return
            if self._room is not None and _result_in(end).ext.status == "waiting":
                async with aclosing(self._until_calls_end(end)) as pauses:
                    async for batch in pauses:
                        yield batch
                is_over = self._room is None
            else:
                is_over = not await self._goes_on(end)

    async def _run_batches(self) -> AsyncGenerator[list[LogEntry], None]:
        async with following(self.run_id) as self._following:
            while (batch := await self._following.next(HEARTBEAT_SECONDS)) is not None:
                yield batch
                if batch and batch[-1].is_end:
                    return

    async def _until_calls_end(self, end: LogEntry) -> AsyncGenerator[list[LogEntry], None]:
        """Waits for the run that continues the answer after its calls. If none does, nothing is followed any more, and
        ``end``, which was held back, comes once more."""
        state = CallsState()
        async with aclosing(self._call_states()) as states:
            async for state in states:
                if state.is_waiting:
                    yield []
        if state.next is not None:
            self._joiner.end_run(_result_in(end), are_calls_given=True)
            self._continue_with(state.next)
            return
        self._room = None
        if not self._has_sent_end:
            yield [end]

    async def _call_states(self) -> AsyncGenerator[CallsState, None]:
        if self._has_sent_end or self._room is None:
            yield CallsState()
            return
        async with aclosing(call_states(self.run_id, self._room, threads)) as states:
            async for state in states:
                yield state

    def _continue_with(self, run_id: UUID) -> None:
        self.run_id = run_id
        self._runs.append(run_id)

    async def _goes_on(self, end: LogEntry) -> bool:
        """Returns whether the answer was only paused and another run continues it, which then becomes the
        current one."""
        result = _result_in(end)
        if self._has_sent_end or not answers.has_paused(result):
            return False
        following_run = await threads.call(_run_after, self.run_id)
        if following_run is None:
            return False
        self._joiner.end_run(result)
        self._continue_with(following_run)
        return True

    # --- frames -----------------------------------------------------------------------------

    def _beat(self) -> bytes:
        now = asyncio.get_running_loop().time()
        is_due = now - self._sent_place_at >= PLACE_AGAIN_SECONDS
        if self._place is not None and (self._place != self._sent_place or is_due):
            self._sent_place, self._sent_place_at = self._place, now
            return queue_frame(self.run_id, *self._place)
        return encode_comment("heartbeat")

    async def _encoded(self, batch: list[LogEntry]) -> bytes:
        end = batch[-1] if batch[-1].is_end else None
        entries = batch[:-1] if end is not None else batch
        if sum(len(entry.body) for entry in entries) > THREAD_BYTES:
            body = await asyncio.to_thread(self._frames, entries)
        else:
            body = self._frames(entries)
        return body if end is None else body + await threads.call(self._end_frame, end)

    def _frames(self, entries: list[LogEntry]) -> bytes:
        return b"".join(self._frames_of(entry) for entry in entries)

    def _frames_of(self, entry: LogEntry) -> bytes:
        event: canonical.Event | None = public_event(canonical.decode(entry.body), self.run_id)
        if event is not None and len(self._runs) > 1:
            event = self._joiner.join(event)
        return b"" if event is None else encode_events(self._client.convert(event), self.run_id)

    def _end_frame(self, entry: LogEntry) -> bytes:
        """``chat.end`` with the result of the whole answer, or nothing if it was only paused."""
        if answers.has_paused(_result_in(entry)) and _run_after(self.run_id) is not None:
            return b""
        if self._room is not None:
            state = calls_state(self.run_id)
            if state.is_waiting or state.next is not None:
                return b""
        # Determined once, because someone may continue a paused answer at this moment.
        self._has_sent_end = True
        *before, end = self._client.convert(canonical.decode(entry.body))
        end["result"] = answers.final_result(self._runs, stores=self._stores)
        return encode_events([*before, end], self.run_id)


def queue_frame(run_id: UUID, place: int, message: str) -> bytes:
    """The place of a waiting run, counted from 1. It has no number, because it is not in the
    log."""
    body = {"type": QUEUE, "place": place, "message": message}
    return encode_frame(QUEUE, None, with_run(msgspec.json.encode(body), run_id))


def _result_in(end: LogEntry) -> canonical.Result:
    event = canonical.decode(end.body)
    assert isinstance(event, canonical.ChatEnd)
    return event.result


def _run_after(run_id: UUID) -> UUID | None:
    run = Run.objects.filter(public_id=run_id).first()
    following_run = answers.next_of(run) if run is not None else None
    return following_run.public_id if following_run is not None else None
