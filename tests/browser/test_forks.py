"""A reader goes on with a copy of their own, and colleagues see who did what."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.browser import axe, streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite


def test_reader_continues_as_their_own_and_sees_who_did_what(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(
        streams.telling("By the spring."),
        streams.telling("It runs ", streams.gate("middle"), "on."),
        streams.telling("To the sea."),
    )
    run = site.send("Where does it begin?", visibility="team")
    site.until_ended(run)
    site.rows("UPDATE chat_conversation SET shared_role = 'reader'")
    alice = tab("Alice", site.room(run)).until_ended()
    bob = tab("Bob", site.room(run)).until_ended()

    alice.page.get_by_label("Conversation options").click()
    alice.page.get_by_label("Title", exact=True).fill("Rivers")
    alice.page.get_by_label("Title", exact=True).press("Enter")
    line = bob.page.locator(".room-change")
    expect(line).to_contain_text("Alice renamed this conversation to “Rivers”")
    alice.write("And then?")
    expect(bob.turns).to_have_count(4)
    alice.button("Stop").click()
    expect(bob.page.locator("#turns")).to_contain_text("Stopped by Alice")
    expect(line).to_have_count(1)
    assert axe.findings(bob.page) == []

    bob.button("Continue as mine").click()

    origin = bob.page.locator(".origin")
    expect(origin).to_contain_text("Forked from Rivers")
    bob.until_ended()
    expect(bob.turns).to_have_count(4)
    expect(bob.page.locator(".turn-name").first).to_contain_text("Alice")
    bob.write("Where does it end?").until_ended()
    expect(bob.turns).to_have_count(6)
    assert axe.findings(bob.page) == []
    origin.get_by_role("link", name="Rivers").click()
    bob.page.wait_for_url(f"**{site.room(run)}")
    expect(bob.turns).to_have_count(4)
