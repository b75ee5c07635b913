"""Sessions and tokens of people from a provider: how long they last, and how the provider ends them."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.contrib.sessions.models import Session
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from chat import access
from chat.accounts.actions.tokens import create_token, find_token
from chat.identity import providers
from chat.models import (
    AuditEvent,
    Identity,
    IdentityProvider,
    ProviderSession,
    Team,
    User,
)
from chat.models.identity import PROVIDER_ENDS_AT
from tests.conftest import PASSWORD
from tests.identity.conftest import leave_for, sign_in, visit
from tests.identity.fake_provider import FakeProvider
from tests.identity.signing import signer


def log_out(token: str, slug: str = "keycloak") -> HttpResponse:
    """The provider's own request, without cookies."""
    client = Client(enforce_csrf_checks=True)
    path = f"/accounts/provider/{slug}/backchannel-logout/"
    response = client.post(path, {"logout_token": token})
    assert not client.cookies
    return response


def is_open(client: Client) -> bool:
    return client.get("/settings/").status_code == 200


@pytest.fixture
def two(provider: IdentityProvider, fake: FakeProvider) -> list[Client]:
    """Ana's browsers, with a session each at the provider."""
    clients = [Client(), Client()]
    for number, client in enumerate(clients, 1):
        fake.claims["sid"] = f"session-{number}"
        sign_in(client, provider)
    assert all(map(is_open, clients))
    return clients


@pytest.mark.databases(slow=True)
def test_one_session_ends_at_once(fake: FakeProvider, two: list[Client]) -> None:
    response = log_out(fake.logout_token(sid="session-1"))

    assert (response.status_code, response["Cache-Control"]) == (
        200,
        "max-age=0, no-cache, no-store, must-revalidate, private",
    )
    assert [is_open(client) for client in two] == [False, True]
    assert AuditEvent.objects.filter(verb="identity.signed_out").count() == 1


def test_all_sessions_of_a_person_end(fake: FakeProvider, two: list[Client]) -> None:
    other = Client()
    other.force_login(User.objects.get(name="Alice"))

    assert log_out(fake.logout_token(sid=None)).status_code == 200

    assert [is_open(client) for client in (*two, other)] == [False, False, True]
    assert not ProviderSession.objects.exists()


def test_session_without_person_is_enough(fake: FakeProvider, two: list[Client]) -> None:
    log_out(fake.logout_token(sub=None, sid="session-2"))

    assert [is_open(client) for client in two] == [True, False]


def test_session_of_somebody_else_stays(fake: FakeProvider, two: list[Client]) -> None:
    assert log_out(fake.logout_token(sub="another", sid="session-1")).status_code == 200

    assert all(map(is_open, two))


def test_provider_without_session_ids_means_all(
    provider: IdentityProvider, fake: FakeProvider
) -> None:
    del fake.claims["sid"]
    sign_in(client := Client(), provider)

    log_out(fake.logout_token(sid="session-9"))

    assert not is_open(client)


def test_token_works_once(
    provider: IdentityProvider, fake: FakeProvider, two: list[Client]
) -> None:
    token = fake.logout_token(sid=None)
    assert log_out(token).status_code == 200
    fake.claims["sid"] = "session-3"
    sign_in(client := Client(), provider)

    assert log_out(token).status_code == 400
    assert is_open(client)


@pytest.mark.parametrize(
    "changes",
    [{"aud": "another"}, {"iss": "https://evil.example"}, {"events": {}}, {"nonce": "x"}],
)
def test_forged_token_ends_nothing(
    fake: FakeProvider, two: list[Client], changes: dict[str, Any]
) -> None:
    assert log_out(fake.logout_token(**changes)).status_code == 400
    assert all(map(is_open, two))


def test_token_of_a_stranger_ends_nothing(fake: FakeProvider, two: list[Client]) -> None:
    fake.signers = [signer("stranger")]

    assert log_out(fake.logout_token()).status_code == 400
    assert log_out("").status_code == 400
    assert log_out(fake.logout_token(), slug="unknown").status_code == 404
    assert all(map(is_open, two))


def test_sign_in_on_its_way_ends_too(provider: IdentityProvider, fake: FakeProvider) -> None:
    client = Client()
    path = visit(leave_for(client, provider))
    log_out(fake.logout_token(sid="session-1"))

    assert client.get(path)["Location"] == "/accounts/login/"
    assert not is_open(client)


def test_sign_in_without_a_session_id_on_its_way_ends_too(
    provider: IdentityProvider, fake: FakeProvider
) -> None:
    del fake.claims["sid"]
    client = Client()
    path = visit(leave_for(client, provider))
    # The ID token is issued after the logout.
    log_out(fake.logout_token(sid="session-1", iat=int(time.time()) - 5))

    client.get(path)

    assert not is_open(client)


def test_new_key_of_a_session_is_known(provider: IdentityProvider, fake: FakeProvider) -> None:
    sign_in(client := Client(), provider)
    session = client.session
    session.cycle_key()
    session.save()
    client.cookies["sessionid"] = session.session_key
    assert is_open(client)

    log_out(fake.logout_token())

    assert not is_open(client)


