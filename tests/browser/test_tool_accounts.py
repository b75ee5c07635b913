"""A call waits for an account: its person connects it from the card, and the answer goes on for everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from playwright.sync_api import Locator, expect

from chat.tools.mcp.listing import RemoteTool, digest_of
from tests.runs.waiting import calling, saying, wire_call
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.tools.sign_in.oauth_server import OAuthServer, oauth_server


@pytest.fixture
def site(site: BrowserSite) -> Iterator[BrowserSite]:
    """The shared site, whose server speaks a dialect that takes tools meanwhile."""
    with site.speaking("openai_chat"):
        yield site


@pytest.fixture
def oauth() -> Iterator[OAuthServer]:
    with oauth_server() as server:
        yield server


@pytest.fixture
def tool(site: BrowserSite, oauth: OAuthServer) -> Iterator[UUID]:
    """A tool that runs by itself, with the account of whoever asked."""
    server, tool = uuid4(), uuid4()
    site.rows(
        "INSERT INTO chat_toolserver (public_id, team_id, name, address, credentials, sealed_headers,"
        " is_enabled, protocol, test, is_demo, created_at)"
        " VALUES (?, (SELECT id FROM chat_team), 'Harbor', ?, 'person', '', 1, '', '[]', 0,"
        " CURRENT_TIMESTAMP)",
        server.hex,
        oauth.mcp,
    )
    site.rows(
        "INSERT INTO chat_tool (public_id, team_id, name, remote_name, description, schema, kind,"
        " rule, server_id, seen_digest, created_at)"
        " VALUES (?, (SELECT id FROM chat_team), 'whoami', 'whoami', '', '{}', 'mcp', 'auto',"
        " (SELECT id FROM chat_toolserver WHERE public_id = ?), ?, CURRENT_TIMESTAMP)",
        tool.hex,
        server.hex,
        digest_of(RemoteTool(name="whoami").definition),
    )
    yield tool
    for table in ("conversation_tools", "toolsignin", "toolaccount", "oauthclient"):
        site.rows(f"DELETE FROM chat_{table}")
    site.rows("UPDATE chat_toolcall SET tool_id = NULL")
    site.rows("DELETE FROM chat_tool WHERE public_id = ?", tool.hex)
    site.rows("DELETE FROM chat_toolserver WHERE public_id = ?", server.hex)


def card(tab: Tab) -> Locator:
    return tab.page.locator(".ask")


def test_person_connects_from_the_card_and_the_answer_goes_on_for_both(
    site: BrowserSite, tab: OpenTab, tool: UUID, oauth: OAuthServer
) -> None:
    site.fake.script(calling(wire_call(0, "c0", "whoami", "{}")), saying("You are ana."))
    run = site.send("Who am I?", tools=[tool])
    alice, bob = (tab(name, site.room(run)) for name in ("Alice", "Bob"))
    expect(card(bob)).to_contain_text("Waiting for Alice to connect an account")
    expect(bob.page.get_by_role("button", name="Connect account")).to_have_count(0)

    alice.button("Connect account").click()
    expect(alice.page.locator("main")).to_contain_text(f"127.0.0.1:{oauth.port}")
    alice.page.get_by_role("link", name="Continue").click()
    # The page of the sign-in server leads back to the site by its own name, which this browser has no session for.
    back = alice.page.locator("#allow").get_attribute("href") or ""
    alice.page.goto(back.replace("//localhost:", "//127.0.0.1:"))

    expect(alice.page).to_have_url(re.compile(re.escape(site.room(run))))
    for each in (alice, bob):
        each.shows("You are ana.").until_ended()
        expect(card(each)).to_contain_text("Ran automatically")
    assert oauth.calls == ["ana"]
    alice.page.goto(f"{site.url}/settings/connections/")
    expect(alice.page.locator("main")).to_contain_text("Connected")
    expect(alice.page.locator("main")).not_to_contain_text("access-ana")
