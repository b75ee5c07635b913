"""Ctrl+K finds conversations, messages, people and commands by keyboard alone; a hit opens at its words."""

import base64
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.displays import (
    DESKTOP_DARK,
    DESKTOP_LIGHT,
    PHONE_LIGHT,
    overflow,
    serious_findings,
)
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

PHONE = {"viewport": {"width": 360, "height": 740}}
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
# The marked words, and whether the first of them can be seen.
MARKS = """() => {
  const ranges = [...(CSS.highlights.get("found") ?? [])];
  if (!ranges.length) return { words: [], isSeen: false };
  const { top, bottom, height } = ranges[0].getBoundingClientRect();
  const words = ranges.map(range => range.toString());
  return { words, isSeen: height > 0 && top > 50 && bottom < innerHeight - 100 };
}"""


def field(tab: Tab) -> Locator:
    return tab.page.get_by_role("combobox", name="Search")


def options(tab: Tab) -> Locator:
    return tab.page.locator("#palette-found").get_by_role("option")


def active(tab: Tab) -> Locator:
    return tab.page.locator("#palette .is-active")


def search(tab: Tab, words: str) -> Tab:
    tab.page.keyboard.press("Control+k")
    expect(field(tab)).to_be_focused()
    tab.page.keyboard.type(words)
    expect(tab.page.locator(f"#palette-found > [data-query='{words}']")).to_be_attached()
    return tab


def until_marked(tab: Tab, *words: str) -> None:
    tab.until(
        lambda: tab.page.evaluate(MARKS) == {"words": list(words), "isSeen": True},
        f"{words} are marked, and in sight: {tab.page.evaluate(MARKS)}",
    )


@pytest.fixture(scope="module")
def rooms(shared_site: BrowserSite) -> Iterator[list[str]]:
    """The addresses of two conversations about osiers and of one about reeds."""
    site = shared_site
    titles = ("Osiers by the water", "Reeds", "Osiers in spring")
    site.fake.script(*(streams.telling("They are cut in *March*.") for _ in titles))
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
    alice.composer.focus()

    search(alice, "osiers")
    # Titles, messages, and all results.
    expect(options(alice)).to_have_count(5)
    expect(active(alice)).to_have_text("Osiers in spring")
    expect(alice.page.locator("#palette-said")).to_have_text("4 results")
    alice.page.keyboard.press("ArrowDown")
    expect(active(alice)).to_have_text("Osiers by the water")
    name = active(alice).get_attribute("id") or ""
    expect(field(alice)).to_have_attribute("aria-activedescendant", name)
    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url(f"**{rooms[0]}")


def test_message_opens_at_its_words(site: BrowserSite, tab: OpenTab, rooms: list[str]) -> None:
    alice = tab("Alice", "/settings/")

    search(alice, "reeds")
    alice.page.keyboard.press("ArrowDown")
    expect(active(alice)).to_contain_text("Alice")
    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url(f"**{rooms[1]}?mark=reeds*&kind=message#m*")
    until_marked(alice, "Reeds")


