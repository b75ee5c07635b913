"""Every address, and what each kind of person gets there.

A route without a row here fails `test_every_route_has_an_access_test`. To add one: a `Case` in the
section of its part, naming the route and what each actor gets. ``SIGN_IN`` is the way to the
sign-in page. Rows that change something run against their own database each.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from chat import events
from chat.accounts import make_reset_link
from chat.actions import people, tokens
from chat.actions.elsewhere import id_of
from chat.models import (
    AnswerFile,
    Artifact,
    ArtifactVersion,
    Conversation,
    Message,
    Mockup,
    MockupVersion,
    Question,
    QuestionKind,
    Role,
    Run,
    RunSegment,
    RunStatus,
    StoredFile,
    Team,
    Tool,
    Upstream,
    User,
)
from chat.views.previews import Ticket, sign

SIGN_IN = "sign-in"
ACTORS = (
    "anonymous",
    "alice",
    "bob",
    "viewer",
    "charlie",
    "dana",
    "administrator",
)
Outcome = int | str
Values = Mapping[str, object]


@dataclass(frozen=True)
class World:
    """What the addresses and forms are made of: Alice's, in her team."""

    team: Team
    upstream: Upstream
    alice: User
    bob: User
    shared: Conversation
    private: Conversation
    question: Message
    answer: Message
    run: Run
    private_run: Run


def nothing(world: World) -> Values:
    return {}


@dataclass(frozen=True)
class Case:
    """One route (with one kind of object) and what each actor gets."""

    route: str
    outcomes: Mapping[str, Outcome]
    of: str = ""
    kwargs: Callable[[World], Values] = nothing
    method: str = "get"
    data: Callable[[World], Values] = field(default=nothing)

    @property
    def label(self) -> str:
        return f"{self.route} {self.method} {self.of}".strip()


def everyone(outcome: Outcome, **exceptions: Outcome) -> dict[str, Outcome]:
    return dict.fromkeys(ACTORS, outcome) | exceptions


def signed_in_only(outcome: Outcome, **exceptions: Outcome) -> dict[str, Outcome]:
    return everyone(outcome, anonymous=SIGN_IN) | exceptions


def readers(outcome: Outcome) -> dict[str, Outcome]:
    """The team, its viewers too; for everyone else it does not exist."""
    return signed_in_only(404, alice=outcome, bob=outcome, viewer=outcome)


def writers(outcome: Outcome) -> dict[str, Outcome]:
    """The team; its viewers may not."""
    return signed_in_only(404, alice=outcome, bob=outcome, viewer=403)


def owner_only(outcome: Outcome) -> dict[str, Outcome]:
    """The person who began it; the team sees it and may not; others see nothing."""
    return signed_in_only(404, alice=outcome, bob=403, viewer=403)


def alice_alone(outcome: Outcome) -> dict[str, Outcome]:
    """Alice's private things: nobody else knows that they exist, not even an administrator here."""
    return signed_in_only(404, alice=outcome)


# --- the conversation page ------------------------------------------------------------


def _shared(world: World) -> Values:
    return {"public_id": world.shared.public_id}


def _private(world: World) -> Values:
    return {"public_id": world.private.public_id}


def _question(world: World) -> Values:
    return {"public_id": world.question.public_id}


def _answer(world: World) -> Values:
    return {"public_id": world.answer.public_id}


def _private_answer(world: World) -> Values:
    return {"public_id": world.private_run.message.public_id}


def _run(world: World) -> Values:
    return {"public_id": world.run.public_id}


def _private_run(world: World) -> Values:
    return {"public_id": world.private_run.public_id}


def _thought_of(run: Run) -> Values:
    """The text of a thought, in a fold of its answer."""
    if not RunSegment.objects.filter(run=run).exists():
        thought = events.ReasoningDelta(item=0, content="Hm.", seq=1)
        body = events.join_bodies([events.encode(thought)])
        RunSegment.objects.create(run=run, first_seq=1, last_seq=1, body=body)
    return {"public_id": run.public_id, "part_id": f"r{run.public_id.hex}-i0-flow"}


def _part(world: World) -> Values:
    return _thought_of(world.run)


def _private_part(world: World) -> Values:
    return _thought_of(world.private_run)


