"""ASGI connections to the application in this process: browser pages and API clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlencode
from uuid import UUID

from chat.live.snapshot import render_answer
from chat.models import Run
from chat.runs.event_buffer import LogEntry
from chat.wire.sse import Decoder, Frame
from project.asgi import application
from project.server.backpressure import SEND_NOW
from tests.rendering.dom import Page
from tests.support.open_blocks import completed
from tests.support.pages import Cursor, cursor_of, page_of

# A deadline for what should happen at once. It costs nothing when it does.
SOON_SECONDS = 30.0
ORIGIN = b"http://localhost:8000"
Header = tuple[bytes, bytes]


async def until(holds: Callable[[], object]) -> None:
    """Polls for what sends no event."""
    async with asyncio.timeout(SOON_SECONDS):
        while not holds():
            await asyncio.sleep(0.005)


class Connection:
    """One ASGI connection. ``sent`` holds everything that the application has sent."""

    def __init__(self, scope: Mapping[str, Any], *opening: Mapping[str, Any]) -> None:
        self.sent: list[dict[str, Any]] = []
        self._inbox: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._changed = asyncio.Event()
        for event in opening:
            self._inbox.put_nowait(event)
        self.task = asyncio.create_task(application(dict(scope), self._inbox.get, self._send))

    async def _send(self, event: dict[str, Any]) -> None:
        self._record(event)

    def _record(self, event: dict[str, Any]) -> None:
        self.sent.append(event)
        self.took(event)
        self._changed.set()

    def took(self, event: dict[str, Any]) -> None:
        """A subclass reads what was sent here, before any waiter is woken."""

    def put(self, event: Mapping[str, Any]) -> None:
        self._inbox.put_nowait(event)

    async def until(self, holds: Callable[[Self], object]) -> None:
        async with asyncio.timeout(SOON_SECONDS):
            while not holds(self):
                self._changed.clear()
                await self._changed.wait()

    async def leave(self, event: Mapping[str, Any]) -> None:
        """Disconnects; returns when the application has finished with this connection."""
        self.put(event)
        async with asyncio.timeout(SOON_SECONDS):
            await asyncio.wait({self.task})
        error = None if self.task.cancelled() else self.task.exception()
        assert error is None, repr(error)


def headers_of(session: str, *more: Header) -> list[Header]:
    cookie = [(b"cookie", f"sessionid={session}".encode())] if session else []
    return [(b"host", b"localhost:8000"), *cookie, *more]


def websocket_scope(
    path: str, session: str, origin: bytes = ORIGIN, *, query: bytes = b""
) -> dict[str, Any]:
    return {
        "type": "websocket",
        "path": path,
        "query_string": query,
        "headers": headers_of(session, *([(b"origin", origin)] if origin else [])),
        "subprotocols": [],
    }


class HttpConnection(Connection):
    """A request and its answer, which is a stream of server-sent events unless it is an error."""

    def __init__(
        self,
        path: str,
        session: str,
        *,
        query: bytes = b"",
        headers: Iterable[Header] = (),
        method: str = "GET",
    ) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.is_finished = False
        self._decoder = Decoder()
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query,
            "headers": headers_of(session, *headers),
        }
        super().__init__(scope, {"type": "http.request", "body": b"", "more_body": False})

    def took(self, event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.headers = {name.lower(): value for name, value in event["headers"]}
            return
        self.body += event.get("body", b"")
        for frame in self._decoder.feed(event.get("body", b"")):
            self.take_frame(frame)
        self.is_finished = not event.get("more_body", False)

    def take_frame(self, frame: Frame) -> None:
        raise NotImplementedError

    async def until_answered(self) -> Self:
        await self.until(lambda one: one.status)
        return self

    async def until_finished(self) -> Self:
        await self.until(lambda one: one.is_finished)
        return self

    @property
    def error_code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])

    async def close(self) -> None:
        await self.leave({"type": "http.disconnect"})


class Program(HttpConnection):
    """An API client that reads the events of a run."""

    def __init__(
        self,
        run: UUID | str,
        session: str = "",
        *,
        query: bytes = b"",
        headers: Iterable[Header] = (),
        method: str = "GET",
    ) -> None:
        self.frames: list[Frame] = []
        path = f"/api/v1/runs/{run}/events"
        super().__init__(path, session, query=query, headers=headers, method=method)

    def take_frame(self, frame: Frame) -> None:
        if frame.event:
            self.frames.append(frame)

    @property
    def seqs(self) -> list[int]:
        return [int(frame.id or 0) for frame in self.frames]


class LivePage(Connection):
    """A page that applies the patches it is sent, whatever connection brings them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.messages: list[dict[str, Any]] = []
        self.pages: dict[UUID, Page] = {}
        self.held: dict[UUID, dict[str, str]] = {}
        self.cursors: dict[UUID, Cursor] = {}
        self._rendered_anew: set[UUID] = set()
        super().__init__(*arguments, **options)

    def show(self, run: UUID, entries: Sequence[LogEntry], cursor: Cursor | None = None) -> Cursor:
        """The page shows these events of a run. With ``cursor`` it claims another position."""
        if run in self.pages:
            self._rendered_anew.add(run)
        self.pages[run] = page_of(run, entries)
        self.held[run] = {}
        self.cursors[run] = cursor or cursor_of(entries)
        return self.cursors[run]

    def take(self, text: str) -> None:
        message = json.loads(text)
        is_frame = "run" in message and "content" in message
        if is_frame:
            # The values that frames leave out.
            message = {"replaces": False, "live": True, **message}
        self.messages.append(message)
        if is_frame:
            self.apply(message)

    def apply(self, frame: dict[str, Any]) -> bool:
        """Returns whether the frame was meant for the page as it is."""
        run = UUID(frame["run"])
        is_misplaced = not frame["replaces"] and frame["after"] != self.cursors[run][0]
        if is_misplaced and run in self._rendered_anew:
            # It crossed the new rendering on its way. Real pages drop it as well.
            return False
        # A patch for another position would tear the page.
        assert not is_misplaced
        self.pages[run].apply(completed(frame, self.held[run]))
        self.cursors[run] = frame["seq"], frame["check"]
        return True

    @property
    def said(self) -> list[dict[str, Any]]:
        """All messages but heartbeats."""
        return [message for message in self.messages if "heartbeat" not in message]

    @property
    def heartbeats(self) -> int:
        return len(self.messages) - len(self.said)

    def said_on(self, channel: str) -> list[dict[str, Any]]:
        return [message for message in self.said if message.get("channel") == channel]

    def frames(self, run: UUID) -> list[dict[str, Any]]:
        return [one for one in self.messages if one.get("run") == run.hex]

    async def until_seq(self, run: UUID, seq: int) -> None:
        await self.until(lambda tab: tab.cursors[run][0] >= seq)

    async def until_over(self, run: UUID) -> None:
        await self.until(lambda tab: any(not frame["live"] for frame in tab.frames(run)))


