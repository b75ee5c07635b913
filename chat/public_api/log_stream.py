"""A run's log as JSON over server-sent events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, QueryDict

from chat import access, events
from chat.accounts.actions.tokens import find_token
from chat.core.threads import readers
from chat.events import JsonObject
from chat.live.access_monitor import Identity, Room, access_monitor
from chat.live.broadcaster import THREAD_BYTES
from chat.live.handshake import identity_of_token, token_of
from chat.live.list_updates import CheckedList
from chat.live.sse import STREAM_HEADERS, Refused, Stream
from chat.live.viewer import HEARTBEAT_SECONDS
from chat.models import User
from chat.public_api.errors import TOO_MANY_STREAMS, UNKNOWN_TOKEN, no_such_run, of_status
from chat.runs.event_buffer import LogEntry
from chat.runs.log_follower import RunGone, follow_log
from chat.runs.public_events import public_json
from chat.runs.queue import QueuePositions
from chat.wire.sse import encode_comment, encode_frame

logger = logging.getLogger(__name__)

# How many batches wait for a client. Beyond that the reader of the log waits as well.
BATCHES_AHEAD = 4


class Following:
    """The batches of one run, from a number on. Created by `following`."""

    def __init__(self) -> None:
        self._batches: asyncio.Queue[list[LogEntry] | None] = asyncio.Queue(BATCHES_AHEAD)

    async def next(self, seconds: float) -> list[LogEntry] | None:
        """The next batch. It is empty after so long without one, or when `wake` was called, and
        ``None`` at the end; do not call it after that."""
        try:
            async with asyncio.timeout(seconds):
                return await self._batches.get()
        except TimeoutError:
            return []

    def wake(self) -> None:
        """Something else is to be sent. If batches are waiting, the reader is awake already."""
        if self._batches.empty():
            self._batches.put_nowait([])

    async def fill(self, run_id: UUID, after: int) -> None:
        """However the log ends, this ends too; otherwise a stream would send heartbeats for
        ever."""
        try:
            async for batch in follow_log(run_id, after):
                await self._batches.put(batch)
        except RunGone:
            pass
        except Exception:
            logger.exception("events.broken run=%s", run_id)
        await self._batches.put(None)


@asynccontextmanager
async def following(run_id: UUID, after: int = 0) -> AsyncIterator[Following]:
    """Moves the log into a short queue, so that a slow client slows down nobody else."""
    batches = Following()
    reading = asyncio.create_task(batches.fill(run_id, after))
    try:
        yield batches
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


def type_of(entry: LogEntry) -> str:
    event = events.decode(entry.body)
    return str(type(event).__struct_config__.tag)


# --- a run's log as JSON over SSE -----------------------------------------------------------------


class RunEvents(Stream):
    """``GET /api/v1/runs/<id>/events?after=N``: a run's events from N on, until ``chat.end``."""

    rooms: set[UUID]
    user: User
    shows_list = False

    def release(self) -> None:
        access_monitor.remove(self)

    # Revisions of rooms, the queue and lists are not part of a run's log.
    def on_room(self, room: Room) -> None:
        return

    def on_queue(self, line: QueuePositions) -> None:
        return

    def on_list(self, checked: CheckedList) -> None:
        return

    def on_gone(self, reason: str) -> None:
        access_monitor.remove(self)
        if self.streaming is not None:
            self.streaming.cancel()

    async def admitted(self) -> Identity:
        """By a token, which reaches one team, or by a session, but never by one in place of the
        other."""
        self.user = self.scope["user"]
        authorization = self.header(b"authorization")
        if self.scope["method"] != "GET" or not authorization:
            return await super().admitted()
        token = await readers.call(find_token, token_of(authorization))
        if token is None:
            raise Refused(401, "invalid_api_key", str(UNKNOWN_TOKEN))
        self.user = token.user
        return identity_of_token(token)

    def error_of(self, refusal: Refused) -> JsonObject:
        """In the shape of all errors of the API."""
        if refusal.status == 404:
            return no_such_run().error
        return of_status(refusal.status, refusal.sentence, code=refusal.code).error

    async def stream(self) -> None:
        user, team = self.user, self.identity.team_pk
        run_id: UUID = self.scope["url_route"]["kwargs"]["run_id"]
        try:
            run = await readers.call(access.get_run, user, run_id, team_id=team)
        except (Http404, PermissionDenied):
            raise Refused(404, "not_found", access.NOT_HERE) from None
        if not access_monitor.has_room_for(user.pk):
            raise Refused(429, "too_many", str(TOO_MANY_STREAMS))
        self.rooms = {run.conversation.public_id}
        access_monitor.add(self)
        await self.send_headers(status=200, headers=STREAM_HEADERS)
        await self._send_events(run_id, self._after())
        await self.send_body(b"")

    async def _send_events(self, run_id: UUID, after: int) -> None:
        async with following(run_id, after) as batches:
            while (batch := await batches.next(HEARTBEAT_SECONDS)) is not None:
                body = await _encode(batch, run_id) if batch else encode_comment("heartbeat")
                await self.send_body(body, more_body=True)

    def _after(self) -> int:
        query = QueryDict(self.scope["query_string"])
        asked = self.header(b"last-event-id") or query.get("after") or "0"
        # No run has more events than eighteen digits can count.
        return int(asked[:18]) if asked.isascii() and asked.isdigit() else 0


async def _encode(entries: list[LogEntry], run_id: UUID) -> bytes:
    if sum(len(entry.body) for entry in entries) > THREAD_BYTES:
        return await asyncio.to_thread(_encode_now, entries, run_id)
    return _encode_now(entries, run_id)


def _encode_now(entries: list[LogEntry], run_id: UUID) -> bytes:
    return b"".join(
        encode_frame(type_of(entry), entry.seq, public_json(entry, run_id)) for entry in entries
    )
