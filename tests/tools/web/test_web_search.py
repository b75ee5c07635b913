"""The form of the web search: who turns it on, what is stored, and what nobody sees again."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from chat.models import AuditEvent, Conversation, Team, Tool, ToolKind, ToolRule
from chat.tools.definitions import call_digest
from chat.tools.web.results import BRAVE_ADDRESS, TAVILY_ADDRESS

KEY = "key-canary-0123456789"


@pytest.fixture(autouse=True)
def _teams_turn_it_on(settings: Settings) -> None:
    settings.TEAM_TOOL_SERVERS = True


def save(client: Client, team: Team, **more: str) -> tuple[int, str]:
    fields = {"service": "searxng", "address": "", "key": "", "rule": "auto", "page_rule": "ask"}
    url = reverse("web_search", args=[team.public_id])
    response = client.post(url, fields | more)
    return response.status_code, response.content.decode()


def tools(team: Team) -> dict[str, Tool]:
    return {tool.kind: tool for tool in team.tools.select_related("request")}


def test_search_is_turned_on_with_one_address(as_alice: Client, team: Team) -> None:
    status, _ = save(as_alice, team, address="https://search.example/x/")

    found = tools(team)
    assert status == 302
    assert {kind: (tool.name, tool.rule) for kind, tool in found.items()} == {
        ToolKind.SEARCH: ("web_search", ToolRule.AUTO),
        ToolKind.PAGE: ("read_page", ToolRule.ASK),
    }
    search = found[ToolKind.SEARCH]
    assert (search.request.service, search.request.address) == (
        "searxng",
        "https://search.example/x/",
    )
    assert search.is_read_only
    assert not search.request.has_headers
    page = as_alice.get(reverse("tools")).content.decode()
    assert "SearXNG" in page
    response = as_alice.get(reverse("tool", args=[search.public_id]))
    assert response["Location"] == reverse("web_search", args=[team.public_id])


@pytest.mark.parametrize(
    ("service", "address", "headers"),
    [
        ("brave", BRAVE_ADDRESS, {"X-Subscription-Token": KEY}),
        ("tavily", TAVILY_ADDRESS, {"Authorization": f"Bearer {KEY}"}),
    ],
)
def test_search_is_turned_on_with_one_key_that_nobody_sees_again(
    as_alice: Client, team: Team, service: str, address: str, headers: dict[str, str]
) -> None:
    save(as_alice, team, service=service, key=f" {KEY} ", page_rule="off")

    request = tools(team)[ToolKind.SEARCH].request
    assert (request.address, request.open_headers()) == (address, headers)
    assert KEY not in request.sealed_headers
    assert ToolKind.PAGE not in tools(team)
    # Without a key the stored one is kept; another service gets none of it.
    assert save(as_alice, team, service=service, rule="ask")[0] == 302
    assert tools(team)[ToolKind.SEARCH].request.open_headers() == headers
    other = {"brave": "tavily", "tavily": "brave"}[service]
    status, page = save(as_alice, team, service=other)
    assert (status, "field-error" in page) == (422, True)
    assert KEY not in page
    assert KEY not in as_alice.get(reverse("web_search", args=[team.public_id])).content.decode()
    assert KEY not in str(list(AuditEvent.objects.values_list("detail", flat=True)))
    assert save(as_alice, team, address="https://search.example")[0] == 302
    assert not tools(team)[ToolKind.SEARCH].request.has_headers


@pytest.mark.parametrize(
    "fields",
    [
        {"address": ""},
        {"address": "search.example"},
        {"address": "https://search.example/{q}"},
        {"address": "https://search.example/?q=1"},
        {"address": "https://user:secret@search.example/"},
        {"service": "google"},
        {"service": "brave"},
        {"service": "brave", "key": "with space"},
        {"service": "brave", "key": "line\nbreak"},
        {"service": "brave", "key": "ä"},
        {"address": "https://search.example", "rule": "always"},
    ],
)
def test_invalid_form_changes_nothing(as_alice: Client, team: Team, fields: dict[str, str]) -> None:
    assert save(as_alice, team, **fields)[0] == 422
    assert not Tool.objects.exists()


def test_name_that_the_team_has_already_is_refused(as_alice: Client, team: Team) -> None:
    Tool.objects.create(team=team, name="web_search")

    status, page = save(as_alice, team, address="https://search.example")

    assert status == 422
    assert "already has a tool named web_search" in page


def test_another_service_is_another_tool_to_approve(as_alice: Client, team: Team) -> None:
    save(as_alice, team, address="https://search.example")
    before = call_digest(tools(team)[ToolKind.SEARCH])

    save(as_alice, team, address="https://other.example")

    assert call_digest(tools(team)[ToolKind.SEARCH]) != before


def test_removal_takes_both_from_conversations(
    as_alice: Client, team: Team, conversation: Conversation
) -> None:
    save(as_alice, team, address="https://search.example")
    conversation.tools.set(team.tools.all())

    as_alice.post(reverse("web_search_remove", args=[team.public_id]))

    assert not conversation.tools.exists()
    assert not Tool.objects.exists()


def test_members_cannot_turn_it_on(as_bob: Client, team: Team) -> None:
    assert save(as_bob, team, address="https://search.example")[0] == 403
    assert not Tool.objects.exists()
