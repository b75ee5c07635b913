"""What a connection test finds stands beside the field, and a corrected address is one press away."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import AuditEvent, Upstream
from chat.servers.actions.base_url import likely_base_url
from tests.servers.conftest import CANARY, FRAGMENT, Form, PlainServer, url_of
from tests.support.rooms import text_of

NEW: Form = {"name": "Shed", "dialect": "openai_chat", "concurrency_limit": 4, "typed_models": ""}


def add(client: Client, **changes: object) -> html.HtmlElement:
    response = client.post(reverse("server_add"), {**NEW, **changes})
    assert response.status_code in (302, 422)
    return html.fromstring(response.content.decode() or "<p>")


def error_of(page: html.HtmlElement, field: str) -> str:
    return text_of(page.get_element_by_id(f"id_{field}_error"))


def buttons(page: html.HtmlElement) -> list[str]:
    return [button.get("value") for button in page.xpath("//button[@name='use_address']")]


@pytest.mark.parametrize(
    ("status", "body", "field", "words"),
    [
        (401, {"error": {"message": "no"}}, "key", "rejected the API key"),
        (200, {"data": []}, "typed_models", "model list is empty"),
        (404, {"error": {"message": "no"}}, "base_url", "no model list at this address"),
        (503, {"error": {"message": "no"}}, "base_url", ""),
    ],
)
def test_failure_stands_beside_its_field(
    admin_client: Client,
    plain_server: PlainServer,
    status: int,
    body: object,
    field: str,
    words: str,
) -> None:
    plain_server.status, plain_server.body = status, json.dumps(body).encode()

    page = add(admin_client, base_url=plain_server.url, key=CANARY)

    assert words in error_of(page, field)
    shown = page.get_element_by_id(f"id_{field}")
    assert shown.get("aria-invalid") == "true"
    assert f"id_{field}_error" in shown.get("aria-describedby")
    assert page.xpath("//*[@autofocus]")[0] is shown
    assert words in text_of(page.get_element_by_id("test-result"))
    assert page.get_element_by_id("test-result").get("role") == "status"
    # What is right about the address is said, too.
    if field != "base_url":
        assert "can be reached" in text_of(page.get_element_by_id("id_base_url_passed"))
    assert buttons(page) == []
    assert CANARY not in html.tostring(page).decode()


@pytest.mark.parametrize("headers", [{}, FRAGMENT])
def test_button_tests_the_corrected_address_and_adds_the_server(
    admin_client: Client, demo_server: str, headers: dict[str, str]
) -> None:
    typed = {**NEW, "base_url": f"{demo_server}/v1/chat/completions"}
    refused = admin_client.post(reverse("server_add"), typed, headers=headers)
    page = html.fromstring(refused.content.decode())
    [address] = buttons(page)

    admin_client.post(reverse("server_add"), {**typed, "use_address": address}, headers=headers)

    assert address == f"{demo_server}/v1"
    assert error_of(page, "base_url").endswith(f"answers at {address}.")
    added = Upstream.objects.get()
    assert (added.base_url, added.is_enabled) == (address, True)


def test_first_button_of_the_form_tests_what_was_typed(admin_client: Client) -> None:
    """It is the one that Enter presses."""
    page = add(admin_client, base_url="localhost:9")

    first = page.get_element_by_id("settings").xpath(".//button[not(@type='button')]")[0]

    assert buttons(page) == ["http://localhost:9"]
    assert first.get("name") is None
    assert first.get("tabindex") == "-1"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("localhost:1234", "http://localhost:1234"),
        ("192.168.1.4:11434/v1/", "http://192.168.1.4:11434/v1"),
        ("rack:8000/v1", "http://rack:8000/v1"),
        ("//api.example.com/v1", "https://api.example.com/v1"),
        ("api.example.com:8443/v1", "https://api.example.com:8443/v1"),
        ("https://api.example.com/v1?key=a#b", "https://api.example.com/v1"),
        ("https://ada:secret@api.example.com", ""),
        ("ftp://api.example.com", ""),
        ("javascript:alert(1)", ""),
        ("http://a b", ""),
        ("", ""),
    ],
)
def test_address_that_was_meant(typed: str, meant: str) -> None:
    assert likely_base_url(typed) == meant


# --- of a server that was added -----------------------------------------------------------------


@pytest.fixture
def misplaced(admin_client: Client, demo_server: str) -> Upstream:
    """A server with a key, tested at an address that lacks the /v1."""
    upstream = Upstream(name="Cellar", dialect="openai_chat", base_url=f"{demo_server}/models")
    upstream.set_key(CANARY)
    upstream.save()
    admin_client.post(url_of(upstream, "server_test"))
    return upstream


def test_added_server_moves_to_the_corrected_address_and_is_tested(
    admin_client: Client, misplaced: Upstream, demo_server: str
) -> None:
    url = url_of(misplaced, "server_diagnostics")
    [address] = buttons(html.fromstring(admin_client.get(url).content.decode()))

    moved = admin_client.post(url_of(misplaced, "server_test"), {"use_address": address})

    assert moved.headers["Location"] == url
    misplaced.refresh_from_db()
    assert misplaced.base_url == address == f"{demo_server}/v1"
    # The same scheme, host and port: the key still belongs to it.
    assert misplaced.open_key() == CANARY
    assert {step["state"] for step in misplaced.probe} == {"ok", "warning"}
    change = AuditEvent.objects.get(verb="upstream.change")
    assert change.detail["base_url"]["to"] == address


@pytest.mark.parametrize("is_offered", [False, True])
def test_key_never_moves_to_another_server(
    admin_client: Client, misplaced: Upstream, is_offered: bool
) -> None:
    other = "http://127.0.0.1:9/v1"
    before = misplaced.base_url
    if is_offered:
        Upstream.objects.update(probe=[{"name": "address", "state": "failed", "correction": other}])

    admin_client.post(url_of(misplaced, "server_test"), {"use_address": other})

    misplaced.refresh_from_db()
    assert misplaced.base_url == (other if is_offered else before)
    assert misplaced.has_key is not is_offered
