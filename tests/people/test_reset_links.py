"""A reset link is a key to everything its person has: who may hold one, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core import mail
from django.test import Client
from django.urls import reverse

from chat import accounts
from chat.models import AuditEvent, Membership, Team, TeamRole, User
from tests.people.test_invitations import _dump

SignIn = Callable[[User], Client]

NEW = "seven willow rivers"


def _ask(client: Client, person: User):
    return client.post(reverse("person_reset_link", args=[person.public_id]))


def _use(link: str, password: str = NEW):
    client = Client()
    form = client.get(link, follow=True)
    if not form.redirect_chain:
        return form
    path = form.redirect_chain[-1][0]
    return client.post(path, {"password1": password, "password2": password}, follow=True)


def _set_role(user: User, team: Team, role: str) -> None:
    Membership.objects.filter(user=user, team=team).update(role=role)


# --- who may -----------------------------------------------------------------------------------


def test_owner_makes_a_link_for_a_member(
    signed_in: SignIn, alice: User, bob: User, team: Team
) -> None:
    answer = _ask(signed_in(alice), bob)

    link = answer.context["link"]
    assert link in answer.content.decode()
    assert answer["Referrer-Policy"] == "strict-origin"
    assert "no-store" in answer["Cache-Control"]
    _use(link)
    bob.refresh_from_db()
    assert bob.check_password(NEW)
    row = AuditEvent.objects.get(verb="user.reset_link_made")
    assert (row.verb, row.actor, row.subject) == ("user.reset_link_made", alice, bob)


def test_link_is_stored_nowhere(signed_in: SignIn, alice: User, bob: User, team: Team) -> None:
    client = signed_in(alice)
    token = _ask(client, bob).context["link"].rstrip("/").rsplit("-", 1)[1]
    client.get(reverse("people"))

    assert token not in _dump()


def _make_administrator(bob: User, alice: User, team: Team, other_team: Team) -> None:
    User.objects.filter(pk=bob.pk).update(is_staff=True)


def _make_superuser(bob: User, alice: User, team: Team, other_team: Team) -> None:
    User.objects.filter(pk=bob.pk).update(is_superuser=True)


def _put_into_another_team(bob: User, alice: User, team: Team, other_team: Team) -> None:
    Membership.objects.create(user=bob, team=other_team, role=TeamRole.VIEWER)


def _make_co_owner(bob: User, alice: User, team: Team, other_team: Team) -> None:
    _set_role(bob, team, TeamRole.OWNER)


def _put_into_team_that_alice_only_administers(
    bob: User, alice: User, team: Team, other_team: Team
) -> None:
    Membership.objects.create(user=alice, team=other_team, role=TeamRole.ADMIN)
    Membership.objects.create(user=bob, team=other_team, role=TeamRole.MEMBER)


def _switch_off(bob: User, alice: User, team: Team, other_team: Team) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)


CHANGES = [
    _make_administrator,
    _make_superuser,
    _put_into_another_team,
    _make_co_owner,
    _put_into_team_that_alice_only_administers,
    _switch_off,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_owner_gets_no_link_to_more_than_their_own_team(
    signed_in: SignIn,
    alice: User,
    bob: User,
    team: Team,
    other_team: Team,
    change: Callable[[User, User, Team, Team], None],
) -> None:
    change(bob, alice, team, other_team)

    answer = _ask(signed_in(alice), bob)

    assert answer.status_code == 403
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_link_dies_when_its_person_gets_other_rights(
    signed_in: SignIn,
    alice: User,
    bob: User,
    team: Team,
    other_team: Team,
    change: Callable[[User, User, Team, Team], None],
) -> None:
    link = _ask(signed_in(alice), bob).context["link"]
    change(bob, alice, team, other_team)

    answer = _use(link)

    assert b"no longer works" in answer.content
    bob.refresh_from_db()
    assert not bob.check_password(NEW)


def test_team_admin_makes_no_link(signed_in: SignIn, bob: User, viewer: User, team: Team) -> None:
    _set_role(bob, team, TeamRole.ADMIN)

    assert _ask(signed_in(bob), viewer).status_code == 403


def test_nobody_makes_a_link_for_themselves(signed_in: SignIn, alice: User, team: Team) -> None:
    assert _ask(signed_in(alice), alice).status_code == 403


@pytest.mark.parametrize("who", ["bob", "charlie", "dana"])
def test_whoever_manages_nobody_here_sees_nobody(
    who: str, request: pytest.FixtureRequest, signed_in: SignIn, team: Team, viewer: User
) -> None:
    assert _ask(signed_in(request.getfixturevalue(who)), viewer).status_code == 404


def test_owner_makes_no_link_where_mail_does_it(
    signed_in: SignIn, settings: object, alice: User, bob: User, team: Team
) -> None:
    settings.EMAIL_HOST = "mail.example.org"

    assert _ask(signed_in(alice), bob).status_code == 403


@pytest.mark.parametrize("who", ["alice", "bob", "charlie", "dana"])
def test_administrator_makes_a_link_for_anybody(
    who: str, request: pytest.FixtureRequest, signed_in: SignIn, administrator: User, team: Team
) -> None:
    answer = _ask(signed_in(administrator), request.getfixturevalue(who))

    assert answer.status_code == 200


def test_administrator_who_is_no_superuser_gets_no_superusers_key(
    signed_in: SignIn, make_user: Callable[..., User], administrator: User
) -> None:
    helper = make_user("Hugo", is_staff=True)

    assert _ask(signed_in(helper), administrator).status_code == 403


# --- how it ends ------------------------------------------------------------------------------


def test_link_works_once(bob: User) -> None:
    link = accounts.make_reset_link(bob)
    _use(link)

    answer = _use(link, "other willow rivers")

    assert b"no longer works" in answer.content
    bob.refresh_from_db()
    assert bob.check_password(NEW)


def test_link_ends_with_time(bob: User, monkeypatch: pytest.MonkeyPatch, settings: object) -> None:
    link = accounts.make_reset_link(bob)
    later = datetime.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT + 1)
    monkeypatch.setattr(PasswordResetTokenGenerator, "_now", lambda self: later)

    assert b"no longer works" in _use(link).content


def test_link_of_one_person_does_not_fit_another(bob: User, charlie: User) -> None:
    token = accounts.make_reset_link(bob).rstrip("/").rsplit("-", 1)[1]
    uid = accounts.make_reset_link(charlie).rsplit("/key/", 1)[1].split("-", 1)[0]
    path = reverse("account_reset_password_from_key", args=[uid, token])

    assert b"no longer works" in Client().get(path).content


def test_link_is_an_address_of_this_installation(bob: User, settings: object) -> None:
    settings.SITE_URL = "https://river.example.org"

    assert accounts.make_reset_link(bob).startswith("https://river.example.org/accounts/")


def test_new_password_ends_the_sessions_of_the_old_one(signed_in: SignIn, bob: User) -> None:
    client = signed_in(bob)
    _use(accounts.make_reset_link(bob))

    answer = client.get(reverse("settings"))

    assert answer.status_code == 302
    assert answer.url.startswith(reverse("account_login"))


def test_weak_new_password_is_refused(bob: User) -> None:
    answer = _use(accounts.make_reset_link(bob), "short")

    assert b"field-error" in answer.content
    bob.refresh_from_db()
    assert not bob.check_password("short")


# --- by mail ------------------------------------------------------------------------------------


def test_without_a_mail_server_the_page_says_who_helps(db: None) -> None:
    answer = Client().get(reverse("account_reset_password"))

    assert b"sends no mail" in answer.content
    assert b'name="email"' not in answer.content


def test_without_a_mail_server_a_post_sends_nothing(bob: User) -> None:
    Client().post(reverse("account_reset_password"), {"email": bob.email})

    assert mail.outbox == []


def test_with_a_mail_server_the_link_comes_from_our_address_whatever_the_host_header(
    settings: object, bob: User
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    settings.SITE_URL = "https://river.example.org"
    settings.ALLOWED_HOSTS = ["*"]

    Client().post(
        reverse("account_reset_password"), {"email": bob.email}, headers={"host": "evil.test"}
    )

    body = mail.outbox[0].body
    assert "https://river.example.org/accounts/password/reset/key/" in body
    assert "evil.test" not in body


def test_unknown_address_gets_the_same_answer_and_no_mail(settings: object, bob: User) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    path = reverse("account_reset_password")

    known = Client().post(path, {"email": bob.email})
    unknown = Client().post(path, {"email": "nobody@example.org"})

    assert (known.status_code, known.url) == (unknown.status_code, unknown.url)
    assert [message.to for message in mail.outbox] == [[bob.email]]
