"""Things in Alice's conversations, as rows of the access matrix refer to them."""

from __future__ import annotations

import uuid

from django.core.files.base import ContentFile

from chat import events
from chat.artifacts.views.previews import Ticket, sign
from chat.files.remote_images import id_of
from chat.models import (
    AnswerFile,
    Artifact,
    ArtifactVersion,
    Attachment,
    Comment,
    ComparedAnswer,
    Comparison,
    Conversation,
    Membership,
    Mockup,
    MockupVersion,
    Project,
    ProjectMember,
    QueuedMessage,
    Run,
    RunSegment,
    StoredFile,
    TeamRole,
    UnsentFile,
    User,
    Visibility,
)
from tests.access_matrix.case import (
    Make,
    MakeInThread,
    Outcome,
    Outcomes,
    Thread,
    Values,
    World,
    signed_in_only,
)
from tests.support.files import store_file


def _conversation(thread: Thread) -> Values:
    return {"public_id": thread.conversation.public_id}


def _conversation_of_a_viewer(world: World) -> Values:
    """Alice began it, and may only read in the team by now."""
    Membership.objects.filter(user=world.alice).update(role=TeamRole.VIEWER)
    return _conversation(world.shared)


def _in_project(kwargs: MakeInThread) -> Make:
    """In a project of selected people: Alice's, with Bob as a reader."""

    def make(world: World) -> Values:
        project = Project.objects.create(team=world.team, name="Bridge", access="members")
        for person, role in ((world.alice, "manager"), (world.bob, "reader")):
            ProjectMember.objects.create(project=project, user=person, role=role)
        Conversation.objects.filter(pk=world.shared.conversation.pk).update(
            project=project, visibility=Visibility.PROJECT
        )
        return kwargs(world.shared)

    return make


def selected_only(outcome: Outcome, reader: Outcome = 403) -> Outcomes:
    """Alice, who owns the conversation, and Bob, who only reads it; not the rest of the team."""
    return signed_in_only(404, alice=outcome, bob=reader)


def _question(thread: Thread) -> Values:
    return {"public_id": thread.question.public_id}


def _answer(thread: Thread) -> Values:
    return {"public_id": thread.answer.public_id}


def _before_answer(thread: Thread) -> Values:
    return {**_conversation(thread), "before": thread.answer.public_id}


def _run(thread: Thread) -> Values:
    return {"public_id": thread.run.public_id}


def _log(run: Run, event: events.Event) -> None:
    body = events.join_bodies([events.encode(event)])
    RunSegment.objects.create(run=run, first_seq=1, last_seq=1, body=body)


def _folded_thought(thread: Thread) -> Values:
    _log(thread.run, events.ReasoningDelta(item=0, content="Hm.", seq=1))
    return {**_run(thread), "part_id": f"r{thread.run.public_id.hex}-i0-flow"}


def _part_of_another_run(world: World) -> Values:
    part_id = _folded_thought(world.private)["part_id"]
    return {**_folded_thought(world.shared), "part_id": part_id}


PICTURE = "https://example.org/a.png"


def _stored_picture(thread: Thread) -> Values:
    """A remote image that the answer names, and that has been fetched already."""
    _log(thread.run, events.MessageDelta(item=0, content=f"![a]({PICTURE})", seq=1))
    store_file(public_id=id_of(thread.run, PICTURE), conversation=thread.conversation)
    return _run(thread)


def _picture(world: World) -> Values:
    return {"address": PICTURE}


def _medium(thread: Thread) -> Values:
    file = store_file(conversation=thread.conversation, body=b"x")
    AnswerFile.objects.create(run=thread.run, file=file, item=3)
    return {**_run(thread), "choice": 0, "item": 3, "position": 0}


def _medium_of_another_run(world: World) -> Values:
    return {**_medium(world.private), **_run(world.shared)}


def _event(thread: Thread) -> Values:
    _log(thread.run, events.ChatStart(model_instance_id="m", seq=1))
    return {**_run(thread), "seq": 1}


def _export(thread: Thread) -> Values:
    _event(thread)
    return {**_run(thread), "form": "events"}


def _new_message(world: World) -> Values:
    return {
        "text": "Where does the river begin?",
        "choice": f"{world.upstream.public_id.hex}:demo/model",
        "key": str(uuid.uuid4()),
    }


def _reply_to_shared(world: World) -> Values:
    return {**_new_message(world), "parent": world.shared.answer.public_id.hex}


def _reply_to_private(world: World) -> Values:
    return {**_new_message(world), "parent": world.private.answer.public_id.hex}


def _first_message(world: World) -> Values:
    return {**_new_message(world), "team": world.team.public_id.hex, "visibility": "team"}


