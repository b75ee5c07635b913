"""What each kind of user gets at every URL of the application.

A route without a row here fails `test_every_route_has_an_access_test`. To add one, write a `Case`
in the section of its feature that names the route and what each actor gets. ``SIGN_IN`` stands for
a redirect to the sign-in page. All requests start from the same database state.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.files.base import ContentFile
from django.db import connection, transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from chat import events
from chat.accounts.actions import people, tokens
from chat.accounts.adapter import make_reset_link
from chat.artifacts.views.previews import Ticket, sign
from chat.files.remote_images import id_of
from chat.models import (
    AnswerFile,
    Artifact,
    ArtifactVersion,
    CallStatus,
    ClientSource,
    Comment,
    Conversation,
    Group,
    GroupMember,
    Import,
    Job,
    JobKind,
    Membership,
    Message,
    Mockup,
    MockupVersion,
    OAuthClient,
    Participant,
    Project,
    ProjectMember,
    ProjectRole,
    Question,
    QuestionKind,
    QueuedMessage,
    Role,
    Run,
    RunSegment,
    RunStatus,
    Team,
    TeamRole,
    Tool,
    ToolAccount,
    ToolCall,
    ToolCredentials,
    ToolKind,
    ToolRequest,
    ToolServer,
    Upstream,
    User,
    Visibility,
)
from chat.projects.actions import create_project, set_member
from chat.projects.forms import Place
from chat.tools.definitions import call_digest
from chat.web import views
from tests.conftest import PASSWORD
from tests.support.files import store_file
from tests.support.reasons import give_reason

SIGN_IN = "sign-in"
ADMIN = "administrator"
# Alice owns the team, Bob is a member of it, the guest sees what is shared with them only, Charlie is in no
# team, Dana owns another one.
ACTORS = ("anonymous", "alice", "bob", "viewer", "guest", "charlie", "dana", ADMIN)
Outcome = int | str
Outcomes = dict[str, Outcome]
Values = Mapping[str, object]


@dataclass(frozen=True)
class Thread:
    """A conversation of Alice with one question and its answer."""

    conversation: Conversation
    question: Message
    answer: Message
    run: Run


@dataclass(frozen=True)
class World:
    """The rows that URLs and forms refer to. ``sessions``: actor -> session key."""

    team: Team
    upstream: Upstream
    alice: User
    bob: User
    viewer: User
    guest: User
    shared: Thread
    private: Thread
    sessions: Mapping[str, str]


Make = Callable[[World], Values]
MakeInThread = Callable[[Thread], Values]


def nothing(world: World) -> Values:
    return {}


@dataclass(frozen=True)
class Case:
    """One route (with one kind of object) and what each actor gets."""

    route: str
    outcomes: Outcomes
    of: str = ""
    kwargs: Make = nothing
    method: str = "get"
    data: Make = field(default=nothing)

    @property
    def label(self) -> str:
        return f"{self.route} {self.method} {self.of}".strip()


def everyone(outcome: Outcome, **exceptions: Outcome) -> Outcomes:
    return dict.fromkeys(ACTORS, outcome) | exceptions


def signed_in_only(outcome: Outcome, **exceptions: Outcome) -> Outcomes:
    return everyone(outcome, anonymous=SIGN_IN) | exceptions


def readers(outcome: Outcome) -> Outcomes:
    """The team, including its viewers; for everyone else the object does not exist."""
    return signed_in_only(404, alice=outcome, bob=outcome, viewer=outcome)


def writers(outcome: Outcome) -> Outcomes:
    """The team without its viewers, who see the object and may not change it."""
    return signed_in_only(404, alice=outcome, bob=outcome, viewer=403)


def executor_only(outcome: Outcome) -> Outcomes:
    """Whoever's account a call uses; for the other writers there is nothing to connect."""
    return signed_in_only(404, alice=outcome, viewer=403)


def owner_only(outcome: Outcome) -> Outcomes:
    """The owner of the conversation; the team sees it and may not do this."""
    return signed_in_only(404, alice=outcome, bob=403, viewer=403)


def alice_only(outcome: Outcome) -> Outcomes:
    """Alice's private objects: they exist for nobody else, not even for an administrator."""
    return signed_in_only(404, alice=outcome)


def team_managers(outcome: Outcome) -> Outcomes:
    """The team's owner and administrators; members see the object and may not change it."""
    return signed_in_only(404, alice=outcome, administrator=outcome, bob=403, viewer=403)


def tool_server_managers(outcome: Outcome) -> Outcomes:
    """Administrators; the team's people are told that they may not."""
    return signed_in_only(404, administrator=outcome, alice=403, bob=403, viewer=403)


def account_managers(outcome: Outcome, **exceptions: Outcome) -> Outcomes:
    """Who manages Bob's account; for everyone else there is no such person."""
    return signed_in_only(404, alice=outcome, administrator=outcome) | exceptions


def administrators(outcome: Outcome) -> Outcomes:
    """Administrators of the installation; everyone else is told that they lack access."""
    return signed_in_only(403, administrator=outcome)


def in_shared(make: MakeInThread) -> Make:
    return lambda world: make(world.shared)


def in_private(make: MakeInThread) -> Make:
    return lambda world: make(world.private)


def shared_and_private(
    route: str,
    rights: Callable[[Outcome], Outcomes],
    outcome: Outcome,
    kwargs: MakeInThread,
    method: str = "get",
    data: Make = nothing,
) -> list[Case]:
    """In the team's conversation by its rights; in Alice's private one for her alone."""
    return [
        Case(route, rights(outcome), "shared", in_shared(kwargs), method, data),
        Case(route, alice_only(outcome), "private", in_private(kwargs), method, data),
    ]


# --- the conversation page ------------------------------------------------------------


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


def _file_of_no_conversation(world: World) -> Values:
    return {"public_id": store_file(conversation=None, body=b"x").public_id}


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


