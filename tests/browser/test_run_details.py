"""The details of a run: the timeline, the list of events, and the replay."""

import pytest
from playwright.sync_api import expect

from chat.run_details.views.details import TABS
from tests.support.browser.displays import (
    PHONE_LIGHT,
    overflow,
    serious_findings,
)
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import (
    BEGINNING,
    call,
    close_item,
    end,
    gate,
    open_item,
    say,
    scripted,
    telling,
    think,
)
from tests.support.browser.tab import NORMALISED, Tab
from tests.support.upstream.script import Pause

SLOW_SWAP = """() => { const swap = htmx.swap;
  htmx.swap = async (...said) => { document.title = "putting"; await new Promise(done => setTimeout(done, 400)); return swap(...said); }; }"""
STATS = {"input_tokens": 7, "total_output_tokens": 9, "reasoning_output_tokens": 3}


def open_answered(site: BrowserSite, tab: OpenTab) -> tuple[Tab, str]:
    """A conversation whose answer was seen live to its end, and where the addresses of its run begin."""
    story = scripted(
        BEGINNING,
        # A slider over the time has no way to go where all events came in one millisecond.
        Pause(seconds=0.05),
        open_item("reasoning"),
        think("Where is the gauge?"),
        close_item("reasoning"),
        call("gauge", {"station": "Mill Bridge"}, "2.31 m"),
        open_item("message"),
        *(say(f"Line **{n}** of the river.\n\n") for n in range(12)),
        close_item("message"),
        end(STATS),
    )
    site.fake.script(story)
    run = site.send("What does the gauge say?")
    alice = tab("Alice").open_room_of(run)
    alice.shows("Line 11").until_ended()
    return alice, f"/r/{run}/"


def test_figures_are_the_same_after_a_reload(tab: OpenTab, site: BrowserSite) -> None:
    alice, _ = open_answered(site, tab)
    live = alice.normalized()

    alice.reload()

    expect(alice.answer.locator(".figures")).to_contain_text("tokens")
    assert alice.normalized() == live


@pytest.mark.smoke
def test_event_opens_beside_its_raw_form(tab: OpenTab, site: BrowserSite) -> None:
    alice, _ = open_answered(site, tab)
    alice.page.get_by_role("link", name="Details").last.click()
    panel = alice.page.locator("#panel")
    panel.get_by_role("link", name="Events").click()

    panel.locator("#e2 summary").focus()
    alice.page.keyboard.press("Enter")

    expect(panel.locator("#e2 .recorder-pair")).to_contain_text("exactly this")
    panel.get_by_role("link", name="Message text").click()
    expect(panel.locator(".recorder-type").first).to_have_text("Message text")
    assert set(panel.locator(".recorder-type").all_inner_texts()) == {"Message text"}


def test_folded_deltas_open_to_single_events(tab: OpenTab, site: BrowserSite) -> None:
    # Pieces that were shown one after the other are events of their own.
    site.fake.script(telling("The spring, ", gate("mouth"), "the mouth."))
    run = site.send("From where to where?")
    alice = tab("Alice").open_room_of(run)
    alice.shows("The spring")
    site.fake.release("mouth")
    alice.until_ended()
    alice.open(f"/r/{run}/details/?tab=events")
    fold = alice.page.locator("li", has_text="Message text ×2")

    fold.locator("> details > summary").click()
    events = fold.locator(".recorder-folded > li")
    expect(events).to_have_count(2)
    events.last.locator("summary").click()

    expect(events.last.locator(".recorder-pair")).to_contain_text("the mouth.")


def test_every_tab_is_accessible_and_fits(tab: OpenTab, site: BrowserSite) -> None:
    alice, run = open_answered(site, tab)
    for name, (label, _) in TABS.items():
        alice.open(f"{run}details/?tab={name}")
        expect(alice.page.locator("main [aria-current=page]")).to_have_text([label])
        assert serious_findings(alice.page, [PHONE_LIGHT]) == []
        assert overflow(alice.page) == []


