"""Passwords beside providers: who has one, and what is left of them when they are off."""

from __future__ import annotations

import time
from typing import Any

import pytest
from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from allauth.core.context import request_context
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import AnonymousUser
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.sessions.middleware import SessionMiddleware
from django.core import mail
from django.http import HttpResponse
from django.test import Client, RequestFactory

from chat.accounts import reset_mail
from chat.accounts.actions import invitations, people
from chat.accounts.adapter import make_reset_link
from chat.core.errors import ActionRefused
from chat.identity import providers
from chat.identity.sessions import PENDING
from chat.models import AuditEvent, Identity, IdentityProvider, PasswordSetting, Team, User
from tests.accounts.conftest import NEW_PASSWORD
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db

WRONG = "The email address or password is incorrect."


def enter(user: User, password: str = PASSWORD) -> tuple[bool, str]:
    client = Client()
    response = client.post("/accounts/login/", {"login": user.email, "password": password})
    return "_auth_user_id" in client.session, response.content.decode()


def enter_without_password(user: User, pending: dict[str, Any] | None = None) -> bool:
    """As after a passkey: allauth has proved who the person is."""
    request = RequestFactory().post("/accounts/login/")
    SessionMiddleware(lambda request: HttpResponse()).process_request(request)
    request._messages = FallbackStorage(request)
    request.user = AnonymousUser()
    if pending:
        request.session[PENDING] = pending
    with request_context(request):
        perform_login(request, Login(user=user))
    return SESSION_KEY in request.session


def turn_off(administrator: User, emergency: User) -> None:
    providers.set_passwords(administrator, is_on=False, emergency_account=emergency)


def test_nobody_alone_meets_a_provider(alice: User, administrator: User) -> None:
    page = Client().get("/accounts/login/").content.decode()
    assert "Continue with" not in page
    assert "entrance-or" not in page
    client = Client()
    client.force_login(alice)
    assert "Company sign-in" not in client.get("/settings/").content.decode()
    assert enter(alice)[0]


def test_people_of_a_provider_use_no_passkey(
    provider: IdentityProvider, alice: User, bob: User
) -> None:
    mine = Identity.objects.create(provider=provider, sub="1", user=alice)
    pending = {"identity": mine.pk, "sid": "", "began_at": time.time(), "at": time.time()}

    assert not enter_without_password(alice)
    assert enter_without_password(bob)
    assert enter_without_password(alice, pending)
    # One that began too long ago, and one of somebody else.
    assert not enter_without_password(alice, {**pending, "at": time.time() - 3600})
    Identity.objects.update(user=bob)
    assert not enter_without_password(alice, pending)


def test_login_page_offers_providers(provider: IdentityProvider) -> None:
    page = Client().get("/accounts/login/?next=/projects/").content.decode()

    assert "Continue with Keycloak" in page
    assert 'name="next" value="/projects/"' in page
    assert "Password" in page


def test_people_of_a_provider_use_no_password(
    provider: IdentityProvider, alice: User, bob: User
) -> None:
    Identity.objects.create(provider=provider, sub="1", user=alice)

    assert not enter(alice)[0]
    assert WRONG in enter(alice)[1]
    assert enter(bob)[0]

    IdentityProvider.objects.update(is_enabled=False)
    assert enter(alice)[0]


def test_reset_opens_no_account_of_a_provider(
    provider: IdentityProvider, alice: User, bob: User, administrator: User, settings: Any
) -> None:
    settings.EMAIL_HOST = "localhost"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    Identity.objects.create(provider=provider, sub="1", user=alice)

    for user in (alice, bob):
        reset_mail.send(user.email)

    assert [message.to for message in mail.outbox] == [[bob.email]]
    resettable = people.resettable_people(administrator)
    assert alice not in resettable
    assert bob in resettable


def test_only_the_emergency_account_has_a_password(
    provider: IdentityProvider, alice: User, administrator: User, team: Team
) -> None:
    turn_off(administrator, administrator)

    assert not enter(alice)[0]
    assert enter(alice)[1].count(WRONG) == enter(alice, "wrong")[1].count(WRONG) == 1
    assert not AuditEvent.objects.filter(verb="user.emergency_sign_in").exists()
    assert enter(administrator)[0]
    assert AuditEvent.objects.get(verb="user.emergency_sign_in").subject == administrator
    assert "Emergency sign-in" in Client().get("/accounts/login/").content.decode()
    invitation, _ = invitations.invite(alice, team, role="member", days=1)
    with pytest.raises(ActionRefused, match="company account"):
        invitations.join_as_new_person(
            invitation, name="Eve", email="eve@example.org", password="seven willow rivers"
        )


def test_passwords_stay_on_until_others_can_sign_in(
    provider: IdentityProvider, administrator: User, alice: User, make_user: Any
) -> None:
    second = make_user("Bea", is_staff=True)
    refused: list[dict[str, Any]] = [
        {"emergency_account": None},
        {"emergency_account": alice},
        {"emergency_account": second},
    ]
    for choice in refused:
        with pytest.raises(ActionRefused):
            providers.set_passwords(administrator, is_on=False, **choice)
    IdentityProvider.objects.update(is_enabled=False)
    with pytest.raises(ActionRefused, match="provider first"):
        turn_off(administrator, administrator)

    assert not PasswordSetting.objects.exists()


def test_last_provider_stays_while_passwords_are_off(
    provider: IdentityProvider, administrator: User
) -> None:
    turn_off(administrator, administrator)

    for change in (
        lambda: providers.switch_provider(administrator, provider, is_on=False),
        lambda: providers.delete_provider(administrator, provider),
    ):
        with pytest.raises(ActionRefused, match="passwords first"):
            change()

    providers.set_passwords(administrator, is_on=True, emergency_account=None)
    providers.delete_provider(administrator, provider)
    assert not IdentityProvider.objects.exists()


def test_passkey_of_the_emergency_account_is_recorded(
    provider: IdentityProvider, administrator: User
) -> None:
    turn_off(administrator, administrator)

    assert enter_without_password(administrator)

    assert AuditEvent.objects.filter(verb="user.emergency_sign_in").count() == 1


@pytest.mark.parametrize("way", ["link", "set", "change"])
def test_people_of_a_provider_set_no_password(
    provider: IdentityProvider, alice: User, *, way: str
) -> None:
    client = Client()
    client.force_login(alice)
    link = make_reset_link(alice)
    Identity.objects.create(provider=provider, sub="1", user=alice)
    if way == "set":
        alice.set_unusable_password()
        alice.save()
        client.force_login(alice)
    new = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "oldpassword": PASSWORD}
    places = {"set": "/accounts/password/set/", "change": "/accounts/password/change/"}
    place = places.get(way) or client.get(link, follow=True).redirect_chain[-1][0]

    page = client.post(place, new).content.decode()

    assert "Sign in with your company account." in page
    alice.refresh_from_db()
    assert not alice.check_password(NEW_PASSWORD)
