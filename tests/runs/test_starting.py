"""A runner misses no notification from the moment at which it says that it has started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from channels.layers import InMemoryChannelLayer, channel_layers

from chat.artifacts.actions import FILES
from chat.core import notify
from chat.core.notify import LAYER, QUEUED, STOPS, ChangeNotifier, Subscription
from chat.demo.script import stream
from chat.runs import queue, standalone_runner
from chat.runs.runner import Runner
from tests.runs.helpers import PATIENCE_SECONDS, TEXT, let_others_work, until, until_ended
from tests.support.run_fixtures import Execute, StartRunner


class GatedLayer(InMemoryChannelLayer):
    """A channel layer that answers to nobody before ``is_open`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = asyncio.Event()

    async def group_add(self, group: str, channel: str) -> None:
        await self.is_open.wait()
        await super().group_add(group, channel)


@pytest.fixture
def layer() -> Iterator[GatedLayer]:
    layer = GatedLayer()
    before = channel_layers.set(LAYER, layer)
    yield layer
    del channel_layers.backends[LAYER]
    if before is not None:
        channel_layers.set(LAYER, before)


@asynccontextmanager
async def listening(notifier: ChangeNotifier) -> AsyncIterator[None]:
    task = asyncio.create_task(notifier.listen())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_until_subscribed_waits_for_the_layer(
    layer: GatedLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "ANSWER_SECONDS", PATIENCE_SECONDS)
    notifier = ChangeNotifier()

    async with listening(notifier):
        waiting = asyncio.create_task(notifier.until_subscribed())
        await let_others_work()
        assert not waiting.done()

        layer.is_open.set()
        await waiting
        assert layer.groups[notify.GROUP]


async def test_until_subscribed_gives_up_on_an_absent_layer(
    layer: GatedLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "ANSWER_SECONDS", 0.05)
    notifier = ChangeNotifier()

    async with listening(notifier), asyncio.timeout(PATIENCE_SECONDS):
        await notifier.until_subscribed()

    assert not layer.groups


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
    layer: GatedLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, has_started = asyncio.Event(), asyncio.Event()
    groups_at_start: list[str] = []

    async def start(runner: Runner) -> None:
        groups_at_start.extend(layer.groups)
        has_started.set()

    async def drain(runner: Runner, timeout_seconds: float) -> None:
        """Nothing was started."""

    monkeypatch.setattr(notify, "ANSWER_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(standalone_runner, "change_notifier", ChangeNotifier())
    monkeypatch.setattr(standalone_runner, "_signals", lambda: told)
    monkeypatch.setattr(Runner, "start", start)
    monkeypatch.setattr(Runner, "drain", drain)
    process = asyncio.create_task(standalone_runner.execute_until_told(is_alone=True))
    await let_others_work()
    assert not has_started.is_set()

    layer.is_open.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await has_started.wait()
        told.set()
        await process

    assert groups_at_start == [notify.GROUP]
