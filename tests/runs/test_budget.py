"""While the database is away runs read on, up to what all of them may hold together."""

from __future__ import annotations

import threading

import pytest
from django.db import OperationalError
from pytest_django import Settings

from chat.runs import segments
from chat.runs import writer as log_writer
from chat.runs.budget import Budget
from chat.runs.log import RunLog
from tests.runs.helpers import text_of, until, until_ended
from tests.support.run_fixtures import Execute, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import (
    Flood,
    Script,
    lmstudio_event,
    lmstudio_events,
    lmstudio_run,
    stream,
)

pytestmark = pytest.mark.usefixtures("by_thread")

WORDS = "water runs down " * 64
TIMES = 2000
LIMIT_BYTES = 200_000
# What one run may read in one go before it looks whether there is room: a chunk of the socket,
# once as bytes and once as text.
STEP_BYTES = 2 * 256 * 1024


def long_answer(times: int = TIMES) -> Script:
    """Two megabytes, or with 0 as much as anybody reads."""
    first, *_, last = lmstudio_run("x")
    begin = [first, {"type": "message.start"}]
    delta = lmstudio_event({"type": "message.delta", "content": WORDS})
    end = [{"type": "message.end"}, last]
    return stream(lmstudio_events(begin), Flood(base64=delta, times=times), lmstudio_events(end))


class Outage:
    """The segment writer's database: away until it is back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_over = threading.Event()
        self.attempts = 0
        self._commit = segments.commit
        monkeypatch.setattr(segments, "commit", self)
        monkeypatch.setattr(log_writer, "RETRY_SECONDS", (0.01, 0.02))

    def __call__(self, writes: list[segments.SegmentWrite]) -> list[Exception | None]:
        if not self.is_over.is_set():
            self.attempts += 1
            raise OperationalError("away")
        return self._commit(writes)


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    return Outage(monkeypatch)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> list[int]:
    """What the budget held after each change."""
    settings.PENDING_BYTES = LIMIT_BYTES
    held: list[int] = []
    change = Budget.change

    def noted(budget: Budget, by_bytes: int) -> None:
        change(budget, by_bytes)
        held.append(budget.held_bytes)

    monkeypatch.setattr(Budget, "change", noted)
    return held


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> set[RunLog]:
    """The logs that have waited for room."""
    paused: set[RunLog] = set()
    room = RunLog.room

    async def noted(log: RunLog) -> None:
        paused.add(log)
        await room(log)

    monkeypatch.setattr(RunLog, "room", noted)
    return paused


async def test_runs_pause_at_the_common_limit_and_lose_nothing(
    queue_run: Execute,
    start_runner: StartRunner,
    outage: Outage,
    held: list[int],
    paused: set[RunLog],
) -> None:
    runs = [await queue_run(long_answer()) for _ in range(3)]
    await start_runner()
    await until(lambda: len(paused) == len(runs))
    # Anybody who went on would be done by then: the rest of the answers is in the sockets.
    enough = outage.attempts + 20
    await until(lambda: outage.attempts > enough)
    most = max(held)

    outage.is_over.set()
    ended = [await until_ended(run) for run in runs]

    assert [run.status for run in ended] == ["completed"] * 3
    assert all(text_of(run) == (WORDS * TIMES).strip() for run in ended)
    assert LIMIT_BYTES <= most < LIMIT_BYTES + 3 * STEP_BYTES
    assert held[-1] == 0


async def test_answer_that_cannot_be_stored_for_too_long_fails(
    fake: FakeUpstream,
    begin: Execute,
    outage: Outage,
    held: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat.runs.reader.LONGEST_PAUSE_SECONDS", 0.05)
    run = await begin(long_answer(0))

    await fake.until(lambda fake: fake.disconnects == 1)
    outage.is_over.set()
    ended = await until_ended(run)

    assert ended.status == "failed"
    assert "couldn’t be saved" in ended.error_message
    assert (WORDS * TIMES).startswith(text_of(ended))
    assert held[-1] == 0
