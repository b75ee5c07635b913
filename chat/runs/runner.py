"""The runner: claims runs, supervises them, sends heartbeats, drains."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import Protocol, runtime_checkable
from uuid import UUID
from weakref import WeakSet

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import QuerySet
from django.db.models.functions import Now

from chat.core import metrics
from chat.core.notify import QUEUED, STOPS, ChangeNotifier, Subscription, change_notifier
from chat.core.threads import DatabaseThreads
from chat.core.waiting import cancel_task, wait_at_most
from chat.models import Run, RunStatus
from chat.models import Runner as RunnerRow
from chat.runs import queue, reaper
from chat.runs.answer_memory import AnswerMemory
from chat.runs.budget import Budget
from chat.runs.compaction import Compactor
from chat.runs.configured_buffer import event_buffer
from chat.runs.event_buffer import EventBuffer
from chat.runs.execution import Execution, Ready, Services, prepared
from chat.runs.seen_events import SeenEvents
from chat.runs.writer import SegmentWriter
from chat.upstreams.client import Client
from chat.upstreams.configured import configured_client

logger = logging.getLogger(__name__)

# The delay that a lost notification costs: the queue and stop requests are polled anyway.
POLL_SECONDS = 0.5
# A stop takes effect within a second, including the closed connection and the end of the log.
STOP_SECONDS = 0.5
# Topic: this process has ended a run.
ENDED = "ended"
# How often to look for own runs that are not executed.
STRAYS_SECONDS = 1.0
# Five heartbeats may be missed before the runner counts as lost.
HEARTBEATS_PER_LEASE = 6
# Limit for marking this runner as draining; runs continue meanwhile.
COURTESY_SECONDS = 2.0
# How often to reap lost runners; at least three times in a lease.
TIDY_SECONDS = 10.0
# How often to compact the logs of ended runs.
COMPACT_SECONDS = 5.0
# How often the counts of events of all answers are stored; at most this much is lost in a crash.
SEEN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicTask:
    """Work of a feature that every runner repeats: when ``topic`` is published, and every
    ``seconds`` in any case. ``make`` gives the coroutine function that does one round. Only a task
    whose topic is that of another one needs a ``name``."""

    topic: str
    seconds: float
    make: Callable[[Client, DatabaseThreads], Callable[[], Awaitable[None]]]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RareWork:
    """Work that the rounds of another task do as well, at most every ``seconds``, and not before as much time has passed:
    what is due once an hour needs no rounds of its own. Nobody may wait for that task."""

    seconds: float
    make: Callable[[Client, DatabaseThreads], Callable[[], Awaitable[None]]]

    def after(
        self, work: Callable[[], Awaitable[None]], client: Client, threads: DatabaseThreads
    ) -> Callable[[], Awaitable[None]]:
        """``work``, and then this one if it is time."""
        rare = self.make(client, threads)
        due_at = time.monotonic() + self.seconds

        @wraps(work)
        async def both() -> None:
            nonlocal due_at
            await work()
            if time.monotonic() >= due_at:
                due_at = time.monotonic() + self.seconds
                await rare()

        return both


@runtime_checkable
class OwningWork(Protocol):
    """Periodic work of a runner that owns rows by the runner's id, like runs."""

    async def __call__(self) -> None: ...

    def attach(self, identity: Callable[[], UUID], wake: Callable[[], None]) -> None:
        """``identity``: the id of the runner's row, whose heartbeat tells that its rows are worked on.
        ``wake`` brings the next round at once."""

    async def drain(self, timeout_seconds: float) -> None:
        """Starts nothing more, lets what runs go on for a while, and gives back the rest."""


# Tasks by name. A feature registers its task when the process starts (`chat.apps`).
_periodic_tasks: dict[str, PeriodicTask] = {}
# Rare work by the name of the task whose rounds do it.
_rare_work: dict[str, RareWork] = {}


def register_periodic_task(task: PeriodicTask) -> None:
    name = task.name or task.topic
    assert _periodic_tasks.get(name, task) is task, f"two tasks have the name {name}"
    _periodic_tasks[name] = task


def add_rare_work(task: PeriodicTask, work: RareWork) -> None:
    """Lets the rounds of a task do the work of another feature as well."""
    _rare_work[task.name or task.topic] = work


def periodic_tasks() -> Mapping[str, PeriodicTask]:
    return _periodic_tasks


