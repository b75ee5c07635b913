"""Feedback: a reader rates an answer by keyboard, others see it at once and read the note."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.browser import axe, streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite


@pytest.mark.smoke
def test_two_people_see_a_rating_at_once(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("The river begins in the hills."))
    run = site.send("Where does it begin?")
    alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))
    for each in (alice, bob):
        each.until_live().until_ended()

    # Bob rates by keyboard: it is stored at once, and Alice sees it before he has given any reason.
    bad = bob.turns.nth(1).get_by_role("button", name="Bad answer")
    expect(bad).to_have_attribute("aria-pressed", "false")
    bad.focus()
    bob.page.keyboard.press("Enter")
    form = bob.page.locator("#rating .feedback-form")
    expect(form.get_by_label("Not correct")).to_be_focused()
    line = alice.turns.nth(1).locator(".feedback-line")
    expect(line).to_contain_text("Bob")
    assert axe.findings(bob.page) == []
    bob.page.keyboard.press("Space")
    form.get_by_label("Note").fill("It begins <b>at the lake</b>.")
    form.get_by_role("button", name="Save").press("Enter")
    expect(form).to_have_count(0)
    expect(bob.page.locator("#polite")).to_have_text("Rating saved")
    expect(bad).to_be_focused()
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(line).to_contain_text("with notes")

    # Alice, who has not rated, reads the note in the panel, where a change of it arrives, too.
    mine = alice.turns.nth(1).get_by_role("button", name="Bad answer")
    expect(mine).to_have_attribute("aria-pressed", "false")
    line.click()
    listed = alice.page.locator("#feedback-list")
    expect(listed).to_contain_text("Not correct")
    expect(listed).to_contain_text("It begins <b>at the lake</b>.")
    assert axe.findings(alice.page) == []
    # She rates in the panel.
    panel = alice.page.locator("#panel")
    panel.get_by_text("Good answer").first.click()
    panel.get_by_role("button", name="Save").click()
    expect(listed).to_contain_text("Alice")
    expect(bob.turns.nth(1).locator(".feedback-line")).to_contain_text("Alice")

    # Bob withdraws his.
    bad.click()
    expect(form.get_by_label("Note")).to_have_value("It begins <b>at the lake</b>.")
    form.get_by_role("button", name="Withdraw rating").click()
    expect(bad).to_have_attribute("aria-pressed", "false")
    expect(listed).not_to_contain_text("Bob")
    expect(line).not_to_contain_text("Bob")

    # Escape, or a click elsewhere, closes the form and keeps the rating.
    good = bob.turns.nth(1).get_by_role("button", name="Good answer")
    good.click()
    expect(form.get_by_label("Clear and well written")).to_be_visible()
    bob.page.keyboard.press("Escape")
    expect(form).to_have_count(0)
    expect(line).to_contain_text("Alice, Bob")
    bob.page.reload()
    expect(good).to_have_attribute("aria-pressed", "true")


def test_administrator_downloads_what_people_said(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("The river begins in the hills."))
    run = site.send("Where does it begin?")
    site.until_ended(run)
    answer = f"/m/{site.message_of(run)}/feedback/"
    site.post("Bob", answer, value="-1", bad="not_correct", note="Not at all.")
    page = tab("Ada", "/administration/feedback/").page
    page.get_by_label("Period").select_option("All time")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#models tbody tr").first).to_contain_text("test/model")
    assert axe.findings(page) == []
    page.get_by_role("button", name="Export").click()
    expect(page.get_by_text("This field is required.")).to_be_visible()

    page.get_by_label("Reason").fill("Compare models")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()

    lines = Path(download.value.path()).read_text().splitlines()
    assert download.value.suggested_filename.endswith(".jsonl")
    assert {"not_correct"} in [set(json.loads(line)["reasons"]) for line in lines]
    assert not any("Not at all." in line for line in lines)
    page.goto(f"{site.url}/admin/chat/auditevent/")
    expect(page.get_by_text("exported the ratings of answers").first).to_contain_text(
        "“Compare models”"
    )
