"""The viewers of one measurement, in a process of their own: a job in, what they saw out, as JSON.

``python -m tests.bench.load.client < job > result``. The viewers of plain targets read the bytes
of an HTTP answer. Those of Tributary behave as its page does: a tab with a websocket, a form that
is posted, a run that is followed, acknowledgements twice a second, patches that are applied.
"""

import asyncio
import gc
import json
import math
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httptools
import msgspec

from tests.bench.load.arithmetic import percentile
from tests.bench.load.marks import (
    DONE,
    MODEL,
    PERIOD,
    UNITS_PER_SECOND,
    Conservation,
    Received,
    conservation,
    now,
    numbers_in,
    seconds_between,
)
from tests.bench.load.page import Page
from tests.support.open_blocks import completed

ACK_SECONDS = 0.5
# In an update: the composer's button, which sends again. And what announces a new list.
ENDED = b"#composer-action"
LIST = b'{"channel":"list",'
# Until the update that follows an answer; a page would ask for it.
UPDATE_SECONDS = 30.0
# From the last tab to the first stream: the measurement gets ready, and what tabs cost is over.
LEAD_SECONDS = 0.5
# What is left of a window at least, if the first deltas are late.
LEAST_WINDOW_SECONDS = 2.0
LATENCY_SHARES = (0.5, 0.95, 0.99)
# A form and its two ids; the page's own request has more headers, none of which is read.
CSRF = "a" * 32
ORIGIN = "http://tributary.test"
SHOWN_TURN = re.compile(rb'data-turn="([0-9a-f]{32})"')
# What the page says of itself in the head of an answer.
REVISION = re.compile(rb"(?im)^x-room-revision: (\d+)")
BUSY = 503
RETRY_AFTER = re.compile(rb"(?im)^retry-after: (\d+)")
# An update of the page, which a page answers with what it shows now.
UPDATE = re.compile(rb'^\{"channel":"page","room":"[0-9a-f]{32}","revision":(\d+),"page":(\d+),')
SHOWN_RUN = re.compile(
    rb'data-run="([0-9a-f]{32})" data-seq="(\d+)" data-check="([0-9a-f]+)" data-live'
)
ENVELOPE = re.compile(
    rb'"after":(\d+),"seq":(\d+)(?:,"replaces":true)?,"check":"\w+"(,"live":false)?'
)


class Person(msgspec.Struct):
    """Who sits before a tab of Tributary: session, conversation, its first turn and its last, and the mark
    of its heading."""

    session: str
    conversation: str
    choice: str
    first: str
    tail: str
    head: str


class Job(msgspec.Struct):
    """Moments in seconds from the start, which the client sets when all tabs are open. ``window``
    is what latencies are taken from, but with ``settle_seconds`` it begins so long after the last
    stream's first delta; from ``stop_from`` on people press stop. With ``leaves`` a tab is closed
    when its answer has ended, and not when all have."""

    port: int
    ids: list[int]
    count: int
    gap_us: int
    kind: str
    gate: int
    ramp_per_second: float
    window: tuple[float, float]
    until: float
    settle_seconds: float = 0.0
    people: list[Person] = []
    viewers: int = 1
    one_by_one: bool = False
    stop_from: float = 0.0
    stops_per_second: float = 50.0
    leaves: bool = False


class Saw(msgspec.Struct):
    """Of one stream. Times in seconds; -1 where it never happened."""

    id: int
    first_seconds: float
    received: int
    skipped: int
    lost: int
    doubled: int
    is_complete: bool
    run: str = ""
    error: str = ""
    stopped_at: int = 0
    frames: int = 0
    bytes: int = 0
    requests: int = 0
    # Marks on the page at the end. A frame may leave out the first character of one that it shares
    # with the block before, so not all of them are seen to arrive.
    shown: int = 0


class Result(msgspec.Struct):
    """``window_received`` and the latencies (seconds, p50, p95, p99) are of the window."""

    streams: list[Saw]
    window_received: int
    window_frames: int
    window_bytes: int
    latencies: list[float | None]
    all_latencies: list[float | None]
    # When the first and the last mark arrived, in seconds of the monotonic clock's period.
    first_arrival: int
    last_arrival: int
    cpu_seconds: float


