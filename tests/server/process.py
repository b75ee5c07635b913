"""A real server process around the small application, and the raw sockets that talk to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from websockets.sync import client

from tests.server import application
from tests.support.forking import SOON_SECONDS, Forked


class Process:
    """A server process, its address and its clients."""

    def __init__(self, forked: Forked) -> None:
        self._forked = forked
        self.line = forked.line
        self.wait = forked.wait
        self.port = int(self.line().rsplit(":", 1)[1])

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._forked.signal(number)

    @property
    def rss_kib(self) -> int:
        status = Path(f"/proc/{self._forked.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1])

    @contextlib.contextmanager
    def growth_below(self, mib: int) -> Iterator[None]:
        before = self.rss_kib
        yield
        assert self.rss_kib - before < mib * 1024

    def request(self, method: str, path: str, **kwargs: Any) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, **kwargs)
            response = connection.getresponse()
            return response.status, response.read()

    def seen(self, name: str) -> int:
        """A count that the application keeps."""
        _, body = self.request("GET", "/state")
        return json.loads(body).get(name, 0)

    def advance(self, seconds: int) -> None:
        """Moves the clock of all deadlines in the server forward, and looks at them once."""
        assert self.request("GET", f"/advance?{seconds}")[0] == 200

    def cuts_unread(self, raw: socket.socket) -> bool:
        """Returns whether the connection is cut once nothing was read from it for 61 seconds.

        The kernel may still move a little from one buffer to the next after a first skip, and the
        wait begins anew with that: so the clock is moved until nothing moves.
        """
        return eventually(lambda: self.advance(61) or is_reset(raw, seconds=0.05))

    def connect(self, *, receive_buffer: int | None = None) -> socket.socket:
        raw = socket.socket()
        if receive_buffer is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.settimeout(SOON_SECONDS)
        try:
            raw.connect(("127.0.0.1", self.port))
        except OSError:
            raw.close()
            raise
        return raw

    def get(self, path: str, **kwargs: Any) -> socket.socket:
        raw = self.connect(**kwargs)
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return raw

    def open(self, path: bytes = b"/echo", **kwargs: Any) -> socket.socket:
        """An open websocket as a raw socket, which reads only on demand."""
        raw = self.connect(**kwargs)
        raw.sendall(HANDSHAKE % path)
        assert read_until(raw, b"\r\n\r\n").startswith(b"HTTP/1.1 101")
        return raw

    def websocket(self, path: str = "/echo", **kwargs: Any) -> client.ClientConnection:
        return client.connect(
            f"ws://127.0.0.1:{self.port}{path}",
            compression=None,
            proxy=None,
            open_timeout=SOON_SECONDS,
            close_timeout=SOON_SECONDS,
            # As in a browser.
            ping_interval=None,
            max_size=None,
            **kwargs,
        )

    def until_settled(self, name: str) -> int:
        """A count that the application keeps, once it no longer grows."""
        sizes = [-1]

        def has_settled() -> bool:
            sizes.append(self.seen(name))
            return sizes[-1] > 0 and sizes[-1] == sizes[-2]

        assert eventually(has_settled)
        return sizes[-1]


@contextlib.contextmanager
def server(*, hooks: str = "quick", **limits: float | str) -> Iterator[Process]:
    with Forked(application.serve, hooks, limits) as forked:
        yield Process(forked)


def eventually(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SOON_SECONDS
    while time.monotonic() < deadline:
        if is_so():
            return True
        time.sleep(0.02)
    return False


def read_until(raw: socket.socket, wanted: bytes) -> bytes:
    read = bytearray()
    while read.find(wanted, max(0, len(read) - 65536 - len(wanted))) < 0:
        data = raw.recv(65536)
        if not data:
            break
        read += data
    return bytes(read)


def read_to_end(raw: socket.socket) -> bytes:
    """Reads until the connection ends, by a reset too."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while data := raw.recv(1 << 20):
            pieces.append(data)
    return b"".join(pieces)


def read_bytes(raw: socket.socket, count: int) -> None:
    while count > 0:
        received = raw.recv(1 << 20)
        assert received, "the stream has ended"
        count -= len(received)


def is_cut(raw: socket.socket) -> bool:
    """Reads what is left; true when the connection ends before the answer does."""
    return not read_to_end(raw).endswith(b"0\r\n\r\n")


def is_reset(raw: socket.socket, seconds: float = SOON_SECONDS) -> bool:
    """Returns whether the server cuts the connection; does not read from it."""
    poll = select.poll()
    poll.register(raw, 0)
    return bool(poll.poll(seconds * 1000))


HANDSHAKE = (
    b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def frame(opcode: int, payload: bytes, *, is_last: bool = True) -> bytes:
    """A masked frame with the mask 0, so that the payload stays readable."""
    first = bytes([0x80 * is_last | opcode])
    return first + length_of(len(payload)) + bytes(4) + payload


def length_of(size: int) -> bytes:
    """As the head of a masked frame has it."""
    if size < 126:
        return struct.pack("!B", 0x80 | size)
    if size < 1 << 16:
        return struct.pack("!BH", 0x80 | 126, size)
    return struct.pack("!BQ", 0x80 | 127, size)
