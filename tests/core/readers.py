"""Readers for the child process of the tests: some read, and some do harm."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from chat.core.isolation.child import Refused


def lines(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    yield order
    yield from file


def backwards(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """Each third byte, from the end."""
    for offset in range(file.seek(0, 2) - 1, -1, -3):
        file.seek(offset)
        yield file.read(1)


def what_it_has(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    yield repr(dict(os.environ)).encode()
    yield str("django" in sys.modules).encode()
    yield str(os.getcwd()).encode()


def attempts(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """What a process that was taken over would try; each is answered with the error."""
    os.close(2)
    library = ctypes.CDLL(None, use_errno=True)
    tried: dict[str, Callable[[], object]] = {
        "open": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "write": lambda: os.open("/tmp/from-the-child", os.O_CREAT),  # it must fail
        "socket": lambda: socket.socket(),
        "socketpair": socket.socketpair,
        "fork": os.fork,
        "start": lambda: subprocess.Popen(["/bin/true"]),
        "execute": lambda: os.execv("/bin/true", ["true"]),
        "signal": lambda: os.kill(os.getppid(), signal.SIGTERM),
        "ring": lambda: _called(library.syscall(425, 1, None)),
    }
    for name, attempt in tried.items():
        try:
            attempt()
        except OSError as error:
            yield f"{name} {error.strerror}".encode()
        else:
            yield f"{name} was possible".encode()


def _called(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def refusing(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    yield b"first"
    raise Refused("“The file” isn’t one.")


def failing(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    yield b"first"
    raise ValueError("secret of the file")


def hoarding(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    held = []
    while True:
        held.append(bytearray(16 * 1024 * 1024))
    yield b""


def busy(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    while True:
        pass
    yield b""


def waiting(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    signal.pause()
    yield b""


def endless(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    while True:
        yield b"x" * 1000


def large(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    yield b"x" * 100_000


def dying(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    ctypes.string_at(0)
    yield b""


def lying(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """No frame at all."""
    os.write(1, b"Z\x00\x00\x00\x01x")
    yield b""
