"""The server behind every target: OpenAI chat chunks, paced or as fast as they are taken.

``python -m tests.bench.load.upstream`` prints its port. What a stream should be is said in the
last message of the request: ``bench id=7 count=500 gap_us=20000 kind=plain gate=0``. With a gate
of N it begins only when N streams of that gate are there. ``GET /streams`` tells what became of
each stream since the last time, and forgets it.
"""

import asyncio
import gc
import heapq
import json
import re
import socket
from typing import Any

from tests.bench.load.marks import CLOSING, OPENING, PERIOD, Chunks, now

WISH = re.compile(rb"bench id=(\d+) count=(\d+) gap_us=(\d+) kind=(\w+) gate=(\d+)")
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
# Events of an unpaced stream that are written together before the others have their turn.
BURST = 16

_chunks: dict[tuple[str, int], Chunks] = {}


class Pacer:
    """Calls each stream when its next delta is due, from one timer."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Stream]] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, at: float, stream: "Stream") -> None:
        heapq.heappush(self._due, (at, stream.id, stream))
        if self._timer is None or at < self._timer.when():
            self._set()

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(self._due[0][0], self._run)

    def _run(self) -> None:
        self._timer = None
        moment = asyncio.get_running_loop().time()
        while self._due and self._due[0][0] <= moment:
            at, _, stream = self._due[0]
            if stream.send_one():
                heapq.heapreplace(self._due, (at + stream.gap_seconds, stream.id, stream))
            else:
                heapq.heappop(self._due)
        if self._due:
            self._set()


class Stream:
    """One answer that is being given."""

    def __init__(self, connection: "Connection", wish: re.Match[bytes]) -> None:
        self.id, self.count = int(wish[1]), int(wish[2])
        self.gap_seconds = int(wish[3]) / 1e6
        self.sent = 0
        self.bytes = 0
        self.began = self.ended = self.left = 0
        self.connection = connection
        kind = wish[4].decode(), self.count
        if kind not in _chunks:
            _chunks[kind] = Chunks(*kind)
        self._chunks = _chunks[kind]

    def begin(self) -> None:
        if self.connection.transport is None or self.left:
            return
        self.began = now()
        self.connection.transport.write(HEAD + OPENING)
        if self.gap_seconds:
            pacer.add(asyncio.get_running_loop().time(), self)
        else:
            self.flood()

    def send_one(self) -> bool:
        """Sends the next delta; false when there is none after it, or nobody takes it."""
        transport = self.connection.transport
        if transport is None:
            return False
        data = self._chunks.at(self.sent, now())
        self.sent += 1
        self.bytes += len(data)
        transport.write(data)
        if self.sent == self.count:
            self._finish()
            return False
        return True

    def flood(self) -> None:
        """As much as the other side takes, a few events at a time."""
        transport = self.connection.transport
        if transport is None or self.ended or self.connection.is_paused:
            return
        moment = now()
        until = min(self.count, self.sent + BURST)
        data = b"".join(self._chunks.at(number, moment) for number in range(self.sent, until))
        self.sent = until
        self.bytes += len(data)
        transport.write(data)
        if self.sent == self.count:
            self._finish()
        else:
            asyncio.get_running_loop().call_soon(self.flood)

    def _finish(self) -> None:
        self.ended = now()
        if self.connection.transport is not None:
            self.connection.transport.write(CLOSING)
        self.connection.stream = None

    def report(self) -> dict[str, Any]:
        names = ("id", "count", "sent", "bytes", "began", "ended", "left")
        return {name: getattr(self, name) for name in names}


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.stream: Stream | None = None
        self.is_paused = False
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self.stream is not None:
            self.stream.left = max(now() % PERIOD, 1)
            self.stream = None

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        if self.stream is not None and not self.stream.gap_seconds and self.stream.began:
            self.stream.flood()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not separator or len(body) < (int(length[1]) if length else 0):
            return
        self._buffer = b""
        self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        assert self.transport is not None
        wish = WISH.search(body)
        if wish is None:
            self.transport.write(_reports())
            return
        self.stream = Stream(self, wish)
        streams.append(self.stream)
        gate = int(wish[5])
        if not gate:
            self.stream.begin()
            return
        waiting.append(self.stream)
        if len(waiting) >= gate:
            released = waiting[:]
            waiting.clear()
            for stream in released:
                stream.begin()


def _reports() -> bytes:
    body = json.dumps([stream.report() for stream in streams]).encode()
    streams.clear()
    waiting.clear()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


pacer = Pacer()
streams: list[Stream] = []
waiting: list[Stream] = []


async def main() -> None:
    # Nothing here makes cycles that matter, and a collection is a pause that would be measured.
    gc.disable()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(f"listening {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