class Gone(Exception):
    """The connection ended before its time."""


# --- HTTP ------------------------------------------------------------------------------------


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def exchange(
    port: int, message: bytes, *, on_send: Callable[[], None] = lambda: None
) -> tuple[int, bytes, bytes]:
    """Status, head and body of a short answer, on a connection of its own. ``on_send`` is called
    when that is there: until then only we are late, and a browser has one already."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        on_send()
        writer.write(message)
        answer = await reader.read()
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]) if head else 0, head, body


class Stream:
    """One stream as its viewer sees it."""

    def __init__(self, id: int, job: Job) -> None:
        self.id = id
        self.job = job
        self.window = math.inf, math.inf
        self.began = 0
        self.marks = Received()
        self.is_complete = False
        self.error = ""
        self.run = ""
        self.stopped_at = 0
        self.frames = self.bytes = 0
        # HTTP requests for this answer.
        self.requests = 0
        self.shown = 0
        self.window_frames = self.window_bytes = 0

    def counts(self, size: int) -> None:
        """Notes what came, and whether it came within the window."""
        self.frames += 1
        self.bytes += size
        first, last = self.window
        if first <= asyncio.get_running_loop().time() < last:
            self.window_frames += 1
            self.window_bytes += size

    @property
    def has_begun(self) -> bool:
        """True if the first delta is there, or will not come."""
        return bool(self.marks.arrivals or self.error)

    async def prepare(self) -> None:
        """What is there before the measurement: an open tab, for one."""

    async def open(self) -> None:
        raise NotImplementedError

    async def finish(self) -> None:
        """What the page does when the answer has ended."""

    def conservation(self) -> Conservation:
        raise NotImplementedError

    def wish(self) -> str:
        job = self.job
        return f"bench id={self.id} count={job.count} gap_us={job.gap_us} kind={job.kind} gate={job.gate}"

    def saw(self) -> Saw:
        kept = self.conservation()
        first = self.marks.arrivals[0] if self.marks.arrivals else None
        return Saw(
            id=self.id,
            first_seconds=-1 if first is None else seconds_between(self.began, first),
            received=self.marks.count,
            skipped=self.marks.skipped,
            lost=kept.lost,
            doubled=kept.doubled,
            is_complete=self.is_complete,
            run=self.run,
            error=self.error,
            stopped_at=self.stopped_at,
            frames=self.frames,
            bytes=self.bytes,
            requests=self.requests,
            shown=self.shown,
        )


class ByteStream(Stream, asyncio.Protocol):
    """The answer of a target that copies bytes."""

    def __init__(self, id: int, job: Job) -> None:
        super().__init__(id, job)
        self._rest = b""
        # A proxy that copies bytes may cut them elsewhere: the framing of HTTP can stand inside a mark.
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        self.began = now()
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", self.job.port)
        message = {"role": "user", "content": self.wish()}
        body = json.dumps({"model": MODEL, "stream": True, "messages": [message]}).encode()
        self._transport.write(
            request("POST", "/v1/chat/completions", body, "Content-Type: application/json")
        )
        try:
            await self.ended
        finally:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        arrived = now()
        self.counts(len(data))
        self._parser.feed_data(data)
        # A read may end anywhere; a mark never goes beyond its line.
        lines, newline, rest = b"".join([self._rest, *self._body]).rpartition(b"\n")
        self._body.clear()
        self._rest = rest
        self.marks.take(lines, arrived)
        if newline and DONE in lines and not self.ended.done():
            self.is_complete = True
            self.ended.set_result(None)

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.error = f"closed early: {error}"
            self.ended.set_result(None)

    def conservation(self) -> Conservation:
        missing = self.job.count - self.marks.next if self.is_complete else 0
        return Conservation(lost=self.marks.skipped + missing, doubled=self.marks.repeated)


# --- a tab -------------------------------------------------------------------------------------


class Socket(asyncio.Protocol):
    """A websocket as a browser has it: messages in, masked messages out, pings answered."""

    def __init__(self, port: int, session: str) -> None:
        self.port = port
        self.session = session
        self.on_message: Any = None
        self.is_open = False
        self._buffer = bytearray()
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[str] = loop.create_future()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", self.port)
        self.transport.write(
            request(
                "GET",
                "/live/",
                b"",
                "Upgrade: websocket",
                "Connection: Upgrade",
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version: 13",
                f"Origin: {ORIGIN}",
                # As browsers do; whether the server takes it up is seen in the answer.
                "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
                f"Cookie: sessionid={self.session}",
            )
        )
        await self.opened

    def say(self, message: dict[str, object]) -> None:
        self._send(1, json.dumps(message).encode())

    def _send(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        head = (
            bytes((0x80 | opcode, 0x80 | size))
            if size < 126
            else (bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big"))
        )
        # A mask of zeros is a mask, and costs the client nothing; the server unmasks all the same.
        self.transport.write(head + b"\0\0\0\0" + payload)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self.is_open and not self._take_head():
            return
        while size := self._take_frame():
            del self._buffer[:size]

    def _take_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        if not head.startswith(b"HTTP/1.1 101") or b"permessage-deflate" in head:
            self._fail(head.decode(errors="replace"))
            return False
        self.is_open = True
        self.opened.set_result(None)
        return True

    def _take_frame(self) -> int:
        """Hands on the first whole message; returns its size with its head, or 0."""
        buffer = self._buffer
        if len(buffer) < 2:
            return 0
        length, start = buffer[1] & 127, 2
        if length >= 126:
            start += 2 if length == 126 else 8
            length = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + length:
            return 0
        payload = bytes(buffer[start : start + length])
        opcode = buffer[0] & 15
        if opcode == 1:
            self.on_message(payload, start + length)
        elif opcode == 9:
            self._send(10, payload)
        elif opcode == 8:
            self._fail(f"closed with {int.from_bytes(payload[:2], 'big')}")
        return start + length

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"lost: {error}")

    def _fail(self, why: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(Gone(why))
        if not self.closed.done():
            self.closed.set_result(why)

    def close(self) -> None:
        self.transport.abort()


class TabStream(Stream):
    """A conversation in a tab: what is posted there is answered there."""

    def __init__(self, id: int, job: Job, person: Person) -> None:
        super().__init__(id, job)
        self.person = person
        self.frames_kept: list[bytes] = []
        self.status = 0
        self.seq = self._acknowledged = 0
        self._revision = 1
        self._tail = person.tail
        self._number = 0
        self._has_list = False
        self._fetching: list[asyncio.Task[object]] = []
        self._is_live = False
        self._has_update = asyncio.Event()
        self._answer: asyncio.Future[dict[str, Any]]
        self._is_begun = False
        self.socket = Socket(job.port, person.session)
        self.socket.on_message = self._take
        self.others: list[Socket] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def has_begun(self) -> bool:
        return bool(self.run) if not self.job.viewers else super().has_begun

    async def prepare(self) -> None:
        await self._enter(self.socket)

    async def _enter(self, socket: Socket) -> None:
        await socket.open()
        channels = {
            "page": {"writes": True, **self._shown()},
            "list": {"version": "-"},
            "queue": {},
        }
        room = self.person.conversation
        socket.say({"type": "hello", "room": room, "runs": [], "channels": channels})

    def _say_page(self, shown: dict[str, object]) -> None:
        self.socket.say({"type": "channels", "channels": {"page": shown}})

    def _shown(self) -> dict[str, object]:
        """What a page tells its server whenever it changes."""
        self._number += 1
        return {"number": self._number, "revision": self._revision, "state": self._position()}

    async def open(self) -> None:
        self.began = now()
        fields = {
            "text": self.wish(),
            "choice": self.person.choice,
            "key": _key(self.id),
            "parent": self._tail,
        }
        # Until the answer is there, the page is asking for changes itself.
        self._say_page({"is_asking": True})
        self.status, head, body = await self._answer_to(fields)
        self._take_head(head, body)
        shown = SHOWN_RUN.search(body)
        if self.status != 200 or shown is None:
            self.error = f"the form was answered with {self.status}"
            return
        self.run = shown[1].decode()
        cursor = {"run": self.run, "seq": int(shown[2]), "check": shown[3].decode(), "holds": True}
        self._rendered, self._rendered_at = body, int(shown[2])
        # Where the answer begins before the response is made, its first words are in there.
        self.marks.take(body, now())
        self._is_live = True
        self._say_page(self._shown())
        # Otherwise the server follows it for this tab already.
        if self.job.viewers and not (self._is_begun and cursor["seq"] == 0):
            self.socket.say({"type": "follow", **cursor})
        for _ in range(1, self.job.viewers):
            await self._look_too(cursor)
        if not self.job.viewers:
            return
        acknowledging = asyncio.create_task(self._acknowledge())
        try:
            await asyncio.wait({self.ended, self.socket.closed}, return_when="FIRST_COMPLETED")
        finally:
            acknowledging.cancel()
        if not self.ended.done():
            self.error = self.socket.closed.result()

    def _take_head(self, head: bytes, body: bytes) -> None:
        """What the page knows of itself afterwards, and what it still has to fetch."""
        if found := REVISION.search(head):
            self._revision = int(found[1])
        if turns := SHOWN_TURN.findall(body):
            self._tail = turns[-1].decode()

    async def _fetch_list(self) -> None:
        address = f"/c/list/?current={self.person.conversation}"
        await exchange(self.job.port, self._request("GET", address, b""))

    async def _look_too(self, cursor: dict[str, object]) -> None:
        """One more viewer of the same run, in a tab of the same person."""
        other = Socket(self.job.port, self.person.session)
        other.on_message = self._take_other
        self.others.append(other)
        await self._enter(other)
        other.say({"type": "follow", **cursor})

    async def stop(self) -> None:
        if not self.run or self.ended.done():
            return
        status, _, _ = await self._post(f"/r/{_dashed(self.run)}/stop/", {}, self._note_stop)
        if status not in (200, 204, 302):
            self.error = f"stop was answered with {status}"

    def _note_stop(self) -> None:
        self.stopped_at = now()

    async def finish(self) -> None:
        if self.is_complete and self.job.viewers:
            # What has changed around the answer, its actions for one, comes without a request.
            async with asyncio.timeout(UPDATE_SECONDS):
                await self._has_update.wait()
        if self._fetching:
            await asyncio.wait(self._fetching)
        for socket in (self.socket, *self.others):
            socket.close()

    async def _answer_to(self, fields: dict[str, str]) -> tuple[int, bytes, bytes]:
        """Sends again, under the same key, what the server was too busy for, when it says so."""
        while True:
            status, head, body = await self._send(fields)
            delay = RETRY_AFTER.search(head)
            if status != BUSY or delay is None:
                return status, head, body
            await asyncio.sleep(int(delay[1]))

    async def _send(self, fields: dict[str, str]) -> tuple[int, bytes, bytes]:
        """Status, head and body of the answer to a form that the tab's websocket takes."""
        self._answer = asyncio.get_running_loop().create_future()
        self.socket.say(
            {
                "type": "post",
                "id": 1,
                "action": self._address("send/"),
                "fields": list(fields.items()),
                "headers": {"HX-Request": "true", "X-Room-Position": json.dumps(self._position())},
                "cookie": f"csrftoken={CSRF}",
            }
        )
        await asyncio.wait({self._answer, self.socket.closed}, return_when="FIRST_COMPLETED")
        if not self._answer.done():
            raise Gone(self.socket.closed.result())
        answer = self._answer.result()
        self._is_begun = "follows" in answer
        head = "".join(f"{name}: {value}\n" for name, value in answer["headers"].items())
        return answer["status"], head.encode(), answer["body"].encode()

    def _address(self, rest: str) -> str:
        return f"/c/{self.person.conversation}/{rest}"

    async def _post(
        self, path: str, fields: dict[str, str], on_send: Callable[[], None] = lambda: None
    ) -> tuple[int, bytes, bytes]:
        parts = [
            f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        ]
        body = ("".join(parts) + "--b--\r\n").encode()
        message = self._request("POST", path, body)
        return await exchange(self.job.port, message, on_send=on_send)

    def _request(self, method: str, path: str, body: bytes) -> bytes:
        self.requests += 1
        return request(
            method,
            path,
            body,
            "Content-Type: multipart/form-data; boundary=b",
            f"Cookie: sessionid={self.person.session}; csrftoken={CSRF}",
            f"X-CSRFToken: {CSRF}",
            "HX-Request: true",
            f"X-Room-Position: {json.dumps(self._position())}",
            "Connection: close",
        )

    def _position(self) -> dict[str, object]:
        run = self.run if self._is_live else ""
        return {
            "first": self.person.first,
            "tail": self._tail,
            # Of a turn and its answer.
            "number": 2,
            "revision": self._revision,
            "open": [self._tail] if run else [],
            "strip": run,
            "action": run,
            "head": self.person.head,
            "runs": {self.run: 0} if self.run else {},
            "writes": True,
        }

    def _take_update(self, payload: bytes) -> None:
        if payload.startswith(LIST) and b'"lines":' not in payload:
            # The first one says which list there is; a page has been loaded with it.
            if self._has_list:
                self._fetching.append(asyncio.create_task(self._fetch_list()))
            self._has_list = True
        found = UPDATE.match(payload)
        if found is None or int(found[2]) != self._number:
            return
        self._revision = int(found[1])
        if ENDED in payload:
            self._is_live = False
            self._has_update.set()
        self._say_page(self._shown())

    def _take(self, payload: bytes, size: int) -> None:
        arrived = now()
        if payload.startswith(b'{"answer":'):
            self._answer.set_result(msgspec.json.decode(payload))
            return
        found = ENVELOPE.search(payload, 0, 160)
        if found is None:
            self._take_update(payload)
            return
        self.counts(size)
        self.seq = int(found[2])
        self.marks.take(payload, arrived)
        self.frames_kept.append(payload)
        if found[3] and not self.ended.done():
            self.is_complete = True
            self.ended.set_result(None)

    def _take_other(self, payload: bytes, size: int) -> None:
        """The second viewer's frames are counted with the first one's marks: they are the same."""

    async def _acknowledge(self) -> None:
        # Tabs do not beat together.
        await asyncio.sleep(ACK_SECONDS * (self.id % 16) / 16)
        while True:
            if self.seq != self._acknowledged:
                self._acknowledged = self.seq
                for socket in (self.socket, *self.others):
                    socket.say({"type": "ack", "runs": {self.run: self.seq}})
            await asyncio.sleep(ACK_SECONDS)

    def text(self) -> str:
        """What the page shows at the end, from its patches. Raises where one does not fit."""
        page = Page(self.run, self._rendered.decode())
        at = self._rendered_at
        held: dict[str, str] = {}
        for payload in self.frames_kept:
            frame = msgspec.json.decode(payload)
            if frame["after"] != at and not frame.get("replaces"):
                raise ValueError(f"a frame after {frame['after']} came to a page at {at}")
            page.apply(completed(frame, held))
            at = frame["seq"]
        return page.text()

    def conservation(self) -> Conservation:
        if not self.run or not self.job.viewers:
            return Conservation(lost=0, doubled=0)
        # A run that was stopped shows a prefix of what the server had sent.
        shown = numbers_in(self.text())
        self.shown = len(shown)
        is_whole = self.is_complete and not self.stopped_at
        return conservation(shown, self.job.count if is_whole else len(shown))


