"""The child's side: runs one reader over one file, under limits, and writes its output to a pipe.

It is started with an empty environment and knows no setting, no database and no key. The reader is a
function ``(file, order) -> iterator of bytes``; each of these becomes one frame. The call itself may
still open files of the installation; the limits apply from the first frame on. The file is the
parent's: each piece of it is requested over the pipe, so it needs no place on a disk.
"""

from __future__ import annotations

import io
import os
import resource
import struct
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import BinaryIO

from chat.core.isolation import seccomp
from chat.core.ranged_file import RangedFile

# Frames to the parent: a letter, the length, the content.
HEAD = struct.Struct(">cI")
# Frames to the child: the length, the content.
REPLY_HEAD = struct.Struct(">I")
READ, ITEM, REFUSED, OUT_OF_MEMORY, FAILED, DONE = b"R", b"I", b"N", b"M", b"X", b"D"
# A request for a piece of the file says where it begins, and how long it is.
PIECE = struct.Struct(">QI")
PIECE_BYTES = 1024 * 1024
# The parent first sends the size of the file, limits of memory (bytes) and time (seconds of CPU), and
# the length of the reader's name, which follows, and then the reader's order.
START = struct.Struct(">QQIH")

_IN, _OUT = 0, 1

Reader = Callable[[BinaryIO, bytes], Iterator[bytes]]


class Refused(Exception):
    """The reader refuses the file; ``str()`` says why, for people."""


def main() -> None:
    seccomp.end_with_parent()
    _be_expendable()
    size, memory_bytes, cpu_seconds, name_length = START.unpack(_read_exactly(START.size))
    name = _read_exactly(name_length).decode()
    order = _read_reply()
    module, _, function = name.partition(":")
    reader: Reader = getattr(import_module(module), function)
    items = reader(io.BufferedReader(_ParentFile(size), PIECE_BYTES), order)
    _limit(memory_bytes, cpu_seconds)
    try:
        for item in items:
            _write(ITEM, item)
    except Refused as refusal:
        _write(REFUSED, str(refusal).encode("utf-8", "replace"))
    except MemoryError:
        _write(OUT_OF_MEMORY, b"")
    except Exception as error:
        _write(FAILED, _place_of(error))
    else:
        _write(DONE, b"")


def _be_expendable() -> None:
    """Gives this process the lowest priority, and makes it the first to be killed without
    memory."""
    os.nice(10)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        # The system isn't Linux, or this user may not set it.
        pass


def _limit(memory_bytes: int, cpu_seconds: int) -> None:
    """Gives up everything that reading doesn't need; the reader's modules are already imported."""
    limits = {
        resource.RLIMIT_CORE: (0, 0),
        # Bytes of a file that it writes. A pipe is no file.
        resource.RLIMIT_FSIZE: (0, 0),
        # No new descriptor: neither a file nor a socket can be opened.
        resource.RLIMIT_NOFILE: (3, 3),
        # SIGXCPU at the lower limit says why it ended; with equal limits it would be a SIGKILL.
        resource.RLIMIT_CPU: (cpu_seconds, cpu_seconds + 5),
        resource.RLIMIT_AS: (memory_bytes, memory_bytes),
    }
    for kind, values in limits.items():
        try:
            resource.setrlimit(kind, values)
        except (OSError, ValueError):
            # macOS has no limit of address space; the parent's limits of output and time remain.
            continue
    seccomp.shut_off()


class _ParentFile(RangedFile):
    def read_range(self, offset: int, length: int) -> bytes:
        _write(READ, PIECE.pack(offset, min(length, PIECE_BYTES)))
        return _read_reply()


def _write(kind: bytes, content: bytes) -> None:
    _write_all(HEAD.pack(kind, len(content)))
    _write_all(content)


def _write_all(content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(_OUT, view) :]


def _read_reply() -> bytes:
    (length,) = REPLY_HEAD.unpack(_read_exactly(REPLY_HEAD.size))
    return _read_exactly(length)


def _read_exactly(length: int) -> bytes:
    pieces = []
    while length:
        piece = os.read(_IN, min(length, PIECE_BYTES))
        if not piece:
            # The parent is gone.
            os._exit(1)
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def _place_of(error: Exception) -> bytes:
    """The kind and place of an error, without its text, which may quote the file."""
    steps = traceback.extract_tb(error.__traceback__)[-8:]
    places = [f"{os.path.basename(step.filename)}:{step.lineno} {step.name}" for step in steps]
    return f"{type(error).__name__} {' < '.join(reversed(places))}".encode()
