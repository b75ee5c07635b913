"""The dialog of who may read a conversation."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab


@pytest.fixture
def alice(site: BrowserSite, tab: OpenTab) -> Tab:
    site.fake.script(streams.telling("By the spring."))
    return tab("Alice", site.room(site.send("Where does it rise?"))).until_ended()


def set_audience(place: Locator, audience: str) -> None:
    place.get_by_label("General access").select_option(audience)
    place.locator("form", has=place.page.get_by_label("General access")).get_by_role(
        "button", name="Save"
    ).click()


def test_dialog_opens_by_button_and_key_and_returns_the_focus(alice: Tab) -> None:
    dialog, link = alice.page.locator("#share"), alice.page.locator("#to-people")
    link.click()
    expect(dialog.get_by_role("heading", name="Share")).to_be_visible()
    expect(dialog).to_contain_text("Bob")

    alice.page.keyboard.press("Escape")

    expect(dialog).to_be_hidden()
    expect(link).to_be_focused()
    alice.composer.press("ArrowUp")
    alice.page.keyboard.press("s")
    expect(dialog).to_contain_text("Bob")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    assert alice.page.locator("#sharing").inner_html() == ""


def test_dialog_opens_from_the_menu_and_the_palette(alice: Tab) -> None:
    dialog, menu = alice.page.locator("#share"), alice.page.get_by_label("Conversation options")
    entry = alice.page.locator(".room-menu").get_by_role("link", name="Share")
    command = alice.page.locator("#palette-conversation").get_by_role("option", name="Share")
    menu.focus()
    alice.page.keyboard.press("Enter")
    entry.focus()
    alice.page.keyboard.press("Enter")
    expect(dialog).to_contain_text("Bob")
    alice.page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    expect(entry).to_be_hidden()

    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("share")
    expect(command).to_have_count(1)
    command.click()

    expect(dialog).to_contain_text("Bob")


def test_dialog_on_a_phone_changes_who_reads_and_returns_the_focus(alice: Tab) -> None:
    alice.page.set_viewport_size({"width": 360, "height": 740})
    dialog, link = alice.page.locator("#share"), alice.page.locator("#to-people")
    link.click()

    set_audience(dialog, "private")

    expect(dialog.locator("#readers")).not_to_contain_text("Bob")
    box = dialog.bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= 360 - box["width"]
    assert dialog.evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth")
    dialog.get_by_role("button", name="Close").click()
    expect(link).to_be_focused()


def test_colleague_is_found_added_changed_and_removed(
    alice: Tab, site: BrowserSite, tab: OpenTab
) -> None:
    room, dialog = urlsplit(alice.page.url).path, alice.page.locator("#share")
    alice.page.locator("#to-people").click()
    set_audience(dialog, "private")
    expect(dialog.locator("#readers")).not_to_contain_text("Bob")

    dialog.get_by_label("Add as").select_option("reader")
    dialog.get_by_role("searchbox", name="Add people or groups").press_sequentially("bo")
    dialog.get_by_role("button", name="Add Bob").click()
    expect(dialog.locator("#readers")).to_contain_text("Participant")
    bob = tab("Bob", room).shows("By the spring.")
    expect(bob.page.locator("#composer-slot")).to_contain_text("read-only access")
    expect(bob.page.locator("#conversations [aria-current]")).to_have_count(1)

    dialog.get_by_label("Role of Bob").select_option("writer")
    dialog.locator("#readers").get_by_role("button", name="Save").click()
    expect(bob.composer).to_be_visible()
    dialog.get_by_role("button", name="Remove Bob").click()

    expect(bob.page.locator("#gone h2")).to_contain_text("no longer shared with you")
    expect(bob.page.locator("#conversations [aria-current]")).to_have_count(0)
    bob.has_title("Tributary")


def test_failed_request_is_reported(alice: Tab) -> None:
    alice.page.route("**/people/**", lambda route: route.abort())

    alice.page.locator("#to-people").click()

    expect(alice.page.get_by_text("Can’t reach the server.")).to_be_visible()
    expect(alice.page.locator("#share")).to_be_hidden()


def test_link_opens_a_page_of_its_own(alice: Tab) -> None:
    with alice.page.context.expect_page() as opening:
        alice.page.locator("#to-people").click(modifiers=["Control"])
    opening.value.wait_for_load_state()

    expect(opening.value.get_by_role("heading", name="People with access")).to_be_visible()
    set_audience(opening.value.locator("#sharing"), "private")
    expect(opening.value.locator("#readers")).not_to_contain_text("Bob")
    expect(alice.page.locator("#share")).to_be_hidden()


def test_lost_conversation_closes_the_dialog(alice: Tab, site: BrowserSite) -> None:
    alice.page.locator("#to-people").click()
    expect(alice.page.locator("#share")).to_be_visible()

    site.rows(
        "UPDATE chat_conversation SET deleted_at = CURRENT_TIMESTAMP, revision = revision + 1"
        " WHERE public_id = ?",
        alice.page.url.split("/")[4].replace("-", ""),
    )

    expect(alice.page.locator("#gone")).to_be_visible()
    expect(alice.page.locator("#share")).to_be_hidden()
