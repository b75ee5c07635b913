"""An answer that runs while its conversation is moved loses nothing, no matter who asked for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chat import access
from chat.models import Conversation, Project, ProjectAccess, ProjectMember, Run, User
from chat.projects import actions
from tests.runs.helpers import HALF_AN_ANSWER, has_logged, text_of, threads, until, until_ended
from tests.support.run_fixtures import Execute
from tests.support.upstream.fake import FakeUpstream

Change = Callable[[User, Conversation, Project], None]


def move_in(owner: User, room: Conversation, project: Project) -> None:
    actions.move_conversation(owner, room, project)


def move_out(owner: User, room: Conversation, project: Project) -> None:
    actions.move_conversation(owner, room, project)
    actions.move_conversation(owner, room, None)


def delete_project(owner: User, room: Conversation, project: Project) -> None:
    actions.move_conversation(owner, room, project)
    actions.delete_project(owner, project)


def leave(owner: User, room: Conversation, project: Project) -> None:
    """The conversation stays in the project, and stays its owner's."""
    actions.move_conversation(owner, room, project)
    ProjectMember.objects.filter(user=owner).delete()


@pytest.mark.parametrize("change", [move_in, move_out, delete_project, leave])
async def test_answer_goes_on_while_its_conversation_moves(
    change: Change, begin: Execute, fake: FakeUpstream, alice: User
) -> None:
    run: Run = await begin(HALF_AN_ANSWER)
    await until(lambda: has_logged(run, b"from"))

    def act() -> None:
        room = Conversation.objects.get()
        project = actions.create_project(
            alice, room.team, name="Bridge", access=ProjectAccess.MEMBERS
        )
        change(alice, room, project)

    await threads.call(act)
    fake.release("more")
    ended = await until_ended(run)

    assert (ended.status, text_of(ended)) == ("completed", "Hello from the river.")
    assert await threads.call(lambda: access.writable_conversations(alice).exists())
