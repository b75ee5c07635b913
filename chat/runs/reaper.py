"""The reaper: ends runs of lost runners and of a restored database, expires raw frames."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Max, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.core import metrics
from chat.core.errors import is_database_unavailable
from chat.core.notify import (
    QUEUED,
    ChangeNotifier,
    change_notifier,
    publish_after_commit,
    room_topic,
)
from chat.core.threads import DatabaseThreads
from chat.core.waiting import cancel_task
from chat.events import Event
from chat.models import Attempt, RawSegment, Run, Runner, RunSegment, RunStatus
from chat.result import Fold, close_open
from chat.runs.outcomes import end_unstarted, stopper_of, write_ending
from chat.runs.resume import opening
from chat.runs.segments import read_events

logger = logging.getLogger(__name__)


SilenceCounts = Callable[[datetime], bool]


class ClockGuard:
    """Decides whether a missing heartbeat means a lost runner. It does not if the database was
    unavailable or its clock was changed.

    Call `note_time` with the database's time after successful queries, more than twice in a lease. May
    be used from any thread.
    """

    def __init__(self) -> None:
        self._noted_at = time.monotonic()
        # The database's time at that moment, once it is known.
        self._time_then: datetime | None = None
        # Perhaps no runner could send heartbeats until now.
        self._judges_from = self._noted_at + settings.LEASE_SECONDS / 2

    def note_time(self, database_time: datetime) -> None:
        now = time.monotonic()
        if not self._is_steady(now, database_time):
            # This process could not reach the database, so perhaps no runner could; give them time.
            self._judges_from = now + settings.LEASE_SECONDS / 2
        self._noted_at, self._time_then = now, database_time

    def may_judge(self, database_time: datetime) -> bool:
        """``database_time`` is the time of the query for heartbeats."""
        now = time.monotonic()
        return now >= self._judges_from and self._is_steady(now, database_time)

    def _is_steady(self, now: float, database_time: datetime) -> bool:
        """Returns whether the database has answered recently, and its clock agrees with this process's."""
        passed = now - self._noted_at
        if passed > settings.LEASE_SECONDS / 2:
            return False
        if self._time_then is None:
            return True
        leap = (database_time - self._time_then).total_seconds() - passed
        return abs(leap) <= settings.LEASE_SECONDS / 3


def database_time() -> datetime | None:
    """The database's time, by which heartbeats are judged; ``None`` if there are no runners."""
    return Runner.objects.values_list(Now(), flat=True).first()


def boot_of(pid: int) -> str:
    """Identifies the process with this pid, unlike a later process with the same pid; empty if gone."""
    try:
        # Field 22 of stat is the start time in ticks since the machine's boot.
        stat = Path(f"/proc/{pid}/stat").read_text()
        return f"{place()}:{stat.rsplit(') ', 1)[1].split()[19]}"
    except OSError:
        return ""


def place() -> str:
    """Identifies the pid namespace: this boot of this machine, and this container. Raises ``OSError``
    where the system does not provide it."""
    machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{machine}:{os.readlink('/proc/self/ns/pid')}"


def lost_runners(
    *,
    everything_else_is_dead: bool = False,
    me: Runner | None = None,
    silence_counts: SilenceCounts = lambda database_time: True,
) -> list[Runner]:
    """Runners without a recent heartbeat by the database's time, and those whose process on this host has
    ended.

    ``silence_counts(database_time)``: whether missing heartbeats count, which they do not after an
    outage of the database. It is called after the query, which may have waited for that database.
    ``everything_else_is_dead``: the caller holds the lock of an installation on SQLite, so no other
    runner can be alive.
    """
    others = Runner.objects.exclude(pk=me.pk) if me else Runner.objects.all()
    if everything_else_is_dead:
        return list(others)
    is_silent = Q(heartbeat_at__lt=Now() - timedelta(seconds=settings.LEASE_SECONDS))
    silent = dict(others.filter(is_silent).values_list("pk", Now()))
    if silent and not silence_counts(max(silent.values())):
        silent = {}
    near = others.filter(is_silent | Q(host=socket.gethostname()))
    return [runner for runner in near if runner.pk in silent or _is_gone(runner)]


