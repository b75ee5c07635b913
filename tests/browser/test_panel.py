"""The right panel: one page about the room at a time, beside it or, on a phone, over it."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenTab, People
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}

PRESS_LEFT_WITH = """(edge, key) => edge.dispatchEvent(
  new KeyboardEvent("keydown", {key: "ArrowLeft", [key]: true, bubbles: true, cancelable: true}))"""


@pytest.fixture
def room(site: BrowserSite) -> str:
    site.fake.script(streams.telling("By the spring."))
    return site.room(site.send("Where does it rise?"))


def opened(tab: OpenTab, room: str, **options: Any) -> Tab:
    return tab("Alice", room, **options).until_ended()


def test_a_page_about_the_room_opens_beside_it_and_takes_turns_with_others(
    tab: OpenTab, room: str
) -> None:
    alice = opened(tab, room)
    panel, title = alice.page.locator("#panel"), alice.page.locator("#panel-title")
    expect(panel).to_be_hidden()

    alice.page.locator(".turn [data-details]").click()
    expect(title).to_have_text("Details of an answer")
    expect(title).to_be_focused()
    expect(panel).to_contain_text("As the server sent it")
    alice.page.locator("#to-people").click()

    expect(title).to_have_text("People")
    expect(panel).to_contain_text("Bob")
    expect(panel).not_to_contain_text("As the server sent it")
    # The room goes on beside it.
    expect(alice.answer).to_contain_text("By the spring.")
    assert alice.page.url.endswith(room)


@pytest.mark.parametrize("way", ["button", "escape", "back"])
def test_it_closes_and_gives_the_focus_back(tab: OpenTab, room: str, way: str) -> None:
    alice = opened(tab, room)
    link = alice.page.locator(".turn [data-details]")
    link.click()
    expect(alice.page.locator("#panel-title")).to_be_focused()

    if way == "button":
        alice.button("Close the panel").click()
    elif way == "escape":
        alice.page.keyboard.press("Escape")
    else:
        alice.page.go_back()

    expect(alice.page.locator("#panel")).to_be_hidden()
    expect(link).to_be_focused()
    assert alice.page.locator("#panel-body").inner_html() == ""
    assert alice.page.url.endswith(room)
    expect(alice.answer).to_contain_text("By the spring.")


def test_a_link_to_a_turn_leads_there_beside_it(tab: OpenTab, room: str) -> None:
    alice = opened(tab, room)
    alice.page.locator(".turn [data-details]").click()
    expect(alice.page.locator("#panel-title")).to_be_focused()

    alice.page.evaluate("location.hash = document.querySelector('.turn').id")

    expect(alice.page.locator("#panel-title")).to_be_visible()
    alice.page.keyboard.press("Escape")
    expect(alice.page.locator("#panel")).to_be_hidden()
    expect(alice.answer).to_contain_text("By the spring.")


def test_keys_open_it_outside_of_text_alone(tab: OpenTab, room: str) -> None:
    alice = opened(tab, room)
    alice.composer.press("i")
    expect(alice.composer).to_have_value("i")
    expect(alice.page.locator("#panel")).to_be_hidden()

    alice.composer.evaluate("text => text.blur()")
    alice.page.keyboard.press("i")

    expect(alice.page.locator("#panel-title")).to_have_text("Details of an answer")


def test_its_width_is_dragged_typed_and_remembered(tab: OpenTab, room: str) -> None:
    alice = opened(tab, room)
    alice.page.locator("#to-people").click()
    edge = alice.page.locator(".panel-edge")
    panel = alice.page.locator("#panel")
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

    alice.reload().page.locator("#to-people").click()
    expect(edge).to_have_attribute("aria-valuenow", "36")
    assert panel.evaluate("panel => Math.round(panel.getBoundingClientRect().width)") == 461


def test_arrows_with_another_key_stay_the_browser_s(tab: OpenTab, room: str) -> None:
    alice = opened(tab, room)
    alice.page.locator("#to-people").click()
    edge = alice.page.locator(".panel-edge")

    for key in ("altKey", "ctrlKey", "metaKey"):
        assert edge.evaluate(PRESS_LEFT_WITH, key)

    expect(edge).to_have_attribute("aria-valuenow", "45")


def test_what_cannot_be_had_is_said_and_leaves_no_empty_panel(tab: OpenTab, room: str) -> None:
    alice = opened(tab, room)
    alice.page.route("**/people/**", lambda route: route.abort())

    alice.page.locator("#to-people").click()

    expect(alice.page.get_by_text("The server cannot be reached.")).to_be_visible()
    expect(alice.page.locator("#panel")).to_be_hidden()


def test_on_a_phone_it_lies_over_the_room_and_nothing_behind_it_is_reached(
    tab: OpenTab, room: str
) -> None:
    alice = opened(tab, room, **PHONE)
    alice.page.locator("#to-people").click()
    box = alice.page.locator("#panel").bounding_box()

    assert box is not None
    assert (box["x"], box["width"], box["height"]) == (0, 390, 844)
    assert alice.page.locator(".app > .centre").evaluate("centre => centre.inert")
    alice.button("Back to the conversation").click()
    expect(alice.page.locator("#panel")).to_be_hidden()
    assert not alice.page.locator(".app > .centre").evaluate("centre => centre.inert")


def test_with_a_key_held_and_without_the_room_it_is_a_page_of_its_own(
    tab: OpenTab, room: str
) -> None:
    alice = opened(tab, room)
    with alice.page.context.expect_page() as opening:
        alice.page.locator("#to-people").click(modifiers=["Control"])
    opening.value.wait_for_load_state()

    expect(opening.value.get_by_role("heading", name="People")).to_be_visible()
    expect(alice.page.locator("#panel")).to_be_hidden()
    opening.value.locator(".back").click()
    expect(opening.value.locator("#composer")).to_be_visible()


def test_who_loses_the_room_loses_what_is_read_beside_it(
    own_site: BrowserSite, people: People
) -> None:
    own_site.start()
    own_site.fake.script(streams.telling("By the spring."))
    room = own_site.room(own_site.send("Where does it rise?"))
    alice = people.tab(own_site, "Alice", room).until_ended()
    alice.page.locator(".turn [data-details]").click()
    expect(alice.page.locator("#panel")).to_contain_text("As the server sent it")

    own_site.rows(
        "UPDATE chat_conversation SET deleted_at = CURRENT_TIMESTAMP, revision = revision + 1"
    )

    expect(alice.page.locator("#gone")).to_be_visible()
    expect(alice.page.locator("#panel")).to_be_hidden()
    assert "As the server sent it" not in alice.page.content()
