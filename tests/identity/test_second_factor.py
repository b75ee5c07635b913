"""Second factors of people who sign in at a provider: it doesn't replace them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import IdentityProvider, User
from chat.models.identity import PROVIDER_ENDS_AT
from tests.accounts.test_two_step import Phone, add_app, is_in, second_step
from tests.identity.conftest import sign_in
from tests.identity.fake_provider import FakeProvider
from tests.identity.test_sessions import log_out

pytestmark = pytest.mark.django_db

COOKIE = "sessionid"


@pytest.fixture
def phone(monkeypatch: pytest.MonkeyPatch) -> Phone:
    return Phone(monkeypatch)


@pytest.fixture
def ana(provider: IdentityProvider, phone: Phone) -> User:
    """With an authenticator app, whose next code is new."""
    sign_in(client := Client(), provider)
    add_app(client, phone)
    phone.wait()
    user = User.objects.get(name="Ana")
    assert user.has_second_factor
    return user


def with_planted_session() -> Client:
    client = Client()
    session = client.session
    session["planted"] = 1
    session.save()
    client.cookies[COOKIE] = session.session_key
    return client


@pytest.mark.usefixtures("ana")
def test_provider_skips_no_factor(provider: IdentityProvider, phone: Phone) -> None:
    client = with_planted_session()
    keys = [client.cookies[COOKIE].value]

    response = sign_in(client, provider, "/projects/")
    keys.append(client.cookies[COOKIE].value)

    assert response["Location"].startswith(reverse("mfa_authenticate"))
    assert not is_in(client)
    for path in ("/", "/admin/", "/settings/tokens/"):
        assert client.get(path).status_code == 302, path
    assert not is_in(client)

    response = second_step(client, phone.code())
    keys.append(client.cookies[COOKIE].value)

    assert response["Location"] == "/projects/"
    assert is_in(client)
    assert PROVIDER_ENDS_AT in client.session
    assert "planted" not in client.session
    # Each step has a key of its own.
    assert len(set(keys)) == 3


@pytest.mark.usefixtures("ana")
def test_session_ended_by_the_provider_gets_no_further(
    provider: IdentityProvider, fake: FakeProvider, phone: Phone
) -> None:
    client = Client()
    sign_in(client, provider)
    log_out(fake.logout_token())

    second_step(client, phone.code())

    assert not is_in(client)


def test_person_of_a_provider_adds_the_factor_that_the_policy_requires(
    provider: IdentityProvider, phone: Phone, settings: Any
) -> None:
    settings.SECOND_FACTOR = "all"
    client = Client()

    sign_in(client, provider)

    answer = client.get("/", follow=True)
    assert answer.redirect_chain[-1][0] == reverse("mfa_index")
    assert "accounts/two_step_required.html" in [each.name for each in answer.templates]
    assert not is_in(client)
    add_app(client, phone)
    assert is_in(client)


@pytest.mark.usefixtures("ana")
def test_sign_in_over_the_session_of_somebody_else_takes_the_code(
    provider: IdentityProvider, phone: Phone, alice: User
) -> None:
    client = Client()
    client.force_login(alice)
    sign_in(client, provider)
    assert not is_in(client)

    second_step(client, phone.code())

    assert is_in(client)
    assert client.session["_auth_user_id"] == str(User.objects.get(name="Ana").pk)