def test_early_enter_opens_the_search_page(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.hold("**/palette/**")
    alice.page.keyboard.press("Control+k")

    alice.page.keyboard.type("osiers")
    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url("**/c/search/?q=osiers")
    alice.release()
    links = alice.page.locator(".hit-link")
    expect(links).to_have_count(4)
    assert serious_findings(alice.page, [PHONE_LIGHT]) == []
    words = alice.page.locator("#search-q")
    words.press("ArrowDown")
    expect(links.first).to_be_focused()
    alice.page.keyboard.press("ArrowUp")
    expect(words).to_be_focused()
    # It is one of the recent searches now, and found again without a word.
    alice.open("/")
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.press("ArrowDown")
    expect(active(alice)).to_have_text("osiers")
    alice.page.keyboard.press("Enter")
    expect(options(alice)).to_have_count(5)


def test_escape_restores_the_focus(site: BrowserSite, tab: OpenTab, rooms: list[str]) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.composer.fill("A draft")
    search(alice, "osiers")
    expect(options(alice)).to_have_count(5)
    assert serious_findings(alice.page, [DESKTOP_DARK], within="#palette") == []

    alice.page.keyboard.press("Escape")

    expect(alice.composer).to_be_focused()
    expect(alice.composer).to_have_value("A draft")
    expect(options(alice)).to_have_count(0)


def test_late_matches_are_not_shown(site: BrowserSite, tab: OpenTab, rooms: list[str]) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.hold("**/palette/?q=osiers")
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("osiers")
    alice.until(lambda: alice.is_holding, "it is asked for")
    alice.page.keyboard.press("Escape")

    with alice.page.expect_response("**/palette/?q=osiers"):
        alice.release()
    alice.page.wait_for_timeout(100)

    expect(options(alice)).to_have_count(0)


def test_line_that_was_gone_to_stays_active(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", rooms[1]).until_ended()
    alice.hold("**/palette/**")
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.press("ArrowDown")
    expect(active(alice)).to_have_text("Rename")

    alice.release()

    expect(options(alice).first).to_be_visible()
    expect(active(alice)).to_have_text("Rename")


def test_commands_are_found_by_their_names(site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", "/")
    commands = alice.page.locator("#palette-commands").get_by_role("option")
    alice.page.keyboard.press("Control+k")
    expect(commands.filter(has_text="Servers")).to_have_count(0)

    alice.page.keyboard.type("shortc")
    expect(commands.filter(visible=True)).to_have_text(["Keyboard shortcuts"])
    alice.page.keyboard.press("Enter")
    expect(alice.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    alice.page.keyboard.press("Escape")

    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("set")
    alice.page.keyboard.press("Enter")
    alice.page.wait_for_url("**/settings/")


def test_commands_act_on_the_open_conversation(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("It rains."))
    alice = tab("Alice", site.room(site.send("How is the weather?"))).until_ended()
    commands = alice.page.locator("#palette-conversation").get_by_role("option")

    alice.page.keyboard.press("Control+k")
    expect(commands.filter(has_text="Export: JSON")).to_have_count(1)
    alice.page.keyboard.type("rename")
    alice.page.keyboard.press("Enter")
    expect(alice.page.locator("#title")).to_be_focused()
    alice.page.keyboard.press("Escape")

    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("archive")
    alice.page.keyboard.press("Enter")
    expect(alice.page.locator("#room-head")).to_contain_text("Archived")

    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("change mod")
    alice.page.keyboard.press("Enter")
    expect(alice.page.locator("#choice [role=combobox]")).to_be_focused()


def test_person_opens_a_search_for_what_they_wrote(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    bob = tab("Bob", "/")

    search(bob, "alic")
    bob.page.keyboard.press("ArrowUp")
    bob.page.keyboard.press("ArrowUp")
    while "Search their messages" not in (active(bob).text_content() or ""):
        bob.page.keyboard.press("ArrowUp")
    bob.page.keyboard.press("Enter")

    bob.page.wait_for_url("**/c/search/?q=&from=alice")
    expect(bob.page.locator("[name=from]")).to_have_value("Alice")


def test_drawer_of_a_phone_leads_to_the_palette(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", rooms[1], **PHONE, has_touch=True).until_ended()
    alice.page.get_by_role("button", name="Open sidebar").tap()
    alice.page.locator("[data-palette-open]").tap()
    expect(field(alice)).to_be_focused()
    expect(alice.page.locator("#sidebar")).to_be_hidden()
    alice.page.keyboard.type("osiers")
    expect(options(alice)).to_have_count(5)
    box = alice.page.locator("#palette").bounding_box()
    assert box == {"x": 0, "y": 0, "width": 360, "height": box["height"] if box else 0}
    assert overflow(alice.page) == []

    options(alice).last.tap()

    alice.page.wait_for_url("**/c/search/?q=osiers")
    expect(alice.page.locator(".hit")).to_have_count(4)
    assert overflow(alice.page) == []


def test_filters_are_controls_and_stay_in_the_address(
    site: BrowserSite, tab: OpenTab, rooms: list[str]
) -> None:
    alice = tab("Alice", "/c/search/?q=osiers+from:alice")
    # With the space that makes it a whole word.
    expect(alice.page.locator("#search-q")).to_have_value("osiers ")
    person = alice.page.locator("[name=from]")
    expect(person).to_have_value("Alice")
    expect(alice.page.locator(".hit")).to_have_count(4)

    alice.page.locator(".chip").filter(has_text="Error").click()
    alice.page.wait_for_url("**/c/search/?q=osiers+&from=Alice&has=error")
    expect(alice.page.get_by_role("heading", name="No matches")).to_be_visible()
    expect(person).to_have_value("Alice")
    alice.page.get_by_role("link", name="Clear filters").first.click()

    alice.page.wait_for_url("**/c/search/?q=osiers+")
    expect(alice.page.locator(".hit")).to_have_count(4)


def test_clear_button_has_contrast(site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", "/c/search/?q=osiers")
    words = alice.page.locator("#search-q")
    words.focus()
    box = words.bounding_box()
    assert box
    cross = {"x": box["x"] + box["width"] - 28, "y": box["y"] + 6, "width": 20, "height": 28}

    for display in (DESKTOP_DARK, DESKTOP_LIGHT):
        display.show(alice.page)
        picture = alice.page.screenshot(clip=cross)  # type: ignore[arg-type]
        tones = alice.page.evaluate(TONES, base64.b64encode(picture).decode())
        assert tones["contrast"] > 60
        assert tones["colour"] < 24
    alice.page.mouse.click(cross["x"] + 10, cross["y"] + 14)

    expect(words).to_have_value("")


def test_theme_is_changed_and_remembered(site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", "/")
    ground = "() => getComputedStyle(document.documentElement).backgroundColor"
    light = alice.page.evaluate(ground)

    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("theme dark")
    alice.page.keyboard.press("Enter")

    expect(alice.page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = alice.page.evaluate(ground)
    assert dark != light
    alice.reload()
    assert alice.page.evaluate(ground) == dark
    alice.open("/settings/")
    choice = alice.page.get_by_role("combobox", name="Theme")
    expect(choice).to_have_value("dark")
    choice.select_option("System")
    assert alice.page.evaluate(ground) == light
    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("theme light")
    alice.page.keyboard.press("Enter")
    expect(choice).to_have_value("light")