def _key(id: int) -> str:
    return f"00000000-0000-4000-8000-{os.getpid():06x}{id:06x}"


def _dashed(run: str) -> str:
    return "-".join((run[:8], run[8:12], run[12:16], run[16:20], run[20:]))


# --- the measurement -----------------------------------------------------------------------------


async def play(job: Job) -> list[Stream]:
    streams: list[Stream]
    if job.people:
        streams = [
            TabStream(*pair) for pair in zip(job.ids, [job] * len(job.ids), job.people, strict=True)
        ]
    else:
        streams = [ByteStream(id, job) for id in job.ids]
    for first in range(0, len(streams), 25):
        await asyncio.gather(*(stream.prepare() for stream in streams[first : first + 25]))
    start = _announced_start()
    opening = asyncio.create_task(_open_window(streams, job, start))
    await asyncio.sleep(start - asyncio.get_running_loop().time())
    pressing = asyncio.create_task(_press_stops(streams, job, start))
    if job.one_by_one:
        for stream in streams:
            await _guarded(stream, start + job.until)
    else:
        await asyncio.gather(
            *(_later(stream, number, job, start) for number, stream in enumerate(streams))
        )
    pressing.cancel()
    await opening
    if not job.leaves:
        await asyncio.gather(*(stream.finish() for stream in streams), return_exceptions=True)
    return streams


