"""What stands beside a runner that is a process of its own: its phase, and where to ask for it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from django.conf import settings
from django.core.management.base import CommandError

from chat.health.checks import checks
from chat.health.process import Phase, process
from chat.health.server import ProbeServer
from project import VERSION

logger = logging.getLogger(__name__)

REFUSED = 2


class Executing(Protocol):
    """A runner, as far as its health is concerned."""

    @property
    def has_started(self) -> bool: ...

    @property
    def is_draining(self) -> bool: ...


@asynccontextmanager
async def probing(runner: Executing) -> AsyncIterator[None]:
    """Answers at ``RUNNER_HOST:RUNNER_PORT`` meanwhile, also while the runner starts and drains.

    Raises ``CommandError`` where it cannot listen there.
    """
    process.begins("runner", VERSION, phase=lambda: _phase_of(runner))
    server = ProbeServer(settings.RUNNER_HOST, settings.RUNNER_PORT)
    try:
        if settings.RUNNER_PORT:
            await _listen(server)
        yield
    finally:
        await server.close()
        await checks.close()
        await process.ends()


async def _listen(server: ProbeServer) -> None:
    try:
        port = await server.start()
    except OSError as error:
        raise CommandError(
            f"Cannot listen on {settings.RUNNER_HOST}:{settings.RUNNER_PORT}: {error.strerror}.",
            returncode=REFUSED,
        ) from None
    logger.info("probe.serving address=%s", f"http://{settings.RUNNER_HOST}:{port}")


def _phase_of(runner: Executing) -> Phase:
    if runner.is_draining:
        return Phase.DRAINING
    return Phase.SERVING if runner.has_started else Phase.STARTING