def _named_in(run: Run) -> Values:
    """A picture that the answer names, and that is here already."""
    address = "https://example.org/a.png"
    if not RunSegment.objects.filter(run=run).exists():
        named = events.MessageDelta(item=0, content=f"![a]({address})", seq=1)
        body = events.join_bodies([events.encode(named)])
        RunSegment.objects.create(run=run, first_seq=1, last_seq=1, body=body)
        StoredFile.objects.create(public_id=id_of(run, address), conversation=run.conversation)
    return {"public_id": run.public_id}


def _pictures(world: World) -> Values:
    return _named_in(world.run)


def _private_pictures(world: World) -> Values:
    return _named_in(world.private_run)


def _picture(world: World) -> Values:
    return {"address": "https://example.org/a.png"}


def _medium_of(run: Run) -> Values:
    file = StoredFile.objects.create(conversation=run.conversation, body=b"x")
    AnswerFile.objects.create(run=run, file=file, item=3)
    return {"public_id": run.public_id, "choice": 0, "item": 3, "position": 0}


def _medium(world: World) -> Values:
    return _medium_of(world.run)


def _private_medium(world: World) -> Values:
    return _medium_of(world.private_run)


def _no_medium(world: World) -> Values:
    return {**_medium_of(world.private_run), "public_id": world.run.public_id}


def _no_part(world: World) -> Values:
    return {**_thought_of(world.run), "part_id": f"r{world.private_run.public_id.hex}-i0-flow"}


def _logged(run: Run) -> Values:
    body = events.join_bodies([events.encode(events.ChatStart(model_instance_id="m", seq=1))])
    RunSegment.objects.get_or_create(run=run, first_seq=1, defaults={"last_seq": 1, "body": body})
    return {"public_id": run.public_id, "seq": 1}


def _event(world: World) -> Values:
    return _logged(world.run)


def _private_event(world: World) -> Values:
    return _logged(world.private_run)


def _exported(run: Run) -> Values:
    return {"public_id": _logged(run)["public_id"], "form": "events"}


def _export(world: World) -> Values:
    return _exported(world.run)


def _private_export(world: World) -> Values:
    return _exported(world.private_run)


def _before_answer(world: World) -> Values:
    return {**_shared(world), "before": world.answer.public_id}


def _before_private_answer(world: World) -> Values:
    return {**_private(world), "before": world.private_run.message.public_id}


def _words(world: World) -> Values:
    return {
        "text": "Where does the river begin?",
        "choice": f"{world.upstream.public_id.hex}:demo/model",
        "key": str(uuid.uuid4()),
    }


def _words_below_answer(world: World) -> Values:
    return {**_words(world), "parent": world.answer.public_id.hex}


def _first_words(world: World) -> Values:
    return {**_words(world), "team": world.team.public_id.hex, "visibility": "team"}


def _title(world: World) -> Values:
    return {"title": "Springs"}


def _team_visibility(world: World) -> Values:
    return {"visibility": "team"}


def _stored(conversation: Conversation | None) -> Values:
    return {"public_id": StoredFile.objects.create(conversation=conversation, body=b"x").public_id}


def _file(world: World) -> Values:
    return _stored(world.shared)


def _private_file(world: World) -> Values:
    return _stored(world.private)


def _stray_file(world: World) -> Values:
    return _stored(None)


def _version(run: Run) -> Values:
    artifact = Artifact.objects.create(conversation=run.conversation, artifact_id="a")
    ArtifactVersion.objects.create(artifact=artifact, number=1, run=run, seq=2, content="x")
    return {"public_id": artifact.public_id, "number": 1}


def _artifact(world: World) -> Values:
    return _version(world.run)


def _private_artifact(world: World) -> Values:
    return _version(world.private_run)


def _compared(world: World) -> Values:
    return {**_artifact(world), "other": 1}


def _privately_compared(world: World) -> Values:
    return {**_private_artifact(world), "other": 1}


def _made(world: World) -> Values:
    _version(world.run)
    return {"public_id": world.run.public_id, "seq": 2}


def _privately_made(world: World) -> Values:
    _version(world.private_run)
    return {"public_id": world.private_run.public_id, "seq": 2}


def _bundle(run: Run) -> Values:
    mockup = Mockup.objects.create(conversation=run.conversation, bundle_id="b")
    MockupVersion.objects.create(mockup=mockup, number=1, run=run, seq=2, entry="index.html")
    return {"public_id": mockup.public_id, "number": 1}


def _mockup(world: World) -> Values:
    return _bundle(world.run)


