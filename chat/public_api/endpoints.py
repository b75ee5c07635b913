"""The API for programs: requests with an access token, answered in LM Studio's shape."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import ClassVar
from uuid import UUID

import msgspec
from asgiref.typing import HTTPDisconnectEvent, HTTPRequestEvent
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils.translation import gettext

from chat import access
from chat.accounts.actions.tokens import find_token
from chat.conversations.actions.conversation import stop_run
from chat.core.process import ProcessPhase, process
from chat.core.threads import DatabaseThreads
from chat.live.access_monitor import GONE_SIGNED_OUT, GONE_UNSURE, Identity, Room, access_monitor
from chat.live.channels import Channel, Subscriptions
from chat.live.handshake import identity_of_token, token_of
from chat.live.sse import AWAY, DATA_HEADERS, STREAM_HEADERS, Refused, Stream
from chat.models import AccessToken, Run
from chat.public_api import answers
from chat.public_api.answer_stream import AnswerStream, stopping, threads
from chat.public_api.catalogue import model_list, project_list
from chat.public_api.errors import (
    TOO_MANY_STREAMS,
    ApiError,
    bad_token,
    invalid,
    no_such_run,
    of_status,
)
from chat.public_api.idempotency import LONGEST_KEY, idempotency_key
from chat.public_api.requests import ChatRequest, read_request
from chat.public_api.sending import send
from chat.rendering.figures import size
from chat.runs.queue import QueuePositions, read_queue

JSON = (b"Content-Type", b"application/json; charset=utf-8")
NOT_STORED = (b"Cache-Control", b"no-store")


class Program(Stream):
    """A request with an access token. Cookies are ignored, so there is no cross-site forgery."""

    method: ClassVar[bytes] = b"GET"
    threads: ClassVar[DatabaseThreads] = threads
    token: AccessToken

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._body: list[bytes] = []
        self._body_bytes = 0

    async def serve(self) -> None:
        """Answers the request, or raises ``ApiError`` before anything was written."""
        raise NotImplementedError

    async def http_request(self, message: HTTPRequestEvent) -> None:
        """Reads the body, up to the accepted size."""
        body = message.get("body", b"")
        self._body_bytes += len(body)
        if self._body_bytes <= settings.MAX_UPLOAD_BYTES:
            self._body.append(body)
        if not message.get("more_body", False):
            await super().http_request(message)

    async def admitted(self) -> Identity:
        """The identity of the token's user. Raises ``Refused`` for a wrong method or token."""
        if self.scope["method"] != self.method.decode():
            raise Refused(
                405,
                "method_not_allowed",
                gettext("Method not allowed. Use %(method)s.") % {"method": self.method.decode()},
            )
        token = await self.threads.call(find_token, token_of(self.header(b"authorization")))
        if token is None:
            raise Refused(401, "invalid_api_key", str(bad_token()))
        self.token = token
        return identity_of_token(token)

    async def stream(self) -> None:
        try:
            await self.serve()
        except ApiError as error:
            await self._send_error(error)

    async def refuse(self, refusal: Refused) -> None:
        """Refuses an unread request, in the shape of all errors here."""
        await self._send_error(of_status(refusal.status, refusal.sentence, code=refusal.code))

    async def _send_error(self, error: ApiError) -> None:
        headers = []
        if error.status == 401:
            headers.append((b"WWW-Authenticate", b"Bearer"))
        if error.status == 405:
            headers.append((b"Allow", self.method))
        if error.retry_after_seconds is not None:
            headers.append((b"Retry-After", b"%d" % error.retry_after_seconds))
        with suppress(Exception):
            await self.send_json(error.status, error.body, *headers)

    async def send_json(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        await self.send_response(status, body, headers=[JSON, NOT_STORED, *DATA_HEADERS, *headers])


class Answering(Program):
    """A request that is answered with one value."""

    async def serve(self) -> None:
        found = await self.threads.call(self.read)
        await self.send_json(200, await asyncio.to_thread(msgspec.json.encode, found))

    def read(self) -> object:
        """The value, read in a database thread."""
        raise NotImplementedError


class Models(Answering):
    """``GET /api/v1/models``."""

    def read(self) -> object:
        return model_list(self.token.user, self.token.team)


class Projects(Answering):
    """``GET /api/v1/projects``."""

    def read(self) -> object:
        return project_list(self.token)


class RunState(Answering):
    """``GET /api/v1/runs/<id>``: the state, and the result once there is one."""

    def read(self) -> object:
        run = get_run(self.token, self.scope["url_route"]["kwargs"]["run_id"])
        line = read_queue() if run.is_live else QueuePositions()
        return answers.run_state(run, place=line.numbers.get(run.public_id))


class RunStop(Answering):
    """``POST /api/v1/runs/<id>/stop``. A repeated request gets the same response."""

    method = b"POST"
    threads = stopping

    def read(self) -> object:
        run = get_run(self.token, self.scope["url_route"]["kwargs"]["run_id"])
        stop_run(self.token.user, run)
        return answers.run_state(get_run(self.token, run.public_id))


class _Position(Channel):
    """The position of a client's run, for its answer."""

    name = "queue"

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self.asks = True

    def check(self, rooms: Sequence[Room], found: QueuePositions | None) -> None:
        if found is not None and self._chat.answering is not None:
            self._chat.answering.set_position(found)


class Chat(Program):
    """``POST /api/v1/chat``: a message, and its answer as a stream or as a whole.

    The run is durable: it continues when the client disconnects, unless the request asked
    otherwise.
    """

    method = b"POST"

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.rooms: set[UUID] = set()
        self._sending: asyncio.Future[Run] | None = None
        self._stops_on_disconnect = False
        self._is_over = False
        self._gone = ""
        self.answering: AnswerStream | None = None
        self.channels = Subscriptions(_Position(self))

    # --- notifications --------------------------------------------------------------------

    def on_gone(self, reason: str) -> None:
        access_monitor.remove(self)
        self._gone = reason
        if self.streaming is not None:
            self.streaming.cancel()

    def release(self) -> None:
        access_monitor.remove(self)

    # --- the request -----------------------------------------------------------------------

    async def serve(self) -> None:
        request = await self._read()
        if not access_monitor.has_room_for(self.token.user_id):
            raise of_status(429, str(TOO_MANY_STREAMS), code="too_many")
        key = self._key()
        self._stops_on_disconnect = request.stops_on_disconnect or self._says_stop()
        # The request counts from here on, so simultaneous requests beyond the limit are refused.
        access_monitor.add(self)
        try:
            run = await self._send(request, key)
            self.rooms = {run.conversation.public_id}
            if request.streams:
                await self._stream_answer(run, request)
            else:
                await self._give_answer(run, request)
        except asyncio.CancelledError:
            if not self._gone or self.has_begun:
                raise
            # The program still gets the reason, because no response was written yet.
            await self._send_error(_why_gone(self._gone))

    async def _send(self, request: ChatRequest, key: UUID) -> Run:
        """Creates the run. On cancellation it may still be created; it is then stopped, if the
        request asked for that."""
        self._sending = asyncio.ensure_future(threads.call(send, self.token, request, key))
        # A client that disconnects here does not learn the outcome, and nobody else asks for it.
        self._sending.add_done_callback(_heard)
        return await asyncio.shield(self._sending)

    async def _read(self) -> ChatRequest:
        kind = self.header(b"content-type").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(
                415,
                gettext("The body must be JSON. Send the header Content-Type: application/json."),
                code="unsupported_media_type",
            )
        if self._body_bytes > settings.MAX_UPLOAD_BYTES:
            text = gettext("The body is larger than %(limit)s.")
            limit = size(settings.MAX_UPLOAD_BYTES)
            raise ApiError(413, text % {"limit": limit}, code="too_large")
        body = b"".join(self._body)
        self._body.clear()
        # A body with pictures has megabytes.
        return await asyncio.to_thread(read_request, body)

    def _key(self) -> UUID:
        text = self.header(b"idempotency-key")
        if len(text) > LONGEST_KEY:
            message = gettext("An Idempotency-Key can have up to %(count)d characters.")
            raise invalid(message % {"count": LONGEST_KEY}, param=None, code="invalid_header")
        return idempotency_key(self.token, text) if text else uuid.uuid4()

    def _says_stop(self) -> bool:
        return self.header(b"tributary-on-disconnect").strip().lower() == "stop"

    # --- the answer ------------------------------------------------------------------------

    def _headers(self, run: Run) -> list[tuple[bytes, bytes]]:
        return [
            (b"Tributary-Run", str(run.public_id).encode()),
            (b"Tributary-Conversation", str(run.conversation.public_id).encode()),
        ]

    async def _stream_answer(self, run: Run, request: ChatRequest) -> None:
        await self.send_headers(status=200, headers=[*STREAM_HEADERS, *self._headers(run)])
        self.answering = _stream_of(run, request)
        async with aclosing(self.answering.bodies()) as bodies:
            async for body in bodies:
                await self.send_body(body, more_body=True)
        self._is_over = True
        await self.send_body(b"")

    async def _give_answer(self, run: Run, request: ChatRequest) -> None:
        runs = await _stream_of(run, request).until_over()
        complete = await threads.call(answers.complete, runs, stores=request.stores)
        self._is_over = True
        await self.send_json(complete.status, complete.body, *self._headers(run))

    # --- the client disconnects ------------------------------------------------------------------

    async def http_disconnect(self, message: HTTPDisconnectEvent) -> None:
        try:
            await super().http_disconnect(message)
        finally:
            if self._stops_on_disconnect and self._has_left and self._sending is not None:
                await self._stop_what_was_begun(self._sending)

    @property
    def _has_left(self) -> bool:
        """True if the client disconnected before the end. The server closes the connection itself
        if access ended or the process is shutting down."""
        is_our_doing = bool(self._gone) or process.phase == ProcessPhase.DRAINING
        return not self._is_over and not is_our_doing

    async def _stop_what_was_begun(self, sending: asyncio.Future[Run]) -> None:
        with suppress(ApiError):
            await stopping.call(stop_run, self.token.user, await sending)


def _stream_of(run: Run, request: ChatRequest) -> AnswerStream:
    is_for_client = any(tool.get("is_for_client") for tool in run.tools)
    follows_calls = request.runs_tools is True and not is_for_client
    room = run.conversation.public_id if follows_calls else None
    return AnswerStream(run.public_id, stores=request.stores, room=room)


def _heard(sending: asyncio.Future[Run]) -> None:
    if not sending.cancelled():
        sending.exception()


def _why_gone(reason: str) -> ApiError:
    if reason == GONE_SIGNED_OUT:
        return bad_token()
    if reason == GONE_UNSURE:
        return of_status(503, AWAY, code="storage_busy")
    return no_such_run()


def get_run(token: AccessToken, run_id: UUID) -> Run:
    """A run that this token's user can see in its team. Raises ``ApiError``."""
    try:
        return access.get_run(token.user, run_id, for_write=True, team_id=token.team_id)
    except (Http404, PermissionDenied):
        raise no_such_run() from None
