"""A process without a runner settles what lost runners left: all of them may be dead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chat.doorbell import Doorbell
from chat.models import Run, RunStatus
from chat.models import Runner as RunnerRow
from chat.runs import bystander
from chat.runs.bystander import watching_runners
from project import lifespan
from tests.runs.conftest import MakeRun, threads
from tests.runs.test_execution import until
from tests.runs.test_ownership import leave_stale

pytestmark = pytest.mark.databases


@pytest.fixture
def soon(settings: Any) -> None:
    settings.LEASE_SECONDS = 1.5


def status(run: Run) -> str:
    return Run.objects.get(pk=run.pk).status


def is_settled(run: Run, wanted: str) -> Callable[[], bool]:
    return lambda: status(run) == wanted


async def test_a_server_that_leaves_runs_to_others_ends_those_of_a_lost_runner(
    make_run: MakeRun, settings: Any, soon: None
) -> None:
    settings.RUNNER = "external"
    sent = await threads.call(leave_stale, make_run)
    unsent = await threads.call(leave_stale, make_run)
    await threads.call(Run.objects.filter(pk=unsent.pk).update, request_sent_at=None)

    await lifespan.start()
    try:
        await until(is_settled(sent, RunStatus.INTERRUPTED), seconds=60)
        await until(is_settled(unsent, RunStatus.QUEUED), seconds=60)
        await until(lambda: not RunnerRow.objects.exists(), seconds=60)
    finally:
        await lifespan.stop()
        await threads.close()


async def test_it_leaves_alone_whoever_beats_and_goes_on_after_a_failed_look(
    make_run: MakeRun, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reap, looks = bystander.reaper.reap, []

    def failing_first(**options: object) -> list[Run]:
        looks.append(options)
        if len(looks) == 1:
            raise OSError("away")
        return reap(**options)

    monkeypatch.setattr(bystander.reaper, "reap", failing_first)
    # However slow this machine is.
    beats = timezone.now() + timedelta(hours=1)
    alive = await threads.call(
        RunnerRow.objects.create, host="elsewhere", pid=1, heartbeat_at=beats
    )
    kept = await threads.call(make_run)
    owned = {"status": RunStatus.RUNNING, "runner": alive, "request_sent_at": timezone.now()}
    await threads.call(lambda: Run.objects.filter(pk=kept.pk).update(**owned))
    lost = await threads.call(leave_stale, make_run)

    async with watching_runners(Doorbell()):
        await until(is_settled(lost, RunStatus.INTERRUPTED), seconds=60)

    assert await threads.call(status, kept) == RunStatus.RUNNING
    await threads.close()