def _private_mockup(world: World) -> Values:
    return _bundle(world.private_run)


def _mockup_made(world: World) -> Values:
    _bundle(world.run)
    return {"public_id": world.run.public_id, "seq": 2}


def _privately_made_mockup(world: World) -> Values:
    _bundle(world.private_run)
    return {"public_id": world.private_run.public_id, "seq": 2}


def _forged(world: World) -> Values:
    return {"token": "forged"}


def _forged_file(world: World) -> Values:
    return {"token": "forged", "path": "index.html"}


def _signed(world: World) -> Values:
    made = _version(world.private_run)
    ArtifactVersion.objects.update(language="html")
    ticket = Ticket(kind="artifact", user=world.alice.public_id, runs=False, **made)
    return {"token": sign(ticket).split("/")[2]}


CONVERSATION_CASES = [
    Case("home", signed_in_only(200)),
    Case("conversation_search", signed_in_only(200)),
    Case("conversation_list", signed_in_only(200)),
    Case("inbox", signed_in_only(200)),
    Case(
        "conversation_new",
        # A team that one cannot write in is no choice: the form says so.
        signed_in_only(422, alice=302, bob=302),
        method="post",
        data=_first_words,
    ),
    # Nothing is in it.
    Case("diagram_frame", everyone(200)),
    Case("conversation", readers(200), "shared", _shared),
    Case("conversation", alice_alone(200), "private", _private),
    Case("conversation_changes", readers(200), "shared", _shared),
    Case("conversation_changes", alice_alone(200), "private", _private),
    Case("conversation_earlier", readers(200), "shared", _before_answer),
    Case("conversation_earlier", alice_alone(200), "private", _before_private_answer),
    Case("conversation_send", writers(302), "shared", _shared, "post", _words_below_answer),
    Case("conversation_send", alice_alone(302), "private", _private, "post", _words),
    Case("conversation_rename", writers(302), "shared", _shared, "post", _title),
    Case("conversation_rename", alice_alone(302), "private", _private, "post", _title),
    Case("conversation_visibility", owner_only(302), "shared", _shared, "post", _team_visibility),
    Case(
        "conversation_visibility", alice_alone(302), "private", _private, "post", _team_visibility
    ),
    Case("conversation_delete", owner_only(302), "shared", _shared, "post"),
    Case("conversation_delete", alice_alone(302), "private", _private, "post"),
    Case("message_edit", writers(200), "shared", _question),
    Case("message_edit", writers(302), "shared", _question, "post", _words),
    Case("message_retry", writers(302), "shared", _answer, "post", _words),
    Case("message_retry", alice_alone(302), "private", _private_answer, "post", _words),
    Case("message_find", readers(302), "shared", _question),
    Case("message_find", alice_alone(302), "private", _private_answer),
    Case("message_show", readers(302), "shared", _question, "post"),
    Case("message_show", alice_alone(302), "private", _private_answer, "post"),
    Case("message_source", readers(200), "shared", _answer),
    Case("message_source", alice_alone(200), "private", _private_answer),
    Case("conversation_people", readers(200), "shared", _shared),
    Case("conversation_people", alice_alone(200), "private", _private),
    Case("conversation_files", readers(200), "shared", _shared),
    Case("conversation_files", alice_alone(200), "private", _private),
    Case("file", readers(200), "shared", _file),
    Case("file", alice_alone(200), "private", _private_file),
    # A file of no conversation is nobody's.
    Case("file", signed_in_only(404), "of nowhere", _stray_file),
    Case("file_source", readers(200), "shared", _file),
    Case("file_source", alice_alone(200), "private", _private_file),
    Case("artifact", readers(200), "shared", _artifact),
    Case("artifact", alice_alone(200), "private", _private_artifact),
    Case("artifact_raw", readers(200), "shared", _artifact),
    Case("artifact_raw", alice_alone(200), "private", _private_artifact),
    Case("artifact", readers(200), "to run", _artifact, "post"),
    Case("artifact", alice_alone(200), "private, to run", _private_artifact, "post"),
    Case("artifact_code", readers(200), "shared", _artifact),
    Case("artifact_code", alice_alone(200), "private", _private_artifact),
    Case("artifact_difference", readers(200), "shared", _artifact),
    Case("artifact_difference", alice_alone(200), "private", _private_artifact),
    Case("artifact_comparison", readers(200), "shared", _compared),
    Case("artifact_comparison", alice_alone(200), "private", _privately_compared),
    Case("artifact_versions", readers(200), "shared", _artifact),
    Case("artifact_versions", alice_alone(200), "private", _private_artifact),
    Case("artifact_made", readers(302), "shared", _made),
    Case("artifact_made", alice_alone(302), "private", _privately_made),
    Case("conversation_zip", readers(200), "shared", _shared),
    Case("conversation_zip", alice_alone(200), "private", _private),
    Case("mockup", readers(200), "shared", _mockup),
    Case("mockup", alice_alone(200), "private", _private_mockup),
    Case("mockup", readers(200), "to run", _mockup, "post"),
    Case("mockup_files", readers(200), "shared", _mockup),
    Case("mockup_files", alice_alone(200), "private", _private_mockup),
    Case("mockup_zip", readers(200), "shared", _mockup),
    Case("mockup_zip", alice_alone(200), "private", _private_mockup),
    Case("mockup_made", readers(302), "shared", _mockup_made),
    Case("mockup_made", alice_alone(302), "private", _privately_made_mockup),
    # Whoever has the address: it was signed for somebody who may, and is asked of no cookie.
    Case("preview", everyone(404), "a forged address", _forged),
    Case("preview", everyone(200), "signed for Alice", _signed),
    Case("preview_file", everyone(404), "a forged address", _forged_file),
    Case("run_stop", writers(302), "shared", _run, "post"),
    Case("run_stop", alice_alone(302), "private", _private_run, "post"),
    Case("run_details", readers(200), "shared", _run),
    Case("run_details", alice_alone(200), "private", _private_run),
    Case("run_pictures", readers(200), "shared", _pictures),
    Case("run_pictures", alice_alone(200), "private", _private_pictures),
    Case("run_pictures", writers(200), "one more", _pictures, "post", _picture),
    Case("run_pictures", alice_alone(200), "private", _private_pictures, "post", _picture),
    Case("run_medium", readers(302), "shared", _medium),
    Case("run_medium", alice_alone(302), "private", _private_medium),
    Case("run_medium", signed_in_only(404), "of another run", _no_medium),
    Case("run_part", readers(200), "shared", _part),
    Case("run_part", alice_alone(200), "private", _private_part),
    Case("run_part", everyone(404, anonymous=SIGN_IN), "no such part", _no_part),
    Case("run_log", readers(200), "shared", _run),
    Case("run_log", alice_alone(200), "private", _private_run),
    Case("run_replay", readers(200), "shared", _run),
    Case("run_replay", alice_alone(200), "private", _private_run),
    Case("run_replay_frames", readers(200), "shared", _run),
    Case("run_replay_frames", alice_alone(200), "private", _private_run),
    Case("run_replay_moment", readers(200), "shared", _run),
    Case("run_replay_moment", alice_alone(200), "private", _private_run),
    Case("run_export", readers(200), "shared", _export),
    Case("run_export", alice_alone(200), "private", _private_export),
    Case("run_event", readers(200), "shared", _event),
    Case("run_event", alice_alone(200), "private", _private_event),
]

