"""A runner keeps its runs, returns what it did not begin, and takes none of another by mistake."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from chat.core.notify import ChangeNotifier
from chat.models import Attempt, Run, RunSegment, RunStatus
from chat.models import Runner as RunnerRow
from chat.runs import execution, queue, reaper
from chat.runs.event_buffer import MemoryEventBuffer
from chat.runs.runner import Runner
from tests.runs.helpers import (
    HALF_AN_ANSWER,
    PATIENCE_SECONDS,
    TEXT,
    row_of,
    threads,
    until,
    until_ended,
)
from tests.support.run_fixtures import Execute, MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import stream

pytestmark = pytest.mark.databases
# What these check does not depend on the database: PostgreSQL is for `make test-all`.
sqlite_first = pytest.mark.databases(slow=True)


def make_stale(make_run: MakeRun) -> Run:
    """A run of a runner that has not beaten for minutes."""
    run = make_run()
    silent = RunnerRow.objects.create(
        host="another", pid=1, heartbeat_at=timezone.now() - timedelta(minutes=5)
    )
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.RUNNING, runner=silent, request_sent_at=timezone.now()
    )
    return run


async def status_of(run: Run) -> str:
    return (await row_of(run)).status


async def until_half(fake: FakeUpstream) -> None:
    await fake.until(lambda fake: fake.waiting == ["more"])


async def check_silence_counts_later(runner: Runner, run: Run) -> None:
    await runner._tidy()
    await runner._beat()
    await runner._tidy()
    assert await status_of(run) == "running"

    runner._clock_guard._judges_from = 0
    await runner._tidy()
    assert await status_of(run) == "interrupted"


@pytest.fixture
def frequent_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat.runs.runner.HEARTBEATS_PER_LEASE", 600)


@sqlite_first
async def test_run_begun_during_the_look_is_not_ended_as_broken(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = Runner._read_strays

    def late(runner: Runner, executing: list[int]) -> object:
        # As if everything that is executed now had been begun after the list was made.
        return read(runner, [])

    run = await queue_run(HALF_AN_ANSWER)
    runner = await start_runner()
    await until_half(fake)
    monkeypatch.setattr(Runner, "_read_strays", late)
    runner._may_have_strays = True
    await runner._take_up_strays()
    fake.release("more")

    assert (await until_ended(run)).status == "completed"


# --- lost runners ---------------------------------------------------------------------------


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_runner_taken_for_lost_claims_again(
    queue_run: Execute, start_runner: StartRunner
) -> None:
    before = (await start_runner()).uuid
    await threads.call(RunnerRow.objects.filter(pk=before).delete)
    await until(RunnerRow.objects.exclude(pk=before).exists)

    run = await queue_run(stream(TEXT))

    assert (await until_ended(run)).status == "completed"


async def test_outage_gives_silent_runners_time_to_beat(
    make_run: MakeRun, start_runner: StartRunner
) -> None:
    runner = await start_runner()
    run = await threads.call(make_stale, make_run)
    await runner._tidy()
    assert await status_of(run) == "running"

    clock_guard = runner._clock_guard
    clock_guard._judges_from = 0
    clock_guard._noted_at -= 60
    await check_silence_counts_later(runner, run)


async def test_changed_database_clock_proves_no_runner_lost(
    make_run: MakeRun, start_runner: StartRunner
) -> None:
    runner = await start_runner()
    run = await threads.call(make_stale, make_run)
    await runner._beat()
    clock_guard = runner._clock_guard

    clock_guard._judges_from = 0
    assert clock_guard._time_then is not None
    clock_guard._time_then -= timedelta(minutes=1)
    await check_silence_counts_later(runner, run)


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_busy_runner_keeps_beating(start_runner: StartRunner) -> None:
    runner = await start_runner()
    may_go_on = threading.Event()
    calls = [
        asyncio.create_task(runner._threads.call(may_go_on.wait, PATIENCE_SECONDS))
        for _ in range(20)
    ]
    await asyncio.sleep(0)

    rows = RunnerRow.objects.filter(pk=runner.uuid)
    beat = (await threads.call(rows.get)).heartbeat_at
    try:
        await until(lambda: rows.get().heartbeat_at > beat)
    finally:
        may_go_on.set()
        await asyncio.gather(*calls)


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_runner_without_a_row_registers_anew(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Whatever else would notice it comes too late.
    monkeypatch.setattr("chat.runs.runner.STOP_SECONDS", 3600)
    run = await queue_run(HALF_AN_ANSWER, stream(TEXT))
    runner = await start_runner()
    await until_half(fake)
    before = runner.uuid
    segments = RunSegment.objects.filter(run=run)
    await until(segments.exists)

    # As another process does that takes it for lost, while it is frozen.
    await threads.call(reaper.end_lost, run, RunnerRow(uuid=before))
    await threads.call(RunnerRow.objects.filter(pk=before).delete)
    written = await threads.call(segments.count)

    await fake.until(lambda fake: fake.disconnects == 1)
    await until(lambda: RunnerRow.objects.filter(pk=runner.uuid).exists())
    assert runner.uuid != before
    assert await status_of(run) == "interrupted"
    again = await queue_run(text="Again")
    assert (await until_ended(again)).status == "completed"
    assert await threads.call(segments.count) == written


# --- draining -------------------------------------------------------------------------------


async def test_drained_runner_returns_claimed_runs_to_the_queue(
    make_run: MakeRun, start_runner: StartRunner
) -> None:
    runner = await start_runner()
    runner._is_draining = True
    run = await threads.call(make_run)
    assert (await threads.call(queue.claim, runner.uuid, limit=1)).runs == [run]

    await runner.drain(0)

    assert await status_of(run) == "queued"
    assert not await threads.call(RunnerRow.objects.exists)


@sqlite_first
async def test_drain_interrupts_during_an_outage(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(runner: Runner) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(Runner, "_mark_draining", away)
    run = await queue_run(HALF_AN_ANSWER)
    runner = await start_runner()
    await until_half(fake)

    await runner.drain(0)

    assert await status_of(run) == "interrupted"


@sqlite_first
async def test_drain_interrupts_while_the_database_hangs(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = threading.Event()
    monkeypatch.setattr("chat.runs.runner.COURTESY_SECONDS", 0.01)
    monkeypatch.setattr(Runner, "_mark_draining", lambda runner: answers.wait(PATIENCE_SECONDS))
    run = await queue_run(HALF_AN_ANSWER)
    runner = await start_runner()
    await until_half(fake)

    draining = asyncio.create_task(runner.drain(0))
    try:
        assert (await until_ended(run)).status == "interrupted"
    finally:
        answers.set()
        await draining


@sqlite_first
async def test_runner_that_could_not_start_can_be_drained(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object, **options: object) -> None:
        raise OperationalError("away")

    runner = Runner(buffer=MemoryEventBuffer(), notifier=ChangeNotifier())
    with monkeypatch.context() as outage:
        outage.setattr("chat.runs.reaper.reap", away)
        with pytest.raises(OperationalError):
            await runner.start()

    await runner.drain(0)

    assert not await threads.call(RunnerRow.objects.exists)
    await threads.close()


@sqlite_first
async def test_run_prepared_while_draining_returns_to_the_queue(
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_preparing, may_go_on = threading.Event(), threading.Event()
    prepare = execution.prepare

    def slow(run_pk: int, claimed: Run, **options: bool) -> Any:
        is_preparing.set()
        may_go_on.wait(PATIENCE_SECONDS)
        return prepare(run_pk, claimed, **options)

    run = await queue_run(stream(TEXT))
    with monkeypatch.context() as patch:
        patch.setattr(execution, "prepare", slow)
        runner = await start_runner()
        await until(is_preparing.is_set)

        draining = asyncio.create_task(runner.drain(0))
        await until(lambda: runner.is_draining)
        may_go_on.set()
        await draining

    assert await status_of(run) == "queued"
    assert fake.posts == 0
    await start_runner()
    assert (await until_ended(run)).status == "completed"
    assert fake.posts == 1


async def test_run_returned_while_being_sent_is_as_never_begun(make_run: MakeRun) -> None:
    run = await threads.call(make_run)
    me = await threads.call(RunnerRow.objects.create, host="here", pid=1)
    assert (await threads.call(queue.claim, me.pk, limit=1)).runs == [run]
    await threads.call(Run.objects.filter(pk=run.pk).update, request_sent_at=timezone.now())
    await threads.call(Attempt.objects.create, run=run, number=1)

    assert await threads.call(reaper.requeue_unaccepted, me.pk, run.pk)

    run = await row_of(run)
    assert (run.status, run.runner_id, run.request_sent_at) == ("queued", None, None)
    assert not await threads.call(Attempt.objects.exists)
    assert not await threads.call(reaper.requeue_unaccepted, me.pk, run.pk)
    await threads.close()


@sqlite_first
async def test_runner_row_tells_its_capacity(start_runner: StartRunner) -> None:
    runner = await start_runner(capacity=7)

    row = await threads.call(RunnerRow.objects.get, pk=runner.uuid)

    assert row.capacity == 7