def test_replay_ends_as_the_answer(tab: OpenTab, site: BrowserSite) -> None:
    alice, run = open_answered(site, tab)
    alice.open(f"{run}replay/")
    stage = alice.page.locator(".replay-stage > .answer")
    alice.button("20×").click()

    alice.button("Play").click()

    expect(stage).to_contain_text("Line 11")
    expect(alice.button("Play")).to_be_visible()
    played = stage.evaluate(NORMALISED)
    alice.open(f"{run}replay/?at=99999")
    assert stage.evaluate(NORMALISED) == played


def test_steps_and_slider_move_a_replay(tab: OpenTab, site: BrowserSite) -> None:
    alice, _ = open_answered(site, tab)
    alice.page.get_by_role("link", name="Details").last.click()
    panel = alice.page.locator("#panel")
    panel.get_by_role("link", name="Events").click()
    panel.get_by_role("link", name="Replay answer").click()
    seq = panel.locator("[data-replay-seq]")
    expect(seq).to_have_text("0")

    panel.get_by_role("link", name="Next event").click()
    expect(seq).to_have_text("1")
    panel.get_by_role("slider", name="Time since the request").press("End")
    expect(panel.locator(".replay-stage")).to_contain_text("Line 11")
    last = int(seq.inner_text())
    panel.get_by_role("link", name="Previous event").click()

    expect(seq).to_have_text(str(last - 1))
    # The replay does not change the answer in the conversation.
    assert alice.page.locator("#turns .answer .figures .pair").count() > 0


def test_filters_and_replay_work_by_keyboard(tab: OpenTab, site: BrowserSite) -> None:
    alice, _ = open_answered(site, tab)
    press = alice.page.keyboard.press
    panel, stage = alice.page.locator("#panel"), alice.page.locator(".replay-stage")
    types = panel.locator(".recorder-type")
    alice.page.get_by_role("link", name="Details").last.focus()
    press("Enter")
    expect(alice.page.locator("#panel-title")).to_be_focused()
    tab = panel.get_by_role("link", name="Events")
    tab.focus()
    press("Enter")
    expect(tab).to_have_attribute("aria-current", "page")
    expect(tab).to_be_focused()

    filtered = panel.get_by_role("link", name="Thinking text")
    filtered.focus()
    press("Enter")
    expect(types).to_have_text(["Thinking text"])
    expect(filtered).to_be_focused()
    press("Enter")
    expect(types.first).to_have_text("Start")
    expect(filtered).to_be_focused()
    panel.get_by_role("link", name="Replay answer").focus()
    press("Enter")
    play = panel.locator("[data-replay-play]")
    expect(play).to_be_visible()
    play.focus()
    press("Tab")
    press("Tab")
    press("Enter")
    expect(panel.locator("[data-replay-seq]")).to_have_text("1")
    for _ in range(3):
        press("Tab")
    press("Space")
    expect(panel.get_by_role("button", name="20×")).to_have_attribute("aria-pressed", "true")
    play.focus()
    press("Space")

    expect(stage).to_contain_text("Line 11")
    expect(play).to_have_attribute("aria-pressed", "false")
    expect(play).to_be_focused()


def test_two_quick_steps_are_two_events(tab: OpenTab, site: BrowserSite) -> None:
    alice, run = open_answered(site, tab)
    # The first event changes nothing on the page.
    alice.open(f"{run}replay/?at=1")
    alice.page.evaluate(SLOW_SWAP)
    asked: list[str] = []
    alice.on("request", lambda request: asked.append(request.url))
    step = alice.page.get_by_role("link", name="Next event")

    # The second press comes before the first answer, the third one while the second is put in.
    step.evaluate("step => { step.click(); step.click(); }")
    expect(alice.page.locator("[data-replay-seq]")).to_have_text("3")
    alice.page.evaluate("() => { document.title = ''; }")
    step.click()
    alice.page.wait_for_function("() => document.title.endsWith('putting')")
    step.click()

    expect(alice.page.locator("[data-replay-seq]")).to_have_text("5")
    steps = [url.partition("after=")[2][:1] for url in asked if "after=" in url]
    assert steps == ["1", "2", "3", "4"]
