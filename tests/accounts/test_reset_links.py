"""Password reset links: who may make one for whom, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core import mail
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.accounts import adapter, reset_mail
from chat.models import AuditEvent, Membership, Team, TeamRole, User
from tests.accounts.conftest import NEW_PASSWORD, SignIn, set_role
from tests.conftest import MakeUser
from tests.support.stored import everything_stored, rolled_back

Change = Callable[[], object]


def request_link(client: Client, person: User) -> HttpResponse:
    return client.post(reverse("person_reset_link", args=[person.public_id]))


def use_link(link: str, password: str = NEW_PASSWORD) -> HttpResponse:
    client = Client()
    form = client.get(link, follow=True)
    if not form.redirect_chain:
        return form
    path = form.redirect_chain[-1][0]
    return client.post(path, {"password1": password, "password2": password}, follow=True)


# --- who may -----------------------------------------------------------------------------------


def test_owner_makes_a_link_for_a_member(
    signed_in: SignIn, alice: User, bob: User, team: Team
) -> None:
    answer = request_link(signed_in(alice), bob)

    link = answer.context["link"]
    assert link in answer.content.decode()
    assert answer["Referrer-Policy"] == "strict-origin"
    assert "no-store" in answer["Cache-Control"]
    use_link(link)
    bob.refresh_from_db()
    assert bob.check_password(NEW_PASSWORD)
    row = AuditEvent.objects.get(verb="user.reset_link_made")
    assert (row.actor, row.subject) == (alice, bob)


def test_link_is_stored_nowhere(signed_in: SignIn, alice: User, bob: User, team: Team) -> None:
    client = signed_in(alice)
    token = request_link(client, bob).context["link"].rstrip("/").rsplit("-", 1)[1]
    client.get(reverse("people"))

    assert token not in everything_stored()


@pytest.fixture
def changes(alice: User, bob: User, team: Team, other_team: Team) -> dict[str, Change]:
    """What puts Bob beyond Alice's rights."""
    rows, memberships = User.objects.filter(pk=bob.pk), Membership.objects

    def put_into_team_that_alice_only_administers() -> None:
        memberships.create(user=alice, team=other_team, role=TeamRole.ADMIN)
        memberships.create(user=bob, team=other_team, role=TeamRole.MEMBER)

    return {
        "administrator": lambda: rows.update(is_staff=True),
        "superuser": lambda: rows.update(is_superuser=True),
        "in another team": lambda: memberships.create(
            user=bob, team=other_team, role=TeamRole.VIEWER
        ),
        "owner as well": lambda: set_role(bob, team, TeamRole.OWNER),
        "in a team that Alice only administers": put_into_team_that_alice_only_administers,
        "deactivated": lambda: rows.update(is_active=False),
    }


def test_owner_gets_no_link_to_more_than_their_team(
    signed_in: SignIn,
    alice: User,
    bob: User,
    changes: dict[str, Change],
    subtests: pytest.Subtests,
) -> None:
    client = signed_in(alice)

    for name, change in changes.items():
        with subtests.test(name), rolled_back():
            change()

            assert request_link(client, bob).status_code == 403
            assert not AuditEvent.objects.exists()


def test_link_dies_when_its_person_gets_other_rights(
    signed_in: SignIn,
    alice: User,
    bob: User,
    changes: dict[str, Change],
    subtests: pytest.Subtests,
) -> None:
    client = signed_in(alice)

    for name, change in changes.items():
        with subtests.test(name), rolled_back():
            link = request_link(client, bob).context["link"]
            change()

            assert b"no longer works" in use_link(link).content
            bob.refresh_from_db()
            assert not bob.check_password(NEW_PASSWORD)


def test_team_admin_makes_no_link(signed_in: SignIn, bob: User, viewer: User, team: Team) -> None:
    set_role(bob, team, TeamRole.ADMIN)

    assert request_link(signed_in(bob), viewer).status_code == 403


def test_nobody_makes_a_link_for_themselves(signed_in: SignIn, alice: User, team: Team) -> None:
    assert request_link(signed_in(alice), alice).status_code == 403


def test_owner_makes_no_link_where_mail_is_sent(
    signed_in: SignIn, settings: object, alice: User, bob: User, team: Team
) -> None:
    settings.EMAIL_HOST = "mail.example.org"

    assert request_link(signed_in(alice), bob).status_code == 403


@pytest.mark.parametrize("who", ["alice", "bob", "charlie", "dana"])
def test_administrator_makes_a_link_for_anybody(
    who: str, request: pytest.FixtureRequest, signed_in: SignIn, administrator: User, team: Team
) -> None:
    answer = request_link(signed_in(administrator), request.getfixturevalue(who))

    assert answer.status_code == 200


