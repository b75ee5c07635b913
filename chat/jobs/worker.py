"""The periodic tasks of runners that work on the jobs of each lane, and delete what has expired."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from uuid import uuid4

from django.db import DatabaseError
from django.utils.translation import gettext

from chat.core.errors import ActionRefused, is_database_unavailable, is_storage_full, no_room
from chat.core.threads import DatabaseThreads
from chat.jobs import actions
from chat.jobs.kinds import READING, TRANSFERS, JobStopped, Lane, Task, work_of
from chat.models import JobStatus
from chat.runs.runner import PeriodicTask
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

# New jobs are announced; the poll is for lost notifications, and for jobs of lost runners.
POLL_SECONDS = 5.0
# How often progress is written, and a cancellation is seen.
BEAT_SECONDS = 1.0
# How long a process that is to stop waits for the current step of its job.
LAST_STEP_SECONDS = 5.0
PURGE_SECONDS = 60.0


def _work_on(lane: Lane, name: str, seconds: float = POLL_SECONDS) -> PeriodicTask:
    """A task that works on one job of the lane at a time."""

    def make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
        async def work_off() -> None:
            while await work_on_next(threads, lane):
                pass

        return work_off

    return PeriodicTask(topic=lane.topic, seconds=seconds, make=make, name=name)


def _make_purge(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def purge() -> None:
        while await threads.call(actions.purge_some):
            pass

    return purge


JOBS = _work_on(TRANSFERS, TRANSFERS.topic)
# Two at once, so that one large document doesn't delay all others. Each takes a processor and the memory that a
# document may need. The second one leaves the poll to the first.
READ_DOCUMENTS = (
    _work_on(READING, "jobs.reading.1"),
    _work_on(READING, "jobs.reading.2", seconds=12 * POLL_SECONDS),
)
PURGE_JOBS = PeriodicTask(topic=actions.PURGE, seconds=PURGE_SECONDS, make=_make_purge)


async def work_on_next(threads: DatabaseThreads, lane: Lane) -> bool:
    """Works on one job of the lane, and says whether there was one. If it is cancelled, the job ends at its
    next step and is queued again."""
    lease = uuid4()
    job = await threads.call(actions.claim, lease, lane)
    if job is None:
        return False
    task = Task(job=job, lease=lease)
    # A thread of its own: a job takes up to hours, and the other threads have short work to do.
    pool = DatabaseThreads("job", size=1)
    working = asyncio.ensure_future(pool.call(execute, task))
    try:
        while not working.done():
            await asyncio.wait({working}, timeout=BEAT_SECONDS)
            if not working.done():
                await _renew(threads, task)
        working.result()
    except asyncio.CancelledError:
        task.stop("interrupted")
        await _wait_for_last_step(working)
        raise
    finally:
        await pool.close()
    return True


async def _renew(threads: DatabaseThreads, task: Task) -> None:
    try:
        reason = await threads.call(
            actions.renew, task.job, task.lease, done=task.done, total=task.total
        )
    except Exception as error:
        # The database may be unavailable. Without a lease the job's own writes fail, too.
        logger.warning("job.unrenewed job=%s error=%s", task.job.public_id, type(error).__name__)
        return
    if reason is not None:
        task.stop(reason)


async def _wait_for_last_step(working: asyncio.Future[None]) -> None:
    """The runner cancels until this task is over, so further cancellations change nothing."""
    until = monotonic() + LAST_STEP_SECONDS
    while not working.done() and (left := until - monotonic()) > 0:
        try:
            await asyncio.wait({working}, timeout=left)
        except asyncio.CancelledError:
            continue
    if working.done() and not working.cancelled():
        # Whatever it raised was for the caller, who is gone.
        working.exception()


# --- in the job's thread --------------------------------------------------------------------------


def execute(task: Task) -> None:
    """Does the job and records how it has ended."""
    job, lease = task.job, task.lease
    try:
        result = work_of(job.kind)(task)
    except JobStopped as stopped:
        if stopped.reason == "canceled":
            actions.end_job(job, lease, JobStatus.CANCELED, done=task.done, total=task.total)
        elif stopped.reason == "interrupted":
            actions.give_back(job, lease)
    except ActionRefused as refusal:
        actions.end_failed(job, lease, str(refusal))
    except Exception as error:
        if is_storage_full(error) and _end_without_room(task, error):
            return
        if is_database_unavailable(error):
            # The failure can't be recorded. Another attempt begins when the lease is over.
            raise
        logger.exception("job.failed job=%s kind=%s", job.public_id, job.kind)
        words = gettext("Something went wrong on the server. Try again, or ask an administrator.")
        actions.end_failed(job, lease, words)
    else:
        actions.end_done(
            job, lease, done=task.done, total=task.total, result=result, also=task.also
        )


def _end_without_room(task: Task, error: Exception) -> bool:
    """Ends the job, because another attempt would fill the storage again, and what it has stored is deleted
    with its end. False if not even that could be recorded: then another attempt begins when the lease is over."""
    job, name = task.job, type(error).__name__
    logger.error("job.no_room job=%s kind=%s error=%s", job.public_id, job.kind, name)
    try:
        return actions.end_failed(job, task.lease, no_room())
    except DatabaseError:
        return False
