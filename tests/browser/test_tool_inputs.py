"""A tool that asks for input in the middle of a call: a colleague answers in the inbox, and both see it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

from tests.runs.waiting import calling, saying
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.processes.mcp_server import add_remote_tool, wanted_call

TOOL = "book_passage"


@pytest.fixture
def tool(site: BrowserSite) -> Iterator[UUID]:
    """The tool of the demo's server that asks for a passage."""
    site.close_questions()
    with site.speaking("openai_chat"):
        yield add_remote_tool(site, f"{site.fake.url}/mcp", TOOL)
        site.rows("DELETE FROM chat_conversation_tools")
        site.rows("UPDATE chat_toolcall SET tool_id = NULL")
        site.rows("DELETE FROM chat_tool WHERE name = ?", TOOL)
        site.rows("DELETE FROM chat_toolserver")


@pytest.mark.smoke
def test_colleague_answers_in_the_inbox(site: BrowserSite, tab: OpenTab, tool: UUID) -> None:
    scripts = saying("Ahoy."), calling(wanted_call(TOOL)), saying("It is booked.")
    # The fake is the demo's MCP server, too.
    site.fake.script(*(replace(script, path="/v1/chat/completions") for script in scripts))
    first = site.send("Hello", tools=[tool])
    site.until_ended(first)
    bob, vera = tab("Bob", site.room(first)), tab("Vera", site.room(first))
    bob.write("Book a passage for the Anna")
    for each in (bob, vera):
        expect(each.page.locator(".ask")).to_contain_text("asks for input")
        expect(each.page.locator(".ask")).to_contain_text("Which passage should I book for Anna?")
    expect(vera.page.locator(".call-input")).to_have_count(0)

    # The conversation is Alice's, the message is Bob's.
    alice = tab("Alice", "/inbox/")
    alice.page.locator(".inbox-line > summary").click()
    form = alice.page.locator(".call-input")
    expect(form.get_by_label("Passengers")).to_have_value("2")
    form.get_by_label("Lock").select_option("North lock")
    form.get_by_label("Passengers").fill("80")
    form.get_by_label("tug").check()
    alice.button("Send answer").click()
    expect(alice.page.locator(".ask .note")).to_contain_text("Day")
    form.get_by_label("Day").fill("2026-12-24")
    alice.button("Send answer").click()
    expect(alice.page.locator(".ask .note")).to_contain_text("Passengers")
    form.get_by_label("Passengers").fill("3")
    alice.button("Send answer").click()
    expect(form).to_have_count(0)

    for each in (bob, vera):
        each.shows("It is booked.").until_ended()
        card = each.page.locator(".ask")
        card.locator("summary").first.click()
        for words in ("Answered by Alice", "North lock", "2026-12-24", "tug"):
            expect(card).to_contain_text(words)
        expect(each.page.locator("#conversations .mark-waiting")).to_have_count(0)
    live = bob.page.locator(".ask").inner_text()
    bob.reload()
    bob.page.locator(".ask summary").first.click()
    assert bob.page.locator(".ask").inner_text() == live