def test_only_a_superuser_gets_a_link_for_one(
    signed_in: SignIn, make_user: MakeUser, administrator: User
) -> None:
    helper = make_user("Hugo", is_staff=True)

    assert request_link(signed_in(helper), administrator).status_code == 403


# --- how it ends -------------------------------------------------------------------------------


def test_link_works_once(bob: User) -> None:
    link = adapter.make_reset_link(bob)
    use_link(link)

    answer = use_link(link, "other willow rivers")

    assert b"no longer works" in answer.content
    bob.refresh_from_db()
    assert bob.check_password(NEW_PASSWORD)


def test_link_expires(bob: User, monkeypatch: pytest.MonkeyPatch, settings: object) -> None:
    link = adapter.make_reset_link(bob)
    later = datetime.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT + 1)
    monkeypatch.setattr(PasswordResetTokenGenerator, "_now", lambda self: later)

    assert b"no longer works" in use_link(link).content


def test_link_of_one_person_does_not_fit_another(bob: User, charlie: User) -> None:
    token = adapter.make_reset_link(bob).rstrip("/").rsplit("-", 1)[1]
    uid = adapter.make_reset_link(charlie).rsplit("/key/", 1)[1].split("-", 1)[0]
    path = reverse("account_reset_password_from_key", args=[uid, token])

    assert b"no longer works" in Client().get(path).content


def test_link_has_the_address_of_the_site(bob: User, settings: object) -> None:
    settings.SITE_URL = "https://river.example.org"

    assert adapter.make_reset_link(bob).startswith("https://river.example.org/accounts/")


def test_new_password_ends_the_old_sessions(signed_in: SignIn, bob: User) -> None:
    client = signed_in(bob)
    use_link(adapter.make_reset_link(bob))

    answer = client.get(reverse("settings"))

    assert answer.status_code == 302
    assert answer.url.startswith(reverse("account_login"))


def test_weak_password_is_refused(bob: User) -> None:
    answer = use_link(adapter.make_reset_link(bob), "short")

    assert b"field-error" in answer.content
    bob.refresh_from_db()
    assert not bob.check_password("short")


# --- by mail -----------------------------------------------------------------------------------


def test_without_mail_the_page_says_who_helps(db: None) -> None:
    answer = Client().get(reverse("account_reset_password"))

    assert "doesn’t send email".encode() in answer.content
    assert b'name="email"' not in answer.content


def test_without_mail_a_post_sends_nothing(bob: User) -> None:
    Client().post(reverse("account_reset_password"), {"email": bob.email})

    assert mail.outbox == []


def test_mailed_link_ignores_the_host_header(settings: object, bob: User) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    settings.SITE_URL = "https://river.example.org"
    settings.ALLOWED_HOSTS = ["*"]

    Client().post(
        reverse("account_reset_password"), {"email": bob.email}, headers={"host": "evil.test"}
    )

    body = mail.outbox[0].body
    assert "https://river.example.org/accounts/password/reset/key/" in body
    assert "evil.test" not in body
    assert mail.outbox[0].subject == "Reset your Tributary password"


def test_mail_says_when_the_link_expires(settings: object, bob: User) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    settings.PASSWORD_RESET_TIMEOUT = 7200

    Client().post(reverse("account_reset_password"), {"email": bob.email})

    assert "expires in 2 hours" in mail.outbox[0].body
    assert mail.outbox[0].body.startswith("Hello Bob,\n\nSomeone requested")


def test_unknown_email_gets_the_same_answer_and_no_mail(settings: object, bob: User) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    path = reverse("account_reset_password")

    known = Client().post(path, {"email": bob.email})
    unknown = Client().post(path, {"email": "nobody@example.org"})

    assert (known.status_code, known.url) == (unknown.status_code, unknown.url)
    assert [message.to for message in mail.outbox] == [[bob.email]]


def test_failing_mail_server_does_not_tell_who_has_an_account(
    bob: User, settings: object, caplog: pytest.LogCaptureFixture
) -> None:
    settings.EMAIL_BACKEND = "project.mail.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1

    known, unknown = (
        Client().post(reverse("account_reset_password"), {"email": email})
        for email in (bob.email, "nobody@example.org")
    )

    assert known.status_code == unknown.status_code == 302
    assert known.url == unknown.url
    assert "mail.failed message=password_reset_key error=ConnectionRefusedError" in caplog.text
    assert bob.email not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_mail_is_sent_beside_the_request(
    settings: object, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    settings.EMAIL_HOST = "mail.example.org"

    Client().post(reverse("account_reset_password"), {"email": bob.email})
    # One thread sends in order, so what comes after is sent after.
    reset_mail._worker.submit(lambda: None).result(timeout=30)

    assert [message.to for message in mail.outbox] == [[bob.email]]
