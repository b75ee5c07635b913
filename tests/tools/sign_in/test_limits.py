"""What a request of a person may cost a web process: the time of all questions together, and their number."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from chat.core.errors import ActionRefused
from chat.models import Team, ToolServer, ToolSignIn, User
from chat.tools.sign_in import actions, asking, found
from chat.tools.sign_in.asking import BUSY, Asking
from chat.tools.sign_in.documents import UNREACHABLE
from chat.tools.sign_in.metadata import SignInFailed
from chat.upstreams.client import default_trust
from chat.upstreams.configured import is_at_private_address
from tests.tools.sign_in.conftest import Connect, answer_in
from tests.tools.sign_in.oauth_server import OAuthServer, Reply, Seen, json_reply, oauth_server

pytestmark = pytest.mark.django_db

ISSUER = "/.well-known/oauth-authorization-server"


@pytest.fixture
def blocked() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def waiting_for(event: threading.Event, answer: Callable[[Seen], Reply]) -> Callable[[Seen], Reply]:
    """Answers when the test is over."""

    def wait(request: Seen) -> Reply:
        event.wait(30)
        return answer(request)

    return wait


@pytest.mark.parametrize("path", ["/mcp", ISSUER, "/register", "/token"])
def test_request_of_a_person_ends_although_a_server_says_nothing(
    path: str,
    alice: User,
    connect: Connect,
    oauth: OAuthServer,
    blocked: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It is read once in a process.
    default_trust()
    monkeypatch.setattr(asking, "ASK_SECONDS", 1.5)
    oauth.answers[path] = waiting_for(blocked, lambda request: (404, {}, b""))

    with pytest.raises(ActionRefused, match="couldn’t be reached"):
        connect(alice)

    assert [request.path for request in oauth.requests][-1] == path


def test_discovery_and_registration_have_one_limit(
    team: Team, alice: User, server: ToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(asking, "monotonic", lambda: now[0])
    question = Asking(server.address)
    now[0] = asking.ASK_SECONDS - 1

    async def nothing(client: object) -> str:
        return "answer"

    assert question.run(nothing) == "answer"

    async def another(client: object) -> str:
        await asyncio.sleep(0)
        return "late"

    now[0] = asking.ASK_SECONDS + 1
    with pytest.raises(SignInFailed) as caught:
        question.run(another)
    assert str(caught.value) == UNREACHABLE


def test_other_requests_do_not_wait_at_a_server_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "TURN_SECONDS", 0.01)
    first, same, second, third = (Asking(f"https://{name}.test/") for name in ("a", "a", "b", "c"))

    with first.turn():
        with pytest.raises(SignInFailed) as caught, same.turn():
            pytest.fail("The server is asked twice at the same time.")
        with second.turn(), pytest.raises(SignInFailed), third.turn():
            pytest.fail("More requests than allowed ask servers.")
        with third.turn():
            pass
    with same.turn():
        pass

    assert str(caught.value) == BUSY


def test_turn_is_refused_without_a_request(
    alice: User, server: ToolServer, oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "TURN_SECONDS", 0.01)

    with Asking(server.address).turn(), pytest.raises(ActionRefused, match="Other people"):
        actions.begin_sign_in(alice, server)

    assert oauth.requests == []
    assert not ToolSignIn.objects.exists()


def test_what_was_found_is_kept_for_a_while(
    alice: User, server: ToolServer, oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions.begin_sign_in(alice, server)
    actions.begin_sign_in(alice, server)
    assert len(oauth.sent(ISSUER)) == 1

    monkeypatch.setattr(found, "KEPT_SECONDS", 0.0)
    actions.begin_sign_in(alice, server)
    assert len(oauth.sent(ISSUER)) == 2


def test_number_of_kept_places_is_bounded(
    oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found, "MOST_KEPT", 1)
    with oauth_server() as other:
        found.find(Asking(oauth.mcp))
        found.find(Asking(other.mcp))

        assert found.known(oauth.mcp) is None
        assert found.known(other.mcp) is not None


def test_entering_client_ids_again_and_again_is_limited(
    client: Client, administrator: User, server: ToolServer, oauth: OAuthServer
) -> None:
    client.force_login(administrator)
    address = f"/people/tool-servers/{server.public_id}/client/"
    for _ in range(actions.PER_MINUTE):
        assert client.post(address).status_code == 200

    assert client.post(address).status_code == 302


# --- addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "proxy", "expected"),
    [
        ("http://10.0.0.1/mcp", "", True),
        ("http://127.1:8000/mcp", "", True),
        ("https://[fd00::1]/mcp", "", True),
        ("http://localhost/mcp", "", True),
        ("https://93.184.215.14/mcp", "", False),
        ("https://no-such-host.invalid/mcp", "", False),
        # The proxy resolves names.
        ("http://localhost/mcp", "http://proxy.test:3128", False),
        ("http://10.0.0.1/mcp", "http://proxy.test:3128", True),
    ],
)
async def test_servers_at_private_addresses(
    settings: Settings, url: str, proxy: str, expected: bool
) -> None:
    settings.UPSTREAM_PROXY = proxy

    assert await is_at_private_address(url) is expected


@pytest.mark.parametrize("path", ["/mcp", "/register", "/token"])
def test_public_server_leads_to_no_private_address(
    path: str,
    alice: User,
    connect: Connect,
    oauth: OAuthServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tests' server is at a private address; from one request on it counts as a public one."""
    at_private = {"/mcp": 0, "/register": 1, "/token": 2}[path]
    asked: list[str] = []

    async def is_private(url: str) -> bool:
        asked.append(url)
        return len(asked) <= at_private

    monkeypatch.setattr("chat.upstreams.configured.is_at_private_address", is_private)

    with pytest.raises(ActionRefused, match="couldn’t be reached"):
        connect(alice)

    assert oauth.sent(path) == []
    assert set(asked) == {oauth.mcp}