def _announced_start() -> float:
    """When the first stream begins; the benchmark reads it from the first line of our output."""
    start = asyncio.get_running_loop().time() + LEAD_SECONDS
    _announce(start)
    return start


def _announce(moment: float) -> None:
    sys.stdout.write(f"{moment!r}\n")
    sys.stdout.flush()


async def _open_window(streams: list[Stream], job: Job, start: float) -> None:
    """Announces the window's begin in a second line, as soon as it is known."""
    first, last = (start + moment for moment in job.window)
    if job.settle_seconds:
        time = asyncio.get_running_loop().time
        latest = last - LEAST_WINDOW_SECONDS
        while time() < latest and not all(stream.has_begun for stream in streams):
            await asyncio.sleep(0.02)
        first = min(max(first, time() + job.settle_seconds), latest)
    for stream in streams:
        stream.window = first, last
    _announce(first)


async def _later(stream: Stream, number: int, job: Job, start: float) -> None:
    due = start + (number / job.ramp_per_second if job.ramp_per_second else 0.0)
    await asyncio.sleep(due - asyncio.get_running_loop().time())
    await _guarded(stream, start + job.until)
    if job.leaves:
        with suppress(OSError):
            await stream.finish()


async def _guarded(stream: Stream, until: float) -> None:
    try:
        async with asyncio.timeout_at(until):
            await stream.open()
    except TimeoutError:
        stream.error = stream.error or "not complete in time"
    except (OSError, Gone) as error:
        stream.error = f"{type(error).__name__}: {error}"


