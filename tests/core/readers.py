"""Readers for the child process of the tests: some read, and some do harm."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from chat.core.isolation.child import Refused

# The call by which a process reads the kernel's ring of keys.
_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(platform.machine(), -1)
_FOLDER = os.getcwd()


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
    yield _FOLDER.encode()


def attempts(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """What a process that was taken over would try; each is answered with the error. The order has the
    number of another process and the path of a file."""
    os.close(2)
    number, path = order.decode().split(" ", 1)
    parent = int(number)
    named = os.fsencode(path)
    library = ctypes.CDLL(None, use_errno=True)
    tried: dict[str, Callable[[], object]] = {
        "open": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "write": lambda: os.open("/tmp/from-the-child", os.O_CREAT),  # it must fail
        "socket": lambda: socket.socket(),
        "socketpair": socket.socketpair,
        "fork": os.fork,
        "start": lambda: subprocess.Popen(["/bin/true"]),
        "execute": lambda: os.execv("/bin/true", ["true"]),
        "signal": lambda: os.kill(parent, signal.SIGTERM),
        "queued signal": lambda: _called(library.sigqueue(parent, 0, None)),
        "ring": lambda: _called(library.syscall(425, 1, None)),
        "truncate": lambda: _called(library.truncate(named, 0)),
        "remove": lambda: os.unlink(path),
        "rename": lambda: os.rename(path, path + "-2"),
        "link": lambda: os.link(path, path + "-2"),
        "mode": lambda: os.chmod(path, 0o777),  # it must fail
        "folder": lambda: os.mkdir(path + "-2"),
        "look": lambda: os.stat(path),
        "shared memory": lambda: _called(library.shmget(0, 4096, 0o1600)),
        "message queue": lambda: _called(library.msgget(0, 0o1600)),
        "limits": lambda: _called(
            library.setrlimit(resource.RLIMIT_NOFILE, bytes([9] + 7 * [0]) * 2)
        ),
        "keys": lambda: _called(library.syscall(_KEYCTL, 0, -3, 1)),
    }
    for name, attempt in tried.items():
        try:
            attempt()
        except OSError as error:
            yield f"{name}: {error.strerror}".encode()
        else:
            yield f"{name}: was possible".encode()


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


def asking(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """For the same bytes, again and again."""
    yield b"begun"
    while True:
        file.seek(0)
        file.read(1)
        file.seek(2 * 1024 * 1024)
        file.read(1)


def large(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    yield b"x" * 100_000


def dying(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    ctypes.string_at(0)
    yield b""


def lying(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    """No frame at all."""
    os.write(1, b"Z\x00\x00\x00\x01x")
    yield b""
