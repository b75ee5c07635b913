"""A prompt: written with variables, inserted by keyboard, sent; and a colleague, whom the library shows the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.browser import axe, streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite


@pytest.fixture(autouse=True)
def _without_prompts(site: BrowserSite) -> Iterator[None]:
    yield
    site.rows("DELETE FROM chat_promptversion")
    site.rows("DELETE FROM chat_prompt")


def test_prompt_is_written_and_inserted_by_keyboard(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Dear Mia."))
    alice = tab("Alice", "/prompts/new/").page
    alice.get_by_label("Who can use it").select_option(index=1)
    alice.get_by_label("Name").fill("Letter")
    alice.get_by_label("Text", exact=True).press_sequentially("Write to {{customer}}, {{tone}}.")
    # The settings of a variable come while the text is written, and stay when it changes.
    tone = alice.locator(".prompt-variable").nth(1)
    tone.get_by_label("Type").select_option("Choice")
    tone.get_by_label("Choices, one per line").fill("dry\nwarm")
    alice.get_by_label("Text", exact=True).press("Control+End")
    alice.get_by_label("Text", exact=True).press_sequentially(" Sign as {{me}}.")
    expect(alice.locator(".prompt-variable")).to_have_count(3)
    expect(tone.get_by_label("Choices, one per line")).to_have_value("dry\nwarm")
    assert axe.findings(alice, within="main") == []
    alice.get_by_role("button", name="Create prompt").click()
    expect(alice.get_by_role("link", name="Letter")).to_be_visible()

    bob = tab("Bob", "/")
    bob.composer.press_sequentially("/let")
    options = bob.page.locator("[id^=prompt-list-] [role=option]")
    expect(options).to_have_count(1)
    expect(options).to_contain_text("Letter")
    bob.composer.press("Enter")
    dialog = bob.page.locator("#prompt-dialog")
    expect(dialog.get_by_label("customer")).to_be_focused()
    assert axe.findings(bob.page, within="#prompt-dialog") == []
    bob.page.keyboard.type("<b>Mia</b>")
    dialog.get_by_label("tone").select_option("warm")
    dialog.get_by_label("tone").press("Tab")
    bob.page.keyboard.type("Bob")
    bob.page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(bob.composer).to_have_value("Write to <b>Mia</b>, warm. Sign as Bob.")
    expect(bob.composer).to_be_focused()
    bob.composer.press("Enter")
    expect(bob.page.locator(".person-turn")).to_contain_text(
        "Write to <b>Mia</b>, warm. Sign as Bob."
    )

    # What begins like a path is a message.
    bob.composer.press_sequentially("/usr/bin")
    expect(options).to_have_count(0)
