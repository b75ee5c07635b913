"""Runs in this process: a real database file, a real fake upstream, a runner of our own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from redis import Redis
from redis.exceptions import RedisError

from chat.actions import conversations as verbs
from chat.actions.conversations import ModelChoice
from chat.demo.fake import FakeUpstream
from chat.doorbell import Doorbell
from chat.models import Run, Team, Upstream, User
from chat.runs import writer
from chat.runs.database import DatabaseThreads, readers
from chat.runs.runner import Runner
from chat.runs.tail import MemoryTail

# Of the sixteen the one that nobody uses; keys have names of their own besides.
REDIS_URL = "redis://127.0.0.1:6379/15"

threads = DatabaseThreads("test", size=1)

MakeRun = Callable[..., Run]
StartRunner = Callable[..., Awaitable[Runner]]


@pytest.fixture
async def fake() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as fake:
        yield fake


@pytest.fixture(scope="session")
def redis_url() -> str:
    try:
        with Redis.from_url(REDIS_URL, socket_timeout=5) as redis:
            redis.ping()
    except RedisError:
        pytest.skip("no Redis on 127.0.0.1:6379")
    return REDIS_URL


@pytest.fixture
def by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers that are made after this commit by their thread alone: for tests that take the place of
    ``segments.commit``."""
    monkeypatch.setattr(writer, "has_line", lambda: False)


@pytest.fixture
def make_run(transactional_db: None, alice: User, team: Team, upstream: Upstream) -> MakeRun:
    """Queues a run; call it in a thread (``await threads.call(make_run)``) from async tests."""

    def make(text: str = "Hello", *, by: User = alice, **fields: object) -> Run:
        if fields:
            Upstream.objects.filter(pk=upstream.pk).update(**fields)
        upstream.refresh_from_db()
        return verbs.start_conversation(
            by,
            team,
            text=text,
            choice=ModelChoice(upstream=upstream, model="test/model"),
            idempotency_key=uuid.uuid4(),
        )

    return make


@pytest.fixture
async def start_runner(transactional_db: None) -> AsyncIterator[StartRunner]:
    started: list[Runner] = []

    async def start(**options: object) -> Runner:
        options.setdefault("tail", MemoryTail())
        options.setdefault("bell", Doorbell())
        runner = Runner(**options)
        await runner.start()
        started.append(runner)
        return runner

    yield start
    for runner in started:
        await runner.drain(0)
    await threads.close()
    await readers.close()
