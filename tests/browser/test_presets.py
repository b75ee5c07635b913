"""A preset: made of the settings in the panel, chosen by keyboard in a new conversation, changed there and reset."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser import axe, streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite


@pytest.fixture(autouse=True)
def _without_presets(site: BrowserSite) -> Iterator[None]:
    yield
    site.rows("UPDATE chat_conversation SET preset_version_id = NULL")
    for table in ("defaultpreset", "presetversion", "preset"):
        site.rows(f"DELETE FROM chat_{table}")


def fill_choice(choice: Locator, label: str, temperature: str) -> None:
    choice.get_by_label("Choice", exact=True).fill(label)
    choice.locator("[data-parameter]").select_option("Temperature")
    choice.get_by_label("Value", exact=True).fill(temperature)


def shoot(page: Page) -> None:
    if folder := os.environ.get("SHOTS"):
        page.screenshot(path=f"{folder}/preset.png", full_page=True)


def test_preset_is_saved_chosen_changed_and_reset(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("The lock is shut."))
    page = tab("Alice", "/").page
    page.get_by_label("System prompt and parameters").click()
    panel = page.locator("#parameters")
    panel.get_by_label("System prompt").fill("Write reports.")
    panel.get_by_label("Temperature").fill("0.2")
    panel.get_by_role("button", name="Save as preset").click()
    name = panel.get_by_label("Name", exact=True)
    expect(name).to_be_focused()
    assert axe.findings(page, within="#parameters") == []
    panel.get_by_role("button", name="Save as new preset").click()
    expect(panel.get_by_text("Enter a name for the preset.")).to_be_visible()
    name.fill("Report writer")
    panel.get_by_role("button", name="Save as new preset").click()
    chip, changed = page.locator("#preset-name"), page.locator("#preset-changed")
    expect(chip).to_contain_text("Report writer")

    page.goto(f"{site.url}/presets/")
    page.get_by_role("link", name="Report writer").click()
    page.get_by_label("Suggested messages").fill("Report on the lock")
    page.get_by_role("button", name="Add control").click()
    expect(page.get_by_label("Name").nth(1)).to_be_focused()
    page.keyboard.type("Style")
    fill_choice(page.locator(".control-choice:visible").first, "Calm", "0.2")
    fill_choice(page.locator(".control-choice:visible").last, "Wild", "1")
    page.get_by_role("button", name="Add choice").click()
    page.keyboard.type("Odd")
    page.get_by_role("group", name="Odd").get_by_role("button", name="Remove choice").click()
    assert axe.findings(page, within="main") == []
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    # The stored form is that of the lines, which people without scripts write.
    lines = page.locator("[name=control_0_choices]")
    expect(lines).to_have_value("Calm: temperature = 0.2\nWild: temperature = 1.0")
    expect(page.get_by_role("group", name="Wild").get_by_label("Value")).to_have_value("1.0")
    shoot(page)

    alice = tab("Alice", "/").until_live()
    page = alice.page
    chip, changed = page.locator("#preset-name"), page.locator("#preset-changed")
    temperature, style = page.get_by_label("Temperature"), page.get_by_label("Style")
    page.locator(".combobox-button").press("Enter")
    # The page gives the focus to the message when it has loaded.
    expect(page.get_by_label("Search models")).to_be_focused()
    page.keyboard.type("report")
    page.keyboard.press("Enter")
    expect(chip).to_contain_text("Report writer")
    expect(page.locator(".combobox-button")).to_be_focused()
    expect(temperature).to_have_value("0.2")
    expect(page.locator("#id_system_prompt")).to_have_value("Write reports.")
    expect(style.locator(":checked")).to_have_text("Calm")
    expect(changed).to_be_hidden()
    expect(page.locator(".starter:visible")).to_have_text(["Report on the lock"])
    # A choice of a control is a part of the preset.
    style.select_option("Wild")
    expect(temperature).to_have_value("1.0")
    expect(changed).to_be_hidden()
    assert axe.findings(page, within="#composer") == []
    chip.click()
    temperature.fill("0.7")
    expect(changed).to_be_visible()
    expect(style.locator(":checked")).to_have_text("Custom")
    page.locator("#parameters").get_by_role("button", name="Reset", exact=True).click()
    expect(changed).to_be_hidden()
    expect(temperature).to_have_value("0.2")
    page.keyboard.press("Escape")

    page.locator(".starter:visible").click()
    alice.composer.press("Enter")
    expect(page.locator(".person-turn")).to_contain_text("Report on the lock")
    expect(chip).to_contain_text("Report writer")
    expect(changed).to_be_hidden()
