"""Several models answer one message side by side, for two people, until one of them chooses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser import streams
from tests.support.browser.displays import DESKTOP, serious_findings
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab

MODELS = [
    ("test/model", "Test"),
    ("test/two", "Two"),
    ("test/three", "Three"),
    ("test/four", "Four"),
]


@contextmanager
def four_models(site: BrowserSite) -> Iterator[None]:
    before = site.value("SELECT model_list FROM chat_upstream")
    lists = [{"id": key, "label": name, "detail": {}, "is_typed": False} for key, name in MODELS]
    site.rows("UPDATE chat_upstream SET model_list = ?", json.dumps(lists))
    try:
        yield
    finally:
        site.rows("UPDATE chat_upstream SET model_list = ?", before)


@pytest.fixture
def models(site: BrowserSite) -> Iterator[None]:
    with four_models(site):
        yield


def columns(tab: Tab) -> Locator:
    return tab.page.locator(".column")


def column(tab: Tab, words: str) -> Locator:
    """The column with this text: which model is asked first nobody knows."""
    return tab.page.locator(".column", has_text=words)


def state(place: Locator) -> Locator:
    return place.locator(".column-state .badge").first


def add_model(page: Page, name: str) -> None:
    search = page.locator("#compare-row").get_by_label("Search models")
    expect(search).to_be_focused()
    search.fill(name)
    page.keyboard.press("Enter")


def shown(tab: Tab) -> list[str]:
    """The columns as a person reads them, without what moves with the clock."""
    return [each.inner_text() for each in columns(tab).locator(".runs, .column-actions").all()]


def test_two_people_watch_four_models_and_one_chooses(
    site: BrowserSite, tab: OpenTab, models: None
) -> None:
    site.fake.script(
        streams.telling("Welcome."),
        streams.telling("Alpha begins", gate("alpha"), " and ends."),
        streams.telling("Beta begins", gate("beta"), " and ends."),
        streams.telling("Gamma begins", gate("gamma"), end_with=streams.fail("It broke.")),
        streams.telling("Delta begins", streams.hang()),
    )
    run = site.send("Hello")
    alice, bob = (tab(name, site.room(run)).until_ended() for name in ("Alice", "Bob"))
    bob.until_live()
    alice.until_live()
    page = alice.page

    # By keyboard alone.
    alice.button("Compare models").focus()
    page.keyboard.press("Enter")
    for name in ("Two", "Three"):
        add_model(page, name)
        expect(page.locator("#compare-row summary")).to_be_focused()
        page.keyboard.press("Enter")
    add_model(page, "Four")
    expect(page.locator(".compare-chip")).to_have_count(3)
    expect(page.locator("#compare-row summary")).to_have_count(0)
    assert serious_findings(page) == []
    alice.write("Who is right?")

    for each in (alice, bob):
        for words in ("Alpha begins", "Beta begins", "Gamma begins", "Delta begins"):
            expect(column(each, words)).to_have_count(1)
        expect(each.page.locator("#strip")).to_contain_text("4 of 4 answering…")
        expect(columns(each).get_by_text("First token")).to_have_count(4)

    # Two finish, one fails, one is stopped.
    for name in ("alpha", "beta", "gamma"):
        site.fake.release(name)
    for each in (alice, bob):
        expect(state(column(each, "Alpha begins and ends."))).to_have_text("Completed")
        expect(state(column(each, "Beta begins and ends."))).to_have_text("Completed")
        expect(column(each, "Beta begins").locator(".measures dt")).to_have_text(
            ["First token", "Tokens", "Speed", "Time"]
        )
        expect(state(column(each, "Gamma begins"))).to_have_text("Failed")
        expect(each.page.locator("#strip")).to_contain_text("1 of 4 answering…")
    column(alice, "Delta begins").get_by_role("button", name="Stop").click()
    for each in (alice, bob):
        expect(state(column(each, "Delta begins"))).to_have_text("Stopped")
        expect(each.page.locator("#strip")).to_contain_text("Choose the answer to continue with")
    assert serious_findings(page) == []
    before = shown(alice)
    assert shown(bob) == before
    assert shown(alice.reload()) == before

    # Nobody writes below it.
    alice.until_live().write("And now?")
    expect(page.locator("#composer-note")).to_contain_text(
        "Choose the answer to continue with first."
    )
    expect(alice.composer).to_have_value("And now?")

    column(bob, "Beta begins").get_by_role("button", name="Continue with this answer").click()
    for each in (alice, bob):
        expect(columns(each)).to_have_count(0)
        expect(each.answer).to_contain_text("Beta begins and ends.")
        expect(each.turns.last.locator(".siblings")).to_contain_text("of 4")
    alice.turns.last.get_by_role("link", name="Show comparison").click()
    expect(columns(alice)).to_have_count(4)
    expect(page.get_by_text("Bob chose the answer to continue with")).to_be_visible()


# The page begins as it does where websockets are blocked.
ON_STREAM = "sessionStorage.setItem('tributary.plain', '')"


def test_picker_of_a_new_conversation_stays_within_the_window(tab: OpenTab, models: None) -> None:
    alice = tab("Alice", "/")
    alice.page.set_viewport_size(DESKTOP)

    alice.button("Compare models").click()

    search = alice.page.locator("#compare-row").get_by_label("Search models")
    expect(search).to_be_in_viewport(ratio=1)


def test_phone_shows_tabs_that_the_plain_stream_fills(
    site: BrowserSite, tab: OpenTab, models: None
) -> None:
    site.fake.script(
        streams.telling("Welcome."),
        streams.telling("Alpha begins", gate("alpha"), " and ends."),
        streams.telling("Beta begins", gate("beta"), " and ends."),
    )
    run = site.send("Hello")
    site.until_ended(run)
    bob = tab("Bob")
    bob.add_init_script(ON_STREAM)
    bob.page.set_viewport_size({"width": 360, "height": 740})
    bob.open(site.room(run))
    expect(bob.page.locator("#carrier")).to_be_visible()

    server = site.world.upstream
    site.post(
        *("Alice", f"{site.room(run)}send/"),
        text="Who is right?",
        parent=site.message_of(run).hex,
        choice=f"{server}:test/model",
        compare=f"{server}:test/two",
        key=str(uuid4()),
    )

    first, second = (bob.page.get_by_role("tab", name=name) for name in ("Test", "Two"))
    panel = bob.page.get_by_role("tabpanel")
    expect(panel).to_have_count(1)
    expect(panel).to_contain_text("begins")
    shown = panel.inner_text().split()[2]
    first.focus()
    bob.page.keyboard.press("ArrowRight")
    expect(second).to_be_focused()
    expect(second).to_have_attribute("aria-selected", "true")
    expect(panel).to_contain_text("begins")
    assert panel.inner_text().split()[2] != shown
    for name in ("alpha", "beta"):
        site.fake.release(name)
    expect(state(panel)).to_have_text("Completed")
    expect(panel).to_contain_text("and ends.")
    kept = panel.inner_text().split()[2]

    panel.get_by_role("button", name="Continue with this answer").click()

    expect(columns(bob)).to_have_count(0)
    expect(bob.answer).to_contain_text(kept)
    expect(bob.page.locator("#choice .combobox-value")).to_have_text("Two")
    expect(bob.page.locator("#strip .phase")).to_have_count(0)
