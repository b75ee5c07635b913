"""The runner inside the server process: started and drained with it."""

from __future__ import annotations

from django.conf import settings

from chat.runs.runner import Runner

_runner: Runner | None = None


async def start() -> None:
    """Begins to execute runs. With SQLite the caller holds the lock on the data directory, so
    nobody else does; a PostgreSQL may be shared with other servers and runners."""
    global _runner
    _runner = Runner(is_alone=settings.IS_SQLITE)
    await _runner.start()


async def stop(timeout: float) -> None:
    """Lets runs go on for ``timeout`` seconds, interrupts the rest, and flushes the log."""
    global _runner
    if _runner is not None:
        runner, _runner = _runner, None
        await runner.drain(timeout)
