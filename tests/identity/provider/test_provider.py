"""Signing in at a real provider: groups, new keys, tokens that must not work, and its sign-out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.http import HttpResponse
from django.test import Client

from chat.identity import asking, trial
from chat.models import GroupRule, Identity, IdentityProvider, SignUp, Team, User
from tests.identity.conftest import leave_for
from tests.identity.provider.programs import CLIENT, SECRET, RealProvider, Visitor, real_provider

pytestmark = [pytest.mark.slow]


@pytest.fixture
def real(live_server: Any, settings: Any) -> Iterator[RealProvider]:
    """A provider that knows Ana, and this installation at its real address."""
    settings.SITE_URL = live_server.url
    with real_provider(live_server.url) as provider:
        provider.describe(
            "ana", email="ana@example.org", email_verified=True, name="Ana", groups=["/sales"]
        )
        yield provider


@pytest.fixture
def provider(real: RealProvider, team: Team) -> IdentityProvider:
    made = IdentityProvider(
        slug="keycloak",
        name="Keycloak",
        issuer=real.issuer,
        client_id=CLIENT,
        scopes="openid email profile groups",
        groups_claim="groups",
        sign_up=SignUp.OPEN,
        default_team=team,
        is_enabled=True,
    )
    made.set_secret(SECRET)
    made.save()
    GroupRule.objects.create(provider=made, claimed="/sales", team=team, role="admin")
    GroupRule.objects.create(provider=made, claimed="/it", makes_administrator=True)
    return made


@pytest.fixture
def ana() -> Iterator[Visitor]:
    visitor = Visitor("ana")
    yield visitor
    visitor.close()


def path_back(client: Client, provider: IdentityProvider, visitor: Visitor) -> str:
    parts = urlsplit(visitor.sign_in(leave_for(client, provider)))
    return f"{parts.path}?{parts.query}"


def come(client: Client, provider: IdentityProvider, visitor: Visitor) -> HttpResponse:
    return client.get(path_back(client, provider, visitor))


def is_open(client: Client) -> bool:
    return client.get("/settings/").status_code == 200


def test_groups_new_keys_and_sign_out(
    provider: IdentityProvider,
    real: RealProvider,
    ana: Visitor,
    team: Team,
    administrator: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = {str(step.name): step.state for step in trial.walk(provider)}
    assert set(steps.values()) == {"ok"}, steps

    client = Client()
    path = path_back(client, provider, ana)
    assert client.get(path)["Location"] == "/"
    user = User.objects.get(email="ana@example.org")
    assert user.memberships.get().role == "admin"
    # The state works once.
    assert client.get(path).status_code == 403

    real.describe("ana", groups=["/it"])
    come(client, provider, ana)
    user.refresh_from_db()
    assert user.is_staff
    assert not user.memberships.exists()

    # Other keys, and another algorithm.
    monkeypatch.setattr(asking, "RELOAD_SECONDS", 0)
    real.control(rotate="RS256")
    assert come(client, provider, ana).status_code == 302
    real.control(rotate="ES256")
    asking.forget()
    assert come(client, provider, ana).status_code == 302

    assert is_open(client)
    ana.sign_out(real.issuer)
    assert not is_open(client)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rotate": "HS256"}, "token_algorithm"),
        ({"clock": -3600}, "token_expired"),
        ({"clock": 300}, "token_not_yet_valid"),
    ],
)
def test_tokens_that_must_not_work(
    provider: IdentityProvider,
    real: RealProvider,
    ana: Visitor,
    caplog: pytest.LogCaptureFixture,
    change: dict[str, Any],
    reason: str,
) -> None:
    real.control(**change)
    client = Client()

    assert come(client, provider, ana).status_code == 403
    assert not Identity.objects.exists()
    assert f"reason={reason}" in caplog.text


def test_issuer_by_another_name_is_another(
    provider: IdentityProvider, real: RealProvider, caplog: pytest.LogCaptureFixture
) -> None:
    IdentityProvider.objects.update(issuer=real.issuer.replace("127.0.0.1", "localhost"))

    assert Client().post("/accounts/provider/keycloak/login/").status_code == 403
    assert "another provider" in caplog.text
