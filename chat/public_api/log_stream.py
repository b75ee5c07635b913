"""A run's log as JSON over server-sent events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from uuid import UUID

import msgspec
from django.core.exceptions import PermissionDenied
from django.http import Http404, QueryDict

from chat import access
from chat import events as canonical
from chat.accounts.actions.tokens import find_token
from chat.core.threads import readers
from chat.dialects.lmstudio.client_events import ClientEvents
from chat.events import JsonObject
from chat.live.access_monitor import Identity, access_monitor
from chat.live.broadcaster import THREAD_BYTES
from chat.live.channels import NO_CHANNELS
from chat.live.handshake import identity_of_token, token_of
from chat.live.sse import STREAM_HEADERS, Refused, Stream
from chat.live.viewer import HEARTBEAT_SECONDS
from chat.models import Run, User
from chat.public_api.errors import TOO_MANY_STREAMS, UNKNOWN_TOKEN, no_such_run, of_status
from chat.runs.event_buffer import LogEntry
from chat.runs.log_follower import RunGone, follow_log
from chat.runs.public_events import public_event, with_run
from chat.wire.sse import encode_comment, encode_frame

logger = logging.getLogger(__name__)

# This many batches wait for a client; then the reader of the log waits as well.
BATCHES_AHEAD = 4


class Following:
    """The batches of one run, from a number on. Created by `following`."""

    def __init__(self) -> None:
        self._batches: asyncio.Queue[list[LogEntry] | None] = asyncio.Queue(BATCHES_AHEAD)

    async def next(self, seconds: float) -> list[LogEntry] | None:
        """The next batch; empty after this time without one, or after `wake`, and ``None`` at the
        end; do not call it after that."""
        try:
            async with asyncio.timeout(seconds):
                return await self._batches.get()
        except TimeoutError:
            return []

    def wake(self) -> None:
        """Makes `next` return, so that the stream can send something else."""
        if self._batches.empty():
            self._batches.put_nowait([])

    async def fill(self, run_id: UUID, after: int) -> None:
        """Reads the log. However it ends, the batches end too, or a stream would send heartbeats
        for ever."""
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


# --- a run's log as JSON over SSE -----------------------------------------------------------------


class RunEvents(Stream):
    """``GET /api/v1/runs/<id>/events?after=N``: a run's events from N on, until ``chat.end``."""

    rooms: set[UUID]
    user: User
    channels = NO_CHANNELS

    def release(self) -> None:
        access_monitor.remove(self)

    def on_gone(self, reason: str) -> None:
        access_monitor.remove(self)
        if self.streaming is not None:
            self.streaming.cancel()

    async def admitted(self) -> Identity:
        """The identity by a token, which reaches one team, or by a session, but never by one in
        place of the other."""
        authorization = self.header(b"authorization")
        if self.scope["method"] != "GET" or not authorization:
            identity = await super().admitted()
            self.user = self.scope["user"]
            return identity
        token = await readers.call(find_token, token_of(authorization))
        if token is None:
            raise Refused(401, "invalid_api_key", str(UNKNOWN_TOKEN))
        self.user = token.user
        return identity_of_token(token)

    def error_of(self, refusal: Refused) -> JsonObject:
        """The refusal in the shape of all errors of the API."""
        if refusal.status == 404:
            return no_such_run().error
        return of_status(refusal.status, refusal.sentence, code=refusal.code).error

    async def stream(self) -> None:
        user, team = self.user, self.identity.team_pk
        run_id: UUID = self.scope["url_route"]["kwargs"]["run_id"]
        try:
            run, with_settings = await readers.call(_read_run, user, run_id, team)
        except (Http404, PermissionDenied):
            raise Refused(404, "not_found", access.NOT_HERE) from None
        if not access_monitor.has_room_for(user.pk):
            raise Refused(429, "too_many", str(TOO_MANY_STREAMS))
        self.rooms = {run.conversation.public_id}
        access_monitor.add(self)
        await self.send_headers(status=200, headers=STREAM_HEADERS)
        await self._send_events(run_id, self._after(), with_settings=with_settings)
        await self.send_body(b"")

    async def _send_events(self, run_id: UUID, after: int, *, with_settings: bool) -> None:
        client, beat = ClientEvents(), encode_comment("heartbeat")
        async with following(run_id, after) as batches:
            while (batch := await batches.next(HEARTBEAT_SECONDS)) is not None:
                body = beat
                if batch:
                    body = await _encode(batch, run_id, client, with_settings=with_settings)
                await self.send_body(body, more_body=True)

    def _after(self) -> int:
        query = QueryDict(self.scope["query_string"])
        asked = self.header(b"last-event-id") or query.get("after") or "0"
        # No run has more events than eighteen digits can count.
        return int(asked[:18]) if asked.isascii() and asked.isdigit() else 0


def _read_run(user: User, run_id: UUID, team: int | None) -> tuple[Run, bool]:
    """The run, and whether the user may see the settings that its events repeat."""
    run = access.get_run(user, run_id, team_id=team)
    return run, access.may_see_settings(user, run.conversation)


async def _encode(
    entries: list[LogEntry], run_id: UUID, client: ClientEvents, *, with_settings: bool
) -> bytes:
    encode = partial(encode_entries, entries, run_id, client, with_settings=with_settings)
    if sum(len(entry.body) for entry in entries) > THREAD_BYTES:
        return await asyncio.to_thread(encode)
    return encode()


def encode_entries(
    entries: Iterable[LogEntry],
    run_id: UUID,
    client: ClientEvents,
    *,
    with_settings: bool = True,
) -> bytes:
    """The frames of a part of a log. ``client`` has converted the events before it."""
    decoded = (canonical.decode(entry.body) for entry in entries)
    events = (public_event(each, run_id, with_settings=with_settings) for each in decoded)
    return b"".join(encode_events(client.convert(event), run_id) for event in events)


def encode_events(events: Sequence[JsonObject], run_id: UUID) -> bytes:
    """The frames of one event of the log. Only the last frame has the event's number: a client that
    has read only the others gets all of them again."""
    return b"".join(
        encode_frame(
            event["type"],
            event["seq"] if event is events[-1] else None,
            with_run(msgspec.json.encode(event), run_id),
        )
        for event in events
    )
