"""The right panel: one page at a time beside the conversation; on a phone it covers it."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}

PRESS_LEFT_WITH = """(edge, key) => edge.dispatchEvent(
  new KeyboardEvent("keydown", {key: "ArrowLeft", [key]: true, bubbles: true, cancelable: true}))"""


@pytest.fixture
def room(site: BrowserSite) -> str:
    site.fake.script(streams.telling("By the spring."))
    return site.room(site.send("Where does it rise?"))


def open_ended(tab: OpenTab, room: str, **options: Any) -> Tab:
    return tab("Alice", room, **options).until_ended()


@pytest.mark.smoke
def test_panel_shows_one_page_at_a_time_and_returns_the_focus(
    tab: OpenTab, room: str, subtests: pytest.Subtests
) -> None:
    alice = open_ended(tab, room)
    panel, title = alice.page.locator("#panel"), alice.page.locator("#panel-title")
    expect(panel).to_be_hidden()

    alice.page.locator(".turn [data-details]").click()
    expect(title).to_have_text("Run details")
    expect(title).to_be_focused()
    expect(panel).to_contain_text("Time since queued")
    alice.page.get_by_label("Conversation options").click()
    alice.page.locator("#to-find").click()

    expect(title).to_have_text("Find in conversation")
    expect(panel).not_to_contain_text("Time since queued")
    # The conversation stays beside it.
    expect(alice.answer).to_contain_text("By the spring.")
    assert alice.page.url.endswith(room)
    alice.page.keyboard.press("Escape")
    expect(panel).to_be_hidden()

    link = alice.page.locator(".turn [data-details]")
    ways = {
        "button": lambda: alice.button("Close panel").click(),
        "escape": lambda: alice.page.keyboard.press("Escape"),
        "back": lambda: alice.page.go_back(),
    }

    for name, close in ways.items():
        with subtests.test(msg=name):
            link.click()
            expect(alice.page.locator("#panel-title")).to_be_focused()
            close()

            expect(alice.page.locator("#panel")).to_be_hidden()
            expect(link).to_be_focused()
            assert alice.page.locator("#panel-body").inner_html() == ""
            assert alice.page.url.endswith(room)
            expect(alice.answer).to_contain_text("By the spring.")


def test_panel_is_opened_by_key_and_keeps_its_width(tab: OpenTab, room: str) -> None:
    alice = open_ended(tab, room)
    panel, title = alice.page.locator("#panel"), alice.page.locator("#panel-title")
    link = alice.page.locator(".turn [data-details]")
    edge = alice.page.locator(".panel-edge")

    # In a text the key is a letter.
    alice.composer.press("i")
    expect(alice.composer).to_have_value("i")
    expect(panel).to_be_hidden()
    alice.composer.fill("")
    alice.composer.press("ArrowUp")
    alice.page.keyboard.press("i")
    expect(title).to_have_text("Run details")
    # A link to a turn leaves it open.
    alice.page.evaluate("location.hash = document.querySelector('.turn').id")
    expect(title).to_be_visible()
    alice.page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(alice.answer).to_contain_text("By the spring.")

    link.click()
    for key in ("altKey", "ctrlKey", "metaKey"):
        assert edge.evaluate(PRESS_LEFT_WITH, key)
    expect(edge).to_have_attribute("aria-valuenow", "45")
    box = edge.bounding_box()
    assert box is not None
    alice.page.mouse.move(box["x"] + 4, 300)
    alice.page.mouse.down()
    alice.page.mouse.move(0.66 * 1280, 300, steps=4)
    alice.page.mouse.up()
    expect(edge).to_have_attribute("aria-valuenow", "34")
    edge.press("ArrowLeft")
    expect(edge).to_have_attribute("aria-valuenow", "36")
    alice.reload()
    link.click()
    expect(edge).to_have_attribute("aria-valuenow", "36")
    assert panel.evaluate("panel => Math.round(panel.getBoundingClientRect().width)") == 461


def test_panel_page_opens_in_a_new_window_or_says_why_not(tab: OpenTab, room: str) -> None:
    alice = open_ended(tab, room)
    link = alice.page.locator(".turn [data-details]")

    with alice.page.context.expect_page() as opening:
        link.click(modifiers=["Control"])
    opening.value.wait_for_load_state()
    expect(opening.value.get_by_role("heading", name="Run details")).to_be_visible()
    expect(alice.page.locator("#panel")).to_be_hidden()
    opening.value.locator(".back").click()
    expect(opening.value.locator("#composer")).to_be_visible()

    alice.page.route("**/details/**", lambda route: route.abort())
    link.click()
    expect(alice.page.get_by_text("Can’t reach the server.")).to_be_visible()
    expect(alice.page.locator("#panel")).to_be_hidden()


def test_phone_panel_covers_the_conversation(tab: OpenTab, room: str) -> None:
    alice = open_ended(tab, room, **PHONE)
    alice.page.locator(".turn [data-details]").click()
    box = alice.page.locator("#panel").bounding_box()

    assert box is not None
    assert (box["x"], box["width"], box["height"]) == (0, 390, 844)
    assert alice.page.locator(".app > .centre").evaluate("centre => centre.inert")
    alice.button("Back to conversation").click()
    expect(alice.page.locator("#panel")).to_be_hidden()
    assert not alice.page.locator(".app > .centre").evaluate("centre => centre.inert")


def test_lost_conversation_closes_its_panel(site: BrowserSite, tab: OpenTab, room: str) -> None:
    alice = open_ended(tab, room)
    alice.page.locator(".turn [data-details]").click()
    expect(alice.page.locator("#panel")).to_contain_text("Time since queued")

    site.rows(
        "UPDATE chat_conversation SET deleted_at = CURRENT_TIMESTAMP, revision = revision + 1"
        " WHERE public_id = ?",
        room.split("/")[2].replace("-", ""),
    )

    expect(alice.page.locator("#gone")).to_be_visible()
    expect(alice.page.locator("#panel")).to_be_hidden()
    assert "Time since queued" not in alice.page.content()
