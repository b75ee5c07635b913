"""Runs functions in processes of their own, which start within milliseconds: they are forked from
one that has everything slow imported."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Self

# A deadline for what should happen at once, on a machine that has other things to do.
SOON_SECONDS = 60

_context = multiprocessing.get_context("forkserver")
# Nothing that imports Twisted's reactor, whose selector the processes would share, or that reads
# the settings, which come from the environment of each.
_context.set_forkserver_preload(
    [
        "channels.routing",
        "chat.core.metrics",
        "daphne.http_protocol",
        "daphne.ws_protocol",
        "django.core.management.commands.migrate",
        "django.db.backends.sqlite3.base",
        "django.test",
        "twisted.internet.asyncioreactor",
        "twisted.internet.endpoints",
        "twisted.web.http",
    ]
)


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
