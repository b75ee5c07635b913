"""Who is here, who writes, what is new, and drafts that follow from one device to another."""

from __future__ import annotations

from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import axe, streams
from tests.support.browser.interruptions import HIDE
from tests.support.browser.people import OpenTab, signed_in_context
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab


@pytest.fixture
def run(site: BrowserSite) -> UUID:
    site.fake.script(*map(streams.telling, ("First.", "Second.", "Third.")))
    run = site.send("Who is here?")
    site.until_ended(run)
    return run


def people(tab: Tab) -> list[str]:
    return tab.page.locator(".presence-line > .truncate").all_text_contents()


def test_presence_and_writing_are_seen_until_a_tab_is_killed(
    site: BrowserSite, tab: OpenTab, run: UUID
) -> None:
    alice = tab("Alice", site.room(run)).until_ended()
    expect(alice.page.locator("#presence")).to_be_empty()
    bob = tab("Bob", site.room(run)).until_ended()
    alice.until(lambda: people(alice) == ["Bob"], "Bob")
    bob.until(lambda: people(bob) == ["Alice"], "Alice")

    bob.composer.press_sequentially("Let me see")
    expect(alice.page.locator("#typing")).to_have_text("Bob is writing…")
    expect(bob.page.locator("#typing")).to_be_empty()
    expect(alice.page.locator("#polite")).to_have_text("Bob is writing…")
    alice.page.locator(".presence-people").click()
    assert axe.findings(alice.page) == []
    alice.page.keyboard.press("Escape")
    bob.composer.press("Enter")
    expect(alice.page.locator("#typing")).to_be_empty()
    # The heading is swapped by other changes; the people stay.
    alice.page.get_by_label("Conversation options").click()
    alice.page.get_by_label("Title", exact=True).fill("Renamed")
    alice.page.get_by_label("Title", exact=True).press("Enter")
    expect(bob.page.locator("#room-head h1")).to_have_text("Renamed")
    assert (people(alice), people(bob)) == (["Bob"], ["Alice"])

    bob.page.context.set_offline(True)
    bob.close_sockets()
    bob.page.close()
    site.rows("UPDATE chat_presence SET seen_at = datetime(seen_at, '-60 seconds')")

    alice.until(lambda: people(alice) == [], "nobody")


@pytest.fixture
def phone(browser: Browser, site: BrowserSite) -> Page:
    """Alice's other device."""
    context = signed_in_context(browser, site, "Alice")
    yield context.new_page()
    context.close()


@pytest.mark.smoke
def test_draft_follows_to_another_device(
    site: BrowserSite, tab: OpenTab, phone: Page, run: UUID
) -> None:
    desk = tab("Alice", site.room(run)).until_ended()
    desk.composer.fill("Half a sentence")

    phone.goto(f"{site.url}{site.room(run)}")
    field = phone.locator("#text")
    expect(field).to_have_value("Half a sentence")


def test_draft_of_a_new_conversation_goes_when_it_is_sent(
    site: BrowserSite, tab: OpenTab, phone: Page
) -> None:
    site.fake.script(streams.telling("So."))
    alice = tab("Alice", "/")
    alice.composer.fill("The first words")
    phone.goto(site.url)
    expect(phone.locator("#text")).to_have_value("The first words")

    alice.composer.press("Enter")
    alice.page.wait_for_url("**/c/**")
    alice.until_ended()

    alice.until(lambda: site.rows("SELECT text FROM chat_draft") == [], "deleted")
    alice.open("/")
    expect(alice.composer).to_have_value("")


def test_draft_whose_storing_was_not_heard_goes_when_it_is_sent(
    site: BrowserSite, tab: OpenTab, run: UUID
) -> None:
    site.fake.script(streams.telling("Yes."))
    alice = tab("Alice", site.room(run)).until_ended().until_live()
    drafts = "SELECT text FROM chat_draft"

    alice.page.evaluate("() => { window.heldDrafts = []; }")
    alice.composer.fill("Once only")
    alice.page.wait_for_function("() => window.heldDrafts.length")
    assert site.rows(drafts) == [{"text": "Once only"}]
    # The connection breaks. The next one tells of the draft after the message has been accepted.
    alice.page.evaluate("() => { window.heldPosts = []; }")
    alice.composer.press("Enter")
    alice.page.wait_for_function("() => window.heldPosts.length")
    alice.page.evaluate("() => { window.heldPosts = null; }")
    alice.close_sockets()
    expect(alice.composer).to_have_value("")
    alice.page.wait_for_function(RELEASE_DRAFT)

    alice.until(lambda: site.rows(drafts) == [], "deleted")
    expect(alice.composer).to_have_value("")


