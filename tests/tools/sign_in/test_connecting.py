"""Connecting and disconnecting an account: what is asked of the servers, who may, and attacks on the way back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from chat.accounts.actions.people import remove_member
from chat.core.errors import ActionRefused
from chat.models import (
    AuditEvent,
    Membership,
    OAuthClient,
    Team,
    ToolAccount,
    ToolServer,
    ToolSignIn,
    User,
)
from chat.tools import servers
from chat.tools.sign_in import actions
from chat.tools.sign_in.ending import wait_for_revocations
from tests.tools.sign_in.conftest import Connect, answer_in
from tests.tools.sign_in.oauth_server import OAuthServer, json_reply, oauth_server

pytestmark = pytest.mark.django_db

CALLBACK = "/settings/connections/callback/"


def page_of(client: Client, server: ToolServer) -> str:
    """The address that the page links to."""
    response = client.post(f"/settings/connections/{server.public_id}/connect/")
    assert response.status_code == 200, response.content
    return response.context["page"].address


def come_back(client: Client, answer: dict[str, str]) -> Any:
    return client.get(CALLBACK, answer)


# --- the whole way ----------------------------------------------------------------------------------


def test_person_connects_on_the_settings_page(
    client: Client, alice: User, server: ToolServer, oauth: OAuthServer
) -> None:
    client.force_login(alice)
    address = page_of(client, server)
    response = come_back(client, answer_in(oauth.allow(address)))

    assert response.status_code == 302
    assert response["Location"] == "/settings/connections/"
    account = ToolAccount.objects.get()
    assert (account.person, account.server, account.issuer) == (alice, server, oauth.url)
    assert account.open_tokens()["access"] in oauth.families[0].access
    assert account.open_tokens()["access"] not in account.sealed_tokens
    asked = dict(parse_qsl(urlsplit(address).query))
    assert asked["code_challenge_method"] == "S256"
    assert asked["resource"] == oauth.mcp
    assert asked["redirect_uri"] == settings.SITE_URL + CALLBACK
    [exchange] = oauth.sent("/token")
    assert exchange.form["resource"] == oauth.mcp
    assert AuditEvent.objects.get(verb="tool_account.connected").actor == alice
    page = client.get("/settings/connections/").content.decode()
    assert "Connected" in page
    assert account.open_tokens()["access"] not in page
    assert not ToolSignIn.objects.exists()


def test_nothing_secret_is_in_the_row_of_a_sign_in(
    alice: User, server: ToolServer, oauth: OAuthServer
) -> None:
    page = actions.begin_sign_in(alice, server)

    started = ToolSignIn.objects.get()
    state = dict(parse_qsl(urlsplit(page.address).query))["state"]
    assert started.state_digest == hashlib.sha256(state.encode()).hexdigest()
    assert started.open_verifier() not in started.sealed_verifier
    assert started.open_verifier() not in page.address


# --- attacks on the way back ------------------------------------------------------------------------


def test_state_of_somebody_else_used_or_old_is_not_found(
    client: Client, alice: User, bob: User, server: ToolServer, oauth: OAuthServer
) -> None:
    client.force_login(bob)
    foreign = answer_in(oauth.allow(actions.begin_sign_in(alice, server).address))
    used = answer_in(oauth.allow(page_of(client, server)))
    come_back(client, used)
    old = answer_in(oauth.allow(page_of(client, server)))
    ToolSignIn.objects.filter(person=bob).update(began_at=timezone.now() - timedelta(minutes=61))
    exchanges = len(oauth.sent("/token"))

    outcomes = [
        come_back(client, answer)
        for answer in (foreign, used, old, {**used, "state": "never"}, {"code": "x"}, {})
    ]

    assert [each.status_code for each in outcomes] == [404] * 6
    assert len({each.content.count(b"<") for each in outcomes}) == 1
    assert len(oauth.sent("/token")) == exchanges
    # Hers is still good: a stranger uses nobody's state up.
    assert ToolSignIn.objects.filter(person=alice).count() == 1
    assert ToolAccount.objects.filter(person=alice).count() == 0


def _changed(**members: str | None) -> Callable[[dict[str, str]], dict[str, str]]:
    def change(answer: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in {**answer, **members}.items() if value is not None}

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_changed(iss="https://evil.test"), "another sign-in server"),
        (_changed(iss=None), "another sign-in server"),
        (_changed(iss=""), "another sign-in server"),
        (_changed(code=None, error="access_denied"), "canceled"),
        (_changed(code=None, error="<script>"), "refused the sign-in"),
        (_changed(code=None), "refused the sign-in"),
        (_changed(code="stolen"), "refused the sign-in"),
    ],
    ids=["wrong iss", "no iss", "empty iss", "denied", "error", "no code", "foreign code"],
)
def test_wrong_answers_connect_nothing(
    client: Client,
    alice: User,
    server: ToolServer,
    oauth: OAuthServer,
    change: Callable[[dict[str, str]], dict[str, str]],
    sentence: str,
) -> None:
    client.force_login(alice)
    answer = change(answer_in(oauth.allow(page_of(client, server))))
    response = client.get(CALLBACK, answer, follow=True)

    assert sentence in response.content.decode()
    assert "<script>" not in response.content.decode()
    assert not ToolAccount.objects.exists()
    # The state is used up, whatever the answer was.
    assert come_back(client, answer).status_code == 404


def test_issuer_need_not_name_itself_if_it_does_not_promise_to(
    alice: User, connect: Connect, oauth: OAuthServer
) -> None:
    oauth.names_issuer = False
    oauth.issuer["authorization_response_iss_parameter_supported"] = None

    assert connect(alice).problem == ""


def test_code_of_an_honest_server_reaches_no_hostile_one(
    alice: User, server: ToolServer, oauth: OAuthServer
) -> None:
    """The tool server has an issuer of its own, which sends people to somebody else's."""
    with oauth_server() as honest:
        honest.names_issuer = False
        oauth.issuer["authorization_endpoint"] = f"{honest.url}/authorize"
        oauth.issuer["authorization_response_iss_parameter_supported"] = None
        with pytest.raises(ActionRefused, match="RFC 9207"):
            actions.begin_sign_in(alice, server)
        # If it promises its name, the honest server's answer lacks it.
        oauth.issuer["authorization_response_iss_parameter_supported"] = True
        page = actions.begin_sign_in(alice, server)
        answer = answer_in(honest.allow(page.address))
        with pytest.raises(ActionRefused, match="another sign-in server"):
            actions.finish(alice, actions.take_sign_in(alice, answer["state"]), answer)

    assert oauth.sent("/token") == []


