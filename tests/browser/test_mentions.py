"""Mentions, from the composer to the inbox of another person, on all of their devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.test_inbox import read_all
from tests.support.browser import axe, streams
from tests.support.browser.interruptions import HIDE
from tests.support.browser.people import OpenTab, signed_in_context
from tests.support.browser.site import BrowserSite

# What a browser does, without its own windows: the notifications of this tab.
RECORD_NOTIFICATIONS = """
window.notified = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { Notification.permission = "granted"; }
  constructor(text, { body, tag }) { window.notified.push([text, body, tag.split("-")[0]]); }
  close() {}
};"""


@pytest.fixture
def run(site: BrowserSite) -> UUID:
    site.close_questions()
    site.fake.script(*(streams.telling("So.") for _ in range(3)))
    run = site.send("Where does it rise?")
    site.until_ended(run)
    read_all(site)
    return run


@pytest.fixture
def phone(browser: Browser, site: BrowserSite) -> Iterator[Page]:
    """Bob's other device."""
    context = signed_in_context(browser, site, "Bob", viewport={"width": 360, "height": 740})
    context.add_init_script(RECORD_NOTIFICATIONS)
    yield context.new_page()
    context.close()


def test_mention_is_completed_and_read_on_both_devices(
    site: BrowserSite, tab: OpenTab, phone: Page, run: UUID
) -> None:
    bob = tab("Bob", "/inbox/").until_live()
    phone.goto(f"{site.url}/inbox/")
    expect(bob.page).to_have_title("Inbox · Tributary")
    alice = tab("Alice", site.room(run)).until_ended()

    # The list: its keys, its roles, and Escape.
    alice.composer.press_sequentially("@b")
    options = alice.page.get_by_role("option")
    expect(options).to_have_count(1)
    expect(alice.composer).to_have_attribute("aria-expanded", "true")
    assert axe.findings(alice.page, within="#composer") == []
    alice.composer.press("Escape")
    expect(options).to_have_count(0)
    for key in ("Backspace", "Backspace", "@", "b"):
        alice.composer.press(key)
    expect(options).to_have_count(1)
    alice.composer.press("Enter")
    expect(alice.composer).to_have_value("@Bob ")
    alice.composer.press_sequentially("which one?")
    alice.composer.press("Enter")
    expect(alice.page.locator(".mention").last).to_have_text("@Bob")

    # It opens again where a name was chosen in the message before.
    alice.composer.press_sequentially("@b")
    expect(options).to_have_count(1)
    alice.composer.fill("")

    # Both devices count it, in the title and the icon, and list it.
    for page in (bob.page, phone):
        expect(page).to_have_title("(1) Inbox · Tributary")
        expect(page.locator(".inbox-entry")).to_contain_text("Alice mentioned you")
        assert page.locator("link[rel=icon]").get_attribute("href").startswith("data:")
    assert axe.findings(bob.page, within=".inbox-entry") == []

    # It opens at its turn, and is read on both.
    phone.locator(".inbox-entry").click()
    expect(phone.locator(".mention").last).to_be_in_viewport()
    expect(bob.page).to_have_title("Inbox · Tributary")
    expect(bob.page.locator(".inbox-entry")).to_have_count(0)
    expect(bob.page.get_by_text("Nothing needs your attention")).to_be_visible()


def test_hidden_tabs_notify_once_after_asking(
    site: BrowserSite, tab: OpenTab, phone: Page, run: UUID
) -> None:
    phone.goto(f"{site.url}/inbox/")
    other = phone.context.new_page()
    other.goto(f"{site.url}{site.room(run)}")
    phone.get_by_role("button", name="Turn on").click()
    expect(phone.get_by_text("Browser notifications")).to_be_visible()
    for page in (phone, other):
        page.evaluate('Notification.permission = "granted"')
        page.evaluate(HIDE, True)

    alice = tab("Alice", site.room(run)).until_ended()
    alice.write("@Bob, look").until_ended()

    def notified() -> list[list[str]]:
        return [each for page in (phone, other) for each in page.evaluate("window.notified")]

    for page in (phone, other):
        expect(page).to_have_title(re.compile(r"^\(1\) "))
    alice.until(lambda: len(notified()) == 1, "a notification")
    assert notified() == [["You were mentioned", "Where does it rise?", "mention"]]


def test_mentioning_somebody_without_access_offers_to_share(
    site: BrowserSite, tab: OpenTab, run: UUID
) -> None:
    site.rows(
        "UPDATE chat_conversation SET visibility = 'private' WHERE public_id = ?",
        UUID(site.room(run).split("/")[2]).hex,
    )
    alice = tab("Alice", site.room(run)).until_ended()
    alice.composer.press_sequentially("@bo")
    expect(alice.page.get_by_role("option")).to_contain_text("No access")
    alice.page.get_by_role("option").click()
    expect(alice.page.locator("#mention-note")).to_contain_text("Bob can’t read this conversation.")

    alice.page.locator("#mention-note").get_by_role("button", name="Share").click()

    expect(alice.page.locator("#mention-note")).to_be_empty()
    expect(alice.composer).to_have_value("@Bob ")
    bob = tab("Bob", "/inbox/")
    expect(bob.page.locator(".inbox-entry")).to_contain_text("Alice shared a conversation with you")