CONVERSATION_CASES = [
    Case("home", signed_in_only(200)),
    Case("search", signed_in_only(200)),
    Case("search_palette", signed_in_only(200)),
    *shared_and_private("conversation_find", readers, 200, _conversation),
    Case("conversation_list", signed_in_only(200)),
    Case("inbox", signed_in_only(200)),
    Case("inbox_read", signed_in_only(302), method="post"),
    Case("inbox_notifications", signed_in_only(302), method="post"),
    *shared_and_private("mention_find", readers, 200, _conversation),
    # Without the id of a server.
    Case("conversation_parameters", signed_in_only(404)),
    Case(
        "conversation_new",
        # A team in which a user may not write is no choice of the form.
        signed_in_only(422, alice=302, bob=302),
        method="post",
        data=_first_message,
    ),
    # A static page without content of anybody.
    Case("diagram_frame", everyone(200)),
    *shared_and_private("conversation", readers, 200, _conversation),
    *shared_and_private("conversation_changes", readers, 200, _conversation),
    *shared_and_private("conversation_earlier", readers, 200, _before_answer),
    Case(
        "conversation_send",
        writers(302),
        "shared",
        in_shared(_conversation),
        "post",
        _reply_to_shared,
    ),
    Case(
        "conversation_send",
        alice_only(302),
        "private",
        in_private(_conversation),
        "post",
        _new_message,
    ),
    *shared_and_private("conversation_rename", owner_only, 302, _conversation, "post", _title),
    *shared_and_private(
        "conversation_visibility", owner_only, 302, _conversation, "post", _team_visibility
    ),
    Case(
        "conversation_visibility",
        readers(403),
        "of a viewer",
        _conversation_of_a_viewer,
        "post",
        _team_visibility,
    ),
    Case(
        "conversation_visibility",
        selected_only(422),
        "in a project, with the team",
        _in_project(_conversation),
        "post",
        _team_visibility,
    ),
    Case(
        "conversation_visibility",
        selected_only(302),
        "in a project",
        _in_project(_conversation),
        "post",
        _private,
    ),
    Case("conversation", selected_only(200, 200), "in a project", _in_project(_conversation)),
    Case(
        "conversation_send",
        selected_only(302),
        "in a project",
        _in_project(_conversation),
        "post",
        _reply_to_shared,
    ),
    Case("file", selected_only(200, 200), "in a project", _in_project(_file)),
    Case("run_log", selected_only(200, 200), "in a project", _in_project(_run)),
    Case("run_stop", selected_only(302), "in a project", _in_project(_run), "post"),
    Case("message_edit", writers(200), "shared", in_shared(_question)),
    Case("message_edit", writers(302), "shared", in_shared(_question), "post", _new_message),
    *shared_and_private("message_retry", writers, 302, _answer, "post", _new_message),
    *shared_and_private("conversation_queue", readers, 302, _conversation),
    # The author edits; the author and the conversation's owner remove; whoever writes has it sent.
    *shared_and_private("queued_message_edit", owner_only, 200, _queued),
    *shared_and_private("queued_message_edit", owner_only, 302, _queued, "post", _text),
    *shared_and_private("queued_message_remove", owner_only, 302, _queued, "post"),
    *shared_and_private("queued_message_send", writers, 302, _queued, "post"),
    Case(
        "queued_message_edit",
        signed_in_only(404, alice=403, bob=302, viewer=403),
        "of Bob",
        _queued_by_bob,
        "post",
        _text,
    ),
    Case("queued_message_remove", writers(302), "of Bob", _queued_by_bob, "post"),
    # Whoever reads comments, and edits, deletes and resolves their own; writers resolve all, managers delete all.
    *shared_and_private("conversation_comments", readers, 200, _conversation),
    *shared_and_private("message_comments", readers, 200, _answer),
    *shared_and_private("message_comments", readers, 302, _answer, "post", _words),
    *shared_and_private("comment_reply", readers, 302, _comment, "post", _words),
    *shared_and_private("comment_edit", owner_only, 200, _comment),
    *shared_and_private("comment_edit", owner_only, 302, _comment, "post", _words),
    *shared_and_private("comment_delete", owner_only, 302, _comment, "post"),
    *shared_and_private("comment_resolve", writers, 302, _comment, "post"),
    *shared_and_private("comment_reopen", writers, 302, _comment, "post"),
    Case(
        "comment_edit",
        signed_in_only(404, alice=403, bob=403, viewer=302),
        "of a viewer",
        _comment_of_viewer,
        "post",
        _words,
    ),
    Case(
        "comment_delete",
        signed_in_only(404, alice=302, bob=403, viewer=302),
        "of a viewer",
        _comment_of_viewer,
        "post",
    ),
    Case("comment_resolve", readers(302), "of a viewer", _comment_of_viewer, "post"),
    Case("comment_edit", signed_in_only(404, alice=403), "lost", _own_comment_of_viewer),
    Case("comment_delete", alice_only(302), "lost", _own_comment_of_viewer, "post"),
    Case("message_find", readers(302), "shared", in_shared(_question)),
    Case("message_find", alice_only(302), "private", in_private(_answer)),
    Case("message_show", readers(302), "shared", in_shared(_question), "post"),
    Case("message_show", alice_only(302), "private", in_private(_answer), "post"),
    *shared_and_private("message_source", readers, 200, _answer),
    *shared_and_private("conversation_people", readers, 200, _conversation),
    *shared_and_private("conversation_files", readers, 200, _conversation),
    *shared_and_private("file", readers, 200, _file),
    Case("file", signed_in_only(404), "of no conversation", _file_of_no_conversation),
    *shared_and_private("file_source", readers, 200, _file),
    *shared_and_private("artifact", readers, 200, _artifact),
    *shared_and_private("artifact", readers, 200, _artifact, "post"),
    *shared_and_private("artifact_raw", readers, 200, _artifact),
    *shared_and_private("artifact_code", readers, 200, _artifact),
    *shared_and_private("artifact_difference", readers, 200, _artifact),
    *shared_and_private("artifact_comparison", readers, 200, _two_versions),
    *shared_and_private("artifact_versions", readers, 200, _artifact),
    *shared_and_private("artifact_made", readers, 302, _artifact_event),
    *shared_and_private("conversation_zip", readers, 200, _conversation),
    *shared_and_private("mockup", readers, 200, _mockup),
    Case("mockup", readers(200), "shared", in_shared(_mockup), "post"),
    *shared_and_private("mockup_files", readers, 200, _mockup),
    *shared_and_private("mockup_zip", readers, 200, _mockup),
    *shared_and_private("mockup_made", readers, 302, _mockup_event),
    # A preview asks for no cookie: its URL was signed for somebody who may see it.
    Case("preview", everyone(404), "with a forged token", _forged_preview),
    Case("preview", everyone(200), "signed for Alice", _preview_for_alice),
    Case("preview_file", everyone(404), "with a forged token", _forged_preview_file),
    *shared_and_private("run_stop", writers, 302, _run, "post"),
    *shared_and_private("run_details", readers, 200, _run),
    *shared_and_private("run_pictures", readers, 200, _stored_picture),
    *shared_and_private("run_pictures", writers, 200, _stored_picture, "post", _picture),
    *shared_and_private("run_medium", readers, 302, _medium),
    Case("run_medium", signed_in_only(404), "of another run", _medium_of_another_run),
    *shared_and_private("run_part", readers, 200, _folded_thought),
    Case("run_part", signed_in_only(404), "of another run", _part_of_another_run),
    *shared_and_private("run_text", readers, 200, _run),
    *shared_and_private("run_log", readers, 200, _run),
    *shared_and_private("run_replay", readers, 200, _run),
    *shared_and_private("run_replay_frames", readers, 200, _run),
    *shared_and_private("run_replay_moment", readers, 200, _run),
    *shared_and_private("run_export", readers, 200, _export),
    *shared_and_private("run_event", readers, 200, _event),
]

