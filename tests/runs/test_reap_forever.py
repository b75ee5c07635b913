"""A process without a runner settles what lost runners left: all of them may be dead."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from chat.core.notify import ChangeNotifier
from chat.models import Run, RunStatus
from chat.models import Runner as RunnerRow
from chat.runs import reaper
from chat.runs.reaper import reap_forever
from project import lifespan
from tests.runs.helpers import row_of, threads, until
from tests.runs.test_ownership import make_stale
from tests.support.run_fixtures import MakeRun

pytestmark = pytest.mark.databases(slow=True)


@pytest.fixture(autouse=True)
def short_lease(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """After half a lease silent runners are taken for lost."""
    settings.LEASE_SECONDS = 0.6
    monkeypatch.setattr(reaper, "REAPS_PER_LEASE", 30)


async def until_status(run: Run, status: str) -> None:
    await until(lambda: Run.objects.get(pk=run.pk).status == status)


async def test_server_without_a_runner_settles_lost_runs(
    make_run: MakeRun, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That of the module belongs to the event loop of another test.
    monkeypatch.setattr(lifespan, "change_notifier", ChangeNotifier())
    settings.RUNNER = "external"
    sent = await threads.call(make_stale, make_run)
    unsent = await threads.call(make_stale, make_run)
    await threads.call(Run.objects.filter(pk=unsent.pk).update, request_sent_at=None)

    await lifespan.start()
    try:
        await until_status(sent, RunStatus.INTERRUPTED)
        await until_status(unsent, RunStatus.QUEUED)
        await until(lambda: not RunnerRow.objects.exists())
    finally:
        await lifespan.stop()
        await threads.close()


async def test_live_runners_are_left_alone_after_a_failed_look(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    reap, looks = reaper.reap, []

    def failing_first(**options: object) -> list[Run]:
        looks.append(options)
        if len(looks) == 1:
            raise OSError("away")
        return reap(**options)

    monkeypatch.setattr(reaper, "reap", failing_first)
    # However slow this machine is.
    beats = timezone.now() + timedelta(hours=1)
    alive = await threads.call(RunnerRow.objects.create, host="another", pid=1, heartbeat_at=beats)
    kept = await threads.call(make_run)
    owned = {"status": RunStatus.RUNNING, "runner": alive, "request_sent_at": timezone.now()}
    await threads.call(lambda: Run.objects.filter(pk=kept.pk).update(**owned))
    lost = await threads.call(make_stale, make_run)

    async with reap_forever(ChangeNotifier()):
        await until_status(lost, RunStatus.INTERRUPTED)

    assert (await row_of(kept)).status == RunStatus.RUNNING
    await threads.close()
