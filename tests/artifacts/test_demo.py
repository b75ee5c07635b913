"""From the demo server to stored files: a mockup in two answers, artifacts in two versions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable

import pytest

from chat.conversations.actions.messages import ModelChoice, send_message
from chat.core.notify import change_notifier
from chat.core.threads import DatabaseThreads
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
from chat.runs.event_buffer import MemoryEventBuffer
from chat.runs.runner import Runner
from tests.support.processes.site import SOON_SECONDS
from tests.support.upstream.fake import FakeUpstream

threads = DatabaseThreads("demo-test", size=1)
Ask = Callable[..., Run]


@pytest.fixture
async def running(transactional_db: None, upstream: Upstream) -> AsyncIterator[None]:
    """The demo of one dialect, and a runner that asks it."""
    async with FakeUpstream() as fake:
        fields = {"dialect": "xerotier", "base_url": f"{fake.url}/xerotier/proj_demo/team/v1"}
        await threads.call(Upstream.objects.filter(pk=upstream.pk).update, **fields)
        # Without notifications the files would be fetched at the next poll.
        change_notifier.start()
        runner = Runner(buffer=MemoryEventBuffer())
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


async def until_stored(run: Run) -> None:
    """The answer is complete, and all files that it announced were fetched."""
    completed = Run.objects.filter(pk=run.pk, status="completed")
    wanted = MockupFile.objects.filter(status=FetchStatus.WANTED)
    async with asyncio.timeout(SOON_SECONDS):
        for condition in (completed.exists, lambda: not wanted.exists()):
            while not await threads.call(condition):
                await asyncio.sleep(0.01)


def read_versions() -> list[dict[str, MockupFile]]:
    versions = MockupVersion.objects.order_by("number").prefetch_related("files__file")
    return [{file.path: file for file in version.files.all()} for version in versions]


async def test_mockup_update_fetches_only_changed_files(running: None, ask: Ask) -> None:
    first = await threads.call(ask, "demo-mockup", "Build a tide board.")
    await until_stored(first)
    await until_stored(await threads.call(ask, "demo-mockup", "Change it.", first.message))

    versions = await threads.call(read_versions)
    before, after = versions[0], versions[-1]
    assert {file.status for files in versions for file in files.values()} == {"stored"}
    shared = {path for path in after if path in before and after[path].file == before[path].file}
    changed = set(after) - shared
    assert shared
    assert changed
    assert await threads.call(StoredFile.objects.count) == len(before) + len(changed)


async def test_artifacts_have_versions(running: None, ask: Ask) -> None:
    await until_stored(await threads.call(ask, "demo-artifacts", "Write it down."))

    rows = await threads.call(lambda: list(ArtifactVersion.objects.values("number", "content")))
    assert max(row["number"] for row in rows) >= 2
    assert all(row["content"] for row in rows)
