"""Several runners fetch the files of mockups by the database's clock and within the limits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from chat.artifacts import fetching
from chat.artifacts.fetching import take_due
from chat.models import FetchStatus, Mockup, MockupFile, MockupVersion
from tests.support.run_fixtures import MakeRun

pytestmark = [pytest.mark.databases, pytest.mark.usefixtures("transactional_db")]


@pytest.fixture
def wanted(make_run: MakeRun) -> MockupFile:
    run = make_run(base_url="http://127.0.0.1:9/v1")
    mockup = Mockup.objects.create(
        conversation=run.conversation, upstream=run.upstream, bundle_id="b-1"
    )
    version = MockupVersion.objects.create(mockup=mockup, number=1, run=run, seq=1)
    return MockupFile.objects.create(version=version, path="index.html")


def shift_clock(monkeypatch: pytest.MonkeyPatch, **by: int) -> None:
    now = timezone.now() + timedelta(**by)
    monkeypatch.setattr(timezone, "now", lambda: now)


def test_fast_clock_takes_no_file_being_fetched(
    wanted: MockupFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(take_due()) == 1

    shift_clock(monkeypatch, hours=1)

    assert take_due() == []
    wanted.refresh_from_db()
    assert wanted.attempts == 1


def test_file_announced_by_a_fast_clock_is_fetched_at_once(wanted: MockupFile) -> None:
    MockupFile.objects.update(due_at=timezone.now() + timedelta(hours=1))

    assert len(take_due()) == 1


def test_abandoned_file_is_taken_again(wanted: MockupFile) -> None:
    take_due()
    MockupFile.objects.update(due_at=timezone.now() - timedelta(seconds=1))

    assert [job.attempt for job in take_due()] == [2]


def test_files_that_arrive_together_are_both_counted(
    wanted: MockupFile, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.MOCKUP_BUNDLE_BYTES = 150
    MockupFile.objects.create(version=wanted.version, path="style.css")
    # The second one waits for the transaction of the first one, and cannot look before its end.
    has_room, both_have_looked = fetching._has_room, threading.Barrier(2)

    def looking_together(version: MockupVersion, size: int) -> bool:
        has = has_room(version, size)
        with suppress(threading.BrokenBarrierError):
            both_have_looked.wait(0.2)
        return has

    monkeypatch.setattr(fetching, "_has_room", looking_together)

    def arrive(job: fetching.FetchJob) -> None:
        fetching._store_body(job, bytes(100))
        connection.close()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(arrive, take_due()))

    statuses = MockupFile.objects.values_list("status", flat=True)
    assert sorted(statuses) == [FetchStatus.REFUSED, FetchStatus.STORED]