@pytest.mark.parametrize("name", ["next", "redirect_uri", "return_to"])
def test_way_back_leads_to_no_other_site(
    client: Client, alice: User, server: ToolServer, oauth: OAuthServer, name: str
) -> None:
    client.force_login(alice)
    response = client.post(
        f"/settings/connections/{server.public_id}/connect/", {name: "https://evil.test"}
    )
    asked = response.context["page"].address
    answer = {**answer_in(oauth.allow(asked)), name: "https://evil.test"}

    assert come_back(client, answer)["Location"] == "/settings/connections/"
    assert "evil.test" not in asked


def test_server_that_moved_since_gets_no_account(
    alice: User, administrator: User, server: ToolServer, oauth: OAuthServer
) -> None:
    answer = answer_in(oauth.allow(actions.begin_sign_in(alice, server).address))
    started = actions.take_sign_in(alice, answer["state"])
    ToolServer.objects.update(address="http://other.test/mcp")

    with pytest.raises(ActionRefused):
        actions.finish(alice, started, answer)

    assert not ToolAccount.objects.exists()


# --- tokens -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"access_token": "a b", "token_type": "Bearer"},
        {"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer"},
        {"access_token": "x" * 9000, "token_type": "Bearer"},
        {"access_token": "a", "token_type": "mac"},
        {"access_token": 7, "token_type": "Bearer"},
        ["a"],
    ],
)
def test_answers_without_a_usable_token_are_refused(
    alice: User, connect: Connect, oauth: OAuthServer, document: object
) -> None:
    oauth.answers["/token"] = lambda request: json_reply(document)

    with pytest.raises(ActionRefused):
        connect(alice)


def test_endless_token_answer_is_cut(alice: User, connect: Connect, oauth: OAuthServer) -> None:
    oauth.answers["/token"] = lambda request: (200, {}, b" " * 10_000_000)

    with pytest.raises(ActionRefused):
        connect(alice)


# --- disconnecting ----------------------------------------------------------------------------------


def test_disconnecting_deletes_and_revokes(
    client: Client,
    alice: User,
    connect: Connect,
    oauth: OAuthServer,
    django_capture_on_commit_callbacks: Any,
) -> None:
    account = connect(alice)
    held = account.open_tokens()
    client.force_login(alice)
    with django_capture_on_commit_callbacks(execute=True):
        response = client.post(f"/settings/connections/{account.public_id}/disconnect/")
    wait_for_revocations()

    assert response.status_code == 302
    assert not ToolAccount.objects.exists()
    assert [each.form["token"] for each in oauth.sent("/revoke")] == [
        held["refresh"],
        held["access"],
    ]
    assert AuditEvent.objects.filter(verb="tool_account.disconnected").exists()


def test_disconnecting_works_although_the_issuer_is_gone(
    alice: User, connect: Connect, oauth: OAuthServer, django_capture_on_commit_callbacks: Any
) -> None:
    account = connect(alice)
    oauth.answers["/revoke"] = lambda request: (500, {}, b"")

    with django_capture_on_commit_callbacks(execute=True):
        actions.disconnect(alice, account)
    wait_for_revocations()

    assert not ToolAccount.objects.exists()