# --- what an answer waits for, and the tools that it may ask for ----------------------------


def _waiting(run: Run) -> Question:
    """A run that goes on with the answer, and waits for one."""
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


def _asked(world: World) -> Values:
    return {"public_id": _waiting(world.run).public_id}


def _privately_asked(world: World) -> Values:
    return {"public_id": _waiting(world.private_run).public_id}


def _waiting_run(world: World) -> Values:
    return {"public_id": _waiting(world.run).run.public_id}


def _private_waiting_run(world: World) -> Values:
    return {"public_id": _waiting(world.private_run).run.public_id}


def _reply(world: World) -> Values:
    return {"text": "The upper one."}


def _tool(world: World) -> Values:
    return {"public_id": Tool.objects.create(team=world.team, name="gauge").public_id}


def _a_tool(world: World) -> Values:
    return {"name": "gauge_2", "description": "", "schema": ""}


def managers(outcome: Outcome) -> dict[str, Outcome]:
    """Who looks after the team: its owner, and administrators; its members see it, and may not."""
    return signed_in_only(404, alice=outcome, administrator=outcome, bob=403, viewer=403)


QUESTION_CASES = [
    Case(route, rights(302), of, kwargs, "post", _reply)
    for route in ("question_answer", "question_refuse", "question_claim", "question_release")
    for rights, of, kwargs in (
        (writers, "shared", _asked),
        (alice_alone, "private", _privately_asked),
    )
] + [
    Case("run_go_on", writers(302), "shared", _waiting_run, "post"),
    Case("run_go_on", alice_alone(302), "private", _private_waiting_run, "post"),
    Case("conversation_tools", writers(302), "shared", _shared, "post"),
    Case("conversation_tools", alice_alone(302), "private", _private, "post"),
    Case("tool_add", managers(200), "", lambda world: {"team_id": world.team.public_id}),
    Case(
        "tool_add",
        managers(302),
        "",
        lambda world: {"team_id": world.team.public_id},
        "post",
        _a_tool,
    ),
    Case("tool", managers(200), "", _tool),
    Case("tool", managers(302), "", _tool, "post", _a_tool),
    Case("tool_remove", managers(302), "", _tool, "post"),
]

