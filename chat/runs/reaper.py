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
from chat.core.waiting import end
from chat.events import Event
from chat.models import Attempt, RawSegment, Run, Runner, RunSegment, RunStatus
from chat.result import Fold, close_open
from chat.runs.outcomes import end_unstarted, stopper_of, write_ending
from chat.runs.resume import opening
from chat.runs.segments import read_events

logger = logging.getLogger(__name__)


SilenceCounts = Callable[[datetime], bool]


class ClockGuard:
    """Whether a missing heartbeat says something about its runner, and not about the database: that
    may have been away, or its clock may have been set.

    `heard` says that the database has answered, and what its time was: say it more often than twice
    in a lease. May be used from any thread.
    """

    def __init__(self) -> None:
        self._heard_at = time.monotonic()
        # The database's time then, once it is known.
        self._time_then: datetime | None = None
        # Perhaps nobody could beat until a moment ago.
        self._judges_from = self._heard_at + settings.LEASE_SECONDS / 2

    def heard(self, database_time: datetime) -> None:
        now = time.monotonic()
        if not self._is_steady(now, database_time):
            # We could not beat, and so perhaps nobody could: the others get time to.
            self._judges_from = now + settings.LEASE_SECONDS / 2
        self._heard_at, self._time_then = now, database_time

    def may_judge(self, database_time: datetime) -> bool:
        """``database_time`` is that of the look at the heartbeats."""
        now = time.monotonic()
        return now >= self._judges_from and self._is_steady(now, database_time)

    def _is_steady(self, now: float, database_time: datetime) -> bool:
        """Whether the database has answered lately, and its time went on as ours did."""
        passed = now - self._heard_at
        if passed > settings.LEASE_SECONDS / 2:
            return False
        if self._time_then is None:
            return True
        leap = (database_time - self._time_then).total_seconds() - passed
        return abs(leap) <= settings.LEASE_SECONDS / 3


def database_time() -> datetime | None:
    """By which heartbeats are judged; ``None`` where there is none to judge."""
    return Runner.objects.values_list(Now(), flat=True).first()


def boot_of(pid: int) -> str:
    """A mark of the process with this number that a later process does not share; empty if gone."""
    try:
        # Field 22 of stat is the start time in ticks since the machine's boot.
        stat = Path(f"/proc/{pid}/stat").read_text()
        return f"{place()}:{stat.rsplit(') ', 1)[1].split()[19]}"
    except OSError:
        return ""


def place() -> str:
    """Where numbers of processes mean the same as here: this boot of this machine, and within it
    this container. Raises ``OSError`` where the system does not tell."""
    machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{machine}:{os.readlink('/proc/self/ns/pid')}"


def lost_runners(
    *,
    everything_else_is_dead: bool = False,
    me: Runner | None = None,
    silence_counts: SilenceCounts = lambda database_time: True,
) -> list[Runner]:
    """Runners without a heartbeat, by the database's time, and those whose process was here and is
    gone.

    ``silence_counts``: whether nobody has beaten for another reason, such as a database that was
    away. It is asked behind the look, which may have waited for that very database, with the
    database's time at the look.
    ``everything_else_is_dead``: the caller holds the lock of an installation on SQLite, so no
    other runner can be alive. With PostgreSQL no lock on a file says that.
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
    """Whether its process certainly is no more. Of a container or machine that only has the same
    name as this one nothing is known: there the heartbeat decides."""
    try:
        was_here = runner.boot.rpartition(":")[0] == place()
    except OSError:
        return False
    if not was_here:
        return False
    boot = boot_of(runner.pid)
    return boot != runner.boot if boot else not _exists(runner.pid)


def _exists(pid: int) -> bool:
    """Whether there is such a process; /proc may hide those of other users."""
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
    """Ends or requeues the runs of lost runners, and forgets those runners; returns the runs.

    Any number of processes may do this at once: each run is won by one conditional update.
    """
    settled: list[Run] = []
    lost = lost_runners(
        everything_else_is_dead=everything_else_is_dead, me=me, silence_counts=silence_counts
    )
    for runner in lost:
        left = Run.objects.filter(runner=runner, status=RunStatus.RUNNING)
        settled += [run for run in left.select_related("conversation") if _settle(run, runner)]
        if not left.exists():
            # One that has claimed another run in this moment is not lost after all.
            with suppress(IntegrityError):
                Runner.objects.filter(pk=runner.pk).delete()
    settled += _settle_orphans()
    return settled


def tell_of(settled: Iterable[Run], notifier: ChangeNotifier) -> None:
    """Rings for the rooms of settled runs, and for the places in line that are free now."""
    rooms = {room_topic(run.conversation.public_id) for run in settled}
    for topic in rooms:
        notifier.publish(topic)
    if rooms:
        notifier.publish(QUEUED)


def _settle_orphans() -> list[Run]:
    """Running runs without a runner's row: somebody deleted the row."""
    orphans = Run.objects.filter(runner__isnull=True, status=RunStatus.RUNNING)
    return [run for run in orphans.select_related("conversation") if _settle(run, None)]


