"""What a process without a runner does about lost ones. Somebody must: all of them may be dead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings

from chat.doorbell import Doorbell, doorbell
from chat.models import Run
from chat.runs import reaper
from chat.runs.database import DatabaseThreads
from chat.runs.waiting import end

logger = logging.getLogger(__name__)

# As often as a runner beats. A look that finds nobody is a few small queries.
LOOKS_PER_LEASE = 6


@asynccontextmanager
async def watching_runners(bell: Doorbell = doorbell) -> AsyncIterator[None]:
    """For as long as the block lasts, ends or requeues what lost runners left. Any number of
    processes may do this beside each other and beside runners, which do it themselves."""
    threads = DatabaseThreads("bystander", size=1)
    looking = asyncio.create_task(_look_for_ever(bell, threads), name="bystander")
    try:
        yield
    finally:
        await end(looking)
        await threads.close()


async def _look_for_ever(bell: Doorbell, threads: DatabaseThreads) -> None:
    witness = reaper.Witness()
    while True:
        try:
            settled = await threads.call(_look, witness)
            reaper.tell_of(settled, bell)
        except Exception as error:
            # The database may be away; the next look is soon.
            logger.warning("bystander.failed error=%s", type(error).__name__)
        await asyncio.sleep(settings.LEASE_SECONDS / LOOKS_PER_LEASE)


def _look(witness: reaper.Witness) -> list[Run]:
    settled = reaper.reap(silence_counts=witness.may_judge)
    database_time = reaper.database_time()
    if database_time is not None:
        witness.heard(database_time)
    return settled
