"""Jobs in the runners of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from chat.core.errors import ActionRefused
from chat.events import JsonObject
from chat.jobs import actions, kinds
from chat.jobs.kinds import StopReason, Task
from chat.jobs.worker import JOBS
from chat.models import Job, JobKind, JobStatus, User
from chat.runs import runner
from tests.runs.helpers import threads, until
from tests.support.run_fixtures import StartRunner

Queue = Callable[[], Job]


class Steps:
    """Work of ten steps. It waits in the third until `go_on` is set."""

    def __init__(self) -> None:
        self.attempts = 0
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, task: Task) -> JsonObject:
        self.attempts += 1
        for step in range(1, 11):
            task.advance(step, 10)
            if step == 3:
                self.reached.set()
                # Longer than any test: nothing waits for it in vain.
                self.go_on.wait(60)
        return {"attempts": self.attempts}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps()
    monkeypatch.setitem(kinds._works, JobKind.EXPORT, steps)
    monkeypatch.setattr("chat.jobs.worker.BEAT_SECONDS", 0.02)
    return steps


@pytest.fixture
def queue(transactional_db: None, alice: User) -> Queue:
    return lambda: Job.objects.create(
        kind=JobKind.EXPORT, user=alice, expires_at=timezone.now() + timedelta(days=1)
    )


async def until_is(status: JobStatus) -> Job:
    await until(lambda: Job.objects.filter(status=status).exists())
    return await threads.call(Job.objects.get)


async def test_progress_is_seen_while_it_works(
    queue: Queue, start_runner: StartRunner, steps: Steps
) -> None:
    await threads.call(queue)
    await start_runner()

    await until(lambda: Job.objects.filter(done=3, total=10, status=JobStatus.RUNNING).exists())
    steps.go_on.set()

    job = await until_is(JobStatus.DONE)
    assert (job.done, job.total, job.result) == (10, 10, {"attempts": 1})
    assert job.finished_at is not None


async def test_canceled_job_stops_at_its_next_step(
    queue: Queue, start_runner: StartRunner, steps: Steps
) -> None:
    job = await threads.call(queue)
    started = await start_runner()
    await until(steps.reached.is_set)

    await threads.call(actions.cancel, job)
    # Seen by the renewal of the lease, of which another follows.
    seen = (await threads.call(Job.objects.get)).heartbeat_at
    await until(lambda: Job.objects.filter(heartbeat_at__gt=seen).exists())
    later = (await threads.call(Job.objects.get)).heartbeat_at
    await until(lambda: Job.objects.filter(heartbeat_at__gt=later).exists())
    steps.go_on.set()

    assert (await until_is(JobStatus.CANCELED)).done < 10
    assert started.has_started


async def test_process_that_stops_gives_its_job_back(
    queue: Queue, start_runner: StartRunner, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    await threads.call(queue)
    first = await start_runner()
    await until(steps.reached.is_set)

    stop = Task.stop

    def stop_and_go_on(task: Task, reason: StopReason) -> None:
        stop(task, reason)
        steps.go_on.set()

    monkeypatch.setattr(Task, "stop", stop_and_go_on)
    await first.drain(0)

    assert (await threads.call(Job.objects.get)).status == JobStatus.QUEUED
    await start_runner()
    job = await until_is(JobStatus.DONE)
    assert job.result == {"attempts": 2}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ActionRefused("The file is damaged."), "The file is damaged."),
        (RuntimeError("secret detail"), "Something went wrong on the server."),
    ],
)
async def test_failure_is_told_and_the_next_job_runs(
    queue: Queue,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    words: str,
) -> None:
    def fail_once(task: Task) -> JsonObject:
        if task.job.pk == failing.pk:
            raise error
        return {}

    monkeypatch.setitem(kinds._works, JobKind.EXPORT, fail_once)
    failing = await threads.call(queue)
    await threads.call(queue)

    await start_runner()

    await until(lambda: Job.objects.filter(status=JobStatus.DONE).exists())
    job = await threads.call(Job.objects.get, pk=failing.pk)
    assert job.status == JobStatus.FAILED
    assert job.error.startswith(words)
    assert "secret" not in job.error


async def test_job_goes_on_after_the_database_was_away(
    queue: Queue, start_runner: StartRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_once(task: Task) -> JsonObject:
        if task.job.attempts == 1:
            raise OperationalError("the database does not answer")
        return {}

    monkeypatch.setitem(kinds._works, JobKind.EXPORT, fail_once)
    monkeypatch.setitem(runner._periodic_tasks, JOBS.topic, replace(JOBS, seconds=0.05))
    await threads.call(queue)
    await start_runner()
    await until(lambda: Job.objects.filter(attempts=1).exists())

    await threads.call(Job.objects.update, heartbeat_at=timezone.now() - timedelta(hours=1))

    assert (await until_is(JobStatus.DONE)).attempts == 2
