"""Favorite and recent models in the picker, by keyboard only and by touch."""

from __future__ import annotations

import os

from playwright.sync_api import Locator, Page, expect

from tests.support.browser.displays import DESKTOP_DARK, serious_findings
from tests.support.browser.people import People
from tests.support.browser.scenes import SceneSite


def group(page: Page, name: str) -> Locator:
    return page.locator("#choice .combobox-list").get_by_role("group", name=name, exact=True)


def active(page: Page) -> Locator:
    return page.locator("#choice .combobox-list .is-active")


def shoot(page: Page, name: str) -> None:
    if folder := os.environ.get("SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png")


def test_models_are_marked_and_found_again_by_keyboard(
    scene_site: SceneSite, people: People
) -> None:
    alice = people.tab(scene_site, "Alice", "/").until_live()
    page = alice.page
    button, field = page.locator("#choice .combobox-button"), page.get_by_label("Search models")
    expect(page.locator("#text")).to_be_focused()

    button.press("Enter")
    expect(field).to_be_focused()
    page.keyboard.type("xerotier")
    page.keyboard.press("ArrowDown")
    chosen = active(page).evaluate("line => line.firstChild.textContent")
    with page.expect_response("**/models/favorites/"):
        page.keyboard.press("*")
    expect(page.locator("#polite")).to_have_text(f"{chosen} was added to your favorites")
    # The searched text and the highlight stay.
    expect(field).to_have_value("xerotier")
    expect(page.locator("#choice .is-active.is-favorite")).to_have_count(1)
    expect(group(page, "Favorites")).to_have_count(0)
    field.fill("")
    expect(group(page, "Favorites").get_by_role("option")).to_have_count(1)
    assert serious_findings(page, [DESKTOP_DARK], within="#choice") == []
    page.keyboard.press("Home")
    # Below them are the recent models, if the person has sent something before.
    while group(page, "Favorites").locator(".is-active").count() == 0:
        page.keyboard.press("ArrowUp")
    expect(active(page)).to_contain_text(chosen)
    page.keyboard.press("Enter")
    expect(button).to_be_focused()
    expect(button.locator(".combobox-value")).to_have_text(chosen)

    # The model of a message is a recent one, without its name being stored for that.
    button.press("Enter")
    expect(field).to_be_focused()
    page.keyboard.type("code")
    used = active(page).evaluate("line => line.firstChild.textContent")
    page.keyboard.press("Enter")
    alice.write("Write help")
    page.wait_for_url("**/c/**")
    page.goto(f"{scene_site.url}/")
    alice.until_live()
    expect(page.locator("#text")).to_be_focused()
    button.press("Enter")
    expect(group(page, "Favorites").get_by_role("option")).to_contain_text([chosen])
    expect(group(page, "Recent").get_by_role("option").first).to_contain_text(used)
    expect(active(page)).to_contain_text(used)
    assert page.locator("#choice [aria-selected=true]").count() == 1
    shoot(page, "picker")

    # The same key takes it away.
    page.keyboard.press("ArrowUp")
    expect(active(page)).to_contain_text(chosen)
    with page.expect_response("**/models/favorites/remove/"):
        page.keyboard.press("*")
    expect(group(page, "Favorites")).to_have_count(0)
    page.reload()
    alice.until_live()
    button.press("Enter")
    expect(group(page, "Recent")).to_be_visible()
    expect(group(page, "Favorites")).to_have_count(0)


def test_star_is_tapped_on_a_phone(scene_site: SceneSite, people: People) -> None:
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    page = people.tab(scene_site, "Bob", "/", **phone).until_live().page
    before = page.locator("#choice .combobox-value").inner_text()

    page.locator("#choice .combobox-button").tap()
    line = page.locator("#choice [role=option]").nth(1)
    star = line.locator(".combobox-star")
    box = star.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 40
    with page.expect_response("**/models/favorites/"):
        star.tap()
    expect(group(page, "Favorites").get_by_role("option")).to_have_count(1)
    shoot(page, "picker-phone")
    # The star chooses nothing.
    expect(page.locator("#choice .combobox-value")).to_have_text(before)
    with page.expect_response("**/models/favorites/remove/"):
        group(page, "Favorites").locator(".combobox-star").tap()
    expect(group(page, "Favorites")).to_have_count(0)
