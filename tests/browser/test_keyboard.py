"""Keyboard shortcuts: what they do, their help, and where they do not act."""

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import NO_STORAGE, Tab

FOCUSED_TURN = "() => document.activeElement.closest('#turns > .turn')?.id ?? ''"
PRESS_WHILE_COMPOSING = """key => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true, isComposing: true}))"""
ROWS = """() => [...document.querySelectorAll("#keys .key")].map(row =>
  [row.querySelector("dt").textContent, [...row.querySelectorAll("kbd")].map(key => key.textContent)])"""

# True if the page leaves the key to the browser.
PRESS_SAVE = """() => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", {key: "s", ctrlKey: true, bubbles: true, cancelable: true}))"""
# Timers of more than two seconds fire at once.
SHORT_PATIENCE = """() => {
  const wait = window.setTimeout;
  window.setTimeout = (work, delay, ...more) => wait(work, delay > 2000 ? 50 : delay, ...more);
}"""


def thinking(text: str) -> streams.Script:
    return streams.scripted(
        streams.BEGINNING,
        streams.open_item("reasoning"),
        streams.think("Hm."),
        streams.close_item("reasoning"),
        streams.open_item("message"),
        streams.say(text),
        streams.close_item("message"),
        streams.end(),
    )


@pytest.fixture
def alice(site: BrowserSite, tab: OpenTab) -> Tab:
    """In a conversation with four turns, the newest of which has the focus."""
    site.fake.script(thinking("First."), thinking("Second."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()
    alice.write("Go on")
    alice.shows("Second.").until_ended()
    expect(alice.composer).to_be_focused()
    alice.page.keyboard.press("ArrowUp")
    return alice


def focused(tab: Tab) -> str:
    return str(tab.page.evaluate(FOCUSED_TURN))


def id_of(turn: Locator) -> str:
    return turn.get_attribute("id") or ""


@pytest.mark.smoke
def test_keys_move_between_turns_and_act_on_them(alice: Tab) -> None:
    press = alice.page.keyboard.press
    folds = alice.page.locator("details.reasoning")
    edited = alice.page.locator(".edit-text")

    # The reasoning of the newest answer, which has the focus.
    press("t")
    expect(folds.nth(1)).to_have_attribute("open", "")
    expect(folds.nth(0)).not_to_have_attribute("open", "")
    press("t")
    expect(folds.nth(1)).not_to_have_attribute("open", "")

    press("g")
    press("n")
    assert focused(alice) == id_of(alice.turns.nth(3))
    press("k")
    press("k")
    assert focused(alice) == id_of(alice.turns.nth(1))
    press("j")
    assert focused(alice) == id_of(alice.turns.nth(2))
    press("n")
    assert focused(alice) == id_of(alice.turns.nth(2))

    press("e")
    expect(alice.turns.nth(2).locator(".edit-text")).to_be_focused()
    expect(edited).to_have_count(1)


def test_r_retries_and_brackets_switch_versions(site: BrowserSite, alice: Tab) -> None:
    press = alice.page.keyboard.press
    site.fake.script(streams.telling("Third."))
    press("r")
    alice.shows("Third.").until_ended()
    press("[")
    # Another rendering of the conversation meanwhile changes nothing.
    alice.page.evaluate("() => document.dispatchEvent(new CustomEvent('room:shown'))")
    alice.shows("Second.")
    alice.until(lambda: focused(alice) == id_of(alice.turns.nth(3)), "the focus at its place")
    press("]")

    alice.shows("Third.")


def test_e_at_the_newest_answer_edits_ones_last_message(alice: Tab) -> None:
    alice.page.keyboard.press("e")

    expect(alice.turns.nth(2).locator(".edit-text")).to_be_focused()


def test_ctrl_s_saves_an_edit_only(site: BrowserSite, alice: Tab) -> None:
    site.fake.script(streams.telling("Third."))
    alice.page.keyboard.press("k")
    assert alice.page.evaluate(PRESS_SAVE)
    alice.page.keyboard.press("e")
    field = alice.page.locator(".edit-text")
    expect(field).to_be_focused()
    field.fill("Go on, but slowly")

    alice.page.keyboard.press("Control+s")

    alice.shows("Third.").until_ended()
    expect(alice.page.locator(".edit-text")).to_have_count(0)
    expect(alice.turns.filter(has_text="Go on, but slowly")).to_have_count(1)
    assert site.fake.posts == 3


def test_help_lists_all_keys_and_layers_close_one_at_a_time(alice: Tab) -> None:
    press = alice.page.keyboard.press
    panel = alice.page.locator("#panel")

    press("?")
    dialog = alice.page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_be_visible()
    rows = dict(alice.page.evaluate(ROWS))
    assert rows["Latest answer"] == ["g", "n"]
    assert rows["Stop the answer"] == ["Ctrl", "."]
    assert rows["Save an edit"] == ["Ctrl", "S"]
    assert rows["Search and commands"] == ["Ctrl", "K"]
    assert len(rows) >= 20
    # Keys do not act behind a dialog.
    press("i")
    expect(panel).to_be_hidden()
    press("Escape")
    expect(dialog).to_be_hidden()

    press("i")
    expect(alice.page.locator("#panel-title")).to_be_focused()
    alice.page.get_by_label("System prompt and parameters").click()
    parameters = alice.page.locator("#parameters")
    expect(parameters).to_be_visible()
    press("Escape")
    expect(parameters).to_be_hidden()
    expect(panel).to_be_visible()
    press("Escape")
    expect(panel).to_be_hidden()

    alice.composer.press_sequentially("jkgnteria?[]/s")
    expect(alice.composer).to_have_value("jkgnteria?[]/s")
    expect(panel).to_be_hidden()
    expect(alice.page.locator("#keys")).to_be_hidden()
    expect(alice.composer).to_be_focused()


def test_typing_anywhere_else_goes_to_the_composer(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Much", streams.hang()), streams.telling("Yes."))
    alice = tab("Alice", site.room(site.send("Tell us."))).shows("Much")
    expect(alice.composer).to_be_focused()
    alice.page.locator("#turns").click(position={"x": 5, "y": 5})
    expect(alice.composer).not_to_be_focused()

    alice.page.keyboard.type("great, is there more?")

    expect(alice.composer).to_have_value("great, is there more?")
    expect(alice.page.locator("#panel, #keys[open]")).to_be_hidden()
    alice.stop.click()
    alice.until_ended()
    expect(alice.composer).to_be_focused()
    alice.page.get_by_role("button", name="Send").click()
    alice.shows("Yes.").until_ended()
    expect(alice.turns.nth(2)).to_contain_text("great, is there more?")
    expect(alice.composer).to_be_focused()


def test_hidden_sidebar_and_switched_off_keys_are_remembered(alice: Tab) -> None:
    sidebar = alice.page.locator("#sidebar")
    alice.page.locator(".person > summary").click()
    alice.button("Keyboard shortcuts").click()
    alice.page.get_by_label("Single-key shortcuts").uncheck()
    alice.page.keyboard.press("Escape")
    alice.button("Hide sidebar").click()
    expect(sidebar).to_be_hidden()
    expect(alice.button("Open sidebar")).to_be_focused()
    alice.reload()
    expect(sidebar).to_be_hidden()
    expect(alice.composer).to_be_focused()
    alice.page.keyboard.press("ArrowUp")

    for key in ("i", "k", "?"):
        alice.page.keyboard.press(key)

    assert focused(alice) == id_of(alice.turns.nth(3))
    expect(alice.page.locator("#panel")).to_be_hidden()
    expect(alice.page.locator("#keys")).to_be_hidden()
    alice.page.keyboard.press("Control+Shift+S")
    expect(sidebar).to_be_visible()
    expect(alice.button("Open sidebar")).to_be_hidden()
    alice.page.keyboard.press("Control+Shift+S")
    expect(sidebar).to_be_hidden()


def test_single_keys_switch_off_without_storage(alice: Tab) -> None:
    alice.page.evaluate(NO_STORAGE)
    alice.page.keyboard.press("?")
    alice.page.get_by_label("Single-key shortcuts").uncheck()
    alice.page.keyboard.press("Escape")
    expect(alice.page.locator("#keys")).to_be_hidden()

    alice.page.keyboard.press("k")

    assert focused(alice) == id_of(alice.turns.nth(3))


def test_failed_version_takes_no_focus_later(site: BrowserSite, alice: Tab) -> None:
    site.fake.script(streams.telling("Third."))
    alice.page.keyboard.press("g")
    alice.page.keyboard.press("n")
    alice.page.keyboard.press("r")
    alice.shows("Third.").until_ended()
    alice.page.evaluate(SHORT_PATIENCE)
    alice.page.route("**/*", lambda route: route.abort())
    alice.page.keyboard.press("[")
    alice.page.wait_for_timeout(200)
    alice.composer.focus()

    # As if a colleague's turn had taken its place by now.
    alice.turns.last.evaluate(
        "turn => turn.before(Object.assign(turn.cloneNode(), {id: 'another'}))"
    )
    alice.page.evaluate("document.dispatchEvent(new CustomEvent('room:shown'))")

    expect(alice.composer).to_be_focused()


def test_escape_twice_stops_the_answer(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Half", streams.hang()))
    run = site.send("Much.")
    alice = tab("Alice", site.room(run)).shows("Half")
    alice.composer.focus()

    # During a composition the key only ends the composition.
    for _ in range(2):
        alice.page.evaluate(PRESS_WHILE_COMPOSING, "Escape")
    for _ in range(2):
        assert site.run(run)["stop_requested_at"] is None
        alice.page.keyboard.press("Escape")

    alice.until_ended()
    assert site.run(run)["status"] == "stopped"