async def _press_stops(streams: list[Stream], job: Job, start: float) -> None:
    if not job.stop_from:
        return
    await asyncio.sleep(start + job.stop_from - asyncio.get_running_loop().time())
    async with asyncio.TaskGroup() as pressing:
        for stream in streams:
            if isinstance(stream, TabStream):
                pressing.create_task(stream.stop())
                await asyncio.sleep(1 / job.stops_per_second)


def result_of(streams: list[Stream], cpu_seconds: float) -> Result:
    first, last = (round(moment * UNITS_PER_SECOND) % PERIOD for moment in streams[0].window)
    inside: list[float] = []
    everything: list[float] = []
    arrivals: list[int] = []
    for stream in streams:
        for sent, arrived in zip(stream.marks.sent, stream.marks.arrivals, strict=True):
            latency = seconds_between(sent, arrived)
            everything.append(latency)
            arrivals.append(arrived)
            if first <= arrived < last:
                inside.append(latency)
    return Result(
        streams=[stream.saw() for stream in streams],
        window_received=len(inside),
        window_frames=sum(stream.window_frames for stream in streams),
        window_bytes=sum(stream.window_bytes for stream in streams),
        latencies=[percentile(inside, share) for share in LATENCY_SHARES],
        all_latencies=[percentile(everything, share) for share in LATENCY_SHARES],
        first_arrival=min(arrivals, default=0),
        last_arrival=max(arrivals, default=0),
        cpu_seconds=cpu_seconds,
    )


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    gc.disable()
    streams = asyncio.run(play(job))
    spent = os.times()
    result = result_of(streams, spent.user + spent.system)
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