def _queue_for(author: User, thread: Thread) -> Values:
    queued = QueuedMessage.objects.create(
        conversation=thread.conversation,
        author=author,
        after=thread.answer,
        text="Next",
        model="demo/model",
        idempotency_key=uuid.uuid4(),
    )
    return {"public_id": queued.public_id}


def _queued(thread: Thread) -> Values:
    return _queue_for(thread.conversation.owner, thread)


def _queued_by_bob(world: World) -> Values:
    return _queue_for(world.bob, world.shared)


def _comment_by(author: User, thread: Thread) -> Values:
    comment = Comment.objects.create(
        conversation=thread.conversation, message=thread.answer, author=author, text="Which one?"
    )
    return {"public_id": comment.public_id}


def _comment(thread: Thread) -> Values:
    """A comment of the conversation's owner."""
    return _comment_by(thread.conversation.owner, thread)


def _comment_of_viewer(world: World) -> Values:
    return _comment_by(world.viewer, world.shared)


def _own_comment_of_viewer(world: World) -> Values:
    """A private comment of somebody who has lost access."""
    return _comment_by(world.viewer, world.private)


def _compared(thread: Thread) -> Values:
    """An answer that stands beside others, of which nobody has chosen one."""
    comparison = Comparison.objects.create(
        question=thread.question, conversation=thread.conversation
    )
    ComparedAnswer.objects.create(answer=thread.answer, comparison=comparison, position=0)
    return _answer(thread)


def _words(world: World) -> Values:
    return {"text": "The long one.", "key": str(uuid.uuid4())}


def _text(world: World) -> Values:
    return {"text": "Next, better"}


def _title(world: World) -> Values:
    return {"title": "Springs"}


def _private(world: World) -> Values:
    return {"visibility": "private"}


def _team_visibility(world: World) -> Values:
    return {"visibility": "team"}


def _file(thread: Thread) -> Values:
    file = store_file(conversation=thread.conversation, body=b"x")
    return {"public_id": file.public_id}


def _attached(thread: Thread) -> Values:
    values = _file(thread)
    file = StoredFile.objects.get(public_id=values["public_id"])
    turn = thread.conversation.messages.filter(role="user").first()
    Attachment.objects.create(message=turn, file=file, position=100)
    return values


def _file_of_no_conversation(world: World) -> Values:
    return {"public_id": store_file(conversation=None, body=b"x").public_id}


def _unsent(world: World) -> Values:
    """A file of the message that Alice writes in a conversation of the team."""
    place = world.shared.conversation.public_id.hex
    file = store_file(body=b"x", created_by=world.alice)
    UnsentFile.objects.create(user=world.alice, place=place, file=file)
    return {"place": place, "public_id": file.public_id}


def _unsent_file(world: World) -> Values:
    return {"public_id": _unsent(world)["public_id"]}


def _place(thread: Thread) -> Values:
    return {"place": thread.conversation.public_id.hex}


def _place_in_project(thread: Thread) -> Values:
    project = Project.objects.get(conversations=thread.conversation)
    return {"place": f"new-{project.public_id.hex}"}


def _upload(world: World) -> Values:
    return {"file": ContentFile(b"Text.", "a.txt")}


def _artifact(thread: Thread) -> Values:
    artifact = Artifact.objects.create(conversation=thread.conversation, artifact_id="a")
    ArtifactVersion.objects.create(artifact=artifact, number=1, run=thread.run, seq=2, content="x")
    return {"public_id": artifact.public_id, "number": 1}


def _two_versions(thread: Thread) -> Values:
    return {**_artifact(thread), "other": 1}


def _artifact_event(thread: Thread) -> Values:
    _artifact(thread)
    return {**_run(thread), "seq": 2}


def _mockup(thread: Thread) -> Values:
    mockup = Mockup.objects.create(conversation=thread.conversation, bundle_id="b")
    MockupVersion.objects.create(mockup=mockup, number=1, run=thread.run, seq=2, entry="index.html")
    return {"public_id": mockup.public_id, "number": 1}


def _mockup_event(thread: Thread) -> Values:
    _mockup(thread)
    return {**_run(thread), "seq": 2}


def _forged_preview(world: World) -> Values:
    return {"token": "forged"}


def _forged_preview_file(world: World) -> Values:
    return {"token": "forged", "path": "index.html"}


def _preview_for_alice(world: World) -> Values:
    version = _artifact(world.private)
    ArtifactVersion.objects.update(language="html")
    ticket = Ticket(kind="artifact", user=world.alice.public_id, runs=False, **version)
    return {"token": sign(ticket).split("/")[2]}


def _team(world: World) -> Values:
    return {"team_id": world.team.public_id}