# --- a client id goes to the issuer that was seen ---------------------------------------------------


def test_client_id_is_stored_for_no_issuer_that_nobody_saw(
    client: Client, administrator: User, server: ToolServer, oauth: OAuthServer
) -> None:
    client.force_login(administrator)
    address = f"/people/tool-servers/{server.public_id}/client/"
    fields = {"client_id": "mine", "client_secret": "s3cret-canary"}
    assert f'value="{oauth.url}"' in client.post(address).content.decode()
    # The server names another one from now on.
    with oauth_server() as other:
        oauth.resource["authorization_servers"] = [other.url]
        found.forget()
        cache.clear()

        shown = client.post(address, {**fields, "issuer": oauth.url}, follow=True)

        assert "names another sign-in server" in shown.content.decode()
        assert not server.team.oauth_clients.exists()
        client.post(address, {**fields, "issuer": other.url})
        assert server.team.oauth_clients.get().issuer == other.url


def test_page_before_leaving_shows_the_issuer(
    client: Client, alice: User, server: ToolServer, oauth: OAuthServer
) -> None:
    oauth.issuer["authorization_endpoint"] = "http://login.test/authorize"
    client.force_login(alice)

    page = client.post(f"/settings/connections/{server.public_id}/connect/").content.decode()

    assert "login.test</strong>" in page
    assert f"{oauth.url}</span>" in page


# --- a registration that the issuer has forgotten ---------------------------------------------------


@pytest.mark.parametrize("error", ["invalid_client", "unauthorized_client"])
@pytest.mark.parametrize("where", ["/token", "answer"])
def test_registration_that_was_forgotten_is_made_anew(
    error: str, where: str, alice: User, server: ToolServer, connect: Connect, oauth: OAuthServer
) -> None:
    if where == "/token":
        oauth.answers["/token"] = lambda request: json_reply({"error": error}, 401)
        with pytest.raises(ActionRefused):
            connect(alice)
        del oauth.answers["/token"]
    else:
        page = actions.begin_sign_in(alice, server)
        state = answer_in(page.address)["state"]
        answer = {"error": error, "iss": oauth.url}
        with pytest.raises(ActionRefused):
            actions.finish(alice, actions.take_sign_in(alice, state), answer)

    assert connect(alice).client.client_id == "dyn-2"
    assert len(oauth.sent("/register")) == 2
