"""Runs functions in processes of their own, which start within milliseconds: they are forked from
one that has everything slow imported."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from tests.support import loaded

# A deadline for what should happen at once, on a machine that has other things to do.
SOON_SECONDS = 60

_context = multiprocessing.get_context("forkserver")
# Nothing that imports Twisted's reactor, whose selector the processes would share, or that reads
# the settings, which come from the environment of each.
_context.set_forkserver_preload(
    [
        "channels.routing",
        "channels.security.websocket",
        "channels.sessions",
        "chat.core.metrics",
        "chat.dialects",
        "chat.events",
        "chat.rendering.markdown",
        "cryptography.fernet",
        "daphne.http_protocol",
        "daphne.ws_protocol",
        "django.core.management.commands.migrate",
        "django.db.backends.postgresql.base",
        "django.db.backends.sqlite3.base",
        "django.test",
        "httpx",
        "psycopg_pool",
        "redis.asyncio",
        "twisted.internet.asyncioreactor",
        "twisted.internet.endpoints",
        "twisted.web.http",
    ]
)

# The processes that have imported the application, too, for the two ways to install it.
_loaded = {"alone": forkserver.ForkServer(), "shared": forkserver.ForkServer()}
for _name, _server in _loaded.items():
    _server.set_forkserver_preload([f"tests.support.loaded_{_name}"])


@contextmanager
def _forking_from(server: forkserver.ForkServer) -> Iterator[None]:
    """Meanwhile processes are forked from this one: `multiprocessing` itself knows a single one."""
    usual = forkserver.connect_to_new_process
    forkserver.connect_to_new_process = server.connect_to_new_process
    try:
        yield
    finally:
        forkserver.connect_to_new_process = usual


@cache
def until_loaded() -> None:
    """So that the first test which starts a server doesn't wait for the imports of all of them."""
    with _forking_from(_loaded["alone"]):
        process = _context.Process(target=int, daemon=True)
        process.start()
    process.join()


class Forked:
    """A process that runs ``main``, and what it prints: ``stdout``, and ``stderr`` where that is
    wanted."""

    def __init__(
        self, main: Callable[..., None], *arguments: object, has_stderr: bool = False
    ) -> None:
        pipes = [_context.Pipe(duplex=False) for _ in range(1 + has_stderr)]
        self._readers = [reader for reader, _ in pipes]
        writers = [writer for _, writer in pipes]
        self._process = _context.Process(target=_run, args=(writers, main, *arguments), daemon=True)
        self._process.start()
        for writer in writers:
            writer.close()
        files = [open(reader.fileno(), closefd=False) for reader in self._readers]  # noqa: SIM115
        self.stdout, self.stderr = files[0], files[-1]
        self._files = files

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def line(self) -> str:
        return self.stdout.readline().strip()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        self._process.join(SOON_SECONDS)
        assert self._process.exitcode is not None, "it does not end"
        return self._process.exitcode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        for each in (*self._files, *self._readers):
            each.close()


def _run(writers: list[Connection], main: Callable[..., Any], *arguments: object) -> None:
    for descriptor, writer in enumerate(writers, start=1):
        os.dup2(writer.fileno(), descriptor)
        writer.close()
    main(*arguments)


class ForkedPython:
    """``python`` with these arguments (a script, or ``-m`` and a module), as `subprocess.Popen`
    runs it, in a fraction of the time: most of what a server does until it serves is importing.
    ``folder`` must be the source of the tests.
    """

    def __init__(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        # Readers of the log need not ask whether the process has got as far as opening it.
        log.touch()
        self._process = _context.Process(
            target=_run_python, args=(arguments, folder, dict(environment), log), daemon=True
        )
        with _forking_from(_loaded["shared" if environment.get("REDIS_URL") else "alone"]):
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, negative after a signal, or nothing while it lives."""
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        self._process.join(seconds)
        code = self.poll()
        if code is None:
            raise TimeoutError(f"process {self.pid} does not end")
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run_python(
    arguments: Sequence[str], folder: Path, environment: dict[str, str], log: Path
) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    if not loaded.take_settings():
        os.execv(sys.executable, [sys.executable, *arguments])
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")
