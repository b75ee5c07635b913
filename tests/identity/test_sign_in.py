"""Signing in at a provider, over real sockets: what works, and what is refused, each with its reason in the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.account.models import EmailAddress
from django.db import connection
from django.test import Client

from chat.accounts.actions import invitations
from chat.identity import flow
from chat.identity.admission import SignInRefused
from chat.models import (
    AuditEvent,
    Identity,
    IdentityProvider,
    Membership,
    ProviderSession,
    ProviderSignIn,
    SignUp,
    Team,
    TeamRole,
    User,
)
from chat.tools.sign_in.metadata import SignInFailed
from tests.identity.conftest import leave_for, sign_in, visit
from tests.identity.fake_provider import Claims, FakeProvider
from tests.identity.signing import Signer, signer, unsigned

pytestmark = pytest.mark.django_db


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def reason_in(caplog: pytest.LogCaptureFixture) -> str:
    (record,) = [each for each in caplog.records if "identity.refused" in each.getMessage()]
    return record.getMessage().partition("reason=")[2].partition(" ")[0]


def test_new_person_joins_the_team(provider: IdentityProvider, team: Team) -> None:
    client = Client()

    response = sign_in(client, provider)

    assert (response.status_code, response["Location"]) == (302, "/")
    user = User.objects.get(email="ana@example.org")
    assert (user.name, user.has_usable_password(), user.is_staff) == ("Ana", False, False)
    assert user.memberships.get().team == team
    assert client.session["_auth_user_id"] == str(user.pk)
    assert user.identities.get().groups == ["staff"]
    assert not ProviderSignIn.objects.exists()


def test_second_sign_in_is_of_the_same_person(
    provider: IdentityProvider, fake: FakeProvider
) -> None:
    sign_in(Client(), provider)
    fake.claims["email"] = "ana.married@example.org"

    sign_in(client := Client(), provider)

    assert is_signed_in(client)
    assert User.objects.filter(email__startswith="ana").count() == 1
    assert Identity.objects.get().email == "ana.married@example.org"


def test_request_has_state_nonce_and_pkce(provider: IdentityProvider) -> None:
    first, second = (leave_for(Client(), provider) for _ in range(2))

    assert "code_challenge_method=S256" in first
    assert "redirect_uri=http%3A%2F%2Ftestserver%2Faccounts%2Fprovider%2Fkeycloak" in first
    for name in ("state=", "nonce=", "code_challenge="):
        assert first.partition(name)[2][:20] != second.partition(name)[2][:20]


def test_redirect_address_is_not_that_of_the_request(provider: IdentityProvider) -> None:
    client = Client(headers={"Host": "localhost"})

    assert "redirect_uri=http%3A%2F%2Ftestserver%2F" in leave_for(client, provider)


@pytest.mark.parametrize(
    "path", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1", "", "x"]
)
def test_next_is_local(provider: IdentityProvider, path: str) -> None:
    assert sign_in(Client(), provider, path)["Location"] == "/"


def test_next_is_kept(provider: IdentityProvider) -> None:
    assert sign_in(Client(), provider, "/settings/?a=1")["Location"] == "/settings/?a=1"


def test_session_key_changes(provider: IdentityProvider) -> None:
    client = Client()
    session = client.session
    session["before"] = 1
    session.save()
    before = session.session_key
    client.cookies["sessionid"] = before

    sign_in(client, provider)

    assert client.cookies["sessionid"].value != before
    assert ProviderSession.objects.get().session_key == client.cookies["sessionid"].value


# --- what the provider, or somebody in between, may send ------------------------------------------------


def stranger(claims: Claims) -> str:
    return Signer("first", "RS256", signer("stranger").private).sign(claims)


def changed(**changes: Any) -> Callable[[Claims], str]:
    return lambda claims: signer().sign({**claims, **changes})


FORGED: dict[str, tuple[Callable[[Claims], str], str]] = {
    "unsigned": (unsigned, "token_algorithm"),
    "wrong key": (stranger, "token_signature"),
    "wrong issuer": (changed(iss="https://evil.example"), "token_issuer"),
    "wrong audience": (changed(aud="another"), "token_audience"),
    "replayed nonce": (changed(nonce="of-another-sign-in"), "token_nonce"),
    "expired": (changed(exp=int(time.time()) - 3600), "token_expired"),
    "clock skew": (changed(iat=int(time.time()) + 3600), "token_not_yet_valid"),
    "algorithm swap": (lambda claims: signer().sign(claims, alg="RS384"), "token_algorithm"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_token_signs_nobody_in(
    provider: IdentityProvider, fake: FakeProvider, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    fake.forge, reason = FORGED[name]
    client = Client()

    response = sign_in(client, provider)

    assert response.status_code == 403
    assert not is_signed_in(client)
    assert not User.objects.filter(email="ana@example.org").exists()
    assert reason_in(caplog) == reason
    text = response.content.decode() + caplog.text
    assert "ana@example.org" not in text
    assert "sub-of-ana" not in text
    assert "eyJ" not in text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"iss": "https://evil.example"}, "answer_issuer"),
        ({"iss": None}, "answer_issuer"),
        ({"code": "another"}, "code"),
        ({"code": None}, "no_code"),
        ({"code": None, "error": "access_denied"}, "canceled"),
        ({"error": "server_error"}, "provider_error"),
        ({"state": "another"}, "state"),
        ({"state": None}, "state"),
    ],
)
def test_answer_that_does_not_fit_is_refused(
    provider: IdentityProvider,
    fake: FakeProvider,
    caplog: pytest.LogCaptureFixture,
    answer: dict[str, str | None],
    reason: str,
) -> None:
    fake.answer = answer
    client = Client()

    assert sign_in(client, provider).status_code == 403
    assert not is_signed_in(client)
    assert reason_in(caplog) == reason


def test_answer_works_once(provider: IdentityProvider, caplog: pytest.LogCaptureFixture) -> None:
    client = Client()
    path = visit(leave_for(client, provider))
    client.get(path)
    client.logout()

    assert client.get(path).status_code == 403
    assert not is_signed_in(client)
    assert reason_in(caplog) == "state"


def test_answer_of_another_browser_is_refused(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    path = visit(leave_for(Client(), provider))
    victim = Client()

    assert victim.get(path).status_code == 403
    assert not is_signed_in(victim)
    assert reason_in(caplog) == "browser"


def test_provider_that_failed_is_not_asked_again_at_once(
    provider: IdentityProvider, fake: FakeProvider
) -> None:
    """Anybody may send a logout token, and each question to a provider holds one of the few places of a process."""
    fake.metadata["issuer"] = "https://other.example"
    for _ in range(3):
        with pytest.raises(SignInFailed):
            flow.read_logout(provider, "a.b.c")
    assert len(fake.requests) == 1


def test_two_tabs_do_not_disturb_each_other(provider: IdentityProvider) -> None:
    client = Client()
    first, second = (visit(leave_for(client, provider)) for _ in range(2))

    assert client.get(second).status_code == client.get(first).status_code == 302


def test_form_of_another_site_begins_nothing(provider: IdentityProvider) -> None:
    client = Client(enforce_csrf_checks=True)

    assert client.post("/accounts/provider/keycloak/login/").status_code == 403
    assert client.get("/accounts/provider/keycloak/login/").status_code == 405
    assert not ProviderSignIn.objects.exists()


def test_code_for_one_provider_works_at_no_other(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    IdentityProvider.objects.create(
        slug="other", name="Other", issuer=provider.issuer, client_id="x", is_enabled=True
    )
    client = Client()
    path = visit(leave_for(client, provider)).replace("/keycloak/", "/other/")

    assert client.get(path).status_code == 403
    assert reason_in(caplog) == "state"


def test_new_keys_are_read_when_a_token_names_one(
    provider: IdentityProvider, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(Client(), provider)
    fake.signers = [signer("second", "ES256"), signer()]
    monkeypatch.setattr("chat.identity.asking.RELOAD_SECONDS", 0)

    sign_in(client := Client(), provider)

    assert is_signed_in(client)
    assert fake.requests.count("/keys") == 2


def test_unknown_keys_are_not_asked_for_without_end(
    provider: IdentityProvider, fake: FakeProvider
) -> None:
    fake.forge = lambda claims: signer("invented").sign(claims)

    for _ in range(4):
        sign_in(Client(), provider)

    assert fake.requests.count("/keys") == 1


def test_groups_and_address_may_be_in_the_userinfo(
    provider: IdentityProvider, fake: FakeProvider
) -> None:
    fake.userinfo = {name: fake.claims.pop(name) for name in ("email", "email_verified", "groups")}

    sign_in(Client(), provider)

    assert Identity.objects.get().groups == ["staff"]


def test_userinfo_of_somebody_else_is_refused(
    provider: IdentityProvider, fake: FakeProvider, caplog: pytest.LogCaptureFixture
) -> None:
    del fake.claims["email"]
    fake.userinfo = {"sub": "sub-of-the-boss", "email": "boss@example.org"}

    assert sign_in(Client(), provider).status_code == 403
    assert reason_in(caplog) == "userinfo"


def test_private_address_is_guarded(
    provider: IdentityProvider, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.UPSTREAM_PRIVATE_NETWORKS = ""

    response = Client().post("/accounts/provider/keycloak/login/")

    assert response.status_code == 403
    assert reason_in(caplog) == "provider"


# --- policy ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "claims", "reason"),
    [
        ({"sign_up": SignUp.INVITED}, {}, "not_invited"),
        ({"domains": "example.com"}, {}, "domain"),
        ({"default_team": None}, {}, "no_team"),
        ({}, {"email_verified": False}, "address_not_proven"),
        ({}, {"email": "no address"}, "address_not_proven"),
        ({}, {"groups": None, "_claim_names": {"groups": "src1"}}, "groups_not_in_token"),
        ({}, {"groups": None, "hasgroups": True}, "groups_not_in_token"),
    ],
)
def test_new_person_that_the_policy_excludes(
    provider: IdentityProvider,
    fake: FakeProvider,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    claims: Claims,
    reason: str,
) -> None:
    IdentityProvider.objects.update(**changes)
    merged = {**fake.claims, **claims}
    fake.claims = {name: value for name, value in merged.items() if value is not None}
    client = Client()

    assert sign_in(client, provider).status_code == 403
    assert not is_signed_in(client)
    assert not Identity.objects.exists()
    assert not User.objects.filter(name="Ana").exists()
    assert reason_in(caplog) == reason
    assert AuditEvent.objects.get(verb="identity.refused").detail["reason"] == reason


def test_provider_whose_addresses_are_proven(
    provider: IdentityProvider, fake: FakeProvider
) -> None:
    IdentityProvider.objects.update(proves_addresses=True, domains="example.com example.org")
    fake.claims["email_verified"] = False

    sign_in(client := Client(), provider)

    assert is_signed_in(client)


def test_invitation_for_the_address_is_used(
    provider: IdentityProvider, alice: User, team: Team
) -> None:
    IdentityProvider.objects.update(sign_up=SignUp.INVITED)
    invitations.invite(alice, team, role=TeamRole.VIEWER, email="ana@example.org", days=1)

    sign_in(client := Client(), provider)

    assert is_signed_in(client)
    assert Membership.objects.get(user__email="ana@example.org").role == TeamRole.VIEWER


def test_invitation_that_the_person_opened_is_used(
    provider: IdentityProvider, alice: User, team: Team
) -> None:
    IdentityProvider.objects.update(sign_up=SignUp.INVITED)
    invitation, link = invitations.invite(alice, team, role=TeamRole.ADMIN, days=1)
    path = link.partition("testserver")[2]

    response = sign_in(Client(), provider, path)

    assert response["Location"] == "/"
    invitation.refresh_from_db()
    assert invitation.used_by is not None
    assert invitation.used_by.email == "ana@example.org"


def test_known_person_goes_on_to_the_invitation(
    provider: IdentityProvider, alice: User, team: Team
) -> None:
    sign_in(Client(), provider)
    _, link = invitations.invite(alice, team, role=TeamRole.ADMIN, days=1)
    path = link.partition("testserver")[2]

    assert sign_in(Client(), provider, path)["Location"] == path


def test_invitation_for_another_address_does_not_help(
    provider: IdentityProvider, alice: User, team: Team
) -> None:
    IdentityProvider.objects.update(sign_up=SignUp.INVITED)
    _, link = invitations.invite(alice, team, role=TeamRole.ADMIN, email="bo@example.org", days=1)

    assert sign_in(Client(), provider, link.partition("testserver")[2]).status_code == 403


# --- accounts that exist ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_proven_there", [True, False])
@pytest.mark.parametrize("is_proven_here", [True, False])
def test_account_is_connected_if_both_sides_prove_the_address(
    provider: IdentityProvider,
    fake: FakeProvider,
    alice: User,
    is_proven_here: bool,
    is_proven_there: bool,
) -> None:
    fake.claims |= {"email": alice.email.upper(), "email_verified": is_proven_there}
    EmailAddress.objects.create(user=alice, email=alice.email, verified=is_proven_here)
    client = Client()

    sign_in(client, provider)

    both = is_proven_here and is_proven_there
    assert is_signed_in(client) == both == Identity.objects.filter(user=alice).exists()


def test_account_that_another_subject_has_is_not_given_away(
    provider: IdentityProvider,
    fake: FakeProvider,
    alice: User,
    caplog: pytest.LogCaptureFixture,
) -> None:
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True)
    Identity.objects.create(provider=provider, sub="sub-of-before", user=alice)
    fake.claims["email"] = alice.email

    assert sign_in(Client(), provider).status_code == 403
    assert reason_in(caplog) == "other_subject"


def test_signed_in_person_connects_their_account(
    provider: IdentityProvider, fake: FakeProvider, alice: User
) -> None:
    fake.claims["email"] = alice.email
    client = Client()
    client.force_login(alice)
    address = leave_for_connection(client)

    assert client.get(visit(address))["Location"] == "/settings/"

    assert Identity.objects.get(user=alice).sub == "sub-of-ana"
    sign_in(again := Client(), provider)
    assert again.session["_auth_user_id"] == str(alice.pk)


def leave_for_connection(client: Client) -> str:
    page = client.post("/accounts/provider/keycloak/connect/").content.decode()
    return page.partition("0;url=")[2].partition('"')[0].replace("&amp;", "&")


@pytest.mark.parametrize("changes", [{"email": "ana@example.org"}, {"email_verified": False}])
def test_other_address_connects_nothing(
    provider: IdentityProvider, fake: FakeProvider, alice: User, changes: Claims
) -> None:
    fake.claims |= {"email": alice.email, **changes}
    client = Client()
    client.force_login(alice)

    assert client.get(visit(leave_for_connection(client))).status_code == 403
    assert not Identity.objects.exists()


def test_connection_is_of_the_person_who_began_it(
    provider: IdentityProvider, fake: FakeProvider, alice: User, bob: User
) -> None:
    fake.claims["email"] = alice.email
    client = Client()
    client.force_login(alice)
    path = visit(leave_for_connection(client))
    client.force_login(bob)

    assert client.get(path).status_code == 403
    assert not Identity.objects.exists()


def test_deactivated_person_stays_out(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    sign_in(Client(), provider)
    User.objects.filter(name="Ana").update(is_active=False)
    client = Client()

    assert sign_in(client, provider).status_code == 403
    assert not is_signed_in(client)
    assert reason_in(caplog) == "deactivated"


def test_provider_that_is_off_signs_nobody_in(provider: IdentityProvider) -> None:
    client = Client()
    path = visit(leave_for(client, provider))
    IdentityProvider.objects.update(is_enabled=False)

    assert client.get(path).status_code == 403
    assert client.post("/accounts/provider/keycloak/login/").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_of_many_answers_with_one_state_one_is_used(provider: IdentityProvider) -> None:
    client = Client()
    query = parse_qs(urlsplit(visit(leave_for(client, provider))).query)
    cookies = {name: morsel.value for name, morsel in client.cookies.items()}
    start, results = Barrier(8), []

    def answer() -> None:
        start.wait()
        try:
            results.append(flow.take_sign_in(provider, query["state"][0], cookies).nonce)
        except SignInRefused as refused:
            results.append(refused.reason)
        finally:
            connection.close()

    threads = [Thread(target=answer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results.count("state") == 7
