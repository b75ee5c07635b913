"""Servers on this machine are found, and the demo servers are hidden once one of them works."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html
from pytest_django import Settings

from chat.models import AuditEvent, Team, Upstream, User
from chat.servers import discovery
from chat.upstreams import addresses
from tests.servers.conftest import PlainServer
from tests.support.rooms import text_of

HOST = discovery.CONTAINER_HOST
VLLM = {"data": [{"id": "acme/river", "owned_by": "vllm"}]}
LM_STUDIO = {"models": [{"type": "llm", "key": "acme/brook", "display_name": "Brook"}]}


@pytest.fixture
def port(plain_server: PlainServer, settings: Settings) -> int:
    found = urlsplit(plain_server.url).port or 0
    settings.SERVER_PORTS = [found]
    return found


def look(client: Client) -> list[tuple[str, dict[str, str]]]:
    """The text of each server that was found, and what its form sends."""
    page = html.fromstring(client.post(reverse("server_discover")).content.decode())
    tiles = page.get_element_by_id("found").xpath(".//*[@class='tile']")
    return [
        (text_of(tile), dict(tile.form_values()) if tile.tag == "form" else {}) for tile in tiles
    ]


@pytest.mark.parametrize(
    ("body", "status", "name", "note", "kind", "path"),
    [
        (VLLM, 200, "vLLM", "1 model", "vllm", "/v1"),
        (LM_STUDIO, 200, "LM Studio", "1 model", "lm-studio", ""),
        ({"data": [{"id": "a"}, {"id": "b"}]}, 200, "Compatible", "2 models", "other", "/v1"),
        ({"error": {"message": "no key"}}, 401, "Compatible", "Needs an API key", "other", "/v1"),
    ],
)
def test_server_on_a_usual_port_is_found(
    admin_client: Client,
    plain_server: PlainServer,
    port: int,
    body: dict[str, object],
    status: int,
    name: str,
    note: str,
    kind: str,
    path: str,
) -> None:
    plain_server.body, plain_server.status = json.dumps(body).encode(), status

    [(text, sent)] = look(admin_client)

    address = f"http://localhost:{port}{path}"
    assert name in text
    assert note in text
    assert (sent["kind"], sent["address"]) == (kind, address)
    form = admin_client.get(reverse("server_add", query={"kind": kind, "address": address}))
    shown = html.fromstring(form.content.decode()).get_element_by_id("id_base_url")
    assert shown.get("value") == address


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[" * 10_000])
def test_what_is_no_llm_server_is_not_found(
    admin_client: Client, plain_server: PlainServer, port: int, body: bytes
) -> None:
    plain_server.body = body

    assert look(admin_client) == []


def test_nothing_is_asked_before_the_button_is_pressed(
    admin_client: Client, plain_server: PlainServer, port: int
) -> None:
    page = admin_client.get(reverse("server_add")).content.decode()

    assert "Look for servers" in page
    assert plain_server.keys == []


# --- inside a container -------------------------------------------------------------------------


@dataclass
class Container:
    """Inside it, localhost is the container, where nothing listens."""

    names: dict[str, str]
    looked_up: list[str] = field(default_factory=list)

    def getaddrinfo(self, host: str, port: int) -> list[tuple[object, ...]]:
        self.looked_up.append(host)
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return [(None, None, None, None, (self.names[host], port))]


@pytest.fixture
def container(
    plain_server: PlainServer, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Container:
    plain_server.body = json.dumps(VLLM).encode()
    inside = Container({"localhost": "127.0.0.2", HOST: "127.0.0.1"})
    monkeypatch.setattr(addresses, "_getaddrinfo", inside.getaddrinfo)
    mark = tmp_path / ".dockerenv"
    mark.touch()
    monkeypatch.setattr(discovery, "CONTAINER_MARKS", (tmp_path / "none", mark))
    return inside


def test_server_on_the_host_of_the_container_is_found(
    admin_client: Client, plain_server: PlainServer, port: int, container: Container
) -> None:
    before = admin_client.get(reverse("server_add"))
    asked_before = [*container.looked_up, *plain_server.keys]

    [(text, sent)] = look(admin_client)

    assert before.status_code == 200
    assert asked_before == []
    assert "vLLM" in text
    assert (sent["kind"], sent["address"]) == ("vllm", f"http://{HOST}:{port}/v1")


@pytest.mark.parametrize(
    ("names", "networks", "own"),
    [
        ({"localhost": "127.0.0.2"}, "any", False),
        ({HOST: "127.0.0.1"}, "10.0.0.0/8:*", False),
        ({HOST: "127.0.0.1"}, "any", True),
        ({HOST: "169.254.169.254"}, "any", False),
    ],
    ids=["no such name", "not allowed", "this installation", "never allowed"],
)
def test_host_of_the_container_is_behind_the_address_policy(
    admin_client: Client,
    plain_server: PlainServer,
    port: int,
    container: Container,
    settings: Settings,
    names: dict[str, str],
    networks: str,
    own: bool,
) -> None:
    container.names = names
    settings.UPSTREAM_PRIVATE_NETWORKS = networks
    settings.OWN_PORTS = [port] if own else []

    assert look(admin_client) == []

    assert HOST in container.looked_up
    assert plain_server.keys == []


def test_host_is_not_looked_up_outside_of_containers(
    admin_client: Client, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "CONTAINER_MARKS", ())

    assert look(admin_client) == []

    assert set(container.looked_up) == {"localhost"}


def test_container_leads_from_localhost_to_its_host(
    admin_client: Client, demo_server: str, container: Container
) -> None:
    """Also where somebody types the address that works outside of it."""
    port = urlsplit(demo_server).port
    typed = {"name": "Shed", "dialect": "openai_chat", "concurrency_limit": 4}
    typed["base_url"] = f"http://localhost:{port}"

    page = admin_client.post(reverse("server_add"), typed).content.decode()

    assert f'value="http://{HOST}:{port}/v1"' in page


@pytest.mark.parametrize("silent", ["server", "name server"])
def test_what_is_silent_is_not_waited_for(
    admin_client: Client,
    plain_server: PlainServer,
    container: Container,
    monkeypatch: pytest.MonkeyPatch,
    silent: str,
) -> None:
    """It is released only after the page has come."""
    monkeypatch.setattr(discovery, "SECONDS", 0.1)
    release = threading.Event()
    reply = plain_server.answer

    def late(key: str) -> bytes:
        release.wait(60)
        return reply(key)

    def late_lookup(host: str, port: int) -> list[tuple[object, ...]]:
        release.wait(60)
        return container.getaddrinfo(host, port)

    if silent == "server":
        monkeypatch.setattr(plain_server, "answer", late)
    else:
        monkeypatch.setattr(addresses, "_getaddrinfo", late_lookup)
    try:
        assert look(admin_client) == []
        assert not release.is_set()
    finally:
        release.set()


def test_this_installation_and_its_demo_are_not_found(
    admin_client: Client, plain_server: PlainServer, port: int, settings: Settings
) -> None:
    plain_server.body = json.dumps(VLLM).encode()
    settings.DEMO_UPSTREAM_URL = plain_server.url
    as_demo = look(admin_client)
    settings.DEMO_UPSTREAM_URL, settings.OWN_PORTS = "", [port]
    as_own = look(admin_client)

    assert as_demo == as_own == []
    assert plain_server.keys == []


def test_added_server_is_marked(admin_client: Client, plain_server: PlainServer, port: int) -> None:
    plain_server.body = json.dumps(VLLM).encode()
    address = f"http://localhost:{port}/v1"
    Upstream.objects.create(name="A", dialect="openai_chat", base_url=address)

    [(text, sent)] = look(admin_client)

    assert "Already added" in text
    assert sent == {}


def test_found_server_is_tested_and_added(
    admin_client: Client,
    demo_server: str,
    alice: User,
    team: Team,
    signed_in: Callable[[User], Client],
) -> None:
    Upstream.objects.create(name="vLLM", dialect="openai_chat", base_url="http://a.example")
    sent = {"kind": "vllm", "address": f"{demo_server}/v1/"}

    answer = admin_client.post(reverse("server_connect"), sent)

    added = Upstream.objects.get(name="vLLM 2")
    assert added.is_enabled
    assert (added.base_url, added.options) == (f"{demo_server}/v1", {"extras": "vllm"})
    assert answer["Location"] == reverse("home", query={"server": added.public_id.hex})
    page = html.fromstring(signed_in(alice).get(answer["Location"]).content.decode())
    [chosen] = page.get_element_by_id("id_choice").xpath(".//option[@selected]")
    assert chosen.get("value").startswith(added.public_id.hex)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "ftp://a", "http://u:p@a.example"])
def test_found_server_that_fails_its_test_is_not_added(admin_client: Client, address: str) -> None:
    sent = {"kind": "vllm", "address": address}

    answer = admin_client.post(reverse("server_connect"), sent, follow=True)

    assert not Upstream.objects.exists()
    assert answer.redirect_chain[0][0].startswith(reverse("server_add"))
    assert (
        html.fromstring(answer.content.decode()).get_element_by_id("notices").text_content().strip()
    )


@pytest.mark.parametrize("probe", [[], [{"name": "answer", "state": "failed"}]])
def test_demo_servers_can_be_hidden_once_another_server_works(
    admin_client: Client, upstream: Upstream, probe: list[dict[str, str]]
) -> None:
    demos = [
        Upstream.objects.create(name=name, dialect=name, base_url="http://a", is_demo=True)
        for name in ("lmstudio", "openai_chat")
    ]
    upstream.probe = probe
    upstream.save()
    before = admin_client.get(reverse("servers")).content.decode()
    upstream.probe = [{"name": "answer", "state": "ok"}]
    upstream.save()
    offered = admin_client.get(reverse("servers")).content.decode()

    page = admin_client.post(reverse("server_hide_demos"), follow=True).content.decode()

    assert "Hide demo servers" not in before
    assert "Hide demo servers" in offered
    assert "Hide demo servers" not in page
    assert Upstream.objects.filter(is_enabled=True).get() == upstream
    assert AuditEvent.objects.filter(verb="upstream.disable").count() == len(demos)