# --- exports ------------------------------------------------------------------------------


def _as(form: str) -> MakeInThread:
    return lambda thread: {**_conversation(thread), "form": form}


EXPORT_CASES = [
    *(
        case
        for form in ("markdown", "branches", "json", "html")
        for case in shared_and_private("conversation_export", readers, 200, _as(form))
    ),
    Case("conversation_export", signed_in_only(404), "unknown form", in_shared(_as("pdf"))),
    *shared_and_private("conversation_print", readers, 200, _conversation),
]

# --- exports and imports of many ------------------------------------------------------------


def _job_of_alice(world: World, kind: JobKind, **values: object) -> Values:
    expires_at = timezone.now() + timedelta(days=1)
    values = {"kind": kind, "user": world.alice, "team": world.team, **values}
    return {"public_id": Job.objects.create(expires_at=expires_at, **values).public_id}


def _exported(world: World, scope: str = "own") -> Values:
    return _job_of_alice(world, JobKind.EXPORT, status="done", scope=scope, form="json")


def _exported_team(world: World) -> Values:
    return _exported(world, "team")


def _exported_team_of_a_demoted_owner(world: World) -> Values:
    Membership.objects.filter(user=world.alice).update(role=TeamRole.ADMIN)
    return _exported(world, "team")


def _exported_everything_of_no_administrator(world: World) -> Values:
    return _exported(world, "all")


def _uploading(world: World) -> Values:
    return _job_of_alice(world, JobKind.CHECK, status="uploading", size_bytes=5)


def _piece(world: World) -> Values:
    return {**_uploading(world), "number": 0}


def _checked(world: World) -> Values:
    return _job_of_alice(world, JobKind.CHECK, status="done", result={"created": 1})


def _imported(world: World) -> Values:
    batch = Import.objects.create(team=world.team, user=world.alice, format="chatgpt")
    return {"public_id": batch.public_id}


def _own_as_json(world: World) -> Values:
    return {"what": "own", "form": "json"}


def _team_as_json(world: World) -> Values:
    return {"what": world.team.public_id.hex, "form": "json"}


def _all_as_json(world: World) -> Values:
    return {"what": "all", "form": "json", "reason": "Report 12"}


def _upload_fields(world: World) -> Values:
    return {"team": world.team.public_id.hex, "name": "a.json", "size": 5}


def _file_to_import(world: World) -> Values:
    return {"team": world.team.public_id.hex, "file": ContentFile(b"[]", "a.json")}


def _team_choice(world: World) -> Values:
    return {"team": world.team.public_id.hex}


TRANSFER_CASES = [
    *(Case(route, signed_in_only(200)) for route in ("data", "exports", "imports")),
    # Who has no conversations, or no right to them, is told so.
    Case("export_start", signed_in_only(409, alice=302), "own", method="post", data=_own_as_json),
    Case("export_start", signed_in_only(422, alice=302), "team", method="post", data=_team_as_json),
    Case(
        *("export_start", signed_in_only(422, administrator=302), "all"),
        method="post",
        data=_all_as_json,
    ),
    Case("export_file", alice_only(200), "own", _exported),
    Case("export_file", alice_only(200), "team", _exported_team),
    Case("export_file", alice_only(404), "demoted", _exported_team_of_a_demoted_owner),
    Case("export_file", alice_only(404), "all", _exported_everything_of_no_administrator),
    Case(
        *("import_upload", signed_in_only(422, alice=200, bob=200)),
        method="post",
        data=_upload_fields,
    ),
    Case(
        *("import_file", signed_in_only(422, alice=302, bob=302)),
        method="post",
        data=_file_to_import,
    ),
    # The piece is not of the announced size.
    Case("import_piece", alice_only(409), "", _piece, "post"),
    Case("import_upload_end", alice_only(409), "", _uploading, "post"),
    Case("import_check", alice_only(302), "", _checked, "post", _team_choice),
    Case("import_confirm", alice_only(302), "", _checked, "post"),
    Case("import_undo", alice_only(302), "", _imported, "post"),
    Case("job_cancel", alice_only(302), "", _uploading, "post"),
    Case("job_delete", alice_only(302), "", _exported, "post"),
]

# --- order among conversations ------------------------------------------------------------


def _chosen(thread: Thread) -> Values:
    return {"conversation": thread.conversation.public_id.hex, "title": "Springs"}


def _trashed(thread: Thread) -> Values:
    Conversation.objects.filter(pk=thread.conversation.pk).update(deleted_at=timezone.now())
    return _chosen(thread)


def _of_a_viewer(world: World) -> Values:
    _conversation_of_a_viewer(world)
    return _chosen(world.shared)


def changes(
    verb: str, rights: Callable[[Outcome], Outcomes], data: MakeInThread = _chosen
) -> list[Case]:
    return [
        Case(
            "conversations_change", outcomes, f"{verb} {of}", lambda _: {"verb": verb}, "post", make
        )
        for of, outcomes, make in (
            ("shared", rights(302), in_shared(data)),
            ("private", alice_only(302), in_private(data)),
        )
    ]


ORGANIZATION_CASES = [
    Case("conversations", signed_in_only(200)),
    Case("conversations_archived", signed_in_only(200)),
    Case("conversations_trash", signed_in_only(200)),
    # Everybody's own.
    Case("trash_empty", signed_in_only(302), method="post"),
    *shared_and_private("conversation_options", readers, 200, _conversation),
    *(case for verb in ("pin", "unpin") for case in changes(verb, readers)),
    *(
        case
        for verb in ("rename", "archive", "unarchive", "keep", "delete")
        for case in changes(verb, owner_only)
    ),
    *(case for verb in ("restore", "erase") for case in changes(verb, alice_only, _trashed)),
    # What is not in the trash can't be deleted for ever.
    Case(
        "conversations_change",
        signed_in_only(404),
        "erase of what is no trash",
        lambda _: {"verb": "erase"},
        "post",
        in_shared(_chosen),
    ),
    *(
        Case(
            "conversations_change",
            readers(403) if verb != "restore" else signed_in_only(404),
            f"{verb} of a viewer",
            lambda _, verb=verb: {"verb": verb},
            "post",
            _of_a_viewer,
        )
        for verb in ("archive", "delete", "restore")
    ),
]

# --- projects -----------------------------------------------------------------------------


def _project(world: World) -> Values:
    """For everyone on the team."""
    project = create_project(world.alice, world.team, name="Springs")
    return {"public_id": project.public_id}


def _own_project(world: World) -> Values:
    """Of selected people: of Alice alone."""
    project = create_project(world.alice, world.team, name="Sources", access="members")
    return {"public_id": project.public_id}


