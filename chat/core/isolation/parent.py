"""The parent's side: starts the child, answers its requests, and kills it where it exceeds a limit."""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import BinaryIO, Literal, TypeAlias

from django.utils.translation import gettext

from chat.core.isolation import child

logger = logging.getLogger(__name__)

Reason: TypeAlias = Literal["memory", "time", "output", "crash"]

# The caller is asked this often whether it still wants what the child reads.
CHECK_SECONDS = 0.5
_MEGABYTE = 1024 * 1024
_ROOT = Path(__file__).resolve().parents[3]
# -I: neither the environment nor the folder adds anything. The folder of the source is an argument.
_START = (
    *("-I", "-X", "utf8", "-c"),
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from chat.core.isolation.child import main; main()",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``wait_seconds`` limits the sum of the parent's waits for the child, without the time that
    the parent works."""

    memory_bytes: int
    cpu_seconds: int
    wait_seconds: float
    frame_bytes: int
    output_bytes: int


class ChildKilled(Exception):
    """The child exceeded a limit or died. ``str()`` says which, for people. The same bytes would do it
    again, so nobody should try them a second time."""

    def __init__(self, reason: Reason, limits: Limits) -> None:
        words: dict[Reason, str] = {
            "memory": gettext(
                "Reading the file was stopped, because it needs more than %(memory)s MB of memory."
            ),
            "time": gettext("Reading the file was stopped, because it takes too long."),
            "output": gettext("Reading the file was stopped, because its content is too large."),
            "crash": gettext("Reading the file was stopped, because it makes the reader fail."),
        }
        super().__init__(words[reason] % {"memory": f"{limits.memory_bytes // _MEGABYTE:,}"})
        self.reason = reason


def read_in_child(
    reader: str,
    file: BinaryIO,
    order: bytes,
    *,
    limits: Limits,
    check: Callable[[], None] | None = None,
) -> Generator[bytes, None, None]:
    """Runs the function ``reader`` ("module:function") over the file in a child process, and yields its
    frames. ``check`` is called about twice a second and may raise to end it.

    Raises ``Refused`` with the reader's sentence, and ``ChildKilled``. The child is gone when the
    iterator ends or is closed, whatever has happened.
    """
    size = file.seek(0, os.SEEK_END)
    with subprocess.Popen(  # our own interpreter, and no shell
        [sys.executable, *_START, str(_ROOT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        # A Ctrl-C in the terminal is for the parent alone.
        start_new_session=True,
        bufsize=0,
    ) as process:
        try:
            reading = _Reading(process, file, limits, check)
            name = reader.encode()
            start = child.START.pack(size, limits.memory_bytes, limits.cpu_seconds, len(name))
            reading.send(start + name + child.REPLY_HEAD.pack(len(order)) + order)
            yield from reading.items()
        finally:
            process.kill()


class _Reading:
    """A child that reads. Its pipes never block: a child that neither writes nor reads is noticed."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        file: BinaryIO,
        limits: Limits,
        check: Callable[[], None] | None,
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._file = file
        self._limits = limits
        self._check = check
        self._left_seconds = limits.wait_seconds
        self._left_bytes = limits.output_bytes
        self._asked_at = monotonic()

    def items(self) -> Iterator[bytes]:
        limits = self._limits
        while True:
            self._ask()
            kind, length = child.HEAD.unpack(self._receive(child.HEAD.size))
            self._left_bytes -= length if kind != child.READ else 0
            if length > limits.frame_bytes or self._left_bytes < 0:
                raise self._killed("output")
            content = self._receive(length)
            if kind == child.ITEM:
                yield content
            elif kind == child.READ and length == child.PIECE.size:
                self._send_piece(*child.PIECE.unpack(content))
            elif kind == child.DONE:
                return
            elif kind == child.REFUSED:
                raise child.Refused(content.decode("utf-8", "replace"))
            elif kind == child.OUT_OF_MEMORY:
                raise self._killed("memory")
            else:
                raise self._killed("crash", content.decode("utf-8", "replace")[:1000])

    def send(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                self._wait(self._in, select.POLLOUT)
            except BrokenPipeError:
                raise self._died() from None

    def _send_piece(self, offset: int, length: int) -> None:
        self._file.seek(offset)
        piece = self._file.read(min(length, child.PIECE_BYTES))
        self.send(child.REPLY_HEAD.pack(len(piece)) + piece)

    def _receive(self, length: int) -> bytes:
        received = bytearray()
        while len(received) < length:
            try:
                piece = os.read(self._out, min(length - len(received), _MEGABYTE))
            except BlockingIOError:
                self._wait(self._out, select.POLLIN)
                continue
            if not piece:
                raise self._died()
            received += piece
        return bytes(received)

    def _wait(self, descriptor: int, event: int) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        while True:
            began = monotonic()
            is_ready = poll.poll(CHECK_SECONDS * 1000)
            self._left_seconds -= monotonic() - began
            if is_ready:
                return
            self._ask()
            if self._left_seconds < 0:
                raise self._killed("time")

    def _ask(self) -> None:
        """Calls the caller's check about twice a second, also while the child writes all the
        time."""
        if self._check is not None and monotonic() - self._asked_at >= CHECK_SECONDS:
            self._check()
            self._asked_at = monotonic()

    def _died(self) -> ChildKilled:
        """The child has closed its end of the pipe, so it ends or has ended."""
        try:
            status = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return self._killed("crash", "closed its output")
        if status == -signal.SIGXCPU:
            return self._killed("time")
        if status == -signal.SIGKILL:
            # Only the kernel does that when memory runs out: the child is the first to go.
            return self._killed("memory", "killed by the system")
        return self._killed("crash", f"status {status}")

    def _killed(self, reason: Reason, detail: str = "") -> ChildKilled:
        # The detail may come from the child, so it stays on one line.
        words = " ".join(detail.split())
        logger.warning("child.killed pid=%d reason=%s detail=%s", self._process.pid, reason, words)
        return ChildKilled(reason, self._limits)
