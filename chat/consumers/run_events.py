"""A run's log as JSON over SSE, for programs."""

from __future__ import annotations

import asyncio
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, QueryDict

from chat import access
from chat.actions.tokens import find_token
from chat.consumers.following import following, type_of
from chat.consumers.identity import identity_of_token, token_of
from chat.consumers.streams import STREAM_HEADERS, Refused, Stream
from chat.events import JsonObject
from chat.live.hub import THREAD_BYTES
from chat.live.viewer import HEARTBEAT_SECONDS
from chat.live.watch import Identity, Room, watch
from chat.models import User
from chat.programs.errors import UNKNOWN_TOKEN, no_such_run, of_status
from chat.runs.database import readers
from chat.runs.line import Line
from chat.runs.public import public_json
from chat.runs.tail import Entry
from chat.wire.sse import encode_comment, encode_frame


class RunEvents(Stream):
    """``GET /api/v1/runs/<id>/events?after=N``: a run's events from N on, until chat.end."""

    rooms: set[UUID]
    user: User
    shows_list = False

    def let_go(self) -> None:
        watch.remove(self)

    # What the watch says: a room's revision, the queue and lists are not part of a run's log.
    def on_room(self, room: Room) -> None:
        return

    def on_line(self, line: Line) -> None:
        return

    def on_list(self, version: str, *, pause_seconds: float) -> None:
        return

    def on_gone(self, reason: str) -> None:
        watch.remove(self)
        if self.streaming is not None:
            self.streaming.cancel()

    async def admitted(self) -> Identity:
        """With a token, which reaches one team, or by a session. Never by the one for the other."""
        self.user = self.scope["user"]
        authorization = self.header(b"authorization")
        if self.scope["method"] != "GET" or not authorization:
            return await super().admitted()
        token = await readers.call(find_token, token_of(authorization))
        if token is None:
            raise Refused(401, "invalid_api_key", UNKNOWN_TOKEN)
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
        if not watch.has_room_for(user.pk):
            raise Refused(429, "too_many", "You have too many streams open.")
        self.rooms = {run.conversation.public_id}
        watch.add(self)
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


async def _encode(entries: list[Entry], run_id: UUID) -> bytes:
    if sum(len(entry.body) for entry in entries) > THREAD_BYTES:
        return await asyncio.to_thread(_encode_now, entries, run_id)
    return _encode_now(entries, run_id)


def _encode_now(entries: list[Entry], run_id: UUID) -> bytes:
    return b"".join(
        encode_frame(type_of(entry), entry.seq, public_json(entry, run_id)) for entry in entries
    )