def _member(world: World) -> Values:
    """Bob, who is one of the selected people."""
    values = _own_project(world)
    project = Project.objects.get(**values)
    set_member(world.alice, project, world.bob, ProjectRole.READER)
    return {**values, "person_id": world.bob.public_id}


def _project_file(make: Make) -> Make:
    def file(world: World) -> Values:
        project = Project.objects.get(**make(world))
        return {"public_id": store_file(project=project, body=b"x").public_id}

    return file


def _moved(world: World) -> Values:
    """Alice's conversation into her project, although others lose access to it."""
    project = _own_project(world)["public_id"]
    return {**_chosen(world.shared), "project": str(project), "confirmed": "1"}


def _moved_back(world: World) -> Values:
    return {"conversation": str(Place.of(world.shared.conversation))}


def _new_member(world: World) -> Values:
    return {"person": str(world.bob.public_id), "role": "reader"}


def of_both(route: str, rights: Outcomes, outcome: Outcome, **more: Any) -> list[Case]:
    """In the project of the team by its ``rights``; in Alice's own one for her alone."""
    return [
        Case(route, rights, "team", _project, **more),
        Case(route, alice_only(outcome), "members", _own_project, **more),
    ]


PROJECT_CASES = [
    Case("projects", signed_in_only(200)),
    # Dana may write in her own team; the administrator is in none.
    Case("project_new", signed_in_only(403, alice=200, bob=200, dana=200)),
    *of_both("project", readers(200), 200),
    *of_both("project_instructions", readers(200), 200),
    *of_both("project_instructions", owner_only(302), 302, method="post"),
    *of_both("project_settings", owner_only(200), 200),
    *of_both("project_delete", owner_only(302), 302, method="post"),
    *of_both("project_members", readers(200), 200),
    *of_both("project_members", owner_only(302), 302, method="post", data=_new_member),
    *of_both("project_files", writers(302), 302, method="post"),
    Case("project_file_remove", writers(302), "team", _project_file(_project), "post"),
    Case("project_file_remove", alice_only(302), "members", _project_file(_own_project), "post"),
    Case(
        "project_member",
        signed_in_only(404, alice=302, bob=403),
        "role",
        _member,
        "post",
        lambda _: {"role": "writer"},
    ),
    # Everybody may leave.
    Case(
        "project_member",
        signed_in_only(404, alice=302, bob=302),
        "leaving",
        _member,
        "post",
        lambda _: {"remove": "1", "confirmed": "1"},
    ),
    Case("projects_move", owner_only(302), "moved", method="post", data=_moved),
    Case("projects_move_back", owner_only(302), "back", method="post", data=_moved_back),
]

# --- questions of runs, and tools --------------------------------------------------------


def _waiting(run: Run) -> Question:
    """A run that continues the answer and waits for a reply to its question."""
    ask = {"ask_id": "a", "question": "Which one?"}
    ext = events.Extension(status="waiting", stop=events.Stop(reason="ask"), asks=[ask])
    result = events.Result(model_instance_id="m", output=[], stats=events.Stats(), ext=ext)
    waiting = Run.objects.create(
        conversation=run.conversation,
        message=run.message,
        position=1,
        upstream=run.upstream,
        model="demo/model",
        requested_by=run.requested_by,
        idempotency_key=uuid.uuid4(),
        status=RunStatus.WAITING,
        result=events.encode(result).decode(),
    )
    return Question.objects.create(
        conversation=run.conversation, run=waiting, kind=QuestionKind.ASK, ask_id="a", body=ask
    )


def _open_question(thread: Thread) -> Values:
    return {"public_id": _waiting(thread.run).public_id}


def _waiting_run(thread: Thread) -> Values:
    return {"public_id": _waiting(thread.run).run.public_id}


def _call(thread: Thread) -> Values:
    """A call of a tool that waits for an approval."""
    question = _waiting(thread.run)
    Question.objects.filter(pk=question.pk).update(kind=QuestionKind.TOOL)
    tool = Tool.objects.create(team=thread.conversation.team, name="gauge", kind=ToolKind.HTTP)
    thread.conversation.tools.add(tool)
    ToolCall.objects.create(
        question=question,
        tool=tool,
        kind=tool.kind,
        status=CallStatus.APPROVAL,
        definition_digest=call_digest(tool),
    )
    return {"public_id": question.public_id}


def _call_that_may_have_run(thread: Thread) -> Values:
    values = _call(thread)
    ToolCall.objects.update(status=CallStatus.UNKNOWN)
    return values


def _reply(world: World) -> Values:
    return {"text": "The upper one."}


def _team(world: World) -> Values:
    return {"team_id": world.team.public_id}


def _tool(world: World) -> Values:
    return {"public_id": Tool.objects.create(team=world.team, name="gauge").public_id}


def _http_tool(world: World) -> Values:
    tool = Tool.objects.create(team=world.team, name="gauge", kind=ToolKind.HTTP)
    ToolRequest.objects.create(tool=tool, address="http://a.test/")
    return {"public_id": tool.public_id}


def _tool_fields(world: World) -> Values:
    return {"name": "gauge_2", "description": "", "schema": ""}


def _tool_server(world: World) -> Values:
    server = ToolServer.objects.create(team=world.team, name="Harbor", address="http://a.test/mcp")
    return {"public_id": server.public_id}


def _remote_tool(world: World) -> Values:
    server = ToolServer.objects.create(team=world.team, name="Harbor", address="http://a.test/mcp")
    tool = Tool.objects.create(team=world.team, name="level", kind=ToolKind.MCP, server=server)
    return {"public_id": tool.public_id}


def _sign_in_server(world: World) -> ToolServer:
    """Nothing listens there, so signing in is refused with a message."""
    return ToolServer.objects.create(
        team=world.team,
        name="Harbor",
        address="http://127.0.0.1:9/mcp",
        credentials=ToolCredentials.PERSON,
    )


def _server_to_sign_in_at(world: World) -> Values:
    return {"public_id": _sign_in_server(world).public_id}


def _own_call(thread: Thread) -> Values:
    """A call with the account of Alice."""
    values = _call(thread)
    team = thread.conversation.team
    server = ToolServer.objects.create(
        team=team, name="Own", address="http://127.0.0.1:9/mcp", credentials=ToolCredentials.PERSON
    )
    tool = Tool.objects.create(team=team, name="own", kind=ToolKind.MCP, server=server)
    ToolCall.objects.filter(question__public_id=values["public_id"]).update(
        tool=tool, is_personal=True, executor=thread.conversation.owner
    )
    return values


