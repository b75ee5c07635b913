"""A page is told that its list of conversations has changed: at once where something was taken away."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat.conversations import list_channel, recent_changes
from chat.conversations.actions import conversation as actions_conversation
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.conversations.list_version import (
    ChangedRow,
    Snapshot,
    access_part,
    read_list_version,
    read_list_versions,
)
from chat.conversations.recent_changes import RecentChanges
from chat.core.prepared import fetch
from chat.core.threads import DatabaseThreads
from chat.live import websocket
from chat.live.viewer import CLOSE_ACCESS
from chat.models import (
    Conversation,
    Group,
    GroupMember,
    Membership,
    Participant,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    Team,
    TeamRole,
    Upstream,
    User,
)
from chat.organization import actions as organization
from chat.participants import actions as participants
from chat.projects import actions as projects
from tests.live.conftest import OpenTab, SignIn, threads
from tests.live.connection import SOON_SECONDS, StreamTab, Tab, until

Change = Callable[[User, Conversation], object]


def rename(owner: User, room: Conversation) -> None:
    actions_conversation.rename(room, "Another title")


def write_title(owner: User, room: Conversation) -> None:
    Conversation.objects.filter(pk=room.pk).update(has_automatic_title=True)
    assert actions_conversation.replace_automatic_title(room.pk, "Another title")


def start_another(owner: User, room: Conversation) -> None:
    message_actions.start_conversation(
        owner,
        room.team,
        text="Hello",
        choice=ModelChoice(upstream=Upstream.objects.get(), model="m"),
        idempotency_key=uuid.uuid4(),
        visibility="team",
    )


def start_private(owner: User, room: Conversation) -> None:
    Conversation.objects.create(team=room.team, owner=owner, title="Nobody else's")


def make_private(owner: User, room: Conversation) -> None:
    participants.set_visibility(owner, room, "private")


def delete(owner: User, room: Conversation) -> None:
    actions_conversation.delete(owner, room)


def archive(owner: User, room: Conversation) -> None:
    organization.archive(owner, room)


def restore(owner: User, room: Conversation) -> None:
    actions_conversation.delete(owner, room)
    organization.restore(owner, room)


def pin_as_bob(owner: User, room: Conversation) -> None:
    organization.pin(User.objects.get(name="Bob"), room)


def pin_as_owner(owner: User, room: Conversation) -> None:
    organization.pin(owner, room)


def remove_members(owner: User, room: Conversation) -> None:
    Membership.objects.filter(team=room.team).exclude(user=owner).delete()


def delete_team(owner: User, room: Conversation) -> None:
    Team.objects.filter(pk=room.team_id).delete()


# What somebody else does, and what becomes of a member's list.
CHANGES: list[tuple[Change, str]] = [
    (rename, "news"),
    (write_title, "news"),
    (start_another, "news"),
    (start_private, "same"),
    (make_private, "loss"),
    (delete, "loss"),
    (archive, "news"),
    (restore, "loss"),
    (pin_as_bob, "news"),
    (pin_as_owner, "same"),
    (remove_members, "loss"),
    (delete_team, "loss"),
]


@pytest.fixture
def older(conversation: Conversation, alice: User) -> Conversation:
    """Shared, and not the newest: what is newest does not tell that it was taken away."""
    yesterday = timezone.now() - timedelta(days=1)
    return Conversation.objects.create(
        team=conversation.team,
        owner=alice,
        visibility="team",
        title="Older",
        updated_at=yesterday,
    )


def kind(before: str, after: str) -> str:
    if before == after:
        return "same"
    return "news" if access_part(before) == access_part(after) else "loss"


@pytest.mark.databases
@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_version_tells_news_from_losses(
    older: Conversation, upstream: Upstream, alice: User, bob: User, change: Change, expected: str
) -> None:
    before = read_list_version(bob.pk)

    change(alice, older)

    assert kind(before, read_list_version(bob.pk)) == expected


def move_out(owner: User, room: Conversation) -> None:
    projects.move_conversation(owner, room, None)


def limit_project(owner: User, room: Conversation) -> None:
    projects.change_project(owner, room.project, access=ProjectAccess.MEMBERS)


def rename_project(owner: User, room: Conversation) -> None:
    projects.change_project(owner, room.project, name="Tunnel")


def delete_project(owner: User, room: Conversation) -> None:
    projects.delete_project(owner, room.project)


def select_bob(owner: User, room: Conversation) -> None:
    projects.set_member(owner, room.project, User.objects.get(name="Bob"), ProjectRole.READER)


def remove_bob(owner: User, room: Conversation) -> None:
    ProjectMember.objects.filter(user__name="Bob").delete()


# The same, with the room in a project: for everyone on the team, with Bob as a reader, without him.
PROJECT_CHANGES: list[tuple[str, Change, str]] = [
    ("team", rename, "news"),
    ("team", make_private, "loss"),
    ("team", move_out, "loss"),
    ("team", limit_project, "loss"),
    ("team", rename_project, "loss"),
    ("team", delete_project, "loss"),
    ("reader", rename, "news"),
    ("reader", move_out, "loss"),
    ("reader", remove_bob, "loss"),
    ("nothing", rename, "same"),
    ("nothing", select_bob, "loss"),
]


@pytest.mark.databases(slow=True)
@pytest.mark.parametrize(("relation", "change", "expected"), PROJECT_CHANGES)
def test_version_knows_the_projects_that_a_person_sees(
    older: Conversation, alice: User, bob: User, relation: str, change: Change, expected: str
) -> None:
    access = ProjectAccess.TEAM if relation == "team" else ProjectAccess.MEMBERS
    project = projects.create_project(alice, older.team, name="Bridge", access=access)
    if relation == "reader":
        projects.set_member(alice, project, bob, ProjectRole.READER)
    projects.move_conversation(alice, older, project)
    before = read_list_version(bob.pk)

    change(alice, older)

    assert kind(before, read_list_version(bob.pk)) == expected


def add_bob(owner: User, room: Conversation) -> None:
    participants.add_participant(owner, room, User.objects.get(name="Bob"), "reader")


def take_from_bob(owner: User, room: Conversation) -> None:
    participants.remove_participant(owner, Participant.objects.get(conversation=room))


def take_from_group(owner: User, room: Conversation) -> None:
    GroupMember.objects.filter(user__name="Bob").delete()


# The same, with a private room in which Bob takes part: himself, as a guest of the team, by a group, not.
PARTICIPANT_CHANGES: list[tuple[str, Change, str]] = [
    *(
        (relation, change, expected)
        for relation in ("person", "guest", "group")
        for change, expected in (
            (rename, "news"),
            (archive, "news"),
            (delete, "loss"),
            (take_from_bob, "loss"),
        )
    ),
    ("group", take_from_group, "loss"),
    ("guest", start_another, "same"),
    ("nothing", rename, "same"),
    ("nothing", add_bob, "loss"),
]


@pytest.mark.databases(slow=True)
@pytest.mark.parametrize(("relation", "change", "expected"), PARTICIPANT_CHANGES)
def test_version_knows_what_a_person_takes_part_in(
    older: Conversation,
    upstream: Upstream,
    alice: User,
    bob: User,
    relation: str,
    change: Change,
    expected: str,
) -> None:
    participants.set_visibility(alice, older, "private")
    if relation == "guest":
        Membership.objects.filter(user=bob).update(role=TeamRole.GUEST)
    if relation == "group":
        group = Group.objects.create(team=older.team, name="Divers")
        GroupMember.objects.create(group=group, user=bob)
        participants.add_participant(alice, older, group, "reader")
    elif relation != "nothing":
        participants.add_participant(alice, older, bob, "reader")
    older = Conversation.objects.get(pk=older.pk)
    before = read_list_version(bob.pk)

    change(alice, older)

    assert kind(before, read_list_version(bob.pk)) == expected


@pytest.mark.databases
def test_versions_of_everybody_are_one_query(
    conversation: Conversation, alice: User, bob: User, charlie: User
) -> None:
    with CaptureQueriesContext(connection) as queries:
        versions = read_list_versions([alice.pk, bob.pk, charlie.pk])

    assert len(queries) == 1
    assert len(set(versions.values())) == 3


# --- a page --------------------------------------------------------------------------------


async def until_told(tab: Tab | StreamTab, version: str) -> None:
    """With the changed lines if a check has found the list as the tab shows it, otherwise without."""
    await tab.until(lambda tab: version in [message.get("list") for message in tab.said])


async def until_checked() -> None:
    """All that was committed by now has been seen."""
    recent = websocket.access_monitor.look_of("list").recent
    since = recent.number
    await until(lambda: recent.number >= since + 2)


@pytest.mark.usefixtures("lost_notifications")
@pytest.mark.parametrize("is_checked", [False, True], ids=["at once", "after a check"])
async def test_page_is_told_of_each_change(
    open_tab: OpenTab, older: Conversation, alice: User, bob: User, is_checked: bool
) -> None:
    # Bob's, without a room, as the home page is.
    tab = open_tab()
    tab.hello(list={"version": await threads.call(read_list_version, bob.pk)})
    if is_checked:
        await until_checked()

    for change in (rename, make_private):
        await threads.call(change, alice, older)
        await until_told(tab, await threads.call(read_list_version, bob.pk))

    assert len(tab.said) == 2


@pytest.mark.usefixtures("lost_notifications")
async def test_both_readers_lose_what_is_moved_out_of_a_project(
    open_tab: OpenTab, older: Conversation, alice: User, bob: User, viewer: User, sign_in: SignIn
) -> None:
    """One reads it, the other has it in their list only."""

    def begin() -> tuple[str, dict[User, str]]:
        project = projects.create_project(alice, older.team, name="Bridge")
        projects.move_conversation(alice, older, project)
        return sign_in(viewer), {one: read_list_version(one.pk) for one in (bob, viewer)}

    session, versions = await threads.call(begin)
    reading, listing = open_tab(), open_tab(session=session)
    reading.hello(older.public_id)
    await reading.until(lambda tab: any("room" in message for message in tab.messages))
    listing.hello(list={"version": versions[viewer]})

    await threads.call(move_out, alice, older)
    await reading.until_closed()
    await listing.until(lambda tab: tab.said)

    def shown(person: User) -> str:
        client = Client()
        client.force_login(person)
        return client.get(reverse("conversation_list")).content.decode()

    assert reading.close_code == CLOSE_ACCESS
    for person in (bob, viewer):
        page = await threads.call(shown, person)
        assert "Shared" in page
        assert "Older" not in page
    assert "Older" in await threads.call(shown, alice)


@pytest.mark.usefixtures("lost_notifications")
async def test_page_that_came_late_is_told(open_tab: OpenTab, older: Conversation) -> None:
    tab = open_tab()
    tab.hello(list={"version": "of-before"})

    await tab.until(lambda tab: tab.said)


@pytest.mark.usefixtures("lost_notifications")
async def test_busy_team_is_told_of_losses_alone(
    open_tab: OpenTab,
    older: Conversation,
    alice: User,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The page's turn for news does not come within this test.
    monkeypatch.setattr(list_channel, "LISTS_PER_SECOND", 1e-6)
    tab = open_tab()
    tab.hello(list={"version": await threads.call(read_list_version, bob.pk)})
    await threads.call(rename, alice, older)
    newcomer = open_tab()
    newcomer.hello(list={"version": "of-before"})
    await newcomer.until(lambda tab: tab.said)

    assert tab.said == []
    await threads.call(make_private, alice, older)
    await tab.until(lambda tab: tab.said)


# --- changes that become visible after newer ones ------------------------------------------


@contextmanager
def renamed_before(owner: User, room: Conversation) -> Iterator[None]:
    """A change that is visible when the block ends. In PostgreSQL its transaction is open until then; in
    SQLite it takes its time and then waits for the transactions of others."""
    if not settings.IS_SQLITE:
        with transaction.atomic():
            # On a busy machine a check may come between the time of a change and its transaction's first
            # statement; `LATE` covers that, and a test that makes it small begins the transaction first.
            fetch("SELECT pg_current_xact_id()::text")
            rename(owner, room)
            yield
        return
    now = timezone.now()
    yield
    Conversation.objects.filter(pk=room.pk).update(
        title="Another title", revision=F("revision") + 1, updated_at=now
    )


@asynccontextmanager
async def late_change(owner: User, room: Conversation) -> AsyncIterator[None]:
    """As above, in another thread."""
    others = DatabaseThreads("late", size=1)
    is_made, may_end = threading.Event(), threading.Event()

    def change() -> None:
        with renamed_before(owner, room):
            is_made.set()
            assert may_end.wait(SOON_SECONDS)

    changing = asyncio.create_task(others.call(change))
    try:
        await until(is_made.is_set)
        yield
    finally:
        may_end.set()
        await changing
        await others.close()


def rooms_of_lines(tab: Tab) -> set[str]:
    return {line["room"] for message in tab.said for line in message.get("lines", ())}


@pytest.mark.databases
@pytest.mark.usefixtures("lost_notifications")
@pytest.mark.parametrize("is_open_before", [True, False], ids=["page before", "page between"])
async def test_page_is_told_of_a_change_behind_a_newer_one(
    open_tab: OpenTab,
    conversation: Conversation,
    older: Conversation,
    alice: User,
    bob: User,
    is_open_before: bool,
) -> None:
    async def open_page() -> Tab:
        tab = open_tab()
        tab.hello(list={"version": await threads.call(read_list_version, bob.pk)})
        await until_checked()
        return tab

    tab = await open_page()
    async with late_change(alice, older):
        await threads.call(rename, alice, conversation)
        await until_told(tab, await threads.call(read_list_version, bob.pk))
        tab = tab if is_open_before else await open_page()
        assert older.public_id.hex not in rooms_of_lines(tab)

    await tab.until(lambda tab: older.public_id.hex in rooms_of_lines(tab))
    assert tab.said[-1]["late"]
    assert tab.said[-1]["list"] == await threads.call(read_list_version, bob.pk)


@pytest.mark.databases(only="postgresql")
@pytest.mark.usefixtures("lost_notifications")
async def test_long_transaction_is_waited_for(
    open_tab: OpenTab,
    conversation: Conversation,
    older: Conversation,
    alice: User,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Only the snapshot tells how far the checks have to look back.
    monkeypatch.setattr(recent_changes, "LATE", timedelta(0))
    tab = open_tab()
    tab.hello(list={"version": await threads.call(read_list_version, bob.pk)})
    await until_checked()

    async with late_change(alice, older):
        await threads.call(rename, alice, conversation)
        for _ in range(5):
            await until_checked()

    await tab.until(lambda tab: older.public_id.hex in rooms_of_lines(tab))


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
IDLE = Snapshot(10, 10)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def row(key: int, seconds: float) -> ChangedRow:
    return ChangedRow(key, 1, str(at(seconds)), is_private=False)


def found_by(recent: RecentChanges) -> list[tuple[int, bool]]:
    """What the last check has found, and whether that is late."""
    return [
        (change.conversation_pk, change.is_late)
        for change in recent.changes
        if change.number == recent.number
    ]


def test_change_before_a_newer_one_is_late() -> None:
    recent = RecentChanges()
    recent.record_check([row(1, -30), row(2, -2), row(3, -1)], at(0), IDLE)
    of_the_first_check = found_by(recent)

    recent.record_check([row(3, -1), row(4, -3)], at(1), IDLE)
    behind_a_known_one = found_by(recent)
    recent.record_check([row(5, 1.2), row(6, 1.4)], at(2), IDLE)

    assert of_the_first_check == [(1, False), (2, True), (3, False)]
    assert behind_a_known_one == [(4, True)]
    # A page may have been made between the two.
    assert found_by(recent) == [(5, True), (6, False)]


def test_checks_look_back_to_the_last_one_whose_transactions_have_ended() -> None:
    recent = RecentChanges()
    # Transaction 10 begins before the second check, 12 before the third.
    snapshots = [Snapshot(10, 10), Snapshot(10, 11), Snapshot(10, 13), Snapshot(11, 14)]
    looked_from = []

    for second, snapshot in enumerate([*snapshots, Snapshot(14, 14)]):
        recent.record_check([], at(second), snapshot)
        looked_from.append(recent.since() + recent_changes.LATE)

    assert looked_from == [at(0), at(0), at(0), at(1), at(4)]


def test_transaction_without_end_is_not_waited_for() -> None:
    recent = RecentChanges()
    seconds = int(2 * recent_changes.LONGEST.total_seconds())

    for second in range(seconds + 1):
        recent.record_check([], at(second), Snapshot(1, 10 + second))

    assert recent.since() + recent_changes.LATE == at(seconds) - recent_changes.LONGEST
