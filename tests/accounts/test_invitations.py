"""Invitation links: for one person, for a while, and only while the inviter may invite."""

from __future__ import annotations

import hashlib
from functools import partial

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.accounts.actions import invitations
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Invitation, Membership, Team, TeamRole, User
from tests.accounts.conftest import (
    NEW_PASSWORD,
    MakeInvitation,
    SignIn,
    expire,
    run_at_once,
    set_role,
)
from tests.support.stored import everything_stored

NEWCOMER = {"name": "Nora", "email": "nora@example.org", "password": NEW_PASSWORD}


def post_invite(client: Client, team: Team, **fields: object) -> HttpResponse:
    data = {"role": "member", "emails": "", "days": 7, **fields}
    return client.post(reverse("invite", args=[team.public_id]), data)


def secret_of(page: HttpResponse) -> str:
    """The token in the link that a page shows."""
    return page.context["link"].rstrip("/").rsplit("/", 1)[1]


# --- the link ----------------------------------------------------------------------------------


def test_link_is_shown_once_and_admits_a_newcomer(
    signed_in: SignIn, alice: User, team: Team
) -> None:
    page = post_invite(signed_in(alice), team)
    link = page.context["link"]
    client = Client()

    answer = client.post(link, NEWCOMER)

    assert link in page.content.decode()
    assert answer.status_code == 302
    assert answer.url == reverse("home")
    nora = User.objects.get(email="nora@example.org")
    assert Membership.objects.get(user=nora).role == TeamRole.MEMBER
    assert nora.check_password(NEW_PASSWORD)
    assert client.session["_auth_user_id"] == str(nora.pk)


def test_token_is_stored_only_as_its_hash(signed_in: SignIn, alice: User, team: Team) -> None:
    client = signed_in(alice)
    token = secret_of(post_invite(client, team))
    client.get(reverse("people"))

    stored = everything_stored()

    assert token not in stored
    assert hashlib.sha256(token.encode()).hexdigest() in stored
    assert token not in repr([cookie.value for cookie in client.cookies.values()])


def test_list_of_invitations_does_not_show_the_link(
    signed_in: SignIn, alice: User, team: Team
) -> None:
    client = signed_in(alice)
    token = secret_of(post_invite(client, team, emails="x@example.org"))

    page = client.get(reverse("people")).content.decode()

    assert "x@example.org" in page
    assert token not in page


def test_page_with_the_token_is_not_stored_and_sends_no_referrer(
    make_invitation: MakeInvitation,
) -> None:
    answer = Client().get(make_invitation()[1])

    assert answer["Referrer-Policy"] == "strict-origin"
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.parametrize("method", ["get", "post"])
def test_used_link_is_dead(make_invitation: MakeInvitation, method: str) -> None:
    _, path = make_invitation()
    Client().post(path, NEWCOMER)

    answer = getattr(Client(), method)(path, {**NEWCOMER, "email": "second@example.org"})

    assert answer.status_code == 404
    assert not User.objects.filter(email="second@example.org").exists()


def test_unknown_used_expired_and_revoked_links_show_the_same_page(
    make_invitation: MakeInvitation, alice: User
) -> None:
    _, used_path = make_invitation()
    expired, expired_path = make_invitation()
    revoked, revoked_path = make_invitation()
    Client().post(used_path, NEWCOMER)
    expire(expired)
    invitations.revoke(alice, revoked)
    paths = [reverse("invitation", args=["never-was"]), used_path, expired_path, revoked_path]

    pages = [Client().get(path) for path in paths]

    assert {page.status_code for page in pages} == {404}
    assert len({without_csrf(page.content.decode()) for page in pages}) == 1


def without_csrf(page: str) -> str:
    return "\n".join(line for line in page.splitlines() if "csrf" not in line.lower())


# --- the inviter -------------------------------------------------------------------------------


def test_link_dies_when_the_inviter_is_deactivated(
    make_invitation: MakeInvitation, alice: User
) -> None:
    _, path = make_invitation()
    User.objects.filter(pk=alice.pk).update(is_active=False)

    assert Client().post(path, NEWCOMER).status_code == 404


def test_link_dies_when_the_inviter_no_longer_manages(
    make_invitation: MakeInvitation, alice: User, team: Team
) -> None:
    _, path = make_invitation()
    set_role(alice, team, TeamRole.MEMBER)

    assert Client().post(path, NEWCOMER).status_code == 404


def test_owner_link_dies_when_the_inviter_is_no_longer_owner(
    make_invitation: MakeInvitation, alice: User, team: Team
) -> None:
    _, path = make_invitation(role=TeamRole.OWNER)
    set_role(alice, team, TeamRole.ADMIN)

    assert Client().get(path).status_code == 404