def _account_of_alice(world: World) -> Values:
    server = _sign_in_server(world)
    client = OAuthClient.objects.create(
        team=world.team,
        issuer="http://127.0.0.1:9",
        source=ClientSource.ENTERED,
        client_id="id",
        redirect_uri="http://127.0.0.1/",
    )
    account = ToolAccount(
        person=world.alice,
        server=server,
        client=client,
        issuer=client.issuer,
        resource=server.address,
        token_endpoint="http://127.0.0.1:9/token",
    )
    account.set_tokens(access="a", refresh="b")
    account.save()
    return {"public_id": account.public_id}


def _tool_server_fields(world: World) -> Values:
    return {"name": "Harbor 2", "address": "http://b.test/mcp", "headers": ""}


TOOL_SERVER_CASES = [
    Case("tool_servers", administrators(200)),
    Case("tool_server_add", tool_server_managers(200), "", _team),
    Case("tool_server_add", tool_server_managers(302), "", _team, "post", _tool_server_fields),
    Case("tool_server", tool_server_managers(200), "", _tool_server),
    Case("tool_server_settings", tool_server_managers(200), "", _tool_server),
    Case(
        "tool_server_settings",
        tool_server_managers(302),
        "",
        _tool_server,
        "post",
        _tool_server_fields,
    ),
    *(
        Case(f"tool_server_{verb}", tool_server_managers(302), "", _tool_server, "post")
        for verb in ("test", "switch", "read_only", "remove")
    ),
    Case("tool_server_rule", tool_server_managers(302), "", _remote_tool, "post"),
    *(
        Case(f"tool_server_{verb}", tool_server_managers(302), "", _server_to_sign_in_at, "post")
        for verb in ("connect", "client")
    ),
    Case("tool_accounts", signed_in_only(200)),
    # Nobody began a sign-in.
    Case("tool_account_callback", signed_in_only(404)),
    Case("tool_account_connect", readers(302), "", _server_to_sign_in_at, "post"),
    Case("tool_account_connect", signed_in_only(404), "without sign-in", _tool_server, "post"),
    Case("tool_account_disconnect", alice_only(302), "of Alice", _account_of_alice, "post"),
    Case("oauth_client_metadata", everyone(200)),
]

QUESTION_CASES = [
    *TOOL_SERVER_CASES,
    *shared_and_private("question_answer", writers, 302, _open_question, "post", _reply),
    *shared_and_private("question_refuse", writers, 302, _open_question, "post", _reply),
    *shared_and_private("question_claim", writers, 302, _open_question, "post", _reply),
    *shared_and_private("question_release", writers, 302, _open_question, "post", _reply),
    *shared_and_private("call_approve", writers, 302, _call, "post"),
    *shared_and_private("call_refuse", writers, 302, _call, "post"),
    *shared_and_private("call_connect", executor_only, 302, _own_call, "post"),
    *shared_and_private("call_run_again", writers, 302, _call_that_may_have_run, "post"),
    *shared_and_private("call_result", writers, 302, _call_that_may_have_run, "post"),
    *shared_and_private("call_go_on", writers, 302, _call_that_may_have_run, "post"),
    *shared_and_private("run_go_on", writers, 302, _waiting_run, "post"),
    *shared_and_private("conversation_tools", writers, 302, _conversation, "post"),
    *shared_and_private("tool_choice_forget", writers, 302, _conversation, "post"),
    *shared_and_private("presence_sign", readers, 204, _conversation, "post"),
    *shared_and_private("draft_save", readers, 204, _conversation, "post"),
    Case("draft_save_new", signed_in_only(204), method="post"),
    Case("tools", signed_in_only(200)),
    Case("tool_add", team_managers(200), "", _team),
    Case("tool_add", team_managers(302), "", _team, "post", _tool_fields),
    Case("tool_check", team_managers(200), "", _team, "post"),
    Case("tool", team_managers(200), "", _tool),
    Case("tool", team_managers(302), "", _tool, "post", _tool_fields),
    Case("tool", tool_server_managers(200), "", _http_tool),
    Case("tool", tool_server_managers(302), "", _http_tool, "post", _tool_fields),
    Case("tool_remove", team_managers(302), "", _tool, "post"),
]

# --- participants and groups --------------------------------------------------------------
#
# The table of rooms, section 1, by hand: what each relation to Alice's conversation allows. Strangers to the
# team can't take part, so for them it never exists.


@dataclass(frozen=True)
class Relations:
    """Who takes part in Alice's private conversation, and what each may do: "read", "write" or "manage".
    Who is not named sees nothing."""

    label: str
    join: Callable[[World], None]
    rights: Mapping[str, str]


def _take_part(world: World, **roles: str) -> None:
    for name, role in roles.items():
        Participant.objects.create(
            conversation=world.private.conversation, person=getattr(world, name), role=role
        )


def _join_group(world: World, role: str, *names: str) -> None:
    group = Group.objects.create(team=world.team, name=f"The {role}s")
    Participant.objects.create(conversation=world.private.conversation, group=group, role=role)
    for name in names:
        GroupMember.objects.create(group=group, user=getattr(world, name))


def _readers_and_writers(world: World) -> None:
    _take_part(world, bob="reader", guest="writer", viewer="writer")


def _managers(world: World) -> None:
    _take_part(world, bob="manager", guest="reader", viewer="manager")


def _groups(world: World) -> None:
    _join_group(world, "writer", "bob")
    _join_group(world, "reader", "guest")


def _managing_group(world: World) -> None:
    _take_part(world, bob="reader")
    _join_group(world, "manager", "bob", "guest")


def _team_reads(world: World) -> None:
    Conversation.objects.filter(pk=world.private.conversation.pk).update(
        visibility=Visibility.TEAM, shared_role="reader"
    )
    _take_part(world, viewer="reader")


def _has_left(world: World) -> None:
    """Roles of people who are not on the team any more count for nothing."""
    _take_part(world, bob="manager", guest="writer")
    _join_group(world, "writer", "bob", "guest")
    Membership.objects.filter(user__in=[world.bob.pk, world.guest.pk]).delete()


RELATIONS = [
    # A viewer of the team reads, whatever their role is.
    Relations(
        "readers and writers",
        _readers_and_writers,
        {"bob": "read", "guest": "write", "viewer": "read"},
    ),
    Relations("managers", _managers, {"bob": "manage", "guest": "read", "viewer": "read"}),
    Relations("groups", _groups, {"bob": "write", "guest": "read"}),
    # The strongest of all roles counts; a guest manages nothing.
    Relations("a managing group", _managing_group, {"bob": "manage", "guest": "write"}),
    Relations("read by the team", _team_reads, {"bob": "read", "viewer": "read"}),
    Relations("people who have left", _has_left, {}),
]


def _add_viewer(world: World) -> Values:
    return {"who": f"person:{world.viewer.public_id}", "role": "reader"}


def _into_project(world: World) -> Values:
    project = create_project(world.alice, world.team, name="Springs")
    return {
        **_chosen(world.private),
        "project": str(project.public_id),
        "confirmed": "1",
    }


