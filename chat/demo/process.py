"""The demo upstream as a process: until a signal, or until the process that it serves is gone."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable

from chat.demo.server import DemoUpstream

# Where the system cannot tell us of a process's end we look this often.
LOOK_SECONDS = 0.5


class CannotListen(Exception):
    """The address is taken, forbidden, or no address of this machine."""


async def serve(
    upstream: DemoUpstream, *, announce: Callable[[str], None], parent_pid: int | None = None
) -> None:
    """Serve until SIGTERM, SIGINT or the end of ``parent_pid``. Raises ``CannotListen``."""
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    try:
        await upstream.open()
    except OSError as error:
        raise CannotListen(_reason(error)) from error
    try:
        async with _watching(parent_pid, end.set):
            announce(f"demo upstream {upstream.url}")
            await end.wait()
    finally:
        await upstream.aclose()


def _reason(error: OSError) -> str:
    """In the system's own words; asyncio's are longer and name the address again."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return str(error.strerror or error)
    return os.strerror(error.errno)


@contextlib.asynccontextmanager
async def _watching(pid: int | None, on_end: Callable[[], None]) -> AsyncIterator[None]:
    """Call ``on_end`` when the process has ended, a killed one that nobody waited for included."""
    if pid is None:
        yield
        return
    task = asyncio.get_running_loop().create_task(_await_end(pid))
    task.add_done_callback(lambda done: None if done.cancelled() else on_end())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _await_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        await _look_for_end(pid)
        return
    try:
        await _readable(descriptor)
    finally:
        os.close(descriptor)


async def _readable(descriptor: int) -> None:
    """A process's descriptor becomes readable when the process ends."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)


async def _look_for_end(pid: int) -> None:
    """Without descriptors: a child sees a new parent, anybody else sees the number vanish."""
    is_parent = os.getppid() == pid
    while (os.getppid() == pid) if is_parent else _exists(pid):  # noqa: ASYNC110 (nobody tells us)
        await asyncio.sleep(LOOK_SECONDS)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
