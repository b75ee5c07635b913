"""A web search in an answer: turned on with an address, run by itself, its results listed as sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.runs.waiting import calling, saying, wire_call
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.remote_host import RemoteHost

RESULTS = {
    "results": [
        {"title": "The Elbe", "url": "https://rivers.example/elbe", "content": "1,112 km long"},
        {"title": "<b>Rivers</b>", "url": "https://b.example/rivers", "content": ""},
    ]
}


@pytest.fixture
def searxng() -> Iterator[RemoteHost]:
    with RemoteHost() as host:
        host.serve("/search?q=elbe+length&format=json", json.dumps(RESULTS).encode())
        yield host


@pytest.fixture
def tool(site: BrowserSite, searxng: RemoteHost) -> Iterator[UUID]:
    with site.speaking("openai_chat"):
        added = site.post(
            "Ada",
            f"/people/tools/web-search/{UUID(site.world.team)}/",
            service="searxng",
            address=searxng.url,
            rule="auto",
            page_rule="off",
        )
        assert added.status_code == 302, added.text
        yield UUID(site.value("SELECT public_id FROM chat_tool WHERE name = 'web_search'"))
        site.rows("DELETE FROM chat_conversation_tools")
        site.rows("DELETE FROM chat_toolrequest")
        site.rows("UPDATE chat_toolcall SET tool_id = NULL")
        site.rows("DELETE FROM chat_tool WHERE name = 'web_search'")


def test_search_runs_and_its_results_are_the_sources(
    site: BrowserSite, tab: OpenTab, tool: UUID, searxng: RemoteHost
) -> None:
    search = wire_call(0, "c1", "web_search", '{"query": "elbe length"}')
    site.fake.script(calling(search), saying("It is 1,112 km long."))
    run = site.send("How long is the Elbe?", tools=[tool])
    bob = tab("Bob", site.room(run))

    bob.shows("It is 1,112 km long.")
    sources = bob.page.locator("details.sources")
    expect(sources).to_have_count(1)
    sources.locator("summary").click()
    first, second = sources.locator("a").nth(0), sources.locator("a").nth(1)
    expect(first).to_have_attribute("href", "https://rivers.example/elbe")
    expect(first).to_contain_text("The Elbe")
    expect(second).to_contain_text("<b>Rivers</b>")
    expect(bob.page.locator(".ask")).to_contain_text("Ran automatically")
    live = sources.inner_text()
    bob.reload()
    sources.locator("summary").click()
    assert sources.inner_text() == live
    assert searxng.paths == ["/search?q=elbe+length&format=json"]
