"""On a phone and at twice the size everything is there, and nothing has to be pushed sideways."""

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenTab
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
# A window of 1280 × 800 at 200 %.
ZOOMED: dict[str, Any] = {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}
SCREENS = {"phone": PHONE, "zoomed": ZOOMED}

WIDE = (
    "```\n" + "a long line of code without any break in it " * 8 + "\n```\n\n"
    "| " + " | ".join(f"column {n}" for n in range(14)) + " |\n"
    "|" + "---|" * 14 + "\n"
    "| " + " | ".join(f"value {n}" for n in range(14)) + " |\n\n" + "unbreakable" * 40 + "\n\n"
    "https://example.org/" + "a/very/long/path/" * 12 + "\n"
)
PAGES = (
    *("/", "room", "details", "/people/", "/settings/", "/settings/servers/"),
    *("/settings/servers/add/", "/accounts/password/change/", "/no/such/page/", "/admin/"),
    *("/admin/chat/conversation/", "/admin/chat/run/", "/admin/chat/user/"),
)
SIDEWAYS = """() => {
  const page = document.scrollingElement;
  return page.scrollWidth - page.clientWidth;
}"""
# A list of many conversations, each with a mark that is said and not shown.
LENGTHEN = """() => {
  const list = document.querySelector(".sidebar-list");
  for (let i = 0; i < 40; i++) {
    const mark = document.createElement("span");
    mark.className = "visually-hidden";
    mark.textContent = "Running";
    const line = document.createElement("p");
    line.append("A conversation", mark);
    list.append(line);
  }
}"""
# How much of the chosen word of a list lies outside of it, in pixels.
CUT_OFF = """select => {
  const style = getComputedStyle(select);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = style.font;
  const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return Math.round(pen.measureText(select.selectedOptions[0].textContent).width - room);
}"""
OVERHANG = """() => {
  const page = document.scrollingElement;
  return page.scrollHeight - Math.max(innerHeight, Math.round(document.body.offsetHeight));
}"""


@pytest.fixture
def wide_room(site: BrowserSite) -> tuple[str, str]:
    """A room with an answer that is wider than any phone, and the details of that answer."""
    script = streams.scripted(
        streams.BEGINNING,
        streams.open_item("reasoning"),
        streams.think("Hm. " + "unbreakable" * 30),
        streams.close_item("reasoning"),
        streams.call("read_gauge", {"station": "s" * 300}, "x" * 500),
        streams.open_item("message"),
        streams.say(WIDE),
        streams.close_item("message"),
        streams.end(),
    )
    site.fake.script(script)
    run = site.send("Something wide, with a title " + "without" * 30)
    site.until_ended(run)
    return site.room(run), f"/r/{run}/details/"


@pytest.mark.parametrize("screen", SCREENS)
def test_no_page_scrolls_sideways(tab: OpenTab, wide_room: tuple[str, str], screen: str) -> None:
    places = {"room": wide_room[0], "details": wide_room[1]}
    ada = tab("Ada", **SCREENS[screen])

    sideways = [
        path for path in PAGES if ada.open(places.get(path, path)).page.evaluate(SIDEWAYS) > 0
    ]

    assert sideways == []


@pytest.mark.parametrize("path", ["/accounts/login/", "/accounts/password/reset/"])
@pytest.mark.parametrize("screen", SCREENS)
def test_no_entrance_scrolls_sideways(tab: OpenTab, screen: str, path: str) -> None:
    assert tab("", path, **SCREENS[screen]).page.evaluate(SIDEWAYS) <= 0


def assert_in_view(locator: Locator) -> None:
    expect(locator).to_be_in_viewport(ratio=0.99)


def test_on_a_phone_the_drawer_opens_and_closes_and_the_composer_is_there(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    alice = tab("Alice", site.room(site.send("Tell us.")), **PHONE).until_ended()
    sidebar = alice.page.locator("#sidebar")
    expect(sidebar).to_be_hidden()
    assert_in_view(alice.composer)

    alice.button("Open the sidebar").tap()
    expect(sidebar).to_be_visible()
    expect(sidebar.get_by_role("link", name="New conversation")).to_be_in_viewport()
    alice.button("Close the sidebar").tap()
    expect(sidebar).to_be_hidden()

    alice.composer.tap()
    alice.page.keyboard.type("One")
    alice.page.keyboard.press("Enter")
    alice.page.keyboard.type("Two")
    expect(alice.composer).to_have_value("One\nTwo")
    alice.button("Send").tap()
    alice.shows("Second.").until_ended()
    assert_in_view(alice.composer)


def test_on_a_phone_who_may_read_a_new_conversation_is_not_cut_off(
    site: BrowserSite, tab: OpenTab
) -> None:
    alice = tab("Alice", "/", **PHONE)
    alice.page.locator("select[name=choice] option:checked").evaluate(
        "option => { option.textContent = 'A model with a name of many words'; }"
    )

    assert alice.page.get_by_label("Who may read it").evaluate(CUT_OFF) <= 0


@pytest.mark.parametrize("screen", SCREENS)
def test_on_a_small_screen_the_composer_stays_in_view_while_text_streams(
    site: BrowserSite, tab: OpenTab, screen: str
) -> None:
    long = "".join(f"Paragraph {number}.\n\n" for number in range(40))
    site.fake.script(streams.telling(long, streams.gate("rest"), long, "The end of it."))
    alice = tab("Alice", site.room(site.send("Much.")), **SCREENS[screen]).shows("Paragraph 39")

    assert_in_view(alice.composer)
    assert_in_view(alice.stop)
    site.fake.release("rest")

    alice.shows("The end of it.").until_ended()
    assert_in_view(alice.composer)
    expect(alice.page.get_by_text("The end of it.")).to_be_in_viewport()


@pytest.mark.parametrize("screen", SCREENS)
def test_menus_of_a_small_screen_lie_within_it(
    site: BrowserSite, tab: OpenTab, screen: str
) -> None:
    site.fake.script(streams.telling("First."))
    alice = tab("Alice", site.room(site.send("Tell us.")), **SCREENS[screen]).until_ended()

    for label in ("Rename, share, delete", "Parameters and system prompt"):
        alice.page.get_by_label(label).click()
        assert_within(alice, alice.page.locator("details.menu[open] .menu-items"))
        alice.page.keyboard.press("Escape")


def assert_within(tab: Tab, locator: Locator) -> None:
    box, size = locator.bounding_box(), tab.page.viewport_size
    assert box
    assert size
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size["width"]
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= size["height"]


def test_a_long_list_of_conversations_leaves_the_page_as_long_as_it_is(
    tab: OpenTab, site: BrowserSite
) -> None:
    ada = tab("Ada", "/", viewport={"width": 1280, "height": 500})

    ada.page.evaluate(LENGTHEN)

    assert ada.page.evaluate(OVERHANG) == 0


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_the_parameters_of_a_first_message_can_all_be_reached(tab: OpenTab, width: int) -> None:
    ada = tab("Ada", "/", viewport={"width": width, "height": 700})

    ada.page.locator(".options:not(.tools-menu) > summary").click()

    box = ada.page.locator(".options[open] > .options-panel").bounding_box()
    assert box is not None
    assert box["y"] >= 0
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
