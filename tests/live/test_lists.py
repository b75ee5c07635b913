"""A page is told that its list of conversations has changed: at once where something was taken away."""

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.conversations.actions import conversation as actions_conversation
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.live import access_monitor as watch_module
from chat.live.list_version import access_part, read_list_version, read_list_versions
from chat.models import Conversation, Membership, Team, Upstream, User
from chat.organization import actions as organization
from tests.live.conftest import OpenTab, threads
from tests.live.connection import StreamTab, Tab

Change = Callable[[User, Conversation], object]


def rename(owner: User, room: Conversation) -> None:
    actions_conversation.rename(room, "Another title")


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
    actions_conversation.set_visibility(owner, room, "private")


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
    await tab.until(lambda tab: {"list": version} in tab.said)


@pytest.mark.usefixtures("lost_notifications")
async def test_page_is_told_of_each_change(
    open_tab: OpenTab, older: Conversation, alice: User, bob: User
) -> None:
    # Bob's, without a room, as the home page is.
    tab = open_tab()
    tab.say(type="hello", list_version=await threads.call(read_list_version, bob.pk), runs=[])

    for change in (rename, make_private):
        await threads.call(change, alice, older)
        await until_told(tab, await threads.call(read_list_version, bob.pk))

    assert len(tab.said) == 2


@pytest.mark.usefixtures("lost_notifications")
async def test_page_that_came_late_is_told(open_tab: OpenTab, older: Conversation) -> None:
    tab = open_tab()
    tab.say(type="hello", list_version="of-before", runs=[])

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
    monkeypatch.setattr(watch_module, "LISTS_PER_SECOND", 1e-6)
    tab = open_tab()
    tab.say(type="hello", list_version=await threads.call(read_list_version, bob.pk), runs=[])
    await threads.call(rename, alice, older)
    newcomer = open_tab()
    newcomer.say(type="hello", list_version="of-before", runs=[])
    await newcomer.until(lambda tab: tab.said)

    assert tab.said == []
    await threads.call(make_private, alice, older)
    await tab.until(lambda tab: tab.said)