# Each verb of the table: what it takes, the answer to those who may, its address and what is sent.
VERBS: list[tuple[str, str, int, MakeInThread, str, Make]] = [
    *(
        ("read", route, 200, make, "get", nothing)
        for route, make in (
            ("conversation", _conversation),
            ("conversation_changes", _conversation),
            ("conversation_people", _conversation),
            ("conversation_find", _conversation),
            ("conversation_files", _conversation),
            ("conversation_options", _conversation),
            ("conversation_export", _as("json")),
            ("conversation_print", _conversation),
            ("file", _file),
            ("artifact", _artifact),
            ("mockup", _mockup),
            ("message_source", _answer),
            ("run_log", _run),
            ("run_details", _run),
            ("run_replay", _run),
            ("run_export", _export),
        )
    ),
    ("read", "conversation_comments", 200, _conversation, "get", nothing),
    ("read", "message_comments", 302, _answer, "post", _words),
    ("read", "comment_reply", 302, _comment, "post", _words),
    ("write", "comment_resolve", 302, _comment, "post", nothing),
    ("manage", "comment_delete", 302, _comment, "post", nothing),
    ("write", "conversation_send", 302, _conversation, "post", _new_message),
    ("write", "message_edit", 302, _question, "post", _new_message),
    ("write", "message_retry", 302, _answer, "post", _new_message),
    ("write", "run_stop", 302, _run, "post", nothing),
    ("write", "question_answer", 302, _open_question, "post", _reply),
    ("write", "question_claim", 302, _open_question, "post", _reply),
    ("write", "run_pictures", 200, _stored_picture, "post", _picture),
    ("read", "mention_find", 200, _conversation, "get", nothing),
    ("manage", "conversation_rename", 302, _conversation, "post", _title),
    ("manage", "conversation_visibility", 302, _conversation, "post", _private),
    ("manage", "participant_search", 200, _conversation, "get", nothing),
    ("manage", "conversation_settings", 302, _conversation, "post", lambda _: {"shown": "1"}),
    ("manage", "participant_add", 302, _conversation, "post", _add_viewer),
]


def by_relation(
    relations: Relations, needed: str, outcome: Outcome, *, otherwise: Outcome = 403
) -> Outcomes:
    strength = ("read", "write", "manage")
    outcomes = signed_in_only(404, alice=outcome)
    for actor, right in relations.rights.items():
        is_enough = strength.index(right) >= strength.index(needed)
        outcomes[actor] = outcome if is_enough else otherwise
    return outcomes


def joined(relations: Relations, make: Make) -> Make:
    def make_joined(world: World) -> Values:
        relations.join(world)
        return make(world)

    return make_joined


def _begin_nothing(relations: Relations) -> Outcomes:
    return dict.fromkeys({"viewer", "guest"} & relations.rights.keys(), 403)


def _recording(thread: Thread) -> Values:
    _event(thread)
    RunSegment.objects.filter(run=thread.run).update(raw=b"data: {}\n\n")
    return {**_run(thread), "form": "raw"}


def _participant(world: World) -> Values:
    """Bob, who takes part as a reader."""
    _take_part(world, bob="reader", guest="writer")
    participant = Participant.objects.get(person=world.bob)
    return {**_conversation(world.private), "participant_id": participant.public_id}


def _trashed_with_manager(world: World) -> Values:
    _take_part(world, bob="manager", guest="writer")
    return _trashed(world.private)


def _without_manager(world: World) -> Values:
    """Bob's, which the team reads, and who has left."""
    Conversation.objects.filter(pk=world.shared.conversation.pk).update(owner=world.bob)
    Membership.objects.filter(user=world.bob).delete()
    return _conversation(world.shared)


def _group(world: World) -> Values:
    group = Group.objects.create(team=world.team, name="Divers")
    GroupMember.objects.create(group=group, user=world.guest)
    return {"public_id": group.public_id}


PARTICIPANT_CASES = [
    *(
        Case(
            route,
            by_relation(relations, needed, outcome),
            f"by {relations.label}",
            joined(relations, in_private(make)),
            method,
            data,
        )
        for needed, route, outcome, make, method, data in VERBS
        for relations in RELATIONS
    ),
    *(
        Case(
            "conversations_change",
            by_relation(relations, "manage", 302),
            f"{verb} by {relations.label}",
            joined(relations, lambda _, verb=verb: {"verb": verb}),
            "post",
            in_private(_chosen),
        )
        for verb in ("rename", "archive", "delete")
        for relations in RELATIONS
    ),
    *(
        Case(
            "projects_move",
            by_relation(relations, "manage", 302),
            f"by {relations.label}",
            joined(relations, nothing),
            "post",
            _into_project,
        )
        for relations in RELATIONS
    ),
    # Managers restore; only the owner deletes for ever.
    Case(
        "conversations_change",
        signed_in_only(404, alice=302, bob=302),
        "restore by a manager",
        lambda _: {"verb": "restore"},
        "post",
        _trashed_with_manager,
    ),
    Case(
        "conversations_change",
        signed_in_only(404, alice=302),
        "erase by a manager",
        lambda _: {"verb": "erase"},
        "post",
        _trashed_with_manager,
    ),
    # A guest doesn't see the tools of the team.
    Case(
        "conversation_tools",
        signed_in_only(404, alice=302, bob=403),
        "by readers and writers",
        joined(
            Relations("", lambda world: _take_part(world, bob="reader", guest="writer"), {}),
            in_private(_conversation),
        ),
        "post",
    ),
    Case(
        "participant",
        signed_in_only(404, alice=302, bob=403, guest=403),
        "Bob's role",
        _participant,
        "post",
        lambda _: {"role": "writer"},
    ),
    # Everybody may leave.
    Case(
        "participant",
        signed_in_only(404, alice=302, bob=302, guest=403),
        "Bob's leaving",
        _participant,
        "post",
        lambda _: {"remove": "1"},
    ),
    # Being an administrator of the installation is not enough.
    Case(
        "conversation_take_over",
        signed_in_only(404, alice=302),
        "without a manager",
        _without_manager,
        "post",
    ),
    Case(
        "conversation_take_over",
        signed_in_only(404),
        "with a manager",
        in_shared(_conversation),
        "post",
    ),
    # What the server sent repeats the settings of the writers.
    *(
        Case(
            "run_export",
            by_relation(relations, "write", 200, otherwise=404),
            f"recording by {relations.label}",
            joined(relations, in_private(_recording)),
        )
        for relations in RELATIONS
    ),
    # Forking and continuing as one's own are one verb: of all who read, and may begin conversations in the
    # team. Neither guests nor viewers do.
    *(
        Case(
            route,
            by_relation(relations, "read", 302) | _begin_nothing(relations),
            f"by {relations.label}",
            joined(relations, in_private(make)),
            "post",
            lambda _: {"key": str(uuid.uuid4())},
        )
        for route, make in (("conversation_fork", _conversation), ("message_fork", _answer))
        for relations in RELATIONS
    ),
    *shared_and_private(
        "conversation_settings",
        owner_only,
        302,
        _conversation,
        "post",
        lambda _: {"shown": "1"},
    ),
    Case("groups", readers(200) | {ADMIN: 200}, "", _team),
    Case("groups", team_managers(302), "", _team, "post", lambda _: {"name": "Springs"}),
    Case("group", readers(200) | {ADMIN: 200}, "", _group),
    Case("group", team_managers(302), "", _group, "post", lambda _: {"name": "Springs"}),
    Case(
        "group_member",
        team_managers(302),
        "",
        _group,
        "post",
        lambda world: {"person": world.bob.public_id},
    ),
    Case("group_delete", team_managers(302), "", _group, "post"),
]

