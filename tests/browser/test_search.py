"""Ctrl+K: finding a conversation by its title, by keyboard alone."""

import base64
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenTab
from tests.browser.test_accessibility import LISTEN, heard
from tests.support.browser import streams
from tests.support.browser.looks import DESKTOP, TWO_LOOKS, found_in
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

PHONE = {"viewport": {"width": 390, "height": 800}}
# Of a picture: the lightest and the darkest of its pixels, and the most that one has of a colour.
TONES = """async picture => {
  const bytes = Uint8Array.from(atob(picture), one => one.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes]));
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const { data } = canvas.getImageData(0, 0, width, height);
  const pixels = Array.from({ length: width * height }, (_, at) => [...data.slice(4 * at, 4 * at + 3)]);
  const lightness = pixels.map(([red, green, blue]) => (red + green + blue) / 3);
  return {
    contrast: Math.max(...lightness) - Math.min(...lightness),
    colour: Math.max(...pixels.map(pixel => Math.max(...pixel) - Math.min(...pixel))),
  };
}"""


def field(tab: Tab) -> Locator:
    return tab.page.get_by_role("searchbox", name="Find a conversation")


def lines(tab: Tab) -> Locator:
    return tab.page.locator("#found a")


@pytest.fixture
def rooms(site: BrowserSite) -> list[str]:
    """The addresses of two rooms about osiers and of one about reeds."""
    titles = ("Osiers by the water", "Reeds", "Osiers in spring")
    site.fake.script(*(streams.telling("Yes.") for _ in titles))
    runs = [site.send(title) for title in titles]
    for run in runs:
        site.until_ended(run)
    yield [site.room(run) for run in runs]  # type: ignore[misc]
    # Other tests count what is in the list.
    for run in runs:
        site.post("Alice", f"{site.room(run)}delete/")


def test_ctrl_k_finds_arrows_choose_and_enter_opens(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.page.evaluate(LISTEN)
    alice.composer.focus()
    alice.page.keyboard.press("Control+k")
    expect(field(alice)).to_be_focused()

    alice.page.keyboard.type("osiers")
    expect(lines(alice)).to_have_count(2)
    expect(alice.page.locator("#conversations")).to_be_hidden()
    alice.until(lambda: "2 conversations found" in heard(alice), "how many is said")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        alice.page.keyboard.press(key)
    expect(lines(alice).nth(1)).to_be_focused()
    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url(f"**{rooms[0]}")


def test_enter_in_the_field_opens_the_first(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("osiers by")
    expect(lines(alice)).to_have_count(1)

    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url(f"**{rooms[0]}")


def test_enter_before_anything_was_found_leads_to_the_page_of_it(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.page.keyboard.press("Control+k")

    field(alice).fill("osiers")
    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url("**/c/search/?q=osiers")
    expect(alice.page.locator("main .conversations a")).to_have_count(2)
    assert not (found := found_in(alice.page, TWO_LOOKS)), "\n".join(found)


def test_escape_leads_back_to_where_one_was(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.composer.fill("A draft")
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("osiers")
    expect(lines(alice)).to_have_count(2)
    alice.page.keyboard.press("ArrowDown")
    assert not (found := found_in(alice.page, [(DESKTOP, "dark")])), "\n".join(found)

    alice.page.keyboard.press("Escape")

    expect(alice.composer).to_be_focused()
    expect(alice.composer).to_have_value("A draft")
    expect(field(alice)).to_have_value("")
    expect(alice.page.locator("#conversations")).to_be_visible()
    expect(alice.page.locator("#found")).to_be_hidden()


def test_what_comes_after_escape_is_not_shown(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.composer.focus()
    alice.hold("**/c/search/**")
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("osiers")
    alice.until(lambda: alice.is_holding, "it is asked for")
    alice.page.keyboard.press("Escape")

    with alice.page.expect_response("**/c/search/**"):
        alice.let_go()
    alice.page.wait_for_timeout(100)

    expect(lines(alice)).to_have_count(0)
    expect(alice.page.locator("#conversations")).to_be_visible()


@pytest.mark.parametrize("is_phone", [False, True], ids=["hidden", "drawer"])
def test_a_sidebar_that_was_away_comes_for_it_and_goes_again(
    site: BrowserSite, tab: OpenTab, rooms: list[str], is_phone: bool
) -> None:
    alice = tab("Alice", rooms[1], **(PHONE if is_phone else {})).until_ended()
    if not is_phone:
        alice.page.keyboard.press("Control+Shift+S")
    sidebar = alice.page.locator("#sidebar")
    expect(sidebar).to_be_hidden()
    alice.composer.focus()

    alice.page.keyboard.press("Control+k")
    expect(field(alice)).to_be_focused()
    alice.page.keyboard.type("osiers")
    expect(lines(alice)).to_have_count(2)
    alice.page.keyboard.press("Escape")

    expect(sidebar).to_be_hidden()
    expect(alice.composer).to_be_focused()


def test_it_is_in_the_help_and_where_there_is_no_list_the_key_is_the_browser_s(
    site: BrowserSite, tab: OpenTab
) -> None:
    alice = tab("Alice", "/")
    alice.page.locator(".person > summary").click()
    alice.button("Keyboard").click()
    row = alice.page.locator("#keys .key").filter(has_text="Find a conversation")
    expect(row.locator("kbd")).to_have_text(["Ctrl", "K"])

    alice.open("/settings/")
    is_free = alice.page.evaluate(
        "() => document.body.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'k', ctrlKey: true, bubbles: true, cancelable: true}))"
    )

    assert is_free


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_cross_that_empties_the_field_is_drawn_in_ink(
    site: BrowserSite, tab: OpenTab, rooms: list[str], colours: Any
) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.page.emulate_media(color_scheme=colours, reduced_motion="reduce")
    field(alice).fill("osiers")
    box = field(alice).bounding_box()
    assert box
    cross = {"x": box["x"] + box["width"] - 28, "y": box["y"] + 6, "width": 20, "height": 24}

    picture = alice.page.screenshot(clip=cross)  # type: ignore[arg-type]
    tones = alice.page.evaluate(TONES, base64.b64encode(picture).decode())
    alice.page.mouse.click(cross["x"] + 10, cross["y"] + 12)

    assert tones["contrast"] > 60
    assert tones["colour"] < 24
    expect(field(alice)).to_have_value("")
