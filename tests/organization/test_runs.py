"""An answer that runs while its conversation is archived or deleted loses nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.utils import timezone

from chat import access
from chat.conversations.actions.conversation import delete
from chat.models import Conversation, Run, User
from chat.organization import actions
from chat.organization.purge import PURGE
from tests.runs.helpers import HALF_AN_ANSWER, has_logged, text_of, threads, until, until_ended
from tests.support.run_fixtures import Execute
from tests.support.upstream.fake import FakeUpstream


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    often = replace(PURGE, seconds=0.05)
    monkeypatch.setattr("chat.runs.runner._periodic_tasks", {often.topic: often})


@pytest.fixture
async def run(begin: Execute) -> Run:
    """Half of its answer has come."""
    run = await begin(HALF_AN_ANSWER)
    await until(lambda: has_logged(run, b"from"))
    return run


async def test_answer_goes_on_in_the_archive(run: Run, fake: FakeUpstream, alice: User) -> None:
    await threads.call(actions.archive, alice, run.conversation)
    fake.release("more")

    ended = await until_ended(run)

    assert (ended.status, text_of(ended)) == ("completed", "Hello from the river.")
    row = await threads.call(Conversation.objects.get)
    assert row.archived_at is not None


async def test_deleted_answer_is_stopped_and_restored_with_its_text(run: Run, alice: User) -> None:
    await threads.call(delete, alice, run.conversation)
    ended = await until_ended(run)

    await threads.call(actions.restore, alice, run.conversation)

    assert (ended.status, text_of(ended)) == ("stopped", "Hello from")
    assert await threads.call(lambda: access.visible_conversations(alice).exists())


async def test_restored_while_it_stops_loses_nothing(run: Run, alice: User) -> None:
    def delete_and_restore() -> None:
        delete(alice, run.conversation)
        actions.restore(alice, run.conversation)

    await threads.call(delete_and_restore)

    assert text_of(await until_ended(run)) == "Hello from"


async def test_job_ends_what_expires_and_erases_it_behind_its_answer(run: Run) -> None:
    await threads.call(lambda: Conversation.objects.update(expires_at=timezone.now()))

    # By the runner's own job.
    await until(lambda: not Conversation.objects.exists())

    assert not await threads.call(Run.objects.exists)