def test_accounts_of_others_do_not_exist(
    client: Client, alice: User, bob: User, administrator: User, connect: Connect
) -> None:
    account = connect(alice)
    for other in (bob, administrator):
        client.force_login(other)
        assert (
            client.post(f"/settings/connections/{account.public_id}/disconnect/").status_code == 404
        )
        assert str(account.public_id) not in client.get("/settings/connections/").content.decode()
    assert ToolAccount.objects.exists()


@pytest.mark.parametrize(
    "ends",
    ["removed from the team", "server removed", "server moved", "key for everybody"],
)
def test_accounts_end_with_what_they_are_for(
    ends: str, alice: User, administrator: User, team: Team, server: ToolServer, connect: Connect
) -> None:
    other = User.objects.create_user("cleo", "cleo@example.com")
    Membership.objects.create(team=team, user=other, role="member")
    connect(other)
    actions.begin_sign_in(other, server)
    change = {"name": "Harbor", "headers": None}
    verbs: dict[str, Callable[[], object]] = {
        "removed from the team": lambda: remove_member(
            administrator, Membership.objects.get(team=team, user=other)
        ),
        "server removed": lambda: servers.remove_server(administrator, server),
        "server moved": lambda: servers.change_server(
            administrator, server, address="http://new.test/", signs_in_people=True, **change
        ),
        "key for everybody": lambda: servers.change_server(
            administrator, server, address=server.address, **change
        ),
    }
    verbs[ends]()

    assert not ToolAccount.objects.exists()


def test_entering_another_client_id_ends_accounts_of_the_one_before(
    administrator: User, alice: User, server: ToolServer, connect: Connect, oauth: OAuthServer
) -> None:
    entered = {"issuer": oauth.url, "client_id": "one", "secret": ""}
    actions.enter_client_of(administrator, server, **entered)
    connect(alice)
    assert ToolAccount.objects.get().client.client_id == "one"

    entered = {"issuer": oauth.url, "client_id": "two", "secret": "s3cret-canary"}
    actions.enter_client_of(administrator, server, **entered)

    assert not ToolAccount.objects.exists()
    client = OAuthClient.objects.get()
    assert (client.client_id, client.open_secret()) == ("two", "s3cret-canary")
    assert "canary" not in client.sealed_secret


def test_server_that_was_removed_is_not_revived_by_a_late_answer(
    client: Client, alice: User, administrator: User, server: ToolServer, oauth: OAuthServer
) -> None:
    client.force_login(alice)
    answer = answer_in(oauth.allow(page_of(client, server)))
    servers.remove_server(administrator, server)

    assert come_back(client, answer).status_code == 404
    assert not ToolServer.objects.exists()
    assert oauth.sent("/token") == []


# --- the settings of a server -----------------------------------------------------------------------


def test_administrator_chooses_that_each_person_signs_in(
    client: Client, administrator: User, team: Team
) -> None:
    client.force_login(administrator)
    add = f"/people/tool-servers/add/{team.public_id}/"
    fields = {"name": "Harbor", "address": "http://a.test/mcp", "signs_in_people": "on"}

    refused = client.post(add, {**fields, "headers": "X-Key: sk-canary-0123456789"})
    assert "Leave the headers empty" in refused.content.decode()
    assert "sk-canary" not in refused.content.decode()
    client.post(add, fields)

    stored = ToolServer.objects.get()
    assert (stored.signs_in_people, stored.listed_by) == (True, administrator)
    page = client.get(f"/people/tool-servers/{stored.public_id}/").content.decode()
    assert "Connect your account to read the tools." in page

    # A key for everybody and accounts exclude each other.
    settings_address = f"/people/tool-servers/{stored.public_id}/settings/"
    client.post(
        settings_address,
        {"name": "Harbor", "address": stored.address, "headers": "X-Key: sk-canary-0123456789"},
    )
    stored.refresh_from_db()
    assert (stored.credentials, stored.has_headers) == ("shared", True)
    client.post(settings_address, fields)
    stored.refresh_from_db()
    assert (stored.credentials, stored.has_headers) == ("person", False)


def test_server_without_sign_in_has_no_accounts(
    client: Client, alice: User, server: ToolServer
) -> None:
    ToolServer.objects.update(credentials="none")
    client.force_login(alice)

    response = client.post(f"/settings/connections/{server.public_id}/connect/")

    assert response.status_code == 404
    assert "Harbor" not in client.get("/settings/connections/").content.decode()


def test_signing_in_again_and_again_is_limited(
    client: Client, alice: User, server: ToolServer, oauth: OAuthServer
) -> None:
    for _ in range(actions.PER_MINUTE):
        actions.begin_sign_in(alice, server)

    with pytest.raises(ActionRefused, match="Wait a minute"):
        actions.begin_sign_in(alice, server)
    assert ToolSignIn.objects.count() == actions.PER_MINUTE