class Tab(LivePage):
    """A page with its websocket. It acknowledges what it has applied unless ``is_deaf``.

    Every fourth time its server cannot send at once.
    """

    def __init__(self, session: str = "", *, origin: bytes = ORIGIN, is_deaf: bool = False) -> None:
        self.close_code: int | None = None
        self.sent_at_once = 0
        self._asked_at_once = 0
        self.received_bytes = 0
        self._is_deaf = is_deaf
        scope = websocket_scope("/live/", session, origin)
        super().__init__(scope | {SEND_NOW: self.send_now}, {"type": "websocket.connect"})

    def send_now(self, text: str) -> bool:
        self._asked_at_once += 1
        self.sending(text)
        if self._asked_at_once % 4 == 0:
            return False
        self.sent_at_once += 1
        self._record({"type": "websocket.send", "text": text})
        return True

    def sending(self, text: str) -> None:
        """A test replaces this to make sending fail."""

    def took(self, event: dict[str, Any]) -> None:
        if event["type"] == "websocket.close":
            self.close_code = event.get("code", 1000)
        if event["type"] == "websocket.send":
            self.take(event["text"])

    def apply(self, frame: dict[str, Any]) -> bool:
        self.received_bytes += len(json.dumps(frame))
        is_applied = super().apply(frame)
        if is_applied and not self._is_deaf:
            self.acknowledge(UUID(frame["run"]))
        return is_applied

    def acknowledge(self, run: UUID) -> None:
        self.say(type="ack", runs={run.hex: self.cursors[run][0]})

    def say(self, **message: object) -> None:
        self.say_text(json.dumps(message))

    def say_text(self, text: str) -> None:
        self.put({"type": "websocket.receive", "text": text})

    def hello(self, room: UUID | None = None, revision: int = 0, **channels: object) -> None:
        """``channels``: what it says to channels beside those of every page."""
        said = channels_of_page(revision) | channels
        self.say(type="hello", room=room and room.hex, runs=[], channels=said)

    def say_to(self, **channels: object) -> None:
        self.say(type="channels", channels=channels)

    def follow(
        self, run: UUID, entries: Sequence[LogEntry] = (), *, cursor: Cursor | None = None
    ) -> None:
        """Follows from a page that shows ``entries``. With ``cursor`` it claims another position."""
        seq, check = self.show(run, entries, cursor)
        self.say(type="follow", run=run.hex, seq=seq, check=check, holds=True)

    async def until_closed(self) -> None:
        await self.until(lambda tab: tab.close_code is not None)

    async def close(self) -> None:
        await self.leave({"type": "websocket.disconnect", "code": 1001})


Shown = tuple[UUID, Sequence[LogEntry]]


class StreamTab(LivePage, HttpConnection):
    """A page where websockets are blocked: its address says what it shows, and it only listens.

    ``shown`` are the runs on the page with their events. With ``cursor`` it claims another position.
    """

    def __init__(
        self,
        *shown: Shown,
        session: str = "",
        room: UUID | None = None,
        revision: int = 0,
        channels: dict[str, object] | None = None,
        cursor: Cursor | None = None,
        wait: str | None = None,
        hello: str | None = None,
        headers: Iterable[Header] = (),
        method: str = "GET",
    ) -> None:
        greeting = {
            "type": "hello",
            "room": room and room.hex,
            "runs": [cursor_message(run, cursor or cursor_of(entries)) for run, entries in shown],
            "channels": channels_of_page(revision) | (channels or {}),
        }
        query = {"hello": json.dumps(greeting) if hello is None else hello}
        query |= {"wait": wait} if wait else {}
        super().__init__(
            "/live/stream/",
            session,
            query=urlencode(query).encode(),
            headers=headers,
            method=method,
        )
        for run, entries in shown:
            self.show(run, entries, cursor)

    def take_frame(self, frame: Frame) -> None:
        if not frame.is_comment:
            self.take(frame.data)


def channels_of_page(revision: int) -> dict[str, object]:
    """What a page says to its channels if it tells nothing of its turns and has no list."""
    return {"queue": {}, "page": {"revision": revision}}


def cursor_message(run: UUID, cursor: Cursor) -> dict[str, Any]:
    return {"run": run.hex, "seq": cursor[0], "check": cursor[1], "holds": True}


def fresh_page(run: Run) -> Page:
    """What a reload would show."""
    rendered = render_answer(run)
    return Page(rendered.run_id, rendered.html, rendered.phase_html)
