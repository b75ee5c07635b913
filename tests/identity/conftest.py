"""A provider on the loopback, its record, and a browser that signs in there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client

from chat.identity import asking
from chat.models import IdentityProvider, SignUp, Team
from tests.identity.fake_provider import CLIENT, SECRET, FakeProvider, serve


@pytest.fixture(autouse=True)
def _fresh(settings: Any) -> Iterator[None]:
    settings.UPSTREAM_PRIVATE_NETWORKS = "any"
    settings.ACCOUNT_RATE_LIMITS = False
    settings.SITE_URL = "http://testserver"
    asking.forget()
    cache.clear()
    yield
    asking.forget()


@pytest.fixture
def fake() -> Iterator[FakeProvider]:
    provider = FakeProvider()
    server = serve(provider)
    provider.claims = {
        "sub": "sub-of-ana",
        "sid": "session-1",
        "email": "ana@example.org",
        "email_verified": True,
        "name": "Ana",
        "groups": ["staff"],
    }
    yield provider
    server.shutdown()
    server.server_close()


@pytest.fixture
def provider(db: None, fake: FakeProvider, team: Team) -> IdentityProvider:
    """Enabled, and open for everybody, who join the team."""
    made = IdentityProvider(
        slug="keycloak",
        name="Keycloak",
        issuer=fake.issuer,
        client_id=CLIENT,
        is_enabled=True,
        groups_claim="groups",
        sign_up=SignUp.OPEN,
        default_team=team,
    )
    made.set_secret(SECRET)
    made.save()
    return made


SignIn = Callable[..., HttpResponse]


def leave_for(
    client: Client, provider: IdentityProvider, next_path: str = "", *, verb: str = "login"
) -> str:
    """Begins a sign-in; the address of the provider's page."""
    response = client.post(f"/accounts/provider/{provider.slug}/{verb}/", {"next": next_path})
    assert response.status_code == 200, response.content.decode()[:500]
    found = re.search(r'content="0;url=([^"]+)"', response.content.decode())
    assert found is not None
    return unescape(found[1])


def visit(address: str) -> str:
    """The path that the provider sends the browser to."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc)
    connection.request("GET", f"{parts.path}?{parts.query}")
    parts = urlsplit(connection.getresponse().getheader("Location") or "")
    connection.close()
    return f"{parts.path}?{parts.query}"


def sign_in(client: Client, provider: IdentityProvider, next_path: str = "") -> HttpResponse:
    return client.get(visit(leave_for(client, provider, next_path)))
