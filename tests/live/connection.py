"""Live connections to the application in this process: what goes in, and everything that came out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlencode
from uuid import UUID

from chat import events as canonical
from chat.live.cursor import render_answer
from chat.models import Run
from chat.rendering.patches import Answer
from chat.runs.feed import check_of
from chat.runs.tail import Entry
from chat.wire.sse import Decoder, Frame
from project.asgi import application
from project.outflow import SEND_NOW
from tests.rendering.dom import Page

# A deadline for what should happen at once, on a machine that has other things to do.
SOON_SECONDS = 20.0
ORIGIN = b"http://localhost:8000"
Cursor = tuple[int, str]
BEGINNING: Cursor = (0, "00000000")


class Connection:
    """One ASGI connection. ``sent`` grows; `until` waits for what should be in it."""

    def __init__(self, scope: Mapping[str, Any], *opening: Mapping[str, Any]) -> None:
        self.sent: list[dict[str, Any]] = []
        self._inbox: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._changed = asyncio.Event()
        for event in opening:
            self._inbox.put_nowait(event)
        self.task = asyncio.create_task(application(dict(scope), self._inbox.get, self._send))

    async def _send(self, event: dict[str, Any]) -> None:
        self.sent.append(event)
        self.took(event)
        self._changed.set()

    def took(self, event: dict[str, Any]) -> None:
        """For those who look into what was sent, before anybody is woken."""

    def put(self, event: Mapping[str, Any]) -> None:
        self._inbox.put_nowait(event)

    async def until(self, holds: Callable[[Self], object]) -> None:
        async with asyncio.timeout(SOON_SECONDS):
            while not holds(self):
                self._changed.clear()
                await self._changed.wait()

    async def leave(self, event: Mapping[str, Any]) -> None:
        """The client is gone; returns when the application has let go."""
        self.put(event)
        async with asyncio.timeout(SOON_SECONDS):
            await asyncio.wait({self.task})
        error = None if self.task.cancelled() else self.task.exception()
        assert error is None, repr(error)


def headers_of(session: str, *more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    cookie = [(b"cookie", f"sessionid={session}".encode())] if session else []
    return [(b"host", b"localhost:8000"), *cookie, *more]


class Watching(Connection):
    """A page with whatever brings it the patches: applies them, and knows where it stands."""

    def __init__(self, scope: Mapping[str, Any], *opening: Mapping[str, Any]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.pages: dict[UUID, Page] = {}
        self.cursors: dict[UUID, Cursor] = {}
        self._rendered_anew: set[UUID] = set()
        super().__init__(scope, *opening)

    def show(self, run: UUID, entries: Sequence[Entry], cursor: Cursor | None = None) -> Cursor:
        """The page shows these events of a run; ``cursor`` says something else than it shows."""
        if run in self.pages:
            self._rendered_anew.add(run)
        self.pages[run] = page_of(run, entries)
        self.cursors[run] = cursor or cursor_of(entries)
        return self.cursors[run]

    def take(self, text: str) -> None:
        message = json.loads(text)
        self.messages.append(message)
        if "content" in message:
            self.apply(message)

    def apply(self, frame: dict[str, Any]) -> bool:
        """Whether the frame was for the page as it is."""
        run = UUID(frame["run"])
        is_misplaced = not frame["replaces"] and frame["after"] != self.cursors[run][0]
        if is_misplaced and run in self._rendered_anew:
            # It crossed the new rendering on its way; pages drop it.
            return False
        # A patch for a page that stands elsewhere would tear this one.
        assert not is_misplaced
        self.pages[run].apply(frame["content"])
        self.cursors[run] = frame["seq"], frame["check"]
        return True

    @property
    def said(self) -> list[dict[str, Any]]:
        """Everything but the proof that the connection lives."""
        return [message for message in self.messages if "heartbeat" not in message]

    def frames(self, run: UUID) -> list[dict[str, Any]]:
        return [one for one in self.messages if one.get("run") == run.hex]

    async def until_seq(self, run: UUID, seq: int) -> None:
        await self.until(lambda tab: tab.cursors[run][0] >= seq)

    async def until_over(self, run: UUID) -> None:
        await self.until(lambda tab: any(not frame["live"] for frame in tab.frames(run)))


class Tab(Watching):
    """A page with its websocket; acknowledges what it has applied unless it is ``deaf``.

    Now and then its server cannot send at once.
    """

    def __init__(self, session: str = "", *, origin: bytes = ORIGIN, is_deaf: bool = False) -> None:
        self.close_code: int | None = None
        self.sent_at_once = 0
        self._asked_at_once = 0
        self.received_bytes = 0
        self._is_deaf = is_deaf
        scope = {
            "type": "websocket",
            "path": "/live/",
            "query_string": b"",
            "headers": headers_of(session, *([(b"origin", origin)] if origin else [])),
            "subprotocols": [],
            SEND_NOW: self.send_now,
        }
        super().__init__(scope, {"type": "websocket.connect"})

    def send_now(self, text: str) -> bool:
        self._asked_at_once += 1
        self.sending(text)
        if self._asked_at_once % 4 == 0:
            return False
        self.sent_at_once += 1
        event = {"type": "websocket.send", "text": text}
        self.sent.append(event)
        self.took(event)
        self._changed.set()
        return True

    def sending(self, text: str) -> None:
        """For those who want something to go wrong there."""

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

    def hello(self, room: UUID | None = None, revision: int = 0) -> None:
        self.say(type="hello", room=room and room.hex, revision=revision, runs=[])

    def follow(
        self, run: UUID, entries: Sequence[Entry] = (), *, cursor: Cursor | None = None
    ) -> None:
        """Follows from a page that shows ``entries``; ``cursor`` says something else than it shows."""
        seq, check = self.show(run, entries, cursor)
        self.say(type="follow", run=run.hex, seq=seq, check=check)

    async def until_closed(self) -> None:
        await self.until(lambda tab: tab.close_code is not None)

    async def close(self) -> None:
        await self.leave({"type": "websocket.disconnect", "code": 1001})


Shown = tuple[UUID, Sequence[Entry]]


class StreamTab(Watching):
    """A page where websockets are blocked: its address says what it shows, and it only listens.

    ``shown`` are the runs on the page with their events; ``cursor`` says something else than that.
    """

    def __init__(
        self,
        session: str = "",
        *shown: Shown,
        room: UUID | None = None,
        revision: int = 0,
        cursor: Cursor | None = None,
        wait: str | None = None,
        hello: str | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
        method: str = "GET",
    ) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.is_finished = False
        self._decoder = Decoder()
        greeting = {
            "type": "hello",
            "room": room and room.hex,
            "revision": revision,
            "runs": [cursor_message(run, cursor or cursor_of(entries)) for run, entries in shown],
        }
        query = {"hello": json.dumps(greeting) if hello is None else hello}
        scope = {
            "type": "http",
            "method": method,
            "path": "/live/stream/",
            "raw_path": b"/live/stream/",
            "root_path": "",
            "query_string": urlencode(query | ({"wait": wait} if wait else {})).encode(),
            "headers": headers_of(session, *headers),
        }
        super().__init__(scope, {"type": "http.request", "body": b"", "more_body": False})
        for run, entries in shown:
            self.show(run, entries, cursor)

    def took(self, event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.headers = {name.lower(): value for name, value in event["headers"]}
            return
        self.body += event.get("body", b"")
        for frame in self._decoder.feed(event.get("body", b"")):
            if not frame.is_comment:
                self.take(frame.data)
        self.is_finished = not event.get("more_body", False)

    async def until_finished(self) -> None:
        await self.until(lambda tab: tab.is_finished)

    async def close(self) -> None:
        await self.leave({"type": "http.disconnect"})


def cursor_message(run: UUID, cursor: Cursor) -> dict[str, Any]:
    return {"run": run.hex, "seq": cursor[0], "check": cursor[1]}


class Program(Connection):
    """Reads the events of a run as a program does."""

    def __init__(
        self,
        run: UUID | str,
        session: str = "",
        *headers: tuple[bytes, bytes],
        query: bytes = b"",
        method: str = "GET",
    ) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.frames: list[Frame] = []
        self.is_finished = False
        self._decoder = Decoder()
        path = f"/api/v1/runs/{run}/events"
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
        self.frames += [one for one in self._decoder.feed(event.get("body", b"")) if one.event]
        self.is_finished = not event.get("more_body", False)

    async def until_finished(self) -> None:
        await self.until(lambda program: program.is_finished)

    @property
    def seqs(self) -> list[int]:
        return [int(frame.id or 0) for frame in self.frames]

    async def close(self) -> None:
        await self.leave({"type": "http.disconnect"})


def page_of(run: UUID, entries: Sequence[Entry]) -> Page:
    """A page that was just loaded, with exactly these events."""
    answer = Answer(run.hex)
    for entry in entries:
        answer.apply(canonical.decode(entry.body))
    return Page(run.hex, answer.snapshot(), answer.phase())


def fresh_page(run: Run) -> Page:
    """What a reload would show."""
    rendered = render_answer(run)
    return Page(rendered.run_id, rendered.html, rendered.phase_html)


def cursor_of(entries: Sequence[Entry]) -> Cursor:
    return (entries[-1].seq, f"{check_of(entries):08x}") if entries else BEGINNING
