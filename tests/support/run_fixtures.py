"""Runs in this process: a real database, a real fake upstream, a runner of our own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import pytest

from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.core.notify import ChangeNotifier
from chat.core.threads import readers
from chat.models import Run, RunStatus, Team, Tool, Upstream, User
from chat.models import Runner as RunnerRow
from chat.runs import writer as log_writer
from chat.runs.event_buffer import MemoryEventBuffer
from chat.runs.runner import Runner
from chat.runs.writer import SegmentWriter
from tests.runs.helpers import threads, until_ended
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Script

# Where the fake upstream speaks each dialect.
PATHS = {
    "anthropic_messages": "/anthropic/v1",
    "bitseek": "/bitseek/v1",
    "openai_chat": "/v1",
    "openai_completions": "/completions/v1",
    "openai_responses": "/v1",
    "xerotier": "/v1",
}

MakeRun = Callable[..., Run]
StartRunner = Callable[..., Awaitable[Runner]]
Execute = Callable[..., Awaitable[Run]]
Claim = Callable[[], Run]


@pytest.fixture
async def fake() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as fake:
        yield fake


@pytest.fixture
def make_run(transactional_db: None, alice: User, team: Team, upstream: Upstream) -> MakeRun:
    """Queues a run of a server with these ``fields``; call it in a thread (``await
    threads.call(make_run)``) from async tests."""

    def make(
        text: str = "Hello",
        *,
        by: User = alice,
        choice: Mapping[str, object] | None = None,
        tools: Sequence[Tool] = (),
        **fields: object,
    ) -> Run:
        if fields:
            Upstream.objects.filter(pk=upstream.pk).update(**fields)
        upstream.refresh_from_db()
        return message_actions.start_conversation(
            by,
            team,
            text=text,
            choice=ModelChoice(upstream=upstream, **{"model": "test/model", **(choice or {})}),
            idempotency_key=uuid.uuid4(),
            tools=tools,
        )

    return make


@pytest.fixture
async def start_runner(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[StartRunner]:
    """Runners with notifiers of their own, so that they find what is queued by polling, which is frequent."""
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.05)
    monkeypatch.setattr("chat.runs.runner.STOP_SECONDS", 0.05)
    monkeypatch.setattr("chat.runs.runner.STRAYS_SECONDS", 0.02)
    started: list[Runner] = []

    async def start(**options: object) -> Runner:
        options.setdefault("buffer", MemoryEventBuffer())
        options.setdefault("notifier", ChangeNotifier())
        runner = Runner(**options)
        await runner.start()
        started.append(runner)
        return runner

    yield start
    for runner in started:
        await runner.drain(0)
    await threads.close()
    await readers.close()


@pytest.fixture
def queue_run(fake: FakeUpstream, make_run: MakeRun) -> Execute:
    """Queues a run that the fake upstream answers with these scripts."""

    async def queue(*scripts: Script, text: str = "Hello", **fields: object) -> Run:
        fake.script(*scripts)
        path = PATHS.get(str(fields.get("dialect")), "")
        fields.setdefault("base_url", f"{fake.url}{path}")
        return await threads.call(make_run, text, **fields)

    return queue


@pytest.fixture
def begin(queue_run: Execute, start_runner: StartRunner) -> Execute:
    """As ``queue_run``, with a runner, which is the same one for all runs of a test."""
    runners: list[Runner] = []

    async def begin(*scripts: Script, **fields: object) -> Run:
        run = await queue_run(*scripts, **fields)
        if not runners:
            runners.append(await start_runner())
        return run

    return begin


@pytest.fixture
def execute(begin: Execute) -> Execute:
    """As ``begin``; returns the run as it ended."""

    async def execute(*scripts: Script, **fields: object) -> Run:
        return await until_ended(await begin(*scripts, **fields))

    return execute


@pytest.fixture
def claim(make_run: MakeRun) -> Claim:
    """Makes a run that a runner of its own executes."""

    def claim() -> Run:
        run = make_run()
        run.runner = RunnerRow.objects.create(host="here", pid=1)
        run.status = RunStatus.RUNNING
        run.save()
        return run

    return claim


@pytest.fixture
async def writer(transactional_db: None) -> AsyncIterator[SegmentWriter]:
    writer = SegmentWriter()
    writer.start()
    yield writer
    await writer.close()
    await readers.close()
    await threads.close()


@pytest.fixture
def by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers that are made after this commit by their thread alone: for tests that take the place
    of ``segments.commit``."""
    monkeypatch.setattr(log_writer, "has_async_writer", lambda: False)
