"""While the database is away runs read on, up to what all of them may hold together."""

from __future__ import annotations

import asyncio
import threading

import pytest
from django.db import OperationalError

from chat import events as canonical
from chat.demo.fake import FakeUpstream
from chat.demo.script import Flood, Script, lmstudio_event, lmstudio_events, lmstudio_run, stream
from chat.models import Run
from chat.result import plain_text
from chat.runs import segments
from chat.runs import writer as log_writer
from chat.runs.budget import Budget
from tests.runs.conftest import MakeRun, StartRunner, threads
from tests.runs.test_execution import until_ended

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
        self._commit = segments.commit
        monkeypatch.setattr(segments, "commit", self)
        monkeypatch.setattr(log_writer, "RETRY_SECONDS", (0.01, 0.02))

    def __call__(self, writes: list[segments.Write]) -> list[Exception | None]:
        if not self.is_over.is_set():
            raise OperationalError("away")
        return self._commit(writes)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, settings) -> list[int]:
    """What the budget held after each change."""
    settings.PENDING_BYTES = LIMIT_BYTES
    held: list[int] = []
    change = Budget.change

    def noted(budget: Budget, by_bytes: int) -> None:
        change(budget, by_bytes)
        held.append(budget.held_bytes)

    monkeypatch.setattr(Budget, "change", noted)
    return held


async def until_full(held: list[int]) -> None:
    async with asyncio.timeout(60):
        while not held or held[-1] < LIMIT_BYTES:
            await asyncio.sleep(0.01)


def text_of(run: Run) -> str:
    return plain_text(canonical.decode_result(run.result))


async def test_runs_stop_reading_at_the_common_limit_and_lose_nothing(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
    held: list[int],
) -> None:
    outage = Outage(monkeypatch)
    fake.script(*(long_answer() for _ in range(3)))
    runs = [await threads.call(make_run, base_url=fake.url) for _ in range(3)]
    await start_runner()
    await until_full(held)
    # Long enough for all of it, if anybody went on.
    await asyncio.sleep(0.5)
    most = max(held)

    outage.is_over.set()
    ended = [await until_ended(run) for run in runs]

    assert [run.status for run in ended] == ["completed"] * 3
    assert all(text_of(run) == (WORDS * TIMES).strip() for run in ended)
    assert most < LIMIT_BYTES + 3 * STEP_BYTES
    assert held[-1] == 0


async def test_an_answer_that_cannot_be_stored_for_too_long_is_ended_and_says_so(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
    held: list[int],
) -> None:
    monkeypatch.setattr("chat.runs.reading.LONGEST_PAUSE_SECONDS", 0.2)
    outage = Outage(monkeypatch)
    fake.script(long_answer(0))
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()

    await fake.until(lambda fake: fake.disconnects == 1)
    outage.is_over.set()
    ended = await until_ended(run)

    assert ended.status == "failed"
    assert "could not be stored" in ended.error_message
    assert (WORDS * TIMES).startswith(text_of(ended))
    assert held[-1] == 0
