"""The client that this installation is at an authorization server: the order of ways, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from chat.core.errors import ActionRefused
from chat.models import ClientSource, OAuthClient, Team, ToolServer, ToolSignIn, User
from chat.tools.sign_in import actions, clients
from chat.tools.sign_in.asking import Asking
from chat.tools.sign_in.clients import document_address, enter_client, redirect_uri
from chat.tools.sign_in.metadata import Issuer, SignInFailed
from tests.tools.sign_in.conftest import Connect
from tests.tools.sign_in.oauth_server import OAuthServer, json_reply

pytestmark = pytest.mark.django_db


def issuer_at(oauth: OAuthServer, **members: object) -> Issuer:
    values = {
        "issuer": oauth.url,
        "authorization_endpoint": f"{oauth.url}/authorize",
        "token_endpoint": f"{oauth.url}/token",
        "registration_endpoint": f"{oauth.url}/register",
        "auth_methods": ("none",),
        **members,
    }
    return Issuer(**values)  # type: ignore[arg-type]


def client_for(team: Team, issuer: Issuer) -> OAuthClient:
    return clients.client_for(team, issuer, Asking(f"{issuer.issuer}/mcp"))


# Entered, our origin has TLS, the issuer takes documents, it registers: the way that is taken.
ORDER = [
    (True, True, True, True, "entered"),
    (True, False, False, False, "entered"),
    (False, True, True, True, "document"),
    (False, True, True, False, "document"),
    (False, True, False, True, "dynamic"),
    (False, False, True, True, "dynamic"),
    (False, False, False, True, "dynamic"),
    (False, False, True, False, "ask"),
    (False, True, False, False, "ask"),
]


@pytest.mark.parametrize(("entered", "tls", "documents", "registers", "way"), ORDER)
def test_ways_are_tried_in_order(
    settings: Settings,
    team: Team,
    oauth: OAuthServer,
    entered: bool,
    tls: bool,
    documents: bool,
    registers: bool,
    way: str,
) -> None:
    settings.SITE_URL = "https://chat.test" if tls else "http://chat.test"
    issuer = issuer_at(
        oauth,
        takes_document=documents,
        registration_endpoint=f"{oauth.url}/register" if registers else "",
    )
    if entered:
        enter_client(team, oauth.url, client_id="mine", secret="")

    if way == "ask":
        with pytest.raises(SignInFailed, match="enter a client ID"):
            client_for(team, issuer)
    else:
        client = client_for(team, issuer)
        assert client.source == way
        assert client.issuer == oauth.url
        ids = {"entered": "mine", "document": document_address(), "dynamic": "dyn-1"}
        assert client.client_id == ids[way]
    assert len(oauth.sent("/register")) == (way == "dynamic")


def test_registration_says_what_we_are_and_is_made_once(
    settings: Settings, team: Team, oauth: OAuthServer
) -> None:
    settings.SITE_URL = "https://chat.test"
    first = client_for(team, issuer_at(oauth))

    assert client_for(team, issuer_at(oauth)) == first
    [request] = oauth.sent("/register")
    assert request.json["application_type"] == "web"
    assert request.json["redirect_uris"] == ["https://chat.test/settings/connections/callback/"]
    assert request.json["token_endpoint_auth_method"] == "none"

    # With another address of ours, or when it has expired, the registration is of no use.
    settings.SITE_URL = "http://localhost:8000"
    assert client_for(team, issuer_at(oauth)) != first
    assert oauth.sent("/register")[1].json["application_type"] == "native"
    OAuthClient.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    client_for(team, issuer_at(oauth))
    assert len(oauth.sent("/register")) == 3


def test_credentials_of_one_issuer_are_used_at_no_other(
    team: Team, oauth: OAuthServer, other_team: Team
) -> None:
    enter_client(team, "https://other.test", client_id="theirs", secret="canary")
    enter_client(other_team, oauth.url, client_id="other-team", secret="canary")

    assert client_for(team, issuer_at(oauth)).client_id == "dyn-1"
    assert all(b"canary" not in request.body for request in oauth.requests)


@pytest.mark.parametrize(
    ("methods", "secret", "expected"),
    [
        ((), "s3cret", "client_secret_basic"),
        (("client_secret_post",), "s3cret", "client_secret_post"),
        (("client_secret_post", "client_secret_basic"), "s3cret", "client_secret_basic"),
        (("none",), "", "none"),
    ],
)
def test_secret_is_sent_as_the_issuer_wants_it(
    alice: User,
    team: Team,
    server: ToolServer,
    connect: Connect,
    oauth: OAuthServer,
    methods: tuple[str, ...],
    secret: str,
    expected: str,
) -> None:
    oauth.issuer["token_endpoint_auth_methods_supported"] = list(methods) or None
    enter_client(team, oauth.url, client_id="mine", secret=secret)

    # The server of the tests takes public clients only.
    if expected == "client_secret_basic":
        with pytest.raises(ActionRefused):
            connect(alice)
    else:
        connect(alice)

    [request] = oauth.sent("/token")
    assert request.headers.get("authorization", "").startswith("Basic ") is (
        expected == "client_secret_basic"
    )
    assert (request.form.get("client_secret") == "s3cret") is (expected == "client_secret_post")


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (400, {"error": "invalid_redirect_uri"}),
        (201, {}),
        (201, {"client_id": ""}),
        (201, {"client_id": "x" * 501}),
        (201, {"client_id": "a\nb"}),
        (201, {"client_id": "a", "token_endpoint_auth_method": "private_key_jwt"}),
        (201, {"client_id": "a", "token_endpoint_auth_method": "client_secret_basic"}),
        # It has ended before it is used.
        (201, {"client_id": "a", "client_secret": "s", "client_secret_expires_at": 1}),
    ],
)
def test_registrations_that_cannot_be_used(
    team: Team, oauth: OAuthServer, status: int, document: Mapping[str, object]
) -> None:
    oauth.answers["/register"] = lambda request: json_reply(document, status)

    with pytest.raises(SignInFailed):
        client_for(team, issuer_at(oauth))

    assert not OAuthClient.objects.exists()


def test_server_gives_a_secret_that_expires(team: Team, oauth: OAuthServer) -> None:
    answer = {
        "client_id": "a",
        "client_secret": "s3cret-canary",
        "client_secret_expires_at": 4102444800,
        "token_endpoint_auth_method": "client_secret_post",
    }
    oauth.answers["/register"] = lambda request: json_reply(answer, 201)

    client = client_for(team, issuer_at(oauth, auth_methods=("client_secret_post",)))

    assert client.open_secret() == "s3cret-canary"
    assert "canary" not in client.sealed_secret
    assert client.expires_at is not None


def test_registrations_that_nobody_uses_are_deleted(
    alice: User, team: Team, server: ToolServer, connect: Connect, oauth: OAuthServer
) -> None:
    used = connect(alice).client
    actions.begin_sign_in(alice, server)
    past = timezone.now() - timedelta(days=1)
    values: dict[str, object] = {"team": team, "redirect_uri": redirect_uri()}
    for name, source, expires_at, created_at in (
        ("ended", "dynamic", past, timezone.now()),
        ("old", "dynamic", None, past),
        ("old document", "document", None, past),
        ("fresh", "dynamic", None, timezone.now()),
        ("mine", "entered", past, past),
        ("waiting", "dynamic", past, past),
    ):
        row = OAuthClient.objects.create(
            **values,
            issuer="https://other.test",
            client_id=name,
            source=source,
            expires_at=expires_at,
            created_at=created_at,
        )
        if name == "waiting":
            ToolSignIn.objects.update(client=row)
    OAuthClient.objects.filter(pk=used.pk).update(created_at=past)

    actions.begin_sign_in(alice, server)

    left = set(OAuthClient.objects.values_list("client_id", flat=True))
    assert left == {used.client_id, "fresh", "mine", "waiting"}


def test_metadata_document_is_for_everybody(client: Client, settings: Settings) -> None:
    settings.SITE_URL = "https://chat.test"
    settings.ALLOWED_HOSTS = ["chat.test", "testserver"]

    document = client.get("/oauth/client-metadata.json").json()

    assert document["client_id"] == "https://chat.test/oauth/client-metadata.json"
    assert document["redirect_uris"] == [redirect_uri()]
    assert document["token_endpoint_auth_method"] == "none"


def test_administrator_is_asked_for_an_id_and_enters_it(
    client: Client, administrator: User, alice: User, server: ToolServer, oauth: OAuthServer
) -> None:
    oauth.issuer["registration_endpoint"] = None
    with pytest.raises(ActionRefused, match="enter a client ID"):
        actions.begin_sign_in(alice, server)
    client.force_login(administrator)

    address = f"/people/tool-servers/{server.public_id}/client/"
    page = client.post(address).content.decode()
    assert redirect_uri() in page
    assert f"{oauth.url}</strong>" in page
    client.post(
        address, {"issuer": oauth.url, "client_id": "mine", "client_secret": "s3cret-canary"}
    )

    stored = OAuthClient.objects.get()
    assert (stored.source, stored.issuer) == (ClientSource.ENTERED, oauth.url)
    assert "client_id=mine" in actions.begin_sign_in(alice, server).address
    page = client.get(f"/people/tool-servers/{server.public_id}/").content.decode()
    assert "canary" not in page