def test_inviter_removed_while_the_form_is_open_admits_nobody(
    make_invitation: MakeInvitation, alice: User
) -> None:
    invitation, _ = make_invitation()
    Membership.objects.filter(user=alice).delete()

    with pytest.raises(ActionRefused):
        invitations.join_as_new_person(invitation, **NEWCOMER)

    assert not User.objects.filter(email=NEWCOMER["email"]).exists()
    assert Invitation.objects.get().used_at is None


def test_team_admin_cannot_invite_an_owner(signed_in: SignIn, bob: User, team: Team) -> None:
    set_role(bob, team, TeamRole.ADMIN)

    answer = post_invite(signed_in(bob), team, role="owner")

    assert answer.status_code == 422
    assert not Invitation.objects.exists()


@pytest.mark.parametrize("fields", [{"days": 0}, {"days": 31}, {"days": ""}, {"emails": "nobody"}])
def test_invalid_invitation_is_refused_beside_the_field(
    signed_in: SignIn, alice: User, team: Team, fields: dict[str, object]
) -> None:
    answer = post_invite(signed_in(alice), team, **fields)

    assert answer.status_code == 422
    assert b"field-error" in answer.content
    assert not Invitation.objects.exists()


# --- new people --------------------------------------------------------------------------------


def test_email_of_the_invitation_cannot_be_changed(make_invitation: MakeInvitation) -> None:
    _, path = make_invitation(email="Nora@Example.org")

    Client().post(path, {**NEWCOMER, "email": "mallory@example.org"})

    assert User.objects.filter(email="nora@example.org").exists()
    assert not User.objects.filter(email="mallory@example.org").exists()


def test_known_email_is_told_to_sign_in(make_invitation: MakeInvitation, charlie: User) -> None:
    invitation, path = make_invitation()

    answer = Client().post(path, {**NEWCOMER, "email": charlie.email.upper()})

    assert answer.status_code == 422
    assert b"Sign in, then open the link again" in answer.content
    assert invitations.find(path.strip("/").split("/")[1]) == invitation


@pytest.mark.parametrize("password", ["short", "password123", "12345 678"])
def test_weak_password_is_refused_and_the_link_stays_valid(
    make_invitation: MakeInvitation, password: str
) -> None:
    _, path = make_invitation()

    answer = Client().post(path, {**NEWCOMER, "password": password})

    assert answer.status_code == 422
    assert Client().get(path).status_code == 200


# --- people with an account --------------------------------------------------------------------


def test_signed_in_person_joins(
    make_invitation: MakeInvitation, signed_in: SignIn, charlie: User, team: Team
) -> None:
    _, path = make_invitation(role=TeamRole.VIEWER)
    client = signed_in(charlie)

    page = client.get(path)
    joined_by_opening = Membership.objects.filter(user=charlie).exists()
    answer = client.post(path)

    assert page.status_code == 200
    assert not joined_by_opening
    assert answer.url == reverse("home")
    assert Membership.objects.get(user=charlie, team=team).role == TeamRole.VIEWER


def test_member_does_not_use_up_the_link(
    make_invitation: MakeInvitation, signed_in: SignIn, bob: User
) -> None:
    _, path = make_invitation(role=TeamRole.OWNER)

    answer = signed_in(bob).post(path)

    assert answer.status_code == 409
    assert Client().get(path).status_code == 200
    assert Membership.objects.get(user=bob).role == TeamRole.MEMBER


def test_link_for_another_email_is_refused(
    make_invitation: MakeInvitation, signed_in: SignIn, charlie: User
) -> None:
    _, path = make_invitation(email="nora@example.org")

    answer = signed_in(charlie).post(path)

    assert answer.status_code == 409
    assert not Membership.objects.filter(user=charlie).exists()


# --- records, races ----------------------------------------------------------------------------


def test_invitations_are_recorded(make_invitation: MakeInvitation, alice: User, team: Team) -> None:
    _, path = make_invitation()
    other, _ = make_invitation()
    Client().post(path, NEWCOMER)
    invitations.revoke(alice, other)

    rows = list(AuditEvent.objects.order_by("id").values_list("verb", "actor__name", "target"))

    assert rows == [
        ("invitation.created", "Alice", team.name),
        ("invitation.created", "Alice", team.name),
        ("invitation.used", "Nora", team.name),
        ("invitation.revoked", "Alice", team.name),
    ]


@pytest.mark.django_db(transaction=True)
def test_link_used_by_several_at_once_admits_one(make_invitation: MakeInvitation) -> None:
    invitation, _ = make_invitation()
    newcomers = [{**NEWCOMER, "email": f"nora{number}@example.org"} for number in range(4)]

    outcomes = run_at_once(
        *(partial(invitations.join_as_new_person, invitation, **each) for each in newcomers)
    )

    assert outcomes == ["done", "refused", "refused", "refused"]
    assert User.objects.filter(email__startswith="nora").count() == 1
    assert AuditEvent.objects.filter(verb="invitation.used").count() == 1
