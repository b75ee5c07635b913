"""On a phone and at 200 % zoom everything is in reach, and nothing scrolls sideways."""

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.displays import DESKTOP
from tests.support.browser.people import OpenTab
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
SIDEWAYS = """() => {
  const page = document.scrollingElement;
  return page.scrollWidth - page.clientWidth;
}"""
# Many conversations in the sidebar, each with a visually hidden mark.
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
# By how many pixels the selected option is wider than its field.
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
    """A conversation with an answer that is wider than any phone, and the details of its run."""
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


# What `make screenshots` does not show: content that is wider than its page.
@pytest.mark.parametrize("screen", SCREENS)
def test_wide_content_does_not_scroll_the_page_sideways(
    tab: OpenTab, wide_room: tuple[str, str], screen: str
) -> None:
    ada = tab("Ada", **SCREENS[screen])

    sideways = [path for path in wide_room if ada.open(path).page.evaluate(SIDEWAYS) > 0]

    assert sideways == []


def assert_in_view(locator: Locator) -> None:
    expect(locator).to_be_in_viewport(ratio=0.99)


@pytest.mark.smoke
def test_phone_has_a_drawer_and_a_composer(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    alice = tab("Alice", site.room(site.send("Tell us.")), **PHONE).until_ended()
    sidebar = alice.page.locator("#sidebar")
    expect(sidebar).to_be_hidden()
    assert_in_view(alice.composer)

    alice.button("Open sidebar").tap()
    expect(sidebar).to_be_visible()
    expect(sidebar.get_by_role("link", name="New conversation")).to_be_in_viewport()
    alice.button("Close sidebar").tap()
    expect(sidebar).to_be_hidden()

    alice.composer.tap()
    alice.page.keyboard.type("One")
    alice.page.keyboard.press("Enter")
    alice.page.keyboard.type("Two")
    expect(alice.composer).to_have_value("One\nTwo")
    alice.button("Send").tap()
    alice.shows("Second.").until_ended()
    assert_in_view(alice.composer)


def test_phone_visibility_label_is_not_cut_off(site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", "/", **PHONE)
    alice.page.locator("select[name=choice] option:checked").evaluate(
        "option => { option.textContent = 'A model with a name of many words'; }"
    )

    assert alice.page.get_by_label("Visibility").evaluate(CUT_OFF) <= 0


def test_buttons_of_a_new_conversation_share_a_row(site: BrowserSite, tab: OpenTab) -> None:
    """Also with a model and a team whose names are long, and with an expiry."""
    page = tab("Ada", "/", viewport=DESKTOP).page
    page.locator("#composer .combobox-value").evaluate(
        "name => { name.textContent = 'word '.repeat(20); }"
    )
    page.locator("#expires").select_option(index=1)

    middles = page.locator(".composer-row").evaluate(
        """row => [...row.querySelectorAll(".picker, .icon-button, .send")]
          .map(each => each.getBoundingClientRect())
          .filter(({ width }) => width)
          .map(({ y, height }) => Math.round((y + height / 2) / 4))"""
    )
    assert len(middles) >= 7
    assert len(set(middles)) == 1
    assert page.evaluate(SIDEWAYS) == 0


@pytest.mark.parametrize("screen", SCREENS)
def test_composer_and_menus_fit_small_screens(site: BrowserSite, tab: OpenTab, screen: str) -> None:
    long = "".join(f"Paragraph {number}.\n\n" for number in range(40))
    site.fake.script(streams.telling(long, streams.gate("rest"), long, "The end of it."))
    alice = tab("Alice", site.room(site.send("Much.")), **SCREENS[screen]).shows("Paragraph 39")

    assert_in_view(alice.composer)
    assert_in_view(alice.stop)
    site.fake.release("rest")

    alice.shows("The end of it.").until_ended()
    assert_in_view(alice.composer)
    expect(alice.page.get_by_text("The end of it.")).to_be_in_viewport()
    for opener in (
        alice.page.get_by_label("Conversation options"),
        alice.page.locator(".combobox-button"),
        alice.page.get_by_label("System prompt and parameters"),
    ):
        opener.click()
        assert_within(
            alice, alice.page.locator("details.menu[open] .menu-items, #parameters:popover-open")
        )
        alice.page.keyboard.press("Escape")


def assert_within(tab: Tab, locator: Locator) -> None:
    box, size = locator.bounding_box(), tab.page.viewport_size
    assert box
    assert size
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size["width"]
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= size["height"]


def test_long_sidebar_does_not_lengthen_the_page(tab: OpenTab, site: BrowserSite) -> None:
    ada = tab("Ada", "/", viewport={"width": 1280, "height": 500})

    ada.page.evaluate(LENGTHEN)

    assert ada.page.evaluate(OVERHANG) == 0


def test_parameters_fit_every_width(tab: OpenTab) -> None:
    ada = tab("Ada", "/")

    for width in (390, 800, 1280):
        ada.page.set_viewport_size({"width": width, "height": 700})
        ada.page.get_by_label("System prompt and parameters").click()

        box = ada.page.locator("#parameters").bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        ada.page.keyboard.press("Escape")
