"""The gauge: a conversation that is too long for its model, what of it is left out, and the summary in its place."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from chat.web.model_facts import tokens_in_words
from tests.support.browser import axe, streams
from tests.support.browser.displays import PHONE
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite

WINDOW = 1000


@pytest.fixture
def small_site(site: BrowserSite) -> Iterator[BrowserSite]:
    """A site whose model reads a thousand tokens."""
    [before] = site.rows("SELECT model_list FROM chat_upstream")
    models = json.loads(before["model_list"])
    for model in models:
        model["detail"] = {"context_length": WINDOW}
    site.rows("UPDATE chat_upstream SET model_list = ?", json.dumps(models))
    yield site
    site.rows("UPDATE chat_upstream SET model_list = ?", before["model_list"])


def answering(site: BrowserSite, text: str, tokens: int) -> None:
    """Scripts an answer, after which the server has counted these tokens."""
    stats = {"input_tokens": tokens - 40, "total_output_tokens": 40}
    site.fake.script(streams.telling(text, end_with=streams.end(stats)))


def press(page: Page, role: str, name: str) -> None:
    """By keyboard."""
    place = page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
    place.focus()
    place.press("Enter")


def test_older_messages_are_left_out_included_and_summarized(
    small_site: BrowserSite, tab: OpenTab
) -> None:
    site = small_site
    answering(site, "Snow and springs.", 300)
    room = site.room(site.send("What feeds the river?"))
    alice = tab("Alice", room).until_live().shows("springs").until_ended()
    page, note = alice.page, alice.page.locator("#context-note")
    gauge = page.get_by_role("link", name="Context: ")
    expect(gauge).to_have_text("300 of 1K")
    for text, tokens in (("Which springs?", 500), ("How cold are they?", 740)):
        answering(site, f"Answer to: {text}", tokens)
        alice.write(text).shows(f"Answer to: {text}").until_ended()
    expect(gauge).to_have_text("740 of 1K")
    bob = tab("Bob", room).until_live()

    # It is said before the message is sent.
    alice.composer.fill("word " * 160)
    expect(gauge).to_have_text("940 of 1K")
    expect(note).to_contain_text("almost fills what the model can read")
    alice.composer.fill("word " * 300)
    expect(note).to_contain_text("longer than what the model can read")
    assert axe.findings(page, within="#composer") == []
    alice.composer.fill("")
    expect(note).to_be_empty()
    alice.composer.fill("word " * 300)

    # Older messages are left out, by keyboard, which everybody sees.
    press(page, "link", "Leave out older messages")
    panel = page.locator("#panel")
    expect(panel.get_by_role("heading", name="Context")).to_be_focused()
    panel.get_by_role("radio").first.focus()
    page.keyboard.press("ArrowDown")
    expect(panel.get_by_role("radio").nth(1)).to_be_checked()
    assert axe.findings(page, within="#panel") == []
    press(page, "button", "Start with this message")
    for each in (alice, bob):
        line = each.turns.nth(1).locator(".context-line")
        expect(line).to_contain_text("The 2 messages above aren’t sent · Alice")
        expect(each.page.locator(".room-change").last).to_contain_text(
            "Alice left out the messages before “Which springs?”"
        )
    expect(panel.get_by_text("Not sent")).to_be_visible()
    assert axe.findings(page, within="#panel") == []
    page.keyboard.press("Escape")
    alice.composer.fill("")
    answering(site, "Very cold.", 400)
    alice.write("Say it again.").shows("Very cold.").until_ended()
    expect(gauge).to_have_text("400 of 1K")
    sent = json.dumps(site.fake.requests[-1].body)
    assert "Which springs?" in sent
    assert "What feeds the river?" not in sent

    # And included again.
    press(page, "link", "Context: 400 of 1K")
    press(page, "button", "Send everything again")
    for each in (alice, bob):
        expect(each.page.locator(".context-line")).to_have_count(0)
    # On a phone, the summary is an ordinary message.
    page.set_viewport_size(PHONE)
    assert axe.findings(page, within="#panel") == []
    answering(site, "It is about springs.", 450)
    press(page, "button", "Summarize")
    expect(panel).to_be_hidden()
    alice.shows("It is about springs.").until_ended()
    for each in (alice, bob):
        expect(each.turns.last.locator(".context-line")).to_contain_text(
            "Later answers get this summary in place of the 8 earlier messages"
        )
    answering(site, "Yes.", 120)
    alice.write("Go on.").shows("Yes.").until_ended()
    sent = json.dumps(site.fake.requests[-1].body)
    assert "It is about springs." in sent
    assert "Say it again." not in sent
    assert axe.findings(page, within="#composer") == []


def test_server_is_asked_to_condense_where_its_api_can(
    small_site: BrowserSite, tab: OpenTab
) -> None:
    answering(small_site, "Snow and springs.", 300)
    room = small_site.room(small_site.send("What feeds the river?"))
    with small_site.speaking("openai_responses"):
        alice = tab("Alice", room).until_live()
        alice.composer.fill("word " * 1000)
        press(alice.page, "button", "Let the server condense it")
        field = alice.page.get_by_label("Summarize above")
        expect(field).to_have_value("750")
        expect(field).to_be_focused()


def test_answer_that_was_too_long_is_tried_again_without_older_messages(
    small_site: BrowserSite, tab: OpenTab
) -> None:
    site = small_site
    answering(site, "Snow and springs.", 600)
    room = site.room(site.send("What feeds the river?"))
    alice = tab("Alice", room).until_live().shows("springs").until_ended()
    error = {"type": "invalid_request", "code": "context_length_exceeded", "message": "Too long."}
    site.fake.script(streams.scripted(streams.BEGINNING, {"type": "error", "error": error}))
    alice.write("And in summer?").shows("too long for this model").until_ended()

    press(alice.page, "link", "Leave out older messages")
    expect(alice.page.locator("#panel").get_by_role("radio").nth(1)).to_be_checked()
    press(alice.page, "button", "Start with this message")
    expect(alice.turns.nth(1).locator(".context-line")).to_be_visible()
    alice.page.keyboard.press("Escape")
    answering(site, "Springs alone.", 200)
    alice.page.locator(".retry").press("Enter")
    alice.shows("Springs alone.").until_ended()

    expect(alice.page.get_by_role("link", name="Context: 200 of 1K")).to_be_visible()
    assert "feeds the river" not in json.dumps(site.fake.requests[-1].body)


def test_other_model_is_one_that_is_known_to_read_more(
    small_site: BrowserSite, tab: OpenTab
) -> None:
    site = small_site
    [before] = site.rows("SELECT model_list FROM chat_upstream")
    [small, *_] = json.loads(before["model_list"])
    others = [
        {**small, "id": f"test/{name}", "label": name, "detail": {"context_length": window}}
        for name, window in (("Tiny", 500), ("Large", 8192), ("Unknown", None))
    ]
    site.rows("UPDATE chat_upstream SET model_list = ?", json.dumps([small, *others]))
    answering(site, "Snow and springs.", 300)
    alice = tab("Alice", site.room(site.send("What feeds the river?"))).until_live().until_ended()
    offered = alice.page.locator("#choice [role=option]")

    alice.composer.fill("word " * 1000)
    press(alice.page, "button", "Choose another model")
    expect(offered).to_contain_text(["Large", "Unknown"])
    expect(offered).to_have_count(2)

    # A search finds all, and so does the picker itself.
    alice.page.get_by_role("combobox", name="Search").fill("tiny")
    expect(offered).to_contain_text(["Tiny"])
    alice.page.keyboard.press("Escape")
    alice.page.locator("#choice .combobox-button").click()
    expect(offered).to_have_count(4)


def test_tokens_are_written_as_the_picker_writes_them(site: BrowserSite, tab: OpenTab) -> None:
    page = tab("Alice", "/").page
    write = """async counts => {
      const { tokens } = await import(document.querySelector("[rel=modulepreload][href*='base/i18n']").href);
      return counts.map(count => tokens(count));
    }"""
    counts = [0, 7, 999, 1000, 8192, 8193, 40_960, 200_100, 131_072, 1_048_576, 1_250_000]

    assert page.evaluate(write, counts) == [tokens_in_words(count) for count in counts]
