"""A viewer who loses access receives nothing more, however access ended."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.live import access_monitor
from chat.live.access_monitor import Identity
from chat.live.viewer import (
    CLOSE_ACCESS,
    CLOSE_DELETED,
    CLOSE_EXPIRED,
    CLOSE_LATER,
    CLOSE_SIGNED_OUT,
)
from chat.models import (
    Conversation,
    ConversationRole,
    Group,
    Membership,
    Participant,
    Project,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    Run,
    Team,
    TeamRole,
    User,
    Visibility,
)
from chat.participants import actions as participants
from chat.participants import group_actions as groups
from chat.participants.actions import set_visibility
from chat.projects import actions as projects
from tests.conftest import MakeUser
from tests.live.conftest import (
    Begin,
    LiveRun,
    OpenProgram,
    OpenStream,
    OpenTab,
    SignIn,
    threads,
)
from tests.live.connection import SOON_SECONDS, Tab, until

pytestmark = [pytest.mark.databases(slow=True), pytest.mark.usefixtures("lost_notifications")]


@dataclass(frozen=True)
class Scene:
    """A team of its own with one member, who looks at a run in Alice's shared conversation. Both may
    be in a project of the team."""

    member: User
    session: str
    conversation: Conversation
    run: LiveRun
    project: Project | None = None

    @property
    def conversations(self) -> "QuerySet[Conversation]":
        return Conversation.objects.filter(pk=self.conversation.pk)

    @property
    def teams(self) -> "QuerySet[Team]":
        return Team.objects.filter(pk=self.conversation.team_id)

    @property
    def sessions(self) -> "QuerySet[Session]":
        return Session.objects.filter(pk=self.session)

    def erase(self, rows: "QuerySet[Any]") -> None:
        """Locks the run first: on PostgreSQL its runner could add to the log between the moment in
        which Django looks for rows and the one in which it deletes them."""
        with transaction.atomic():
            Run.objects.select_for_update().get(pk=self.run.row.pk)
            rows.delete()


MakeScene = Callable[..., Scene]


@pytest.fixture
def make_scene(begin: Begin, alice: User, make_user: MakeUser, sign_in: SignIn) -> MakeScene:
    def make(end_access: Callable[[Scene], None]) -> Scene:
        name = end_access.__name__
        team = Team.objects.create(name=name)
        member = make_user(name)
        Membership.objects.create(team=team, user=alice, role=TeamRole.OWNER)
        Membership.objects.create(team=team, user=member, role=TeamRole.MEMBER)
        conversation = Conversation.objects.create(
            team=team, owner=alice, visibility=Visibility.TEAM, title=name
        )
        project = None
        if end_access in PROJECT_ENDINGS:
            project = projects.create_project(alice, team, name=name, access=ProjectAccess.MEMBERS)
            projects.set_member(alice, project, member, ProjectRole.READER)
            projects.move_conversation(alice, conversation, project)
        if end_access in (*PARTICIPANT_ENDINGS, *GROUP_ENDINGS):
            set_visibility(alice, conversation, Visibility.PRIVATE)
            if end_access is remove_guest:
                Membership.objects.filter(user=member).update(role=TeamRole.GUEST)
            who: User | Group = member
            if end_access in GROUP_ENDINGS:
                who = groups.create_group(alice, team, name)
                groups.add_member(alice, who, member)
            participants.add_participant(alice, conversation, who, ConversationRole.READER)
        return Scene(member, sign_in(member), conversation, begin(room=conversation), project)

    return make


def remove_member(scene: Scene) -> None:
    Membership.objects.filter(user=scene.member).delete()


def delete_team(scene: Scene) -> None:
    scene.erase(scene.teams)


def make_private(scene: Scene) -> None:
    scene.conversations.update(visibility=Visibility.PRIVATE)


def move_to_another_team(scene: Scene) -> None:
    scene.conversations.update(team=Team.objects.create(name="Another"))


def leave_project(scene: Scene) -> None:
    projects.remove_member(scene.member, scene.project, scene.member)


def limit_project(scene: Scene) -> None:
    """It was for everyone on the team, and the member is not one of those selected now."""
    Project.objects.update(access=ProjectAccess.TEAM)
    ProjectMember.objects.filter(user=scene.member).delete()
    projects.change_project(scene.conversation.owner, scene.project, access=ProjectAccess.MEMBERS)


def move_out(scene: Scene) -> None:
    projects.move_conversation(scene.conversation.owner, scene.conversation, None)


def move_to_another_project(scene: Scene) -> None:
    owner = scene.conversation.owner
    another = projects.create_project(
        owner, scene.conversation.team, name="Another", access=ProjectAccess.MEMBERS
    )
    projects.move_conversation(owner, scene.conversation, another)


def make_private_in_project(scene: Scene) -> None:
    set_visibility(scene.conversation.owner, scene.conversation, Visibility.PRIVATE)


def delete_project(scene: Scene) -> None:
    projects.delete_project(scene.conversation.owner, scene.project)


def leave_team_of_project(scene: Scene) -> None:
    """A row of the project alone gives nothing."""
    Membership.objects.filter(user=scene.member).delete()


def remove_participant(scene: Scene) -> None:
    row = Participant.objects.get(conversation=scene.conversation, person=scene.member)
    participants.remove_participant(scene.conversation.owner, row)


def leave_conversation(scene: Scene) -> None:
    row = Participant.objects.get(conversation=scene.conversation, person=scene.member)
    participants.remove_participant(scene.member, row)


def remove_guest(scene: Scene) -> None:
    """A row of the conversation alone gives nothing."""
    Membership.objects.filter(user=scene.member).delete()


def become_a_guest(scene: Scene) -> None:
    Membership.objects.filter(user=scene.member).update(role=TeamRole.GUEST)


def leave_group(scene: Scene) -> None:
    group = Group.objects.get(team=scene.conversation.team_id)
    groups.remove_member(scene.conversation.owner, group, scene.member)


def remove_group(scene: Scene) -> None:
    row = Participant.objects.get(conversation=scene.conversation, group__isnull=False)
    participants.remove_participant(scene.conversation.owner, row)


def delete_group(scene: Scene) -> None:
    group = Group.objects.get(team=scene.conversation.team_id)
    groups.delete_group(scene.conversation.owner, group)


def delete_conversation(scene: Scene) -> None:
    scene.conversations.update(deleted_at=timezone.now())


def expire(scene: Scene) -> None:
    # SQLite's clock has milliseconds, so it may still be a little earlier than this time.
    scene.conversations.update(expires_at=timezone.now() - timedelta(milliseconds=2))


def end_expired(scene: Scene) -> None:
    """As the job does, before anybody has looked."""
    scene.conversations.update(expires_at=timezone.now() - timedelta(1), deleted_at=timezone.now())


def erase_conversation(scene: Scene) -> None:
    scene.erase(scene.conversations)


def end_session(scene: Scene) -> None:
    scene.sessions.delete()


def expire_session(scene: Scene) -> None:
    scene.sessions.update(expire_date=timezone.now())


def deactivate(scene: Scene) -> None:
    User.objects.filter(pk=scene.member.pk).update(is_active=False)


def change_password(scene: Scene) -> None:
    scene.member.set_password("a new one for the member")
    scene.member.save()


def delete_person(scene: Scene) -> None:
    User.objects.filter(pk=scene.member.pk).delete()


PROJECT_ENDINGS = (
    leave_project,
    limit_project,
    move_out,
    move_to_another_project,
    make_private_in_project,
    delete_project,
    leave_team_of_project,
)
# The member sees a private conversation by a participant.
PARTICIPANT_ENDINGS = (remove_participant, leave_conversation, remove_guest)
# They are in a group that takes part in it.
GROUP_ENDINGS = (leave_group, remove_group, delete_group)
Endings = list[tuple[Callable[[Scene], None], str, int]]
ENDINGS: Endings = [
    (remove_member, "access", CLOSE_ACCESS),
    (become_a_guest, "access", CLOSE_ACCESS),
    (delete_team, "deleted", CLOSE_DELETED),
    (make_private, "access", CLOSE_ACCESS),
    (move_to_another_team, "access", CLOSE_ACCESS),
    (delete_conversation, "deleted", CLOSE_DELETED),
    (erase_conversation, "deleted", CLOSE_DELETED),
    (expire, "expired", CLOSE_EXPIRED),
    (end_expired, "expired", CLOSE_EXPIRED),
    (end_session, "signed-out", CLOSE_SIGNED_OUT),
    (expire_session, "signed-out", CLOSE_SIGNED_OUT),
    (deactivate, "signed-out", CLOSE_SIGNED_OUT),
    (change_password, "signed-out", CLOSE_SIGNED_OUT),
    (delete_person, "signed-out", CLOSE_SIGNED_OUT),
]


OF_PROJECTS = [(end, "access", CLOSE_ACCESS) for end in PROJECT_ENDINGS]
BY_PARTICIPANT = [(end, "access", CLOSE_ACCESS) for end in PARTICIPANT_ENDINGS]
BY_GROUP = [(end, "access", CLOSE_ACCESS) for end in GROUP_ENDINGS]
each_kind_of_ending = pytest.mark.parametrize(
    "endings",
    [ENDINGS, OF_PROJECTS, BY_PARTICIPANT, BY_GROUP],
    ids=["outside of projects", "in a project", "by a participant", "by a group"],
)


@asynccontextmanager
async def growing(run: LiveRun) -> AsyncIterator[None]:
    """The answer goes on meanwhile, as long as its run exists."""
    is_over = asyncio.Event()

    async def add_words() -> None:
        while not is_over.is_set():
            await run.add("word ")
            await asyncio.sleep(0.005)

    adding = asyncio.create_task(add_words())
    yield
    is_over.set()
    with suppress(Exception):
        await adding


@each_kind_of_ending
async def test_lost_access_ends_every_connection(
    endings: Endings,
    make_scene: MakeScene,
    open_tab: OpenTab,
    open_stream: OpenStream,
    open_program: OpenProgram,
    subtests: pytest.Subtests,
) -> None:
    for end_access, reason, code in endings:
        with subtests.test(msg=end_access.__name__):
            scene = await threads.call(make_scene, end_access)
            run = scene.run
            tab, program = (
                open_tab(session=scene.session),
                open_program(run.id, session=scene.session),
            )
            tab.hello(run.room)
            tab.follow(run.id)
            stream = open_stream((run.id, []), session=scene.session, room=run.room)
            await run.tell("Only for the team")
            await tab.until_seq(run.id, len(run.entries))
            await stream.until_seq(run.id, len(run.entries))
            await program.until(lambda program, run=run: len(program.frames) == len(run.entries))

            async with growing(run):
                await threads.call(end_access, scene)
                await tab.until_closed()
                await stream.until_finished()
                await program.until_finished()
            sent = [len(one.sent) for one in (tab, stream, program)]
            with suppress(Exception):
                await run.add("secret")

            assert tab.messages[-1] == {"gone": True, "reason": reason}
            assert tab.close_code == code
            assert [event["type"] for event in tab.sent].count("websocket.close") == 1
            assert tab.sent[-1]["type"] == "websocket.close"
            assert stream.messages[-1] == {"gone": True, "reason": reason}
            assert all(frame.event != "chat.end" for frame in program.frames)
            end = {"type": "http.response.body", "body": b"", "more_body": False}
            assert program.sent[-1] == end
            assert [len(one.sent) for one in (tab, stream, program)] == sent


async def test_lost_access_closes_a_room_without_a_run(
    run: LiveRun, open_tab: OpenTab, bob: User
) -> None:
    tab = open_tab()
    tab.hello(run.room)
    await tab.until(lambda tab: any("room" in message for message in tab.messages))

    await threads.call(Membership.objects.filter(user=bob).delete)
    await tab.until_closed()

    assert tab.close_code == CLOSE_ACCESS


@pytest.mark.databases
async def test_others_go_on_when_one_loses_access(
    run: LiveRun,
    bobs_tab: Tab,
    open_tab: OpenTab,
    alices_session: str,
    sign_in: SignIn,
    viewer: User,
    bob: User,
) -> None:
    others = [
        open_tab(session=await threads.call(sign_in, viewer)),
        open_tab(session=alices_session),
    ]
    for tab in others:
        tab.follow(run.id)
    await run.tell("Only for the team")
    await bobs_tab.until_seq(run.id, len(run.entries))

    await threads.call(Membership.objects.filter(user=bob).delete)
    await bobs_tab.until_closed()
    await run.add(" and no longer for Bob")
    await run.end()

    for tab in others:
        await tab.until_over(run.id)
        assert "no longer for Bob" in tab.pages[run.id].answer.text()
    assert "no longer for Bob" not in bobs_tab.pages[run.id].answer.text()
    assert (await threads.call(Run.objects.get, pk=run.row.pk)).status == "stopped"


async def test_viewer_role_keeps_following(run: LiveRun, bobs_tab: Tab, bob: User) -> None:
    await run.tell("For readers")

    await threads.call(lambda: Membership.objects.filter(user=bob).update(role="viewer"))
    await run.end()

    await bobs_tab.until_over(run.id)
    assert bobs_tab.close_code is None


@pytest.mark.parametrize("error", [OperationalError, RuntimeError])
async def test_unverified_access_ends_connections(
    run: LiveRun,
    bobs_tab: Tab,
    open_stream: OpenStream,
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
) -> None:
    def fail(questions: object) -> None:
        raise error("away")

    stream = open_stream((run.id, []))
    await run.tell("Only for the team")
    for page in (bobs_tab, stream):
        await page.until_seq(run.id, len(run.entries))

    monkeypatch.setattr("chat.live.access_monitor.FAIL_CLOSED_SECONDS", 0.0)
    monkeypatch.setattr("chat.live.access_monitor.check", fail)
    await bobs_tab.until_closed()
    await stream.until_finished()

    # Nobody knows whether access was lost, so the page is not told that it was. It comes back.
    assert bobs_tab.close_code == CLOSE_LATER
    for page in (bobs_tab, stream):
        assert not any("gone" in message for message in page.messages)


async def test_hanging_access_check_ends_connections(
    run: LiveRun, bobs_tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, has_checked = threading.Event(), threading.Event()
    check = access_monitor.check

    def note(questions: Any) -> Any:
        answers = check(questions)
        has_checked.set()
        return answers

    def hang(questions: object) -> None:
        may_end.wait(SOON_SECONDS)

    await run.tell("Only for the team")
    await bobs_tab.until_seq(run.id, len(run.entries))

    # Between two checks, so that the one which hangs has the short limits.
    monkeypatch.setattr("chat.live.access_monitor.check", note)
    await until(has_checked.is_set)
    monkeypatch.setattr("chat.live.access_monitor.FAIL_CLOSED_SECONDS", 0.05)
    monkeypatch.setattr("chat.live.access_monitor.ANSWER_SECONDS", 0.05)
    monkeypatch.setattr("chat.live.access_monitor.check", hang)
    await bobs_tab.until_closed()
    may_end.set()

    assert bobs_tab.close_code == CLOSE_LATER


async def test_short_database_outage_ends_no_connection(
    run: LiveRun, bobs_tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = []

    def fail(questions: object) -> None:
        failures.append(questions)
        raise OperationalError("away")

    await run.tell("Only for the team")

    with monkeypatch.context() as patch:
        patch.setattr("chat.live.access_monitor.check", fail)
        await until(lambda: len(failures) >= 3)
    await run.end()

    await bobs_tab.until_over(run.id)
    assert bobs_tab.close_code is None


async def test_foreign_and_missing_rooms_look_the_same(
    run: LiveRun, open_tab: OpenTab, charlies_session: str
) -> None:
    foreign, missing = open_tab(session=charlies_session), open_tab(session=charlies_session)

    foreign.hello(run.room)
    missing.hello(Conversation().public_id)
    await foreign.until_closed()
    await missing.until_closed()

    assert foreign.sent == missing.sent
    assert foreign.close_code == CLOSE_ACCESS


@pytest.mark.databases
@each_kind_of_ending
async def test_check_reports_why_access_just_ended(
    endings: Endings,
    make_scene: MakeScene,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    read_now = access_monitor._read

    def check(end_access: Callable[[Scene], None]) -> object:
        """Access ends when the check has begun and just before it reads."""
        scene = make_scene(end_access)
        identity = Identity(
            user_pk=scene.member.pk, session_key=scene.session, password=scene.member.password
        )

        def change_and_read(pairs: object) -> object:
            end_access(scene)
            return read_now(pairs)

        monkeypatch.setattr(access_monitor, "_read", change_and_read)
        return access_monitor.check([(identity, frozenset([scene.run.room]))]).verdicts

    for end_access, reason, _ in endings:
        with subtests.test(msg=end_access.__name__):
            assert await threads.call(check, end_access) == [reason]


@pytest.mark.databases
async def test_check_reads_everything_in_one_statement(
    run: LiveRun, bobs_session: str, bob: User
) -> None:
    room = run.room
    bobs = Identity(user_pk=bob.pk, session_key=bobs_session, password=bob.password)
    nobodys = Identity(user_pk=bob.pk, session_key="", password=bob.password)
    questions = [
        (bobs, frozenset()),
        (nobodys, frozenset([room])),
        (bobs, frozenset([room])),
        (bobs, frozenset([room, uuid.uuid4()])),
    ]

    def check() -> tuple[access_monitor.Answers, int]:
        with CaptureQueriesContext(connection) as queries:
            answers = access_monitor.check(questions)
        return answers, len(queries)

    answers, statements = await threads.call(check)

    # A statement sees one moment, whatever else is committed meanwhile.
    assert statements == 1
    assert answers.verdicts[0] == []
    assert answers.verdicts[1] == access_monitor.GONE_SIGNED_OUT
    assert [(seen.conversation_id, seen.may_write) for seen in answers.verdicts[2]] == [
        (room, True)
    ]
    assert answers.verdicts[3] == access_monitor.GONE_DELETED