# --- accounts, people, setup ------------------------------------------------------------


def _member(world: World) -> Values:
    return {"team_id": world.team.public_id, "person_id": world.bob.public_id}


def _team(world: World) -> Values:
    return {"team_id": world.team.public_id}


def _bob(world: World) -> Values:
    return {"person_id": world.bob.public_id}


def _open_invitation(world: World) -> Values:
    invitation, _ = people.invite(world.alice, world.team, role="member", days=1)
    return {"team_id": world.team.public_id, "invitation_id": invitation.pk}


def _good_link(world: World) -> Values:
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


def _new_token(world: World) -> Values:
    return {"name": "nightly", "team": world.team.public_id.hex, "lifetime": "7"}


def _alices_token(world: World) -> Values:
    token, _ = tokens.create_token(world.alice, world.team, name="nightly", days=7)
    return {"public_id": token.public_id}


def keepers(outcome: Outcome) -> dict[str, Outcome]:
    """Who looks after Bob's account; for everyone else nobody is there."""
    return signed_in_only(404, alice=outcome, administrator=outcome)


PEOPLE_CASES = [
    Case("account_login", everyone(302, anonymous=200)),
    Case("account_logout", everyone(200, anonymous=SIGN_IN)),
    Case("account_logout", everyone(SIGN_IN), method="post"),
    Case("account_inactive", everyone(200)),
    Case("account_signup", everyone(302, anonymous=200)),
    Case("account_reauthenticate", signed_in_only(200)),
    Case("account_change_password", signed_in_only(200)),
    # Whoever has a password changes it instead.
    Case("account_set_password", signed_in_only(302)),
    Case("account_reset_password", everyone(200)),
    Case("account_reset_password_done", everyone(200)),
    Case("account_reset_password_from_key", everyone(302), "a good link", _reset_key),
    Case("account_reset_password_from_key_done", everyone(200)),
    Case("settings", signed_in_only(200)),
    Case("settings", signed_in_only(302), method="post", data=_name),
    Case("announcements", signed_in_only(302), method="post", data=_announcements),
    Case("sessions_end", signed_in_only(302), method="post"),
    Case("streaming", signed_in_only(200)),
    Case("tokens", signed_in_only(200)),
    # A team that one may not write in is no choice.
    Case("tokens", signed_in_only(422, alice=200, bob=200), method="post", data=_new_token),
    # Administrators revoke others' in the admin.
    Case("token_revoke", alice_alone(302), "Alice's", _alices_token, "post"),
    Case("people", signed_in_only(200)),
    Case("team_create", signed_in_only(403, administrator=302), method="post", data=_name),
    Case("invite", managers(200), "", _team, "post", _invitation_fields),
    Case("invitation_revoke", managers(302), "", _open_invitation, "post"),
    Case("member_role", managers(302), "Bob", _member, "post", _viewer_role),
    # Bob may leave.
    Case("member_remove", managers(302) | {"bob": 302}, "Bob", _member, "post"),
    Case("person_reset_link", keepers(200), "Bob", _bob, "post"),
    Case("person_deactivate", keepers(302) | {"alice": 403}, "Bob", _bob, "post"),
    Case("person_activate", keepers(302) | {"alice": 403}, "Bob", _bob, "post"),
    Case("invitation", everyone(200), "a good link", _good_link),
    Case("invitation", everyone(404), "a wrong link", _wrong_token),
    Case("setup", everyone(404), "a wrong link", _wrong_token),
]

# --- servers ----------------------------------------------------------------------------


