"""A runner keeps its runs, gives back what it did not begin, and takes nobody else's by mistake."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from chat.demo.fake import FakeUpstream
from chat.demo.script import Gate, stream
from chat.doorbell import Doorbell
from chat.models import Attempt, Run, RunSegment, RunStatus
from chat.models import Runner as RunnerRow
from chat.runs import execution, queue, reaper
from chat.runs.runner import Runner
from chat.runs.tail import MemoryTail
from tests.runs.conftest import MakeRun, StartRunner, threads
from tests.runs.test_execution import TEXT, until, until_ended

pytestmark = pytest.mark.databases

MIDDLE = TEXT.rindex(b"event: ", 0, TEXT.index(b"river"))


def leave_stale(make_run: MakeRun) -> Run:
    """A run of a runner that has not been heard of for minutes."""
    run = make_run()
    silent = RunnerRow.objects.create(
        host="elsewhere", pid=1, heartbeat_at=timezone.now() - timedelta(minutes=5)
    )
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.RUNNING, runner=silent, request_sent_at=timezone.now()
    )
    return run


async def status_of(run: Run) -> str:
    return (await threads.call(Run.objects.get, pk=run.pk)).status


async def test_a_run_begun_while_the_database_was_asked_is_not_taken_for_a_broken_one(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.script(stream(TEXT[:MIDDLE], Gate(name="more"), TEXT[MIDDLE:]))
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.01)
    looks = []
    view = Runner._view

    def late(runner: Runner, executing: list[int]) -> object:
        # As if everything that is executed now had been begun after the list was made.
        looks.append(executing)
        return view(runner, [])

    monkeypatch.setattr(Runner, "_view", late)
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    await fake.until(lambda fake: fake.waiting == ["more"])
    before = len(looks)
    async with asyncio.timeout(20):
        while len(looks) < before + 3:
            await asyncio.sleep(0.01)
    fake.release("more")

    assert (await until_ended(run)).status == "completed"


async def test_a_runner_that_was_taken_for_lost_claims_again(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat.runs.runner.HEARTBEATS_PER_LEASE", 300)
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.05)
    fake.script(stream(TEXT))
    runner = await start_runner()
    before = runner.uuid
    await threads.call(RunnerRow.objects.filter(pk=before).delete)
    await until(RunnerRow.objects.exclude(pk=before).exists)

    run = await threads.call(make_run, base_url=fake.url)

    assert (await until_ended(run)).status == "completed"


async def test_after_an_outage_the_others_get_time_to_be_heard(
    make_run: MakeRun, start_runner: StartRunner
) -> None:
    runner = await start_runner()
    run = await threads.call(leave_stale, make_run)
    await runner._tidy()
    assert await status_of(run) == "running"

    witness = runner._witness
    witness._judges_from = 0
    witness._heard_at -= 60
    await runner._tidy()
    await runner._beat()
    await runner._tidy()
    assert await status_of(run) == "running"

    witness._judges_from = 0
    await runner._tidy()
    assert await status_of(run) == "interrupted"


async def test_a_database_whose_clock_was_set_says_nothing_of_the_others(
    make_run: MakeRun, start_runner: StartRunner
) -> None:
    runner = await start_runner()
    run = await threads.call(leave_stale, make_run)
    await runner._beat()
    witness = runner._witness

    witness._judges_from = 0
    assert witness._time_then is not None
    witness._time_then -= timedelta(minutes=1)
    await runner._tidy()
    await runner._beat()
    await runner._tidy()
    assert await status_of(run) == "running"

    witness._judges_from = 0
    await runner._tidy()
    assert await status_of(run) == "interrupted"


async def test_what_a_drained_runner_had_claimed_and_not_begun_goes_back_to_the_line(
    make_run: MakeRun,
) -> None:
    runner = Runner(tail=MemoryTail(), bell=Doorbell())
    await runner.start()
    runner._is_draining = True
    run = await threads.call(make_run)
    assert await threads.call(queue.claim, runner.uuid, limit=1) == [run.pk]

    await runner.drain(0)

    assert await status_of(run) == "queued"
    assert not await threads.call(RunnerRow.objects.exists)
    await threads.close()


async def test_a_database_that_is_away_does_not_keep_runs_from_being_interrupted(
    fake: FakeUpstream, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(runner: Runner) -> None:
        raise OperationalError("away")

    fake.script(stream(TEXT[:MIDDLE], Gate(name="more"), TEXT[MIDDLE:]))
    monkeypatch.setattr(Runner, "_mark_draining", away)
    run = await threads.call(make_run, base_url=fake.url)
    runner = Runner(tail=MemoryTail(), bell=Doorbell())
    await runner.start()
    await fake.until(lambda fake: fake.waiting == ["more"])

    await runner.drain(0)

    assert await status_of(run) == "interrupted"
    await threads.close()


async def test_a_database_that_does_not_answer_does_not_keep_runs_from_being_interrupted(
    fake: FakeUpstream, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    fake.script(stream(TEXT[:MIDDLE], Gate(name="more"), TEXT[MIDDLE:]))
    monkeypatch.setattr("chat.runs.runner.COURTESY_SECONDS", 0.01)
    monkeypatch.setattr(Runner, "_mark_draining", lambda runner: answers.wait(60))
    run = await threads.call(make_run, base_url=fake.url)
    runner = Runner(tail=MemoryTail(), bell=Doorbell())
    await runner.start()
    await fake.until(lambda fake: fake.waiting == ["more"])

    draining = asyncio.create_task(runner.drain(0))
    try:
        assert (await until_ended(run)).status == "interrupted"
    finally:
        answers.set()
        await draining
        await threads.close()


async def test_a_runner_that_is_busy_is_not_taken_for_dead(
    start_runner: StartRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.runs.runner.HEARTBEATS_PER_LEASE", 300)
    runner = await start_runner()
    may_go_on = threading.Event()
    busy = [asyncio.create_task(runner._threads.call(may_go_on.wait, 60)) for _ in range(20)]
    await asyncio.sleep(0)

    rows = RunnerRow.objects.filter(pk=runner.uuid)
    beat = (await threads.call(rows.get)).heartbeat_at
    try:
        await until(lambda: rows.get().heartbeat_at > beat)
    finally:
        may_go_on.set()
        await asyncio.gather(*busy)


async def test_a_runner_that_could_not_start_can_be_drained(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object, **options: object) -> None:
        raise OperationalError("away")

    runner = Runner(tail=MemoryTail(), bell=Doorbell())
    with monkeypatch.context() as outage:
        outage.setattr("chat.runs.reaper.reap", away)
        with pytest.raises(OperationalError):
            await runner.start()

    await runner.drain(0)

    assert not await threads.call(RunnerRow.objects.exists)
    await threads.close()


async def test_what_was_not_sent_yet_when_a_runner_is_told_to_stop_goes_back_to_the_line(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.script(stream(TEXT))
    is_preparing, may_go_on = threading.Event(), threading.Event()
    prepare = execution.prepare

    def slow(run_pk: int) -> object:
        is_preparing.set()
        may_go_on.wait(60)
        return prepare(run_pk)

    monkeypatch.setattr(execution, "prepare", slow)
    run = await threads.call(make_run, base_url=fake.url)
    runner = Runner(tail=MemoryTail(), bell=Doorbell())
    await runner.start()
    await asyncio.to_thread(is_preparing.wait, 60)

    draining = asyncio.create_task(runner.drain(0))
    while not runner._executions[run.pk][0]._wanted_end:
        await asyncio.sleep(0.01)
    may_go_on.set()
    await draining

    assert await status_of(run) == "queued"
    assert fake.posts == 0
    monkeypatch.undo()
    await start_runner()
    assert (await until_ended(run)).status == "completed"
    assert fake.posts == 1


async def test_what_is_given_back_while_it_is_marked_as_sent_is_as_if_never_begun(
    make_run: MakeRun,
) -> None:
    run = await threads.call(make_run)
    me = await threads.call(RunnerRow.objects.create, host="here", pid=1)
    assert await threads.call(queue.claim, me.pk, limit=1) == [run.pk]
    await threads.call(Run.objects.filter(pk=run.pk).update, request_sent_at=timezone.now())
    await threads.call(Attempt.objects.create, run=run, number=1)

    assert await threads.call(reaper.give_back, me.pk, run.pk)

    run = await threads.call(Run.objects.get, pk=run.pk)
    assert (run.status, run.runner_id, run.request_sent_at) == ("queued", None, None)
    assert not await threads.call(Attempt.objects.exists)
    assert not await threads.call(reaper.give_back, me.pk, run.pk)
    await threads.close()


async def test_a_runner_that_lost_its_row_closes_its_connections_and_goes_on_as_another(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat.runs.runner.HEARTBEATS_PER_LEASE", 300)
    # Whatever else would notice it comes too late.
    monkeypatch.setattr("chat.runs.runner.STOP_SECONDS", 3600)
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.05)
    fake.script(stream(TEXT[:MIDDLE], Gate(name="never")), stream(TEXT))
    run = await threads.call(make_run, base_url=fake.url)
    runner = await start_runner()
    await fake.until(lambda fake: fake.waiting == ["never"])
    before = runner.uuid
    there = RunSegment.objects.filter(run=run)
    await until(lambda: there.count() > 0)

    # As whoever takes it for lost does, while it is frozen.
    await threads.call(reaper.end_lost, run, RunnerRow(uuid=before))
    await threads.call(RunnerRow.objects.filter(pk=before).delete)
    written = await threads.call(there.count)

    await fake.until(lambda fake: fake.disconnects == 1)
    await until(lambda: RunnerRow.objects.filter(pk=runner.uuid).exists())
    assert runner.uuid != before
    assert await status_of(run) == "interrupted"
    again = await threads.call(make_run, "Again", base_url=fake.url)
    assert (await until_ended(again)).status == "completed"
    assert await threads.call(there.count) == written


async def test_a_runner_says_what_it_carries(start_runner: StartRunner) -> None:
    runner = await start_runner(capacity=7)

    row = await threads.call(RunnerRow.objects.get, pk=runner.uuid)

    assert row.capacity == 7
