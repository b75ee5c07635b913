"""Links that bring people in: once, for a while, and only while the inviter may invite."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from chat.actions import people
from chat.actions.errors import ActionRefused
from chat.models import AuditEvent, Invitation, Membership, Team, TeamRole, User
from tests.people.conftest import MakeInvitation, expire

SignIn = Callable[[User], Client]

NEWCOMER = {"name": "Nora", "email": "nora@example.org", "password": "seven willow rivers"}


def _invite(client: Client, team: Team, **fields: object):
    data = {"role": "member", "email": "", "days": 7, **fields}
    return client.post(reverse("invite", args=[team.public_id]), data)


def _dump() -> str:
    """Every value of every table, as text."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        rows = []
        for table in tables:
            cursor.execute(f'SELECT * FROM "{table}"')
            rows.extend(cursor.fetchall())
    return repr(rows)


def test_link_is_shown_once_and_lets_a_newcomer_in(
    signed_in: SignIn, alice: User, team: Team
) -> None:
    page = _invite(signed_in(alice), team)
    link = page.context["link"]

    answer = Client().post(link, NEWCOMER)

    assert link in page.content.decode()
    assert answer.status_code == 302
    assert answer.url == reverse("home")
    nora = User.objects.get(email="nora@example.org")
    assert Membership.objects.get(user=nora).role == TeamRole.MEMBER
    assert nora.check_password(NEWCOMER["password"])


def test_newcomer_is_signed_in(make_invitation: MakeInvitation) -> None:
    _, path = make_invitation()
    client = Client()

    client.post(path, NEWCOMER)

    assert client.session["_auth_user_id"] == str(User.objects.get(email=NEWCOMER["email"]).pk)


def test_token_is_stored_only_as_its_hash(signed_in: SignIn, alice: User, team: Team) -> None:
    client = signed_in(alice)
    token = _invite(client, team).context["link"].rstrip("/").rsplit("/", 1)[1]
    client.get(reverse("people"))

    dump = _dump()

    assert token not in dump
    assert hashlib.sha256(token.encode()).hexdigest() in dump


def test_token_is_in_no_cookie(signed_in: SignIn, alice: User, team: Team) -> None:
    client = signed_in(alice)

    token = _invite(client, team).context["link"].rstrip("/").rsplit("/", 1)[1]

    assert token not in repr([cookie.value for cookie in client.cookies.values()])


def test_list_of_invitations_does_not_show_the_link(
    signed_in: SignIn, alice: User, team: Team
) -> None:
    client = signed_in(alice)
    token = _invite(client, team, email="x@example.org").context["link"].rstrip("/").rsplit("/")[-1]

    page = client.get(reverse("people")).content.decode()

    assert "x@example.org" in page
    assert token not in page


@pytest.mark.parametrize("method", ["get", "post"])
def test_used_link_is_dead(make_invitation: MakeInvitation, method: str) -> None:
    _, path = make_invitation()
    Client().post(path, NEWCOMER)

    answer = getattr(Client(), method)(path, {**NEWCOMER, "email": "second@example.org"})

    assert answer.status_code == 404
    assert not User.objects.filter(email="second@example.org").exists()


def test_expired_link_is_dead(make_invitation: MakeInvitation) -> None:
    invitation, path = make_invitation()
    expire(invitation)

    assert Client().get(path).status_code == 404


def test_revoked_link_is_dead(make_invitation: MakeInvitation, alice: User) -> None:
    invitation, path = make_invitation()

    people.revoke_invitation(alice, invitation)

    assert Client().get(path).status_code == 404


def test_unknown_used_expired_and_revoked_links_show_the_same_page(
    make_invitation: MakeInvitation, alice: User
) -> None:
    _used, used_path = make_invitation()
    expired, expired_path = make_invitation()
    revoked, revoked_path = make_invitation()
    Client().post(used_path, NEWCOMER)
    expire(expired)
    people.revoke_invitation(alice, revoked)
    paths = [reverse("invitation", args=["never-was"]), used_path, expired_path, revoked_path]

    pages = {_without_csrf(Client().get(path).content.decode()) for path in paths}

    assert len(pages) == 1


def _without_csrf(page: str) -> str:
    return "\n".join(line for line in page.splitlines() if "csrf" not in line.lower())


def test_link_dies_when_the_inviter_is_deactivated(
    make_invitation: MakeInvitation, alice: User
) -> None:
    _, path = make_invitation()
    User.objects.filter(pk=alice.pk).update(is_active=False)

    assert Client().post(path, NEWCOMER).status_code == 404


def test_link_dies_when_the_inviter_no_longer_manages(
    make_invitation: MakeInvitation, alice: User
) -> None:
    _, path = make_invitation()
    Membership.objects.filter(user=alice).update(role=TeamRole.MEMBER)

    assert Client().post(path, NEWCOMER).status_code == 404


def test_owner_link_dies_when_the_inviter_is_an_owner_no_more(
    make_invitation: MakeInvitation, alice: User
) -> None:
    _, path = make_invitation(role=TeamRole.OWNER)
    Membership.objects.filter(user=alice).update(role=TeamRole.ADMIN)

    assert Client().get(path).status_code == 404


