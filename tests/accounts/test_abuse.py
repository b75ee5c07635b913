"""Attacks on signing in: who has an account, fixed sessions, forged forms, redirects elsewhere."""

from __future__ import annotations

from collections import Counter
from statistics import median

import pytest
from django.conf import settings as project_settings
from django.core import mail
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chat.accounts import reset_mail
from chat.accounts.actions.invitations import KNOWN_PER_MINUTE
from chat.models import User
from tests.accounts.conftest import MakeInvitation
from tests.accounts.test_invitations import NEWCOMER, without_csrf
from tests.conftest import PASSWORD

COOKIE = project_settings.SESSION_COOKIE_NAME
# Pairs of requests for a known and an unknown address.
PAIRS = 100


def ask(email: str) -> HttpResponse:
    return Client().post(reverse("account_reset_password"), {"email": email}, follow=True)


def sign_in(client: Client, user: User, path: str = "", **fields: str) -> HttpResponse:
    address = path or reverse("account_login")
    return client.post(address, {"login": user.email, "password": PASSWORD, **fields})


# --- who has an account ---------------------------------------------------------------------------


def test_reset_does_the_same_for_known_and_unknown_addresses(
    bob: User, settings: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements, and handed-over mails, are what takes time, and don't depend on the machine."""
    settings.EMAIL_HOST = "mail.example.org"
    handed_over: list[str] = []
    monkeypatch.setattr(reset_mail, "send_beside", handed_over.append)
    counts: dict[str, list[int]] = {bob.email: [], "nobody@example.org": []}
    pages: dict[str, Counter[str]] = {email: Counter() for email in counts}

    for _ in range(PAIRS):
        for email, found in counts.items():
            with CaptureQueriesContext(connection) as statements:
                page = ask(email)
            found.append(len(statements))
            pages[email][without_csrf(page.content.decode())] += 1

    known, unknown = counts.values()
    assert median(known) == median(unknown)
    assert set(known) == set(unknown) == {median(known)}
    assert len({str(each) for each in pages.values()}) == 1
    assert Counter(handed_over) == {bob.email: PAIRS, "nobody@example.org": PAIRS}


def test_deactivated_person_gets_no_link(bob: User, settings: object) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    User.objects.filter(pk=bob.pk).update(is_active=False)

    ask(bob.email)

    assert mail.outbox == []


def test_addresses_in_capitals_are_the_same(bob: User, settings: object) -> None:
    settings.EMAIL_HOST = "mail.example.org"

    ask(bob.email.upper())

    assert [message.to for message in mail.outbox] == [[bob.email]]


def test_full_queue_drops_requests_instead_of_waiting(
    bob: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(reset_mail._room, "acquire", lambda blocking: False)

    reset_mail.send_beside(bob.email)

    assert "mail.dropped" in caplog.text


def test_sign_in_says_and_does_the_same_for_known_and_unknown_addresses(
    bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    hasher = "django.contrib.auth.hashers.MD5PasswordHasher.encode"
    assert project_settings.PASSWORD_HASHERS[0] == hasher.rpartition(".")[0]
    from django.contrib.auth.hashers import MD5PasswordHasher

    encode = MD5PasswordHasher.encode

    def counted(self: MD5PasswordHasher, password: str, salt: str) -> str:
        hashed.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    answers, work = [], []

    for email in (bob.email, "nobody@example.org"):
        hashed.clear()
        with CaptureQueriesContext(connection) as statements:
            fields = {"login": email, "password": "wrong willow rivers"}
            page = Client().post(reverse("account_login"), fields)
        answers.append(without_csrf(page.content.decode()).replace(email, ""))
        work.append((len(statements), len(hashed)))

    assert answers[0] == answers[1]
    assert work[0] == work[1]
    assert work[0][1] == 1


def test_link_for_several_tells_of_few_addresses(
    bob: User, make_invitation: MakeInvitation
) -> None:
    """A link can't be used to find out which addresses of a long list have an account."""
    invitation, path = make_invitation(people=200)

    pages = [
        Client().post(path, {**NEWCOMER, "email": email}).content.decode()
        for email in (*[bob.email] * KNOWN_PER_MINUTE, "nobody@example.org", bob.email)
    ]

    assert sum("already exists" in page for page in pages) == KNOWN_PER_MINUTE
    assert all("Too many failed" in page for page in pages[KNOWN_PER_MINUTE:])
    invitation.refresh_from_db()
    assert invitation.uses == 0


# --- sessions -------------------------------------------------------------------------------------


def test_session_from_before_the_sign_in_is_not_used(bob: User) -> None:
    attacker = Client()
    attacker.session.save()
    victim = Client()
    fixed = victim.session
    fixed["planted"] = 1
    fixed.save()
    victim.cookies[COOKIE] = fixed.session_key

    sign_in(victim, bob)

    assert victim.cookies[COOKIE].value != fixed.session_key
    other = Client()
    other.cookies[COOKIE] = fixed.session_key
    assert other.get(reverse("settings")).status_code == 302


def test_session_of_another_person_is_replaced_by_the_sign_in(alice: User, bob: User) -> None:
    client = Client()
    client.force_login(alice)
    before = client.cookies[COOKIE].value
    client.post(reverse("account_logout"))

    sign_in(client, bob)

    assert client.cookies[COOKIE].value != before
    assert client.session["_auth_user_id"] == str(bob.pk)


def test_session_key_that_nobody_made_is_not_taken(bob: User) -> None:
    client = Client()
    client.cookies[COOKIE] = "a" * 32

    sign_in(client, bob)

    assert client.cookies[COOKIE].value != "a" * 32


def test_joining_by_a_link_makes_a_new_session(make_invitation: MakeInvitation) -> None:
    _, path = make_invitation()
    client = Client()
    fixed = client.session
    fixed.save()
    client.cookies[COOKIE] = fixed.session_key

    client.post(path, NEWCOMER)

    assert client.cookies[COOKIE].value != fixed.session_key


@pytest.mark.parametrize("name", ["account_login", "account_reset_password", "sessions_end"])
def test_form_of_another_site_is_refused(bob: User, name: str) -> None:
    client = Client(enforce_csrf_checks=True)

    answer = sign_in(client, bob, reverse(name), email=bob.email)

    assert answer.status_code == 403
    assert COOKIE not in client.cookies


def test_own_form_is_accepted(bob: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.get(reverse("account_login"))
    token = client.cookies[project_settings.CSRF_COOKIE_NAME].value

    assert sign_in(client, bob, csrfmiddlewaretoken=token).status_code == 302


# --- redirects and hosts --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        "https://evil.test/",
        "//evil.test/",
        "/\\evil.test/",
        "\\\\evil.test",
        "javascript:alert(1)",
        "https:evil.test",
        "\thttps://evil.test",
        "http://testserver@evil.test/",
        # These are hosts of ALLOWED_HOSTS, but other servers than this one.
        "http://localhost/",
        "https://testserver/",
    ],
)
def test_next_leads_nowhere_else(bob: User, place: str) -> None:
    client = Client()

    signed_in = sign_in(client, bob, next=place)
    signed_out = client.post(reverse("account_logout"), {"next": place})

    for answer in (signed_in, signed_out):
        assert answer.status_code == 302
        assert answer.url.startswith("/")
        assert "evil" not in answer.url


def test_next_leads_to_a_page_of_ours(bob: User) -> None:
    assert sign_in(Client(), bob, next="/people/").url == "/people/"


@pytest.mark.parametrize("name", ["account_login", "account_reset_password"])
def test_unknown_host_is_refused(bob: User, name: str) -> None:
    answer = Client().get(reverse(name), headers={"host": "evil.test"})

    assert answer.status_code == 400


# --- invitations ----------------------------------------------------------------------------------


def test_invitation_used_twice_admits_once(make_invitation: MakeInvitation) -> None:
    _, path = make_invitation()

    answers = [
        Client().post(path, {**NEWCOMER, "email": f"n{number}@example.org"}).status_code
        for number in range(2)
    ]

    assert answers == [302, 404]
    assert User.objects.filter(email__startswith="n").count() == 1
