"""Health checks without cached answers, and a process that serves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from chat.core.process import Process
from chat.health import figures, report
from chat.health.checks import Checks
from chat.models import Runner
from tests.support.loop_clock import LoopClock


@pytest.fixture
async def checks(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Checks]:
    checks = Checks()
    monkeypatch.setattr(report, "checks", checks)
    monkeypatch.setattr(figures, "checks", checks)
    yield checks
    await checks.close()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    process = Process()
    process.serves()
    monkeypatch.setattr(report, "process", process)
    return process


@pytest.fixture
def runner_row(transactional_db: None) -> Runner:
    return Runner.objects.create(host="another-machine", pid=1)


@pytest.fixture
async def clock() -> LoopClock:
    """The clock of all time-outs of this test."""
    return LoopClock()
