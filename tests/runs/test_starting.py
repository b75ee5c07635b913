"""A runner misses no notification from the moment at which it says that it has started."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pytest_django import Settings

from chat.artifacts.actions import FILES
from chat.core import lossy_channel
from chat.core.lossy_channel import LossyChannel
from chat.core.notify import QUEUED, STOPS, ChangeNotifier, Subscription
from chat.runs import configured_buffer, queue, standalone_runner
from chat.runs.runner import Runner
from tests.runs.helpers import PATIENCE_SECONDS, TEXT, let_others_work, until, until_ended
from tests.support.run_fixtures import Execute, StartRunner
from tests.support.upstream.script import stream


class GatedChannel(LossyChannel):
    """Reads nothing before ``is_open`` is set."""

    def __init__(self) -> None:
        super().__init__("redis://127.0.0.1:1", secret="s")
        self.is_open = asyncio.Event()

    async def _read_forever(self) -> None:
        await self.is_open.wait()
        self._has_listened.set()


@pytest.fixture
def channel() -> GatedChannel:
    return GatedChannel()


async def test_until_subscribed_waits_for_the_channel(
    channel: GatedChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lossy_channel, "ANSWER_SECONDS", PATIENCE_SECONDS)
    notifier = ChangeNotifier()
    notifier.start(channel)

    async with channel:
        waiting = asyncio.create_task(notifier.until_subscribed())
        await let_others_work()
        assert not waiting.done()

        channel.is_open.set()
        await waiting


async def test_until_subscribed_gives_up_on_an_absent_redis(
    channel: GatedChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lossy_channel, "ANSWER_SECONDS", 0.05)
    notifier = ChangeNotifier()
    notifier.start(channel)

    async with channel, asyncio.timeout(PATIENCE_SECONDS):
        await notifier.until_subscribed()


async def test_started_runner_has_subscribed(start_runner: StartRunner) -> None:
    topics: set[str] = set()

    class NotedNotifier(ChangeNotifier):
        def subscribe(self, topic: str) -> Subscription:
            topics.add(topic)
            return super().subscribe(topic)

    # Nothing else runs between the end of its start and the next line.
    await start_runner(notifier=NotedNotifier())

    assert topics >= {QUEUED, STOPS, FILES}


async def test_notification_claims_without_a_poll(
    queue_run: Execute, start_runner: StartRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, looks = queue.claim, []

    def noted(*args: Any, **options: Any) -> queue.Claimed:
        looks.append(claim(*args, **options))
        return looks[-1]

    monkeypatch.setattr(queue, "claim", noted)
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 3600.0)
    notifier = ChangeNotifier()
    await start_runner(notifier=notifier)
    await until(lambda: looks == [queue.Claimed()])

    run = await queue_run(stream(TEXT))
    notifier.dispatch(QUEUED)

    assert (await until_ended(run)).status == "completed"


async def test_process_says_started_once_it_has_subscribed(
    channel: GatedChannel, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, has_started = asyncio.Event(), asyncio.Event()
    settings.REDIS_URL = "redis://127.0.0.1:1"

    async def start(runner: Runner) -> None:
        assert channel.is_open.is_set()
        has_started.set()

    async def drain(runner: Runner, timeout_seconds: float) -> None:
        """Nothing was started."""

    monkeypatch.setattr(lossy_channel, "ANSWER_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(configured_buffer, "LossyChannel", lambda *_, **__: channel)
    monkeypatch.setattr(standalone_runner, "change_notifier", ChangeNotifier())
    monkeypatch.setattr(standalone_runner, "_signals", lambda: told)
    monkeypatch.setattr(Runner, "start", start)
    monkeypatch.setattr(Runner, "drain", drain)
    process = asyncio.create_task(standalone_runner.execute_until_told(is_alone=True))
    await let_others_work()
    assert not has_started.is_set()

    channel.is_open.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await has_started.wait()
        told.set()
        await process
