"""Ctrl+K finds a conversation by its title, by keyboard alone."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.displays import DESKTOP_DARK, TWO_DISPLAYS, serious_findings
from tests.support.browser.people import OpenTab
from tests.support.browser.screen_reader import listen, until_announced
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

PHONE = {"viewport": {"width": 390, "height": 800}}
# The range of lightness of the pixels of a picture, and the strongest color of a pixel.
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
    return tab.page.get_by_role("searchbox", name="Search conversations")


def lines(tab: Tab) -> Locator:
    return tab.page.locator("#found a")


@pytest.fixture(scope="module")
def rooms(shared_site: BrowserSite) -> Iterator[list[str]]:
    """The addresses of two conversations about osiers and of one about reeds."""
    site = shared_site
    titles = ("Osiers by the water", "Reeds", "Osiers in spring")
    site.fake.script(*(streams.telling("Yes.") for _ in titles))
    runs = [site.send(title) for title in titles]
    for run in runs:
        site.until_ended(run)
    yield [site.room(run) for run in runs]
    # Other tests count the conversations in the sidebar.
    for run in runs:
        site.post("Alice", "/conversations/delete/", conversation=site.room(run).split("/")[2])


@pytest.mark.smoke
def test_ctrl_k_finds_a_conversation(site: BrowserSite, tab: OpenTab, rooms: list[str]) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    listen(alice)
    alice.composer.focus()
    alice.page.keyboard.press("Control+k")
    expect(field(alice)).to_be_focused()

    alice.page.keyboard.type("osiers")
    expect(lines(alice)).to_have_count(2)
    expect(alice.page.locator("#conversations")).to_be_hidden()
    until_announced(alice, "2 conversations found")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        alice.page.keyboard.press(key)
    expect(lines(alice).nth(1)).to_be_focused()
    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url(f"**{rooms[0]}")


def test_enter_opens_the_first_match(site: BrowserSite, tab: OpenTab, rooms: list[str]) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("osiers by")
    expect(lines(alice)).to_have_count(1)

    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url(f"**{rooms[0]}")


def test_early_enter_opens_the_search_page(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.page.keyboard.press("Control+k")

    field(alice).fill("osiers")
    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url("**/c/search/?q=osiers")
    links = alice.page.locator("main .things a")
    expect(links).to_have_count(2)
    assert serious_findings(alice.page, TWO_DISPLAYS) == []
    alice.page.locator("main input[name=q]").press("ArrowDown")
    expect(links.first).to_be_focused()
    alice.page.keyboard.press("ArrowDown")
    expect(links.last).to_be_focused()
    alice.page.keyboard.press("ArrowUp")
    alice.page.keyboard.press("ArrowUp")
    expect(alice.page.locator("main input[name=q]")).to_be_focused()


def test_escape_restores_the_focus(site: BrowserSite, tab: OpenTab, rooms: list[str]) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.composer.fill("A draft")
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("osiers")
    expect(lines(alice)).to_have_count(2)
    alice.page.keyboard.press("ArrowDown")
    assert serious_findings(alice.page, [DESKTOP_DARK]) == []

    alice.page.keyboard.press("Escape")

    expect(alice.composer).to_be_focused()
    expect(alice.composer).to_have_value("A draft")
    expect(field(alice)).to_have_value("")
    expect(alice.page.locator("#conversations")).to_be_visible()
    expect(alice.page.locator("#found")).to_be_hidden()


def test_late_matches_are_not_shown(site: BrowserSite, tab: OpenTab, rooms: list[str]) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.composer.focus()
    alice.hold("**/c/search/**")
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("osiers")
    alice.until(lambda: alice.is_holding, "it is asked for")
    alice.page.keyboard.press("Escape")

    with alice.page.expect_response("**/c/search/**"):
        alice.release()
    alice.page.wait_for_timeout(100)

    expect(lines(alice)).to_have_count(0)
    expect(alice.page.locator("#conversations")).to_be_visible()


@pytest.mark.parametrize("is_phone", [False, True], ids=["hidden", "drawer"])
def test_hidden_sidebar_opens_for_the_search(
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


def test_search_key_is_listed_and_free_elsewhere(site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", "/")
    alice.page.locator(".person > summary").click()
    alice.button("Keyboard shortcuts").click()
    row = alice.page.locator("#keys .key").filter(has_text="Search conversations")
    expect(row.locator("kbd")).to_have_text(["Ctrl", "K"])

    alice.open("/settings/")
    is_free = alice.page.evaluate(
        "() => document.body.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'k', ctrlKey: true, bubbles: true, cancelable: true}))"
    )

    assert is_free


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_clear_button_has_contrast(
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