def test_session_ends_by_itself(provider: IdentityProvider, settings: Any) -> None:
    settings.PROVIDER_SESSION_HOURS = 12
    sign_in(client := Client(), provider)

    expires_at = Session.objects.get(pk=client.session.session_key).expire_date
    assert timedelta(hours=11) < expires_at - timezone.now() <= timedelta(hours=12)

    client.post("/settings/announcements/", {"announcements": "ends"})
    assert Session.objects.get(pk=client.session.session_key).expire_date == expires_at


def test_use_keeps_no_session_alive(
    provider: IdentityProvider, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(client := Client(), provider)
    Session.objects.update(expire_date=timezone.now() + timedelta(days=14))
    now = time.time()

    monkeypatch.setattr("project.sessions.time.time", lambda: now + 11 * 3600)
    assert is_open(client)
    monkeypatch.setattr("project.sessions.time.time", lambda: now + 13 * 3600)
    assert not is_open(client)


def test_password_after_a_provider_begins_another_session(
    provider: IdentityProvider, alice: User
) -> None:
    sign_in(client := Client(), provider)
    client.post("/accounts/logout/")

    client.post("/accounts/login/", {"login": alice.email, "password": PASSWORD})

    assert client.session["_auth_user_id"] == str(alice.pk)
    assert PROVIDER_ENDS_AT not in client.session


def local_session(user: User) -> Client:
    client = Client()
    client.post("/accounts/login/", {"login": user.email, "password": PASSWORD})
    assert is_open(client)
    return client


def test_sign_in_ends_the_session_of_somebody_else(
    provider: IdentityProvider, fake: FakeProvider, alice: User
) -> None:
    client = local_session(alice)
    before = client.session.session_key

    response = sign_in(client, provider)

    assert response["Clear-Site-Data"] == '"storage"'
    assert client.session["_auth_user_id"] == str(User.objects.get(name="Ana").pk)
    assert PROVIDER_ENDS_AT in client.session
    assert not Session.objects.filter(pk=before).exists()
    log_out(fake.logout_token())
    assert not is_open(client)


def test_connecting_leaves_only_sessions_of_the_provider(
    provider: IdentityProvider, fake: FakeProvider, alice: User, bob: User
) -> None:
    fake.claims["email"] = alice.email
    client, other, of_bob = local_session(alice), local_session(alice), local_session(bob)

    client.get(visit(leave_for(client, provider, verb="connect")))

    assert [is_open(each) for each in (client, other, of_bob)] == [True, False, True]
    assert PROVIDER_ENDS_AT in client.session
    log_out(fake.logout_token())
    assert not is_open(client)


def test_connecting_by_address_ends_other_sessions(
    provider: IdentityProvider, fake: FakeProvider, alice: User
) -> None:
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True)
    fake.claims["email"] = alice.email
    other = local_session(alice)

    sign_in(client := Client(), provider)

    assert (is_open(client), is_open(other)) == (True, False)


def test_turning_passwords_off_ends_sessions_that_began_with_one(
    provider: IdentityProvider, administrator: User, alice: User, two: list[Client]
) -> None:
    client = Client()
    client.post("/accounts/login/", {"login": administrator.email, "password": PASSWORD})
    of_alice = local_session(alice)
    fields = {"emergency_account": administrator.public_id}

    assert client.post("/settings/company-sign-in/passwords/", fields).status_code == 302

    assert is_open(client)
    assert all(map(is_open, two))
    assert not is_open(of_alice)


def test_turning_a_provider_on_again_ends_sessions_that_began_with_a_password(
    provider: IdentityProvider, administrator: User, alice: User, bob: User
) -> None:
    Identity.objects.create(provider=provider, sub="1", user=alice)
    providers.switch_provider(administrator, provider, is_on=False)
    of_alice, of_bob = local_session(alice), local_session(bob)

    providers.switch_provider(administrator, provider, is_on=True)

    assert (is_open(of_alice), is_open(of_bob)) == (False, True)


def test_signing_out_here_is_no_sign_out_at_the_provider(
    provider: IdentityProvider, fake: FakeProvider, two: list[Client]
) -> None:
    client, other = two
    fake.requests.clear()

    response = client.post("/accounts/logout/")

    assert response["Location"] == "/accounts/login/"
    assert not is_open(client)
    assert is_open(other)
    assert fake.requests == []
    sign_in(client, provider)
    assert is_open(client)


def test_turning_a_provider_off_ends_its_sessions(
    provider: IdentityProvider, administrator: User, two: list[Client]
) -> None:
    providers.switch_provider(administrator, provider, is_on=False)

    assert not any(map(is_open, two))


# --- tokens ----------------------------------------------------------------------------------------------


@pytest.mark.databases(slow=True)
def test_tokens_of_people_who_have_left_stop_working(
    provider: IdentityProvider, team: Team, settings: Any, alice: User
) -> None:
    settings.PROVIDER_TOKEN_DAYS = 30
    sign_in(Client(), provider)
    ana = User.objects.get(name="Ana")
    _, text = create_token(ana, team, name="script", days=None)
    _, of_alice = create_token(alice, team, name="script", days=None)
    assert find_token(text) is not None

    Identity.objects.update(last_sign_in=timezone.now() - timedelta(days=31))
    assert find_token(text) is None
    assert not access.usable_tokens().filter(user=ana).exists()
    assert find_token(of_alice) is not None

    IdentityProvider.objects.update(is_enabled=False)
    assert find_token(text) is None

    IdentityProvider.objects.update(is_enabled=True)
    sign_in(Client(), provider)
    assert find_token(text) is not None