# --- accounts, people, setup ------------------------------------------------------------


def _member(world: World) -> Values:
    return {"team_id": world.team.public_id, "person_id": world.bob.public_id}


def _bob(world: World) -> Values:
    return {"person_id": world.bob.public_id}


def _open_invitation(world: World) -> Values:
    invitation, _ = people.invite(world.alice, world.team, role="member", days=1)
    return {"team_id": world.team.public_id, "invitation_id": invitation.pk}


def _through_another_team(world: World) -> Values:
    other_team = Team.objects.exclude(pk=world.team.pk).get()
    return {**_open_invitation(world), "team_id": other_team.public_id}


def _invitation_link(world: World) -> Values:
    _, link = people.invite(world.alice, world.team, role="member", days=1)
    return {"token": link.rstrip("/").rsplit("/", 1)[1]}


def _wrong_token(world: World) -> Values:
    return {"token": "wrong"}


def _reset_key(world: World) -> Values:
    uid, key = make_reset_link(world.bob).rstrip("/").rsplit("/", 1)[1].split("-", 1)
    return {"uidb36": uid, "key": key}


def _invitation_fields(world: World) -> Values:
    return {"role": "member", "email": "", "days": 7}


def _viewer_role(world: World) -> Values:
    return {"role": "viewer"}


def _name(world: World) -> Values:
    return {"name": "Springs"}


def _announcements(world: World) -> Values:
    return {"announcements": "ends"}


def _token_fields(world: World) -> Values:
    return {"name": "nightly", "team": world.team.public_id.hex, "lifetime": "7"}


def _token_of_alice(world: World) -> Values:
    token, _ = tokens.create_token(world.alice, world.team, name="nightly", days=7)
    return {"public_id": token.public_id}


PEOPLE_CASES = [
    Case("account_login", everyone(302, anonymous=200)),
    Case("account_logout", everyone(200, anonymous=SIGN_IN)),
    Case("account_logout", everyone(SIGN_IN), method="post"),
    Case("account_inactive", everyone(200)),
    Case("account_signup", everyone(302, anonymous=200)),
    Case("account_reauthenticate", signed_in_only(200)),
    Case("account_change_password", signed_in_only(200)),
    # Users with a password are redirected to the form that changes it.
    Case("account_set_password", signed_in_only(302)),
    Case("account_reset_password", everyone(200)),
    Case("account_reset_password_done", everyone(200)),
    Case("account_reset_password_from_key", everyone(302), "with a valid link", _reset_key),
    Case("account_reset_password_from_key_done", everyone(200)),
    Case("settings", signed_in_only(200)),
    Case("settings", signed_in_only(302), method="post", data=_name),
    Case("announcements", signed_in_only(302), method="post", data=_announcements),
    Case("invisible", signed_in_only(302), method="post"),
    Case("sessions_end", signed_in_only(302), method="post"),
    Case("streaming", signed_in_only(200)),
    Case("titles", administrators(200)),
    Case("titles", administrators(302), method="post"),
    Case("mail", administrators(200)),
    # There is no mail server; the page says so.
    Case("mail", administrators(302), method="post"),
    Case("tokens", signed_in_only(200)),
    # A team in which a user may not write is no choice of the form.
    Case("tokens", signed_in_only(422, alice=200, bob=200), method="post", data=_token_fields),
    # Administrators revoke the tokens of others in the admin.
    Case("token_revoke", alice_only(302), "of Alice", _token_of_alice, "post"),
    Case("people", signed_in_only(200)),
    Case("teams", signed_in_only(200)),
    Case("teams", signed_in_only(403, administrator=302), method="post", data=_name),
    Case("accounts", administrators(200)),
    Case("invite", team_managers(200), "", _team),
    Case("invite", team_managers(200), "", _team, "post", _invitation_fields),
    Case("invitation_revoke", team_managers(302), "", _open_invitation, "post"),
    Case(
        *("invitation_revoke", signed_in_only(404), "through another team"),
        *(_through_another_team, "post"),
    ),
    Case("member_role", team_managers(302), "Bob", _member, "post", _viewer_role),
    # Bob may leave the team.
    Case("member_remove", team_managers(302) | {"bob": 302}, "Bob", _member, "post"),
    Case("person_reset_link", account_managers(200), "Bob", _bob, "post"),
    Case("person_deactivate", account_managers(302, alice=403), "Bob", _bob, "post"),
    Case("person_activate", account_managers(302, alice=403), "Bob", _bob, "post"),
    Case("invitation", everyone(200), "with a valid link", _invitation_link),
    Case("invitation", everyone(404), "with a wrong link", _wrong_token),
    Case("setup", everyone(404), "with a wrong link", _wrong_token),
]

# --- servers ----------------------------------------------------------------------------


def _server(world: World) -> Values:
    return {"public_id": world.upstream.public_id}


def _dialect(world: World) -> Values:
    return {"dialect": "openai_chat"}


def _server_fields(world: World) -> Values:
    return {
        "name": "Cellar",
        "dialect": "lmstudio",
        "base_url": "http://127.0.0.1:9",
        "concurrency_limit": 2,
        # Adding a server needs no test.
        "untested": "true",
    }