def _is_gone(runner: Runner) -> bool:
    """Returns whether its process has certainly ended. For another container or machine with the same host name
    this is unknown, and the heartbeat decides."""
    try:
        was_here = runner.boot.rpartition(":")[0] == place()
    except OSError:
        return False
    if not was_here:
        return False
    boot = boot_of(runner.pid)
    return boot != runner.boot if boot else not _exists(runner.pid)


def _exists(pid: int) -> bool:
    """Returns whether the process exists; /proc may hide those of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def reap(
    *,
    everything_else_is_dead: bool = False,
    me: Runner | None = None,
    silence_counts: SilenceCounts = lambda database_time: True,
) -> list[Run]:
    """Ends or requeues the runs of lost runners, and deletes those runners; returns the runs.

    Any number of processes may call it at once: a conditional update decides who handles a run.
    """
    settled: list[Run] = []
    lost = lost_runners(
        everything_else_is_dead=everything_else_is_dead, me=me, silence_counts=silence_counts
    )
    for runner in lost:
        left = Run.objects.filter(runner=runner, status=RunStatus.RUNNING)
        settled += [run for run in left.select_related("conversation") if _settle(run, runner)]
        if not left.exists():
            # A runner that has just claimed another run is not lost.
            with suppress(IntegrityError):
                Runner.objects.filter(pk=runner.pk).delete()
    settled += _settle_orphans()
    return settled


def publish_ended(settled: Iterable[Run], notifier: ChangeNotifier) -> None:
    """Publishes changes of the conversations of ended runs, and that servers have free places."""
    rooms = {room_topic(run.conversation.public_id) for run in settled}
    for topic in rooms:
        notifier.publish(topic)
    if rooms:
        notifier.publish(QUEUED)


def _settle_orphans() -> list[Run]:
    """Handles running runs whose runner's row was deleted."""
    orphans = Run.objects.filter(runner__isnull=True, status=RunStatus.RUNNING)
    return [run for run in orphans.select_related("conversation") if _settle(run, None)]


def _settle(run: Run, runner: Runner | None) -> bool:
    """Ends or requeues one run. Its errors must not stop the others; those of an unavailable
    database are raised."""
    try:
        if run.request_sent_at is None and run.stop_requested_at is None:
            return _requeue(run, runner)
        return end_lost(run, runner)
    except Exception as error:
        if is_database_unavailable(error):
            raise
        logger.exception("run.unsettled run=%s", run.public_id)
        return False


def _requeue(run: Run, runner: Runner | None) -> bool:
    """Requeues a run whose request was not sent; it keeps its position."""
    requeued = Run.objects.filter(
        pk=run.pk,
        status=RunStatus.RUNNING,
        runner=runner,
        request_sent_at__isnull=True,
        # If it was stopped meanwhile, the next call ends it.
        stop_requested_at__isnull=True,
    ).update(status=RunStatus.QUEUED, runner=None, claimed_at=None)
    if requeued:
        logger.info("run.requeued run=%s", run.public_id)
    return bool(requeued)


def requeue_unaccepted(runner: UUID, run_pk: int) -> bool:
    """Requeues a run whose request the server has certainly not accepted, even if it is recorded as
    sent. Refused attempts still count. Returns False if the caller does not own it or it was
    stopped."""
    with transaction.atomic():
        given = Run.objects.filter(
            pk=run_pk, runner_id=runner, status=RunStatus.RUNNING, stop_requested_at__isnull=True
        ).update(status=RunStatus.QUEUED, runner=None, claimed_at=None, request_sent_at=None)
        if given:
            Attempt.objects.filter(run_id=run_pk, outcome="").delete()
            publish_after_commit(QUEUED)
    return bool(given)


def requeue_unsent(runner: Runner) -> None:
    """Requeues the runs that a runner has claimed but not sent."""
    for run in Run.objects.filter(
        runner=runner, status=RunStatus.RUNNING, request_sent_at__isnull=True
    ):
        if _requeue(run, runner):
            publish_after_commit(QUEUED)


def end_broken(run_pk: int, runner: UUID) -> bool:
    """Ends a run whose execution failed unexpectedly. Its committed events stay."""
    return end_lost(Run.objects.get(pk=run_pk), Runner(uuid=runner))