def _settle(run: Run, runner: Runner | None) -> bool:
    """A run that cannot be settled must not keep the others, nor a process that starts, from
    going on; a database that is away is raised."""
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
    """Nothing was sent: the run goes back to its place in line."""
    requeued = Run.objects.filter(
        pk=run.pk,
        status=RunStatus.RUNNING,
        runner=runner,
        request_sent_at__isnull=True,
        # Somebody may have stopped it since we looked: then it ends, at the next look.
        stop_requested_at__isnull=True,
    ).update(status=RunStatus.QUEUED, runner=None, claimed_at=None)
    if requeued:
        logger.info("run.requeued run=%s", run.public_id)
    return bool(requeued)


def give_back(runner: UUID, run_pk: int) -> bool:
    """Puts a run back in its place in line of which the caller, its runner, knows that nothing was
    accepted, whatever was already written down for the sending. Refused attempts count on. False:
    it is not the caller's, or somebody has stopped it."""
    with transaction.atomic():
        given = Run.objects.filter(
            pk=run_pk, runner_id=runner, status=RunStatus.RUNNING, stop_requested_at__isnull=True
        ).update(status=RunStatus.QUEUED, runner=None, claimed_at=None, request_sent_at=None)
        if given:
            Attempt.objects.filter(run_id=run_pk, outcome="").delete()
            publish_after_commit(QUEUED)
    return bool(given)


def give_all_back(runner: Runner) -> None:
    """Puts what a runner has claimed, but not sent, back in its place in line."""
    for run in Run.objects.filter(
        runner=runner, status=RunStatus.RUNNING, request_sent_at__isnull=True
    ):
        if _requeue(run, runner):
            publish_after_commit(QUEUED)


def end_broken(run_pk: int, runner: UUID) -> bool:
    """Ends a run whose execution failed in a way that nobody foresaw; what it wrote stays."""
    return end_lost(Run.objects.get(pk=run_pk), Runner(uuid=runner))


def end_lost(run: Run, runner: Runner | None) -> bool:
    """Folds what was committed and appends the one ``chat.end``. Only one process wins.

    A last segment of the lost runner may still arrive between our reading and our writing;
    it takes the number that we want, we fail, and read again.
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
    """The closing events, and the number behind which they belong."""
    try:
        events = read_events(run)
        beginning = [] if events else opening(run)
        return [*beginning, *_closing(run, [*events, *beginning])], events[-1].seq if events else 0
    except DatabaseError:
        raise
    except Exception:
        # A log that cannot be read must not stay "running", nor hold up the other runs for ever.
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
    """A person who pressed Stop just before the process died gets what they asked for."""
    return "stopped" if run.stop_requested_at else "interrupted"


# --- tidying ----------------------------------------------------------------------------


def purge_raw() -> int:
    """Removes raw frames whose time is over; returns how many rows."""
    before = timezone.now() - timedelta(days=settings.RAW_FRAMES_DAYS)
    keys = RawSegment.objects.filter(run__finished_at__lt=before).values_list("pk", flat=True)[:500]
    removed, _ = RawSegment.objects.filter(pk__in=list(keys)).delete()
    return removed


# What a process without a runner does about lost ones. Somebody must: all of them may be dead.

# As often as a runner beats. A look that finds nobody is a few small queries.
REAPS_PER_LEASE = 6


@asynccontextmanager
async def reap_forever(notifier: ChangeNotifier = change_notifier) -> AsyncIterator[None]:
    """For as long as the block lasts, ends or requeues what lost runners left. Any number of
    processes may do this beside each other and beside runners, which do it themselves."""
    threads = DatabaseThreads("bystander", size=1)
    looking = asyncio.create_task(_reap_forever(notifier, threads), name="bystander")
    try:
        yield
    finally:
        await end(looking)
        await threads.close()


async def _reap_forever(notifier: ChangeNotifier, threads: DatabaseThreads) -> None:
    clock_guard = ClockGuard()
    while True:
        try:
            settled = await threads.call(_reap_once, clock_guard)
            tell_of(settled, notifier)
        except Exception as error:
            # The database may be away; the next look is soon.
            logger.warning("bystander.failed error=%s", type(error).__name__)
        await asyncio.sleep(settings.LEASE_SECONDS / REAPS_PER_LEASE)


def _reap_once(clock_guard: ClockGuard) -> list[Run]:
    settled = reap(silence_counts=clock_guard.may_judge)
    now = database_time()
    if now is not None:
        clock_guard.heard(now)
    return settled


# Ends what a restored database believes to be under way.

RESTORED = (
    "The installation was restored from a backup. Whether this had been sent after the backup was "
    "made is not known, so it was not sent again."
)


def settle_restored() -> int:
    """Ends every live run, and forgets every runner; returns how many runs.

    The caller knows that no runner is alive. Nothing is put back in line: what waited when the
    backup was made may have been sent since, and no request is ever sent twice.
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
    Run.objects.filter(pk=run.pk).update(notes=[*run.notes, RESTORED])