UPSTREAM_CASES = [
    Case("servers", administrators(200)),
    Case("styleguide", administrators(200)),
    Case("server_add", administrators(200)),
    Case("server_add", administrators(302), method="post", data=_server_fields),
    Case("server_dialect", administrators(200), data=_dialect),
    Case("server_discover", administrators(200), method="post"),
    Case("server_connect", administrators(302), method="post"),
    Case("server_hide_demos", administrators(302), method="post"),
    Case("server", administrators(200), kwargs=_server),
    Case("server_settings", administrators(200), kwargs=_server),
    Case("server_settings", administrators(302), "", _server, "post", _server_fields),
    Case("server_diagnostics", administrators(200), kwargs=_server),
    Case("server_switch", administrators(302), "", _server, "post"),
    Case("server_drain", administrators(302), "", _server, "post"),
    Case("server_states", administrators(200)),
    # Nothing listens at the server's address; the page reports that.
    Case("server_test", administrators(302), "", _server, "post"),
    Case("server_models", administrators(200), kwargs=_server),
    Case("server_models", administrators(302), "", _server, "post"),
    Case("server_model_switch", administrators(302), "", _server, "post"),
    Case("server_advice", administrators(302), "", _server, "post"),
    Case("server_delete", administrators(200), kwargs=_server),
    Case("server_delete", administrators(302), "", _server, "post"),
]

# --- what administrators are asked a reason for -------------------------------------------


def _reason(world: World) -> Values:
    return {"reason": "Report 12"}


def _search(world: World) -> Values:
    return {"next": "/admin/chat/conversation/?q=boat"}


ACCESS_REASON_CASES = [
    # The administrator of the private one has a reason, and is led on.
    Case("administrator_open", administrators(302), "private", in_private(_conversation)),
    Case("administrator_open", administrators(200), "shared", in_shared(_conversation)),
    Case(
        *("administrator_open", administrators(302), "shared", in_shared(_conversation)),
        *("post", _reason),
    ),
    Case("administrator_search", administrators(200), data=_search),
    Case("administrator_search", administrators(302), "without words"),
]

CASES = [
    *(*CONVERSATION_CASES, *ORGANIZATION_CASES, *PROJECT_CASES, *EXPORT_CASES, *QUESTION_CASES),
    *PARTICIPANT_CASES,
    *(*TRANSFER_CASES, *PEOPLE_CASES, *UPSTREAM_CASES, *ACCESS_REASON_CASES),
]

# Prefixes of routes with access tests in another folder.
TESTED_ELSEWHERE: dict[str, str] = {
    "admin:": "tests/administration",
}


# --- the tests ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[bytes]:
    """Pickled, because each request gets a copy of its own, and a deep copy takes several times as long."""
    with django_db_blocker.unblock(), rolled_back():
        yield pickle.dumps(make_world())


@pytest.fixture(autouse=True)
def _short_error_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three requests here end with the same error page, whose sidebar `tests/web` looks at."""
    monkeypatch.setattr(views, "_is_signed_in", lambda request: False)


@pytest.fixture(scope="module")
def client() -> Client:
    """One for all requests, since each client loads the middleware anew (15 ms)."""
    return Client()


@contextmanager
def rolled_back() -> Iterator[None]:
    """A transaction, or a savepoint within one, that leaves no rows."""
    with transaction.atomic():
        yield
        connection.check_constraints()
        transaction.set_rollback(True)


def make_world() -> World:
    actors = {name: make_user(name) for name in ACTORS if name not in ("anonymous", ADMIN)}
    actors[ADMIN] = make_user(ADMIN, is_staff=True, is_superuser=True)
    alice = actors["alice"]
    team, other_team = (Team.objects.create(name=name) for name in ("River", "Mountain"))
    for name, of, role in (
        ("alice", team, TeamRole.OWNER),
        ("bob", team, TeamRole.MEMBER),
        ("viewer", team, TeamRole.VIEWER),
        ("guest", team, TeamRole.GUEST),
        ("dana", other_team, TeamRole.OWNER),
    ):
        Membership.objects.create(team=of, user=actors[name], role=role)
    upstream = Upstream.objects.create(
        name="Demo",
        dialect="lmstudio",
        base_url="http://127.0.0.1:9",
        model_list=[{"id": "demo/model", "label": "Demo model", "detail": {}, "is_typed": False}],
    )
    private = make_thread(alice, team, upstream, Visibility.PRIVATE)
    # That opens the administration, and nothing else.
    give_reason(actors[ADMIN], private.conversation)
    return World(
        team=team,
        upstream=upstream,
        alice=alice,
        bob=actors["bob"],
        viewer=actors["viewer"],
        guest=actors["guest"],
        shared=make_thread(alice, team, upstream, Visibility.TEAM),
        private=private,
        sessions={name: sign_in(user) for name, user in actors.items()},
    )


def make_user(name: str, **fields: bool) -> User:
    return User.objects.create_user(f"{name}@example.org", PASSWORD, name=name.title(), **fields)


def make_thread(alice: User, team: Team, upstream: Upstream, visibility: str) -> Thread:
    conversation = Conversation.objects.create(team=team, owner=alice, visibility=visibility)
    question = Message.objects.create(
        conversation=conversation, role=Role.USER, author=alice, text="Where is the spring?"
    )
    answer = Message.objects.create(conversation=conversation, role=Role.ASSISTANT, parent=question)
    run = Run.objects.create(
        conversation=conversation,
        message=answer,
        upstream=upstream,
        model="demo/model",
        requested_by=alice,
        idempotency_key=uuid.uuid4(),
        status=RunStatus.STOPPED,
    )
    return Thread(conversation=conversation, question=question, answer=answer, run=run)


def sign_in(user: User) -> str:
    """The key of the user's session."""
    client = Client()
    client.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[0])
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.mark.django_db
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_access(case: Case, world: bytes, client: Client, subtests: pytest.Subtests) -> None:
    for actor in ACTORS:
        with subtests.test(msg=actor), rolled_back():
            outcome = outcome_of(case, actor, pickle.loads(world), client)

            assert outcome == case.outcomes[actor]


def outcome_of(case: Case, actor: str, world: World, client: Client) -> Outcome:
    client.cookies.clear()
    if actor in world.sessions:
        client.cookies[settings.SESSION_COOKIE_NAME] = world.sessions[actor]
    url = reverse(case.route, kwargs=case.kwargs(world))
    response = getattr(client, case.method)(url, case.data(world))
    if response.streaming:
        # To its end, where it closes its file.
        b"".join(response)
    location = response.headers.get("Location", "")
    if response.status_code == 302 and location.startswith(reverse("account_login")):
        return SIGN_IN
    return response.status_code


def test_every_route_has_an_access_test() -> None:
    untested = {
        route
        for route in all_routes() - {case.route for case in CASES}
        if not route.startswith(tuple(TESTED_ELSEWHERE))
    }

    assert untested == set()


def test_every_case_names_an_existing_route() -> None:
    assert {case.route for case in CASES} - all_routes() == set()


def test_every_case_names_every_actor() -> None:
    assert [case.label for case in CASES if set(case.outcomes) != set(ACTORS)] == []


def all_routes() -> set[str]:
    return set(routes_in(get_resolver().url_patterns))


def routes_in(patterns: list[URLPattern | URLResolver], namespace: str = "") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from routes_in(pattern.url_patterns, inner)
        else:
            yield f"{namespace}{pattern.name or pattern.pattern}"