def end_lost(run: Run, runner: Runner | None) -> bool:
    """Folds the committed events and appends ``chat.end``. Only one process succeeds.

    A last segment of the lost runner may arrive between reading and writing. It has the same seq, so
    the write fails and is repeated after another read.
    """
    for _ in range(3):
        try:
            with transaction.atomic():
                won = Run.objects.filter(pk=run.pk, status=RunStatus.RUNNING, runner=runner).update(
                    status=RunStatus.INTERRUPTED
                )
                if not won:
                    return False
                closing, last_seq = _closing_behind(run)
                write_ending(run, closing, after=last_seq)
        except IntegrityError:
            continue
        metrics.ENDED.labels(_cause(run)).inc()
        logger.info("run.reaped run=%s events=%d", run.public_id, last_seq)
        return True
    return False


def _closing_behind(run: Run) -> tuple[list[Event], int]:
    """The closing events, and the seq after which they belong."""
    try:
        events = read_events(run)
        beginning = [] if events else opening(run)
        return [*beginning, *_closing(run, [*events, *beginning])], events[-1].seq if events else 0
    except DatabaseError:
        raise
    except Exception:
        # A run with an unreadable log must not stay "running" or block the other runs.
        logger.exception("run.unreadable run=%s", run.public_id)
        last = RunSegment.objects.filter(run=run).aggregate(Max("last_seq"))["last_seq__max"]
        return _closing(run, []), last or 0


def _closing(run: Run, events: list[Event]) -> list[Event]:
    fold = Fold()
    for event in events:
        fold.add(event)
    cause = _cause(run)
    return close_open(fold, cause, by=stopper_of(run.pk) if cause == "stopped" else None)


def _cause(run: Run) -> Literal["stopped", "interrupted"]:
    """A stop that was requested before the process died takes precedence."""
    return "stopped" if run.stop_requested_at else "interrupted"


# --- raw frames --------------------------------------------------------------------------


def purge_raw() -> int:
    """Deletes expired raw frames; returns the number of rows."""
    before = timezone.now() - timedelta(days=settings.RAW_FRAMES_DAYS)
    keys = RawSegment.objects.filter(run__finished_at__lt=before).values_list("pk", flat=True)[:500]
    removed, _ = RawSegment.objects.filter(pk__in=list(keys)).delete()
    return removed


# --- reaping in processes without a runner, because all runners may be dead ------------------

# The interval of heartbeats. Without lost runners a round costs a few small queries.
REAPS_PER_LEASE = 6


@asynccontextmanager
async def reap_forever(notifier: ChangeNotifier = change_notifier) -> AsyncIterator[None]:
    """Reaps lost runners while the block runs. Any number of processes may do this at the same time."""
    threads = DatabaseThreads("reaper", size=1)
    reaping = asyncio.create_task(_reap_forever(notifier, threads), name="reaper")
    try:
        yield
    finally:
        await cancel_task(reaping)
        await threads.close()


async def _reap_forever(notifier: ChangeNotifier, threads: DatabaseThreads) -> None:
    clock_guard = ClockGuard()
    while True:
        try:
            settled = await threads.call(_reap_once, clock_guard)
            publish_ended(settled, notifier)
        except Exception as error:
            # The database may be unavailable; the next round is soon.
            logger.warning("reaper.failed error=%s", type(error).__name__)
        await asyncio.sleep(settings.LEASE_SECONDS / REAPS_PER_LEASE)


def _reap_once(clock_guard: ClockGuard) -> list[Run]:
    settled = reap(silence_counts=clock_guard.may_judge)
    now = database_time()
    if now is not None:
        clock_guard.note_time(now)
    return settled


# --- restored databases ----------------------------------------------------------------------

RESTORED = gettext_lazy(
    "Tributary was restored from a backup. This message wasn’t sent again, because it may have been "
    "sent after the backup was made."
)


def settle_restored() -> int:
    """Ends every live run, and forgets every runner; returns how many runs.

    The caller knows that no runner is alive. Nothing is requeued: runs that were queued in the
    backup may have been sent since, and no request is sent twice.
    """
    settled = 0
    for run in Run.objects.filter(status=RunStatus.QUEUED):
        with transaction.atomic():
            settled += end_unstarted(run)
            _note(run)
    for run in Run.objects.filter(status=RunStatus.RUNNING).select_related("runner"):
        settled += end_lost(run, run.runner)
        _note(run)
    Runner.objects.all().delete()
    return settled


def _note(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(notes=[*run.notes, str(RESTORED)])
