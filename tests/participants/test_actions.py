"""Sharing: by whom, with whom, and what is recorded; groups; and taking over."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction

from chat import access
from chat.accounts.actions import people
from chat.administration.sentences import sentence
from chat.core.errors import ActionRefused
from chat.models import (
    AuditEvent,
    Conversation,
    Group,
    GroupMember,
    Membership,
    Participant,
    Team,
    TeamRole,
    User,
    Visibility,
)
from chat.participants import actions
from chat.participants import group_actions as groups
from tests.conftest import MakeUser


@pytest.fixture
def room(private_conversation: Conversation) -> Conversation:
    return private_conversation


@pytest.fixture
def guest(team: Team, make_user: MakeUser) -> User:
    guest = make_user("Guest")
    Membership.objects.create(team=team, user=guest, role=TeamRole.GUEST)
    return guest


@pytest.fixture
def divers(team: Team, alice: User) -> Group:
    return groups.create_group(alice, team, "Divers")


def reads(user: User, room: Conversation) -> bool:
    return access.visible_conversations(user).filter(pk=room.pk).exists()


def told() -> list[str]:
    return [sentence(event, title="Piers") for event in AuditEvent.objects.order_by("pk")]


@pytest.mark.databases
def test_person_gets_a_role_another_one_and_none(
    room: Conversation, alice: User, bob: User
) -> None:
    participant = actions.add_participant(alice, room, bob, "reader")
    assert reads(bob, room)
    assert not access.may_write(bob, room)
    actions.add_participant(alice, room, bob, "writer")
    assert access.may_write(bob, room)
    assert not access.may_manage(bob, room)
    participant.refresh_from_db()
    actions.set_role(alice, participant, "manager")
    assert access.may_manage(bob, room)
    actions.remove_participant(alice, participant)

    assert not reads(bob, room)
    assert told() == [
        "Alice shared the conversation “Piers” with Bob (role: reader)",
        "Alice changed Bob’s role in the conversation “Piers” from reader to writer",
        "Alice changed Bob’s role in the conversation “Piers” from writer to manager",
        "Alice removed Bob from the conversation “Piers”",
    ]


@pytest.mark.databases
def test_group_gives_and_takes_access(
    room: Conversation, alice: User, bob: User, guest: User, divers: Group
) -> None:
    groups.add_member(alice, divers, bob)
    groups.add_member(alice, divers, guest)
    actions.add_participant(alice, room, divers, "writer")
    assert access.may_write(bob, room)
    assert access.may_write(guest, room)

    groups.remove_member(alice, divers, bob)
    assert not reads(bob, room)
    groups.delete_group(alice, divers)

    assert not reads(guest, room)
    assert not Participant.objects.exists()
    assert told()[1:] == [
        "Alice added Bob to the group Divers in River",
        "Alice added Guest to the group Divers in River",
        "Alice shared the conversation “Piers” with the group Divers (role: writer)",
        "Alice removed Bob from the group Divers in River",
        "Alice deleted the group Divers in River",
    ]


def test_group_of_another_team_is_refused(
    room: Conversation, alice: User, dana: User, other_team: Team
) -> None:
    group = groups.create_group(dana, other_team, "Climbers")

    with pytest.raises(ActionRefused):
        actions.add_participant(alice, room, group, "reader")


def test_only_people_of_the_team_are_added_and_no_guest_manages(
    room: Conversation, alice: User, dana: User, guest: User
) -> None:
    for who, role in ((dana, "reader"), (alice, "reader"), (guest, "manager")):
        with pytest.raises(ActionRefused):
            actions.add_participant(alice, room, who, role)
    participant = actions.add_participant(alice, room, guest, "writer")

    with pytest.raises(ActionRefused):
        actions.set_role(alice, participant, "manager")


def test_right_that_has_ended_meanwhile_is_refused(
    room: Conversation, alice: User, bob: User, viewer: User
) -> None:
    mine = actions.add_participant(alice, room, bob, "writer")
    loaded = access.get_conversation(bob, room.public_id)
    changes: list[Callable[[], object]] = [
        lambda: actions.add_participant(bob, loaded, viewer, "reader"),
        lambda: actions.set_role(bob, mine, "manager"),
        lambda: actions.set_visibility(bob, loaded, Visibility.TEAM),
        lambda: actions.remove_participant(
            bob, actions.add_participant(alice, room, viewer, "reader")
        ),
    ]

    for change in changes:
        with pytest.raises(PermissionDenied):
            change()
    actions.remove_participant(bob, mine)
    assert not reads(bob, room)


def test_who_leaves_the_team_takes_no_role_along(
    room: Conversation, alice: User, bob: User, divers: Group, team: Team
) -> None:
    actions.add_participant(alice, room, bob, "writer")
    groups.add_member(alice, divers, bob)

    people.remove_member(alice, Membership.objects.get(team=team, user=bob))

    assert not Participant.objects.exists()
    assert not GroupMember.objects.exists()


@pytest.mark.databases
def test_participant_is_a_person_or_a_group(room: Conversation, bob: User, divers: Group) -> None:
    for values in ({}, {"person": bob, "group": divers}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Participant.objects.create(conversation=room, role="reader", **values)


def test_name_of_a_group_is_unique_in_its_team(alice: User, team: Team, divers: Group) -> None:
    with pytest.raises(ActionRefused):
        groups.create_group(alice, team, "  Divers ")
    with pytest.raises(ActionRefused):
        groups.create_group(alice, team, "\u200b")


@pytest.mark.databases
def test_unmanaged_conversation_is_taken_over(
    room: Conversation, alice: User, bob: User, viewer: User, team: Team
) -> None:
    actions.add_participant(alice, room, bob, "reader")
    assert not access.unmanaged_conversations(team).exists()
    Membership.objects.filter(user=bob).update(role=TeamRole.OWNER)
    Membership.objects.filter(user=alice).delete()
    actions.take_over(bob, room)

    assert access.may_manage(bob, room)
    assert told()[-1] == "Bob took over Alice’s conversation “Piers”, which had no manager"
    with pytest.raises(ActionRefused):
        actions.take_over(bob, room)
    with pytest.raises(PermissionDenied):
        actions.take_over(viewer, room)


@pytest.mark.parametrize(
    ("role", "is_unmanaged"),
    [
        (TeamRole.MEMBER, False),
        # They may not write on the team, so they manage nothing.
        (TeamRole.VIEWER, True),
        (TeamRole.GUEST, True),
        (None, True),
    ],
)
def test_conversation_without_an_able_owner_has_no_manager(
    conversation: Conversation, alice: User, team: Team, role: str | None, is_unmanaged: bool
) -> None:
    Membership.objects.filter(user=alice).update(role=role or TeamRole.OWNER)
    if role is None:
        Membership.objects.filter(user=alice).delete()

    assert access.unmanaged_conversations(team).exists() is is_unmanaged


def test_other_manager_is_enough(
    conversation: Conversation, alice: User, bob: User, team: Team, divers: Group
) -> None:
    groups.add_member(alice, divers, bob)
    actions.add_participant(alice, conversation, divers, "manager")
    Membership.objects.filter(user=alice).delete()
    assert not access.unmanaged_conversations(team).exists()

    User.objects.filter(pk=bob.pk).update(is_active=False)

    assert access.unmanaged_conversations(team).exists()


def test_private_conversation_waits_for_its_owner(
    private_conversation: Conversation, alice: User, team: Team
) -> None:
    Membership.objects.filter(user=alice).delete()

    assert not access.unmanaged_conversations(team).exists()