# One round of the work, how often there is one, and the topic that brings one at once.
RepeatedWork = tuple[Callable[[], Awaitable[None]], float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strays:
    """Keys of runs that this runner owns but does not execute: before the request (``unsent``) and
    after it (``left``)."""

    unsent: list[int]
    left: list[int]


class Runner:
    """Executes runs in this process. `start` it once, and `drain` it before the process ends."""

    def __init__(
        self,
        *,
        buffer: EventBuffer = event_buffer,
        notifier: ChangeNotifier = change_notifier,
        is_alone: bool = False,
        capacity: int | None = None,
    ) -> None:
        self.uuid = uuid.uuid4()
        self._buffer = buffer
        self._notifier = notifier
        self._is_alone = is_alone
        self._capacity = settings.RUNNER_CAPACITY if capacity is None else capacity
        self._threads = DatabaseThreads("runner", size=2)
        # Stop requests are read while hundreds of endings wait to be written.
        self._stops = DatabaseThreads("stops", size=1)
        # Heartbeats continue while the other threads are busy or wait for a locked row.
        self._heartbeat_thread = DatabaseThreads("pulse", size=1)
        self._writer = SegmentWriter()
        self._executions: dict[int, tuple[Execution, asyncio.Task[None]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._owning: list[OwningWork] = []
        self._is_draining = False
        self._compactor = Compactor(self._threads)
        self._client: Client | None = None
        self._seen = SeenEvents(self._threads)
        # The claim that is in progress. It is not cancelled, because it may have marked a run as sent.
        self._claiming: asyncio.Task[None] | None = None
        # True if the last claim has left runs in the queue.
        self._has_left = True
        # True if the last look at the own runs has found one that is not executed.
        self._may_have_strays = False
        self._clock_guard = reaper.ClockGuard()
        _runners.add(self)

    @property
    def has_started(self) -> bool:
        """True if it has begun to claim runs."""
        return bool(self._tasks)

    @property
    def is_draining(self) -> bool:
        """True if it claims nothing more because it is to stop."""
        return self._is_draining

    @property
    def capacity(self) -> int:
        """How many runs it may execute at once."""
        return self._capacity

    @property
    def executing(self) -> int:
        """How many runs it executes now."""
        return len(self._executions)

    async def start(self) -> None:
        """Registers the process, ends the runs of dead processes, and begins to claim."""
        await self._heartbeat_thread.call(self._register)
        self._clock_guard = reaper.ClockGuard()
        await self._reap(everything_else_is_dead=self._is_alone)
        self._client = client = configured_client()
        self._services = Services(
            runner=self.uuid,
            client=client,
            writer=self._writer,
            buffer=self._buffer,
            threads=self._threads,
            budget=Budget(settings.PENDING_BYTES),
            memory=AnswerMemory(settings.ANSWERS_BYTES),
            seen=self._seen,
        )
        self._writer.start()
        self._tasks = [
            self._repeating(work, seconds, topic=topic)
            for work, seconds, topic in self.repeated_work(client)
        ]
        logger.info("runner.started runner=%s pid=%d", self.uuid, os.getpid())

    def repeated_work(self, client: Client) -> list[RepeatedWork]:
        """The periodic work of this runner."""
        beat = settings.LEASE_SECONDS / HEARTBEATS_PER_LEASE
        tidy = min(TIDY_SECONDS, settings.LEASE_SECONDS / 3)
        return [
            (self._claim, POLL_SECONDS, QUEUED),
            (self._see_stops, STOP_SECONDS, STOPS),
            (self._take_up_strays, STRAYS_SECONDS, ""),
            (self._beat, beat, ""),
            (self._tidy, tidy, ""),
            (self._compactor.compact_due, COMPACT_SECONDS, ""),
            (self._seen.store, SEEN_SECONDS, ""),
            *(
                (self._made(task, client), task.seconds, task.topic)
                for task in _periodic_tasks.values()
            ),
        ]

    def _made(self, task: PeriodicTask, client: Client) -> Callable[[], Awaitable[None]]:
        work = task.make(client, self._threads)
        if isinstance(work, OwningWork):
            work.attach(lambda: self.uuid, lambda: self._notifier.dispatch(task.topic))
            self._owning.append(work)
        rare = _rare_work.get(task.name or task.topic)
        return rare.after(work, client, self._threads) if rare else work

    async def drain(self, timeout_seconds: float) -> None:
        """Claims nothing more, lets runs continue for a while, interrupts the rest, and deregisters."""
        self._is_draining = True
        with suppress(DatabaseError, InterfaceError, TimeoutError):
            # Optional: an unavailable database must not keep runs from being interrupted.
            async with asyncio.timeout(COURTESY_SECONDS):
                await self._heartbeat_thread.call(self._mark_draining)
        if self._claiming is not None:
            # The claim returns its runs to the queue.
            await asyncio.wait({self._claiming}, timeout=COURTESY_SECONDS)
        await asyncio.gather(
            self._wait_for_executions(timeout_seconds),
            *(self._drain_work(work, timeout_seconds) for work in self._owning),
        )
        for execution, _ in list(self._executions.values()):
            execution.interrupt()
        left = [task for _, task in self._executions.values()]
        if left:
            await asyncio.wait(left, timeout=5)
        await self._end()

    async def _wait_for_executions(self, timeout_seconds: float) -> None:
        executing = [task for _, task in self._executions.values()]
        if executing:
            await asyncio.wait(executing, timeout=timeout_seconds)

    async def _drain_work(self, work: OwningWork, timeout_seconds: float) -> None:
        try:
            await work.drain(timeout_seconds)
        except Exception as error:
            # Its rows are handled like those of a lost runner.
            logger.warning("runner.work_not_drained error=%s", type(error).__name__)

    async def _end(self) -> None:
        for task in self._tasks:
            await cancel_task(task)
        await self._writer.close()
        with suppress(Exception):
            await self._seen.store()
        if self._client is not None:
            await self._client.aclose()
        with suppress(Exception):
            await self._threads.call(self._deregister)
        await self._threads.close()
        await self._stops.close()
        await self._heartbeat_thread.close()
        logger.info("runner.ended runner=%s", self.uuid)

    # --- tasks -------------------------------------------------------------------------

    def _repeating(
        self, work: Callable[[], Awaitable[None]], seconds: float, *, topic: str = ""
    ) -> asyncio.Task[None]:
        """Subscribes before it returns, so that no notification is missed until the task runs."""
        subscription = self._notifier.subscribe(topic)
        return asyncio.create_task(self._repeat(work, seconds, subscription))

    async def _repeat(
        self, work: Callable[[], Awaitable[None]], seconds: float, subscription: Subscription
    ) -> None:
        """Does ``work`` whenever ``subscription`` is set, and at least every ``seconds``."""
        while True:
            subscription.clear()
            try:
                await work()
            except Exception as error:
                # The database may be unavailable; the next round tries again.
                name = getattr(work, "__name__", type(work).__name__)
                logger.warning("runner.work_failed work=%s error=%s", name, type(error).__name__)
            await wait_at_most(subscription, seconds)

    async def _claim(self) -> None:
        free = self._capacity - len(self._executions)
        if self._is_draining or free <= 0:
            # The queue was not looked at.
            self._has_left = True
            return
        self._claiming = asyncio.create_task(self._claim_up_to(free), name="claim")
        await asyncio.shield(self._claiming)

    async def _claim_up_to(self, limit: int) -> None:
        me = self.uuid
        claimed, ready = await self._threads.call(_claim_and_prepare, me, limit)
        self._has_left = claimed.has_left
        metrics.CLAIMED.inc(len(claimed.runs))
        for run in claimed.runs:
            if self._is_draining or self.uuid != me:
                # Meanwhile the drain began, or this runner was reaped. Nothing was sent, so another
                # runner can execute it at once.
                await self._threads.call(reaper.requeue_unaccepted, me, run.pk)
            else:
                self._begin(run.pk, run, ready)
            ready = None

    def _begin(self, key: int, claimed: Run | None = None, ready: Ready | None = None) -> None:
        if key in self._executions or self._is_draining:
            return
        execution = Execution(key, self._services, claimed=claimed, ready=ready)
        task = asyncio.create_task(execution.run(), name=f"run-{key}")
        self._executions[key] = (execution, task)
        task.add_done_callback(lambda _: self._ended(key))

    def _ended(self, key: int) -> None:
        execution, _ = self._executions.pop(key)
        if execution.run_id is not None:
            # Followers that are late by a few seconds still read from memory.
            asyncio.get_running_loop().call_later(5, self._buffer.forget, execution.run_id)
        if self._has_left:
            # The server has a free place now. Runs that were queued since then have been published.
            self._notifier.dispatch(QUEUED)
        self._notifier.dispatch(ENDED)
        for topic in execution.topics:
            self._notifier.dispatch(topic)

    async def _beat(self) -> None:
        if not await self._heartbeat_thread.call(self._write_heartbeat) and not self._is_draining:
            await self._register_again()

    async def _register_again(self) -> None:
        """This runner missed so many heartbeats that it was reaped, and its runs were ended. It registers
        with a new id, so that nothing of the old one can be taken for its own."""
        before, self.uuid = self.uuid, uuid.uuid4()
        self._services = replace(self._services, runner=self.uuid)
        for execution, _ in self._executions.values():
            execution.drop()
        logger.warning("runner.registered_again runner=%s before=%s", self.uuid, before)
        await self._heartbeat_thread.call(self._register)

    async def _see_stops(self) -> None:
        """Stops the executions that were asked to, and drops those of runs that this runner lost. It waits
        for nothing but its own thread, because the next request to stop must be seen in time."""
        executing = list(self._executions)
        stop_requested = await self._stops.call(self._read_stop_requests)
        for key, is_requested in stop_requested.items():
            if is_requested and key in self._executions:
                self._executions[key][0].stop()
        for key in executing:
            if key not in stop_requested and key in self._executions:
                self._executions[key][0].drop()
        self._may_have_strays = not stop_requested.keys() <= set(executing)

    async def _take_up_strays(self) -> None:
        """Starts or ends the runs that this runner owns in the database but does not execute."""
        if not self._may_have_strays:
            return
        strays = await self._threads.call(self._read_strays, list(self._executions))
        if not (strays.unsent or strays.left):
            return
        if self._claiming is not None:
            # Runs that it has claimed and marked as sent are executed when it returns.
            await asyncio.wait({self._claiming})
        for key in strays.unsent:
            self._begin(key)
        # Last, because it may fail. Runs may have been started since the database was read.
        left = [key for key in strays.left if key not in self._executions]
        if left:
            await self._threads.call(self._end_left, left)

    async def _tidy(self) -> None:
        await self._reap()
        await self._threads.call(reaper.purge_raw)

    async def _reap(self, *, everything_else_is_dead: bool = False) -> None:
        me = RunnerRow(uuid=self.uuid)
        settled = await self._threads.call(
            reaper.reap,
            everything_else_is_dead=everything_else_is_dead,
            me=me,
            silence_counts=self._clock_guard.may_judge,
        )
        reaper.publish_ended(settled, self._notifier)

    # --- in a database thread -----------------------------------------------------------

    def _register(self) -> None:
        pid = os.getpid()
        RunnerRow.objects.create(
            uuid=self.uuid,
            host=socket.gethostname(),
            pid=pid,
            boot=reaper.boot_of(pid),
            capacity=self._capacity,
            # The database's time, because the clocks of hosts differ.
            heartbeat_at=Now(),
        )

    def _write_heartbeat(self) -> bool:
        """Returns whether this runner is still registered."""
        mine = RunnerRow.objects.filter(pk=self.uuid)
        mine.update(heartbeat_at=Now())
        beat = mine.values_list("heartbeat_at", flat=True).first()
        if beat is not None:
            self._clock_guard.note_time(beat)
        return beat is not None

    def _mark_draining(self) -> None:
        RunnerRow.objects.filter(pk=self.uuid).update(is_draining=True)

    def _deregister(self) -> None:
        """Requeues runs that were claimed but not started, and deletes the runner's row if it owns no run
        any more. The reaper handles what is left."""
        reaper.requeue_unsent(RunnerRow(uuid=self.uuid))
        if not self._own_running().exists():
            RunnerRow.objects.filter(pk=self.uuid).delete()

    def _read_stop_requests(self) -> dict[int, bool]:
        """This runner's runs, each with whether somebody asked to stop it."""
        # Two columns, because hundreds of rows are read twice a second.
        rows = self._own_running().values_list("pk", "stop_requested_at")
        return {pk: stop_requested_at is not None for pk, stop_requested_at in rows}

    def _read_strays(self, executing: list[int]) -> _Strays:
        """``executing`` are the runs that were started before the read."""
        rows = self._own_running().exclude(pk__in=executing).values_list("pk", "request_sent_at")
        return _Strays(
            # Claimed, but the database's response to the claim was lost.
            unsent=[pk for pk, sent_at in rows if sent_at is None],
            left=[pk for pk, sent_at in rows if sent_at is not None],
        )

    def _own_running(self) -> QuerySet[Run]:
        return Run.objects.filter(runner=self.uuid, status=RunStatus.RUNNING)

    def _end_left(self, keys: list[int]) -> None:
        """Ends runs whose execution failed, so that they do not stay "running" forever."""
        for run in Run.objects.filter(pk__in=keys):
            reaper.end_lost(run, RunnerRow(uuid=self.uuid))


def _claim_and_prepare(runner: UUID, limit: int) -> tuple[queue.Claimed, Ready | None]:
    """Claims, and prepares the first run in the same turn of the thread. Further runs are prepared
    by their executions, so that none waits for all."""
    claimed = queue.claim(runner, limit=limit)
    first = next(iter(claimed.runs), None)
    return claimed, prepared(first.pk, first) if first else None


# The runners of this process (more than one in tests), for the metrics.
_runners: WeakSet[Runner] = WeakSet()
metrics.EXECUTING.read_from(lambda: {"": sum(runner.executing for runner in _runners)})


# --- the runner inside the server process ---------------------------------------------------

_runner: Runner | None = None


async def start() -> None:
    """Starts the embedded runner. With SQLite the caller holds the lock on the data directory, so there is
    no other runner; a PostgreSQL may be shared with other servers and runners."""
    global _runner
    _runner = Runner(is_alone=settings.IS_SQLITE)
    await _runner.start()


async def stop(timeout: float) -> None:
    """Lets runs continue for ``timeout`` seconds, interrupts the rest, and flushes the logs."""
    global _runner
    if _runner is not None:
        runner, _runner = _runner, None
        await runner.drain(timeout)