def administrators(outcome: Outcome) -> dict[str, Outcome]:
    """Administrators of the installation; for everyone else it does not exist."""
    return signed_in_only(404, administrator=outcome)


def _server(world: World) -> Values:
    return {"public_id": world.upstream.public_id}


def _a_dialect(world: World) -> Values:
    return {"dialect": "openai_chat"}


def _settings_of_a_server(world: World) -> Values:
    return {
        "name": "Cellar",
        "dialect": "lmstudio",
        "base_url": "http://127.0.0.1:9",
        "concurrency_limit": 2,
    }


UPSTREAM_CASES = [
    Case("servers", administrators(200)),
    Case("server_add", administrators(200)),
    Case("server_add", administrators(302), method="post", data=_settings_of_a_server),
    Case("server_dialect", administrators(200), data=_a_dialect),
    Case("server", administrators(200), kwargs=_server),
    Case("server", administrators(302), "", _server, "post", _settings_of_a_server),
    Case("server_switch", administrators(302), "", _server, "post"),
    Case("server_drain", administrators(302), "", _server, "post"),
    Case("server_states", administrators(200)),
    # Nothing listens at the address: the page says so.
    Case("server_test", administrators(302), "", _server, "post"),
    Case("server_models", administrators(302), "", _server, "post"),
    Case("server_advice", administrators(302), "", _server, "post"),
    Case("server_delete", administrators(200), kwargs=_server),
    Case("server_delete", administrators(302), "", _server, "post"),
]

CASES = [*CONVERSATION_CASES, *QUESTION_CASES, *PEOPLE_CASES, *UPSTREAM_CASES]

# Parts with access tests of their own, by the beginning of the address or the route.
TESTED_ELSEWHERE: dict[str, str] = {
    "admin:": "tests/admin",
}


# --- the machinery ------------------------------------------------------------------------


@pytest.fixture
def world(
    team: Team,
    upstream: Upstream,
    alice: User,
    bob: User,
    conversation: Conversation,
    private_conversation: Conversation,
) -> World:
    question, answer, run = _turns(conversation, alice, upstream)
    return World(
        team=team,
        upstream=upstream,
        alice=alice,
        bob=bob,
        shared=conversation,
        private=private_conversation,
        question=question,
        answer=answer,
        run=run,
        private_run=_turns(private_conversation, alice, upstream)[2],
    )


def _turns(
    conversation: Conversation, user: User, upstream: Upstream
) -> tuple[Message, Message, Run]:
    question = Message.objects.create(
        conversation=conversation, role=Role.USER, author=user, text="Where is the spring?"
    )
    answer = Message.objects.create(conversation=conversation, role=Role.ASSISTANT, parent=question)
    run = Run.objects.create(
        conversation=conversation,
        message=answer,
        upstream=upstream,
        model="demo/model",
        requested_by=user,
        idempotency_key=uuid.uuid4(),
        status=RunStatus.STOPPED,
    )
    return question, answer, run


def _routes(patterns: list[URLPattern | URLResolver], space: str = "") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{space}{pattern.namespace}:" if pattern.namespace else space
            yield from _routes(pattern.url_patterns, inner)
        else:
            yield f"{space}{pattern.name or pattern.pattern}"


def all_routes() -> set[str]:
    return set(_routes(get_resolver().url_patterns))


def test_every_route_has_an_access_test() -> None:
    untested = {
        route
        for route in all_routes() - {case.route for case in CASES}
        if not route.startswith(tuple(TESTED_ELSEWHERE))
    }

    assert untested == set()


def test_every_case_names_a_route_that_exists() -> None:
    assert {case.route for case in CASES} - all_routes() == set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_every_case_names_every_actor(case: Case) -> None:
    assert set(case.outcomes) == set(ACTORS)


@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_access(
    case: Case,
    actor: str,
    world: World,
    request: pytest.FixtureRequest,
    signed_in: Callable[[User], Client],
) -> None:
    client = Client() if actor == "anonymous" else signed_in(request.getfixturevalue(actor))

    response = getattr(client, case.method)(
        reverse(case.route, kwargs=case.kwargs(world)), case.data(world)
    )

    assert (
        _outcome(response.status_code, response.headers.get("Location", "")) == case.outcomes[actor]
    )


def _outcome(status: int, location: str) -> Outcome:
    return SIGN_IN if status == 302 and location.startswith(reverse("account_login")) else status
