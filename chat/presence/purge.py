"""The periodic task of runners that deletes old rows of presence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from chat.core.threads import DatabaseThreads
from chat.presence.records import KEPT_FOR, delete_old
from chat.runs.runner import PeriodicTask
from chat.upstreams.client import Client


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def purge() -> None:
        await threads.call(delete_old)

    return purge


PURGE_PRESENCE = PeriodicTask(topic="presence.purge", seconds=KEPT_FOR.total_seconds(), make=_make)
