"""From the demo server to stored files: a mockup in two answers, artifacts in two versions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable

import pytest

from chat.actions.conversations import ModelChoice, send_message
from chat.demo.fake import FakeUpstream
from chat.doorbell import Doorbell
from chat.models import (
    ArtifactVersion,
    Conversation,
    FetchStatus,
    Message,
    MockupFile,
    MockupVersion,
    Run,
    StoredFile,
    Upstream,
    User,
)
from chat.runs.database import DatabaseThreads
from chat.runs.runner import Runner
from chat.runs.tail import MemoryTail

threads = DatabaseThreads("demo-test", size=1)
Ask = Callable[..., Run]


@pytest.fixture
async def running(transactional_db: None, upstream: Upstream) -> AsyncIterator[None]:
    """The demo of one dialect, and a runner that asks it."""
    async with FakeUpstream() as fake:
        fields = {"dialect": "xerotier", "base_url": f"{fake.url}/xerotier/proj_demo/river/v1"}
        await threads.call(Upstream.objects.filter(pk=upstream.pk).update, **fields)
        runner = Runner(tail=MemoryTail(), bell=Doorbell())
        await runner.start()
        yield
        await runner.drain(0)
        await threads.close()


@pytest.fixture
def ask(alice: User, conversation: Conversation, upstream: Upstream) -> Ask:
    def send(model: str, text: str, below: Message | None = None) -> Run:
        upstream.refresh_from_db()
        return send_message(
            alice,
            conversation,
            parent=below,
            text=text,
            choice=ModelChoice(upstream=upstream, model=f"tributary/{model}"),
            idempotency_key=uuid.uuid4(),
        )

    return send


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not await threads.call(holds):
            await asyncio.sleep(0.01)


async def answered(run: Run) -> None:
    await until(lambda: Run.objects.filter(pk=run.pk, status="completed").exists())


def nothing_is_wanted() -> bool:
    return not MockupFile.objects.filter(status=FetchStatus.WANTED).exists()


async def test_a_mockup_is_stored_and_its_update_fetches_what_changed(
    running: None, ask: Ask
) -> None:
    first = await threads.call(ask, "demo-mockup", "Build a tide board.")
    await answered(first)
    await until(nothing_is_wanted)
    second = await threads.call(ask, "demo-mockup", "Change it.", first.message)
    await answered(second)
    await until(nothing_is_wanted)

    def read() -> tuple[list[dict[str, MockupFile]], int]:
        versions = MockupVersion.objects.order_by("number").prefetch_related("files__file")
        return (
            [{file.path: file for file in version.files.all()} for version in versions],
            StoredFile.objects.count(),
        )

    versions, stored = await threads.call(read)
    before, after = versions[0], versions[-1]
    assert {file.status for files in versions for file in files.values()} == {"stored"}
    shared = {path for path in after if path in before and after[path].file == before[path].file}
    assert shared
    assert set(after) - shared
    assert stored == len(before) + len(set(after) - shared)


async def test_artifacts_of_the_demo_have_versions(running: None, ask: Ask) -> None:
    run = await threads.call(ask, "demo-artifacts", "Write it down.")
    await answered(run)

    rows = await threads.call(lambda: list(ArtifactVersion.objects.values("number", "content")))
    assert max(row["number"] for row in rows) >= 2
    assert all(row["content"] for row in rows)
