"""A real server process around the small application, and the raw sockets that talk to it."""

import asyncio
import contextlib
import http.client
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from websockets.sync import client

ROOT = Path(__file__).resolve().parent.parent.parent
# A deadline for what should happen at once, on a machine that has other things to do.
SOON_SECONDS = 20


class Process:
    """A server process; ``lines`` of what it printed so far grow as it runs."""

    def __init__(self, popen: "subprocess.Popen[str]") -> None:
        self.popen = popen
        line = self.line()
        self.port = int(line.rsplit(":", 1)[1])

    def line(self) -> str:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().strip()

    @property
    def rss_kib(self) -> int:
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1])

    def request(self, method: str, path: str, **kwargs: Any) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, **kwargs)
            response = connection.getresponse()
            return response.status, response.read()

    def seen(self, name: str) -> int:
        _, body = self.request("GET", "/state")
        return json.loads(body).get(name, 0)

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
        """An open websocket that reads only what it is told to."""
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
            max_size=None,
            **kwargs,
        )

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.popen.send_signal(number)

    def wait(self) -> int:
        return self.popen.wait(SOON_SECONDS)


@contextlib.contextmanager
def server(*, hooks: str = "quick", **limits: float) -> Iterator[Process]:
    command = [sys.executable, "-m", "tests.server.process", hooks, json.dumps(limits)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as popen:
        try:
            yield Process(popen)
        finally:
            popen.kill()


def eventually(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SOON_SECONDS
    while time.monotonic() < deadline:
        if is_so():
            return True
        time.sleep(0.02)
    return False


def read_until(raw: socket.socket, wanted: bytes) -> bytes:
    read = b""
    while wanted not in read:
        data = raw.recv(65536)
        if not data:
            break
        read += data
    return read


def read_to_end(raw: socket.socket) -> bytes:
    """Reads until the connection ends, by a reset too."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while data := raw.recv(1 << 20):
            pieces.append(data)
    return b"".join(pieces)


def is_cut(raw: socket.socket) -> bool:
    """Reads what is left; true when the connection ends before the answer does."""
    return not read_to_end(raw).endswith(b"0\r\n\r\n")


HANDSHAKE = (
    b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def frame(opcode: int, payload: bytes) -> bytes:
    """A masked frame with the mask 0, so that the payload stays readable."""
    return bytes((0x80 | opcode, 0x80 | len(payload))) + bytes(4) + payload


# --- in the server process ----------------------------------------------------------------------


def say(text: str) -> None:
    print(text, flush=True)


async def nothing() -> None:
    pass


async def starts() -> None:
    say("started")


async def stops() -> None:
    say("stopping")
    await asyncio.sleep(0.3)
    say("stopped")


async def fails() -> None:
    raise LookupError("no runner today")


async def hangs() -> None:
    say("stopping")
    await asyncio.sleep(3600)


HOOKS: dict[str, dict[str, Callable[[], Awaitable[None]]]] = {
    "quick": {},
    "told": {"on_start": starts, "on_stop": stops},
    "failing": {"on_start": fails},
    "failing_stop": {"on_stop": fails},
    "hanging_start": {"on_start": hangs, "on_stop": stops},
    "hanging_stop": {"on_stop": hangs},
}


def main(name: str, limits: str) -> None:
    from project.server import Limits, Server
    from tests.server.application import application

    async def start() -> None:
        # Only now: until the server runs, a signal just ends the process.
        say(served.address)
        await hooks.get("on_start", nothing)()

    logging.basicConfig(level=logging.ERROR)
    hooks = HOOKS[name]
    served = Server(
        application,
        host="127.0.0.1",
        port=0,
        limits=Limits(**json.loads(limits)),
        on_start=start,
        on_stop=hooks.get("on_stop", nothing),
    )
    served.listen()
    served.run()
    say("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
