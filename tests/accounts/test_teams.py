"""Roles and removal: nobody gives or takes more than they have, and a team keeps an owner."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import access
from chat.accounts.actions import people
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Conversation, Membership, Team, TeamRole, User, UserSession
from tests.accounts.conftest import SignIn, run_at_once, set_role
from tests.conftest import MakeUser


def membership_of(user: User, team: Team) -> Membership:
    return Membership.objects.select_related("team", "user").get(user=user, team=team)


def change_role(client: Client, team: Team, user: User, role: str) -> HttpResponse:
    path = reverse("member_role", args=[team.public_id, user.public_id])
    return client.post(path, {"role": role}, follow=True)


def remove(client: Client, team: Team, user: User) -> HttpResponse:
    return client.post(reverse("member_remove", args=[team.public_id, user.public_id]), follow=True)


# --- roles -------------------------------------------------------------------------------------


def test_owner_changes_a_role(signed_in: SignIn, alice: User, bob: User, team: Team) -> None:
    answer = change_role(signed_in(alice), team, bob, "viewer")

    assert "’s role in River is now Viewer." in answer.content.decode()
    assert membership_of(bob, team).role == TeamRole.VIEWER
    row = AuditEvent.objects.get()
    assert (row.verb, row.actor, row.subject) == ("membership.role_changed", alice, bob)
    assert row.detail == {"before": "member", "after": "viewer"}


def test_unchanged_role_is_not_recorded(
    signed_in: SignIn, alice: User, bob: User, team: Team
) -> None:
    change_role(signed_in(alice), team, bob, "member")

    assert not AuditEvent.objects.exists()


def test_nobody_promotes_themselves(signed_in: SignIn, bob: User, team: Team) -> None:
    set_role(bob, team, TeamRole.ADMIN)

    answer = change_role(signed_in(bob), team, bob, "owner")

    assert answer.status_code == 403
    assert membership_of(bob, team).role == TeamRole.ADMIN


def test_team_admin_cannot_change_an_owner(
    signed_in: SignIn, alice: User, bob: User, team: Team
) -> None:
    set_role(bob, team, TeamRole.ADMIN)
    client = signed_in(bob)

    assert change_role(client, team, alice, "viewer").status_code == 403
    assert remove(client, team, alice).status_code == 403
    assert membership_of(alice, team).role == TeamRole.OWNER


def test_team_admin_changes_the_others(
    signed_in: SignIn, bob: User, viewer: User, team: Team
) -> None:
    set_role(bob, team, TeamRole.ADMIN)

    change_role(signed_in(bob), team, viewer, "admin")

    assert membership_of(viewer, team).role == TeamRole.ADMIN


@pytest.mark.parametrize("role", ["emperor", ""])
def test_unknown_role_is_refused(
    signed_in: SignIn, alice: User, bob: User, team: Team, role: str
) -> None:
    answer = change_role(signed_in(alice), team, bob, role)

    assert b"Choose a role." in answer.content
    assert membership_of(bob, team).role == TeamRole.MEMBER


def test_last_owner_stays_owner(signed_in: SignIn, alice: User, team: Team) -> None:
    answer = change_role(signed_in(alice), team, alice, "member")

    assert people.LAST_OWNER.encode() in answer.content
    assert membership_of(alice, team).role == TeamRole.OWNER


def test_deactivated_owner_does_not_count(
    signed_in: SignIn, alice: User, bob: User, team: Team
) -> None:
    set_role(bob, team, TeamRole.OWNER)
    User.objects.filter(pk=bob.pk).update(is_active=False)

    remove(signed_in(alice), team, alice)

    assert Membership.objects.filter(user=alice, team=team).exists()


def test_member_of_another_team_is_404(
    signed_in: SignIn, alice: User, team: Team, dana: User
) -> None:
    assert change_role(signed_in(alice), team, dana, "viewer").status_code == 404


# --- removal -----------------------------------------------------------------------------------


def test_removed_member_loses_the_teams_conversations(
    signed_in: SignIn, alice: User, bob: User, team: Team, conversation: Conversation
) -> None:
    answer = remove(signed_in(alice), team, bob)

    assert b"Bob was removed from River." in answer.content
    assert not access.visible_conversations(bob).exists()
    assert access.visible_conversations(alice).get() == conversation
    assert AuditEvent.objects.get().verb == "membership.removed"


def test_member_may_leave(signed_in: SignIn, bob: User, team: Team) -> None:
    answer = remove(signed_in(bob), team, bob)

    assert b"You left River." in answer.content
    assert not Membership.objects.filter(user=bob).exists()


def test_viewer_may_leave_and_remove_nobody_else(
    signed_in: SignIn, bob: User, viewer: User, team: Team
) -> None:
    client = signed_in(viewer)

    assert remove(client, team, bob).status_code == 403
    assert remove(client, team, viewer).status_code == 200
    assert not Membership.objects.filter(user=viewer).exists()


def test_last_owner_cannot_leave(signed_in: SignIn, alice: User, team: Team) -> None:
    remove(signed_in(alice), team, alice)

    assert membership_of(alice, team).role == TeamRole.OWNER


def test_second_removal_is_refused(alice: User, bob: User, team: Team) -> None:
    membership = membership_of(bob, team)
    people.remove_member(alice, membership)

    with pytest.raises(ActionRefused, match="no longer on the team"):
        people.remove_member(alice, membership)


def test_administrator_manages_every_team(
    signed_in: SignIn, administrator: User, bob: User, team: Team
) -> None:
    remove(signed_in(administrator), team, bob)

    assert not Membership.objects.filter(user=bob).exists()
    assert AuditEvent.objects.get().actor == administrator


@pytest.mark.django_db(transaction=True)
def test_of_two_owners_leaving_at_once_one_stays(alice: User, bob: User, team: Team) -> None:
    set_role(bob, team, TeamRole.OWNER)

    outcomes = run_at_once(
        *(partial(people.remove_member, user, membership_of(user, team)) for user in (alice, bob))
    )

    assert outcomes == ["done", "refused"]
    assert Membership.objects.filter(team=team, role=TeamRole.OWNER).count() == 1


# --- new teams, the page -----------------------------------------------------------------------


def test_administrator_creates_and_owns_a_team(signed_in: SignIn, administrator: User) -> None:
    signed_in(administrator).post(reverse("teams"), {"name": "Delta"})

    assert Membership.objects.get(user=administrator).role == TeamRole.OWNER
    assert AuditEvent.objects.get().target == "Delta"


@pytest.mark.parametrize("name", ["", "x" * 81])
def test_team_needs_a_usable_name(signed_in: SignIn, administrator: User, name: str) -> None:
    signed_in(administrator).post(reverse("teams"), {"name": name})

    assert not Team.objects.exists()


def test_owner_creates_no_team(alice: User, team: Team) -> None:
    with pytest.raises(PermissionDenied):
        people.create_team(alice, "Delta")


def test_page_shows_own_teams_only(
    signed_in: SignIn, bob: User, team: Team, other_team: Team, dana: User
) -> None:
    page = signed_in(bob).get(reverse("people")).content.decode()

    assert team.name in page
    assert other_team.name not in page
    assert dana.email not in page


def test_only_administrators_learn_when_somebody_was_here(
    bob: User, alice: User, administrator: User, team: Team
) -> None:
    used_at = timezone.now()
    UserSession.objects.create(user=bob, session_key="s" * 32, last_used_at=used_at)

    seen = access.all_accounts(administrator).get(pk=bob.pk)
    (of_team,) = access.teams_with_members(alice)
    (member,) = (each.user for each in of_team.memberships.all() if each.user == bob)

    assert access.last_active(seen) == used_at
    assert access.last_active(member) == bob.last_login


def test_member_can_only_leave(signed_in: SignIn, bob: User, team: Team) -> None:
    page = signed_in(bob).get(reverse("people")).content.decode()

    assert "Leave team" in page
    assert page.count("/remove/") == 1
    assert 'name="role"' not in page
    assert "/invite/" not in page
    assert "reset-link" not in page


def test_person_without_a_team_is_told_what_to_do(signed_in: SignIn, charlie: User) -> None:
    assert b"Ask a team" in signed_in(charlie).get(reverse("people")).content


def test_names_are_escaped(signed_in: SignIn, alice: User, bob: User, team: Team) -> None:
    User.objects.filter(pk=bob.pk).update(name='<script>x</script>" data-x="')

    page = signed_in(alice).get(reverse("people")).content.decode()

    assert "<script>x" not in page
    assert '" data-x="' not in page


@pytest.mark.parametrize("who", ["alice", "administrator"])
def test_page_costs_few_queries_for_twenty_people(
    who: str,
    request: pytest.FixtureRequest,
    signed_in: SignIn,
    team: Team,
    make_user: MakeUser,
    django_assert_max_num_queries: Callable[..., object],
) -> None:
    client = signed_in(request.getfixturevalue(who))
    for number in range(20):
        user = make_user(f"Person{number}")
        Membership.objects.create(team=team, user=user, role=TeamRole.MEMBER)

    with django_assert_max_num_queries(12):
        page = client.get(reverse("people"))

    assert b"Person19" in page.content