def test_inviter_who_is_removed_while_the_form_is_open_lets_nobody_in(
    make_invitation: MakeInvitation, alice: User
) -> None:
    invitation, _ = make_invitation()
    Membership.objects.filter(user=alice).delete()

    with pytest.raises(ActionRefused):
        people.join_as_new_person(invitation, **NEWCOMER)

    assert not User.objects.filter(email=NEWCOMER["email"]).exists()
    assert Invitation.objects.get().used_at is None


def test_team_admin_cannot_invite_an_owner(signed_in: SignIn, bob: User, team: Team) -> None:
    Membership.objects.filter(user=bob).update(role=TeamRole.ADMIN)

    answer = _invite(signed_in(bob), team, role="owner")

    assert answer.status_code == 422
    assert not Invitation.objects.exists()


@pytest.mark.parametrize("fields", [{"days": 0}, {"days": 31}, {"days": ""}, {"email": "nobody"}])
def test_bad_invitation_is_refused_beside_the_field(
    signed_in: SignIn, alice: User, team: Team, fields: dict[str, object]
) -> None:
    answer = _invite(signed_in(alice), team, **fields)

    assert answer.status_code == 422
    assert b"field-error" in answer.content
    assert not Invitation.objects.exists()


def test_bound_address_cannot_be_changed_by_the_client(make_invitation: MakeInvitation) -> None:
    _, path = make_invitation(email="Nora@Example.org")

    Client().post(path, {**NEWCOMER, "email": "mallory@example.org"})

    assert User.objects.filter(email="nora@example.org").exists()
    assert not User.objects.filter(email="mallory@example.org").exists()


def test_address_with_an_account_is_told_to_sign_in(
    make_invitation: MakeInvitation, charlie: User
) -> None:
    invitation, path = make_invitation()

    answer = Client().post(path, {**NEWCOMER, "email": charlie.email.upper()})

    assert answer.status_code == 422
    assert b"Sign in, then open the link again" in answer.content
    assert people.find_invitation(path.strip("/").split("/")[1]) == invitation


@pytest.mark.parametrize("password", ["short", "password123", "12345 678"])
def test_weak_password_is_refused_and_the_link_stays_good(
    make_invitation: MakeInvitation, password: str
) -> None:
    _, path = make_invitation()

    answer = Client().post(path, {**NEWCOMER, "password": password})

    assert answer.status_code == 422
    assert Client().get(path).status_code == 200


def test_signed_in_person_joins(
    make_invitation: MakeInvitation, signed_in: SignIn, charlie: User, team: Team
) -> None:
    _, path = make_invitation(role=TeamRole.VIEWER)
    client = signed_in(charlie)

    page = client.get(path)
    answer = client.post(path)

    assert page.status_code == 200
    assert answer.url == reverse("home")
    assert Membership.objects.get(user=charlie, team=team).role == TeamRole.VIEWER


def test_opening_the_link_alone_joins_nobody(
    make_invitation: MakeInvitation, signed_in: SignIn, charlie: User
) -> None:
    _, path = make_invitation()

    signed_in(charlie).get(path)

    assert not Membership.objects.filter(user=charlie).exists()


def test_member_does_not_use_up_the_link(
    make_invitation: MakeInvitation, signed_in: SignIn, bob: User
) -> None:
    _, path = make_invitation(role=TeamRole.OWNER)

    answer = signed_in(bob).post(path)

    assert answer.status_code == 409
    assert Client().get(path).status_code == 200
    assert Membership.objects.get(user=bob).role == TeamRole.MEMBER


def test_link_for_another_address_is_refused(
    make_invitation: MakeInvitation, signed_in: SignIn, charlie: User
) -> None:
    _, path = make_invitation(email="nora@example.org")

    answer = signed_in(charlie).post(path)

    assert answer.status_code == 409
    assert not Membership.objects.filter(user=charlie).exists()


def test_pages_with_the_token_in_their_address_do_not_send_it_on(
    make_invitation: MakeInvitation,
) -> None:
    _, path = make_invitation()

    answer = Client().get(path)

    assert answer["Referrer-Policy"] == "strict-origin"
    assert "no-store" in answer["Cache-Control"]


def test_invitation_leaves_a_trail(
    make_invitation: MakeInvitation, alice: User, team: Team
) -> None:
    _, path = make_invitation()
    other, _ = make_invitation()
    Client().post(path, NEWCOMER)
    people.revoke_invitation(alice, other)

    rows = list(AuditEvent.objects.order_by("id").values_list("verb", "actor__name", "target"))

    assert rows == [
        ("invitation.created", "Alice", team.name),
        ("invitation.created", "Alice", team.name),
        ("invitation.used", "Nora", team.name),
        ("invitation.revoked", "Alice", team.name),
    ]


@pytest.mark.django_db(transaction=True)
def test_of_many_who_use_one_link_at_once_one_gets_in(make_invitation: MakeInvitation) -> None:
    invitation, _ = make_invitation()
    outcomes: list[str] = []
    start = threading.Barrier(4)

    def use(number: int) -> None:
        start.wait(timeout=30)
        try:
            people.join_as_new_person(
                invitation, **{**NEWCOMER, "email": f"nora{number}@example.org"}
            )
            outcomes.append("in")
        except ActionRefused:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert sorted(outcomes) == ["in", "refused", "refused", "refused"]
    assert User.objects.filter(email__startswith="nora").count() == 1
    assert AuditEvent.objects.filter(verb="invitation.used").count() == 1
