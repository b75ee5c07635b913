"""Settings of providers: the form, the environment, the test, and the trial sign-in."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from chat.identity import providers, trial
from chat.models import AuditEvent, GroupRule, Identity, IdentityProvider, Team, User
from project import env
from tests.identity.conftest import visit
from tests.identity.fake_provider import CLIENT, SECRET, FakeProvider

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin_client(administrator: User) -> Client:
    client = Client()
    client.force_login(administrator)
    return client


def fields(fake: FakeProvider, **changes: str) -> dict[str, str]:
    usual = {
        "name": "Keycloak",
        "issuer": f"{fake.issuer}/.well-known/openid-configuration",
        "client_id": CLIENT,
        "client_secret": SECRET,
        "scopes": "openid profile email",
        "sign_up": "invited",
        "default_role": "member",
        "domains": "@Example.org, example.com",
    }
    return {**usual, **changes}


def test_provider_is_added_off_and_its_secret_encrypted(
    admin_client: Client, fake: FakeProvider
) -> None:
    response = admin_client.post("/settings/company-sign-in/add/", fields(fake))

    added = IdentityProvider.objects.get()
    assert response["Location"] == f"/settings/company-sign-in/{added.public_id}/"
    assert (added.slug, added.issuer, added.is_enabled) == ("keycloak", fake.issuer, False)
    assert added.domains == "example.org example.com"
    assert SECRET not in added.sealed_secret
    assert added.open_secret() == SECRET
    page = admin_client.get(response["Location"]).content.decode()
    assert "http://testserver/accounts/provider/keycloak/callback/" in page
    assert (
        SECRET not in page + admin_client.get(f"{response['Location']}settings/").content.decode()
    )
    assert SECRET not in str(AuditEvent.objects.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "keycloak"},
        {"issuer": "https://a b"},
        {"issuer": "https://x.example/?a=1"},
        {"scopes": "email"},
        {"domains": "example"},
        {"client_id": ""},
        {"name": "\u202e"},
    ],
)
def test_form_refuses(admin_client: Client, fake: FakeProvider, changes: dict[str, str]) -> None:
    response = admin_client.post("/settings/company-sign-in/add/", fields(fake, **changes))

    assert response.status_code == 422
    assert not IdentityProvider.objects.exists()


def test_address_without_encryption_needs_a_site_without(
    admin_client: Client, fake: FakeProvider, settings: Any
) -> None:
    settings.IS_SECURE = True

    assert admin_client.post("/settings/company-sign-in/add/", fields(fake)).status_code == 422


def test_secret_goes_to_no_other_address(
    admin_client: Client, provider: IdentityProvider, fake: FakeProvider
) -> None:
    path = f"/settings/company-sign-in/{provider.public_id}/settings/"
    kept = fields(fake, client_secret="", name="Renamed")
    assert admin_client.post(path, kept).status_code == 302
    provider.refresh_from_db()
    assert (provider.name, provider.open_secret()) == ("Renamed", SECRET)

    moved = {**kept, "issuer": "https://evil.example"}
    assert "Enter it again" in admin_client.post(path, moved).content.decode()


def test_address_stays_once_people_are_connected(
    admin_client: Client, provider: IdentityProvider, fake: FakeProvider, alice: User
) -> None:
    Identity.objects.create(provider=provider, sub="1", user=alice)
    path = f"/settings/company-sign-in/{provider.public_id}/settings/"

    response = admin_client.post(path, fields(fake, issuer="https://other.example"))

    assert response.status_code == 422
    provider.refresh_from_db()
    assert provider.issuer == fake.issuer


def test_groups_are_added_and_removed(
    admin_client: Client, provider: IdentityProvider, team: Team
) -> None:
    page = f"/settings/company-sign-in/{provider.public_id}/"

    for data, status in (
        ({"claimed": "staff", "team": str(team.public_id), "role": "member"}, 302),
        ({"claimed": "it", "role": "member", "makes_administrator": "on"}, 302),
        ({"claimed": "nothing", "role": "member"}, 422),
        ({"claimed": "/", "role": "member", "makes_administrator": "on"}, 422),
    ):
        assert admin_client.post(f"{page}groups/", data).status_code == status
    assert list(GroupRule.objects.values_list("claimed", flat=True)) == ["it", "staff"]

    for rule in GroupRule.objects.all():
        admin_client.post(f"/settings/company-sign-in/groups/{rule.public_id}/remove/")
    assert not GroupRule.objects.exists()


# --- the test and the trial -------------------------------------------------------------------------------


def states(provider: IdentityProvider) -> dict[str, str]:
    return {str(step.name): step.state for step in trial.walk(provider)}


GOOD = {
    "Discovery": "ok",
    "Keys": "ok",
    "Clock": "ok",
    "Redirect address": "ok",
    "Client": "ok",
    "Sign-out by the provider": "ok",
}


def test_good_provider_passes(provider: IdentityProvider) -> None:
    assert states(provider) == GOOD


def _no_keys(fake: FakeProvider) -> None:
    fake.signers = []


def _late(fake: FakeProvider) -> None:
    fake.clock_is_off_by = -300


def _other_redirect(fake: FakeProvider) -> None:
    fake.redirect_uris = ["https://elsewhere.example/"]


def _no_logout(fake: FakeProvider) -> None:
    fake.metadata["backchannel_logout_supported"] = False


@pytest.mark.parametrize(
    ("spoil", "name", "state"),
    [
        (_no_keys, "Keys", "failed"),
        (_late, "Clock", "failed"),
        (_other_redirect, "Redirect address", "failed"),
        (_no_logout, "Sign-out by the provider", "open"),
    ],
)
def test_what_is_wrong_is_named(
    provider: IdentityProvider, fake: FakeProvider, spoil: Any, name: str, state: str
) -> None:
    spoil(fake)

    assert states(provider) == {**GOOD, name: state}


def test_wrong_secret_is_named(provider: IdentityProvider) -> None:
    provider.set_secret("wrong")
    provider.save()

    assert states(provider)["Client"] == "failed"


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"issuer": "https://other.example"}, "It names itself https://other.example."),
        ({"token_endpoint": None}, "lacks an address"),
        ({"jwks_uri": "file:///etc/passwd"}, "lacks an address"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"response_types_supported": ["id_token"]}, "code flow"),
        ({"id_token_signing_alg_values_supported": ["HS256", "none"]}, "no algorithm"),
    ],
)
def test_discovery_says_what_is_wrong(
    provider: IdentityProvider, fake: FakeProvider, metadata: dict[str, Any], words: str
) -> None:
    fake.metadata = metadata

    (step,) = trial.walk(provider)

    assert step.state == "failed"
    assert words in step.text


def test_unreachable_provider(provider: IdentityProvider) -> None:
    provider.issuer = "http://127.0.0.1:9"

    assert states(provider) == {"Discovery": "failed"}


def test_test_is_shown_on_the_page(admin_client: Client, provider: IdentityProvider) -> None:
    path = f"/settings/company-sign-in/{provider.public_id}/test/"

    assert "The clocks agree." in admin_client.post(path).content.decode()


def test_trial_shows_rights_and_changes_nothing(
    admin_client: Client, provider: IdentityProvider, team: Team
) -> None:
    IdentityProvider.objects.update(is_enabled=False)
    GroupRule.objects.create(provider=provider, claimed="staff", team=team, role="admin")
    left = admin_client.post(f"/settings/company-sign-in/{provider.public_id}/trial/")
    address = left.content.decode().partition("0;url=")[2].partition('"')[0]

    page = admin_client.get(visit(address.replace("&amp;", "&"))).content.decode()

    assert "Nothing was changed." in page
    assert "ana@example.org" in page
    assert team.name in page
    assert not Identity.objects.exists()
    assert not User.objects.filter(name="Ana").exists()


# --- the environment --------------------------------------------------------------------------------------


def configured(fake: FakeProvider, **changes: str) -> dict[str, dict[str, str]]:
    usual = {
        "name": "Company",
        "issuer": fake.issuer,
        "client_id": CLIENT,
        "client_secret": SECRET,
        "scopes": "openid email",
        "groups_claim": "",
    }
    return {"company": {**usual, **changes}}


def test_environment_sets_up_providers(
    fake: FakeProvider, settings: Any, admin_client: Client, alice: User
) -> None:
    settings.OIDC_PROVIDERS = configured(fake)
    providers.adopt_environment()
    providers.adopt_environment()

    made = IdentityProvider.objects.get()
    assert made.is_enabled
    assert made.sealed_secret == ""
    assert made.open_secret() == SECRET
    assert states(made)["Client"] == "ok"

    path = f"/settings/company-sign-in/{made.public_id}/settings/"
    assert admin_client.get(path).status_code == 200
    changed = fields(fake, name="Other", issuer="https://evil.example", groups_claim="roles")
    assert admin_client.post(path, changed).status_code == 302
    made.refresh_from_db()
    assert (made.name, made.issuer, made.groups_claim) == ("Company", fake.issuer, "roles")

    Identity.objects.create(provider=made, sub="1", user=alice)
    settings.OIDC_PROVIDERS = configured(fake, issuer="https://other.example")
    providers.adopt_environment()
    made.refresh_from_db()
    assert (made.issuer, made.is_enabled) == (fake.issuer, False)


def test_provider_that_the_environment_no_longer_names_is_off(
    fake: FakeProvider, settings: Any
) -> None:
    settings.OIDC_PROVIDERS = configured(fake)
    providers.adopt_environment()
    settings.OIDC_PROVIDERS = {}
    providers.adopt_environment()

    assert not IdentityProvider.objects.get().is_enabled


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"a": {}}',
        '{"a": {"name": "A", "issuer": "x", "client_id": "y"}}',
        '{"A B": {"name": "A", "issuer": "https://x", "client_id": "y"}}',
        '{"a": {"name": "A", "issuer": "https://x", "client_id": "y", "scopes": "email"}}',
        '{"a": {"name": "A", "issuer": "https://x", "client_id": "y", "secret": "hidden"}}',
    ],
)
def test_wrong_environment_stops_the_process(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("OIDC_PROVIDERS", text)

    with pytest.raises(ImproperlyConfigured) as error:
        env.identity_providers("OIDC_PROVIDERS")
    assert "hidden" not in str(error.value)
