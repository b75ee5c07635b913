"""A skill: imported from a ZIP file after its preview, switched on in a conversation, and loaded by the model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.runs.waiting import calling, saying, wire_call
from tests.skills.packages import WEEKLY
from tests.support.browser import axe
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite


@pytest.fixture(autouse=True)
def _without_skills(site: BrowserSite) -> Iterator[None]:
    yield
    site.rows("DELETE FROM chat_conversation_skills")
    for table in ("skillversion", "skillcontent", "skill", "skillupload"):
        site.rows(f"DELETE FROM chat_{table}")


def test_skill_is_imported_switched_on_and_loaded(site: BrowserSite, tab: OpenTab) -> None:
    page = tab("Alice", "/skills/").page
    page.get_by_role("link", name="Import skill").click()
    upload = {"name": "weekly.zip", "mimeType": "application/zip", "buffer": WEEKLY}
    page.get_by_label("File").set_input_files(upload)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("scripts/measure.py")).to_be_visible()
    expect(page.get_by_text("Scripts are shown, never run.")).to_be_visible()
    assert axe.findings(page, within="main") == []
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("1 skill imported")).to_be_visible()
    expect(page.get_by_text("water level")).to_be_visible()
    page.get_by_role("link", name="scripts/measure.py").click()
    expect(page.locator("pre")).to_contain_text('print("<b>4.2</b>")')
    assert axe.findings(page, within="main") == []

    with site.speaking("openai_chat"):
        site.fake.script(saying("Good morning."))
        run = site.send("Good morning")
        site.until_ended(run)
        alice = tab("Alice", site.room(run)).until_live()
        page = alice.page
        page.locator("#tools-slot summary").click()
        page.get_by_label("weekly-report").check()
        expect(page.locator("#tools-count")).to_have_text("1")
        assert axe.findings(page, within="#composer") == []
        page.keyboard.press("Escape")
        site.fake.script(
            calling(wire_call(0, "c1", "load_skill", '{"name": "weekly-report"}')),
            saying("The report is written."),
        )
        alice.composer.fill("Write the report.")
        alice.composer.press("Enter")

        alice.shows("The report is written.")
        card = page.locator(".ask, .tool-call", has_text="load_skill").last
        card.locator("summary").first.click()
        expect(card).to_contain_text("Begin with the **water level**")