# The news of a draft with its text, as soon as it is there.
RELEASE_DRAFT = """() => {
  const data = window.heldDrafts.find(each => JSON.parse(each).text);
  if (!data) return false;
  window.heldDrafts = null;
  window.openSockets.at(-1).dispatchEvent(new MessageEvent("message", { data }));
  return true;
}"""


def test_newer_draft_wins_and_the_other_is_offered(
    site: BrowserSite, tab: OpenTab, phone: Page, run: UUID
) -> None:
    desk = tab("Alice", site.room(run)).until_ended()
    phone.goto(f"{site.url}{site.room(run)}")
    field = phone.locator("#text")

    # A field in which nobody writes follows.
    desk.composer.fill("Half a sentence, and more")
    expect(field).to_have_value("Half a sentence, and more")
    phone.context.set_offline(True)
    field.fill("Written without a network")
    desk.composer.fill("Written later at the desk")
    desk.until(
        lambda: site.rows("SELECT text FROM chat_draft") == [{"text": "Written later at the desk"}],
        "stored",
    )
    phone.context.set_offline(False)
    note = phone.locator("#draft-note")
    expect(note).to_contain_text("You have a newer draft from another device.")
    expect(field).to_have_value("Written without a network")
    note.get_by_role("button", name="Use it").click()
    expect(field).to_have_value("Written later at the desk")

    # Sent on one device, it goes on the other.
    field.blur()
    desk.composer.press("Enter")
    expect(field).to_have_value("")
    desk.until_ended()
    desk.until(lambda: site.rows("SELECT text FROM chat_draft") == [], "deleted")


def test_what_came_meanwhile_is_below_a_line(site: BrowserSite, tab: OpenTab, run: UUID) -> None:
    alice = tab("Alice", site.room(run)).until_ended()
    line = alice.page.locator(".new-line")
    expect(line).to_have_count(0)
    read = "SELECT revision FROM chat_readmark WHERE user_id = (SELECT id FROM chat_user WHERE name = 'Alice') AND conversation_id = (SELECT id FROM chat_conversation WHERE public_id = ?)"
    room = site.conversation_of(run).hex
    alice.until(lambda: site.rows(read, room), "a mark")

    # In a hidden tab.
    alice.page.evaluate(HIDE, True)
    bob = tab("Bob", site.room(run)).until_ended()
    bob.write("And now?").shows("Second.").until_ended()
    expect(alice.turns).to_have_count(4)
    expect(line).to_have_count(0)
    alice.page.evaluate(HIDE, False)
    expect(alice.turns.nth(2).locator(".new-line")).to_have_text("New since you were here")
    shown = int(alice.page.locator("#room").get_attribute("data-revision") or 0)
    alice.until(lambda: site.rows(read, room)[0]["revision"] >= shown, "a mark")

    # Of a page that was closed.
    alice.open("/")
    bob.write("And then?").shows("Third.").until_ended()
    alice.open(site.room(run))
    expect(alice.turns.nth(4).locator(".new-line")).to_have_text("New since you were here")
    expect(line).to_have_count(1)


# As where websockets are blocked.
ON_STREAM = """() => document.dispatchEvent(
  new CustomEvent("connection:state", { detail: { isConnected: true, isStream: true } })
)"""


def test_page_without_websocket_posts_what_it_says(
    site: BrowserSite, tab: OpenTab, run: UUID
) -> None:
    alice = tab("Alice", site.room(run)).until_live()
    alice.page.evaluate(ON_STREAM)

    alice.composer.press_sequentially("Over HTTP")
    drafts = "SELECT text FROM chat_draft"
    alice.until(lambda: site.rows(drafts) == [{"text": "Over HTTP"}], "stored")
    assert site.rows("SELECT 1 FROM chat_presence WHERE typed_at > '2001'")

    # The next text replaces it: the page has learned its version.
    known = (
        "() => Object.entries(sessionStorage).find(([key]) => key.startsWith('known-draft'))?.[1]"
    )
    alice.until(lambda: '"version":1' in (alice.page.evaluate(known) or ""), "the version")
    alice.composer.press_sequentially(", again")
    alice.until(lambda: site.rows(drafts) == [{"text": "Over HTTP, again"}], "stored")
