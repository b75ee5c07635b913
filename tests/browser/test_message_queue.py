"""Messages that are written while an answer runs: shown to all as next, sent in order, or at once."""

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab
from tests.support.selection import sample

TOP = "turn => turn.getBoundingClientRect().top"


def lines(tab: Tab) -> Locator:
    return tab.page.locator("#queue .queued")


@pytest.mark.smoke
def test_two_people_queue_and_one_sends_now(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(
        streams.telling("First, ", gate("first"), "whole."),
        streams.telling("For Bob, ", gate("second"), "whole."),
        streams.telling("For Alice."),
    )
    run = site.send("Tell us.")
    alice, bob = tab("Alice", site.room(run)).shows("First,"), tab("Bob", site.room(run))
    bob.shows("First,")

    alice.write("From Alice")
    for viewer in (alice, bob):
        expect(lines(viewer)).to_have_count(1)
        expect(viewer.page.locator("#queue")).to_contain_text("Sent when the answer is complete")
    expect(alice.composer).to_have_value("")
    expect(alice.stop).to_be_visible()
    bob.composer.fill("From Bob")
    bob.button("Queue message").click()
    for viewer in (alice, bob):
        expect(lines(viewer)).to_have_count(2)
        expect(lines(viewer).first).to_contain_text("From Alice")

    # Alice edits; her editor survives what Bob does meanwhile.
    lines(alice).first.get_by_role("link", name="Edit queued message").click()
    editor = alice.page.locator("#queue textarea")
    editor.fill("From Alice, better")
    lines(bob).nth(1).get_by_role("button", name="Send now").click()
    for viewer in (alice, bob):
        viewer.shows("For Bob,")
        expect(viewer.turns.nth(2).locator(".words")).to_have_text("From Bob")
    expect(editor).to_have_value("From Alice, better")
    site.fake.release("second")
    # It was sent while she edited.
    expect(alice.composer).to_have_value("From Alice, better")
    for viewer in (alice, bob):
        viewer.shows("For Alice.").until_ended()
        expect(viewer.turns).to_have_count(6)
        expect(viewer.turns.nth(4).locator(".words")).to_have_text("From Alice")
        expect(lines(viewer)).to_have_count(0)
    assert site.fake.posts == 3


def test_race_of_two_browsers_makes_no_branch(site: BrowserSite, tab: OpenTab) -> None:
    rounds = len(sample(range(10), 3))
    site.fake.script(streams.telling("First."))
    for number in range(2 * rounds):
        site.fake.script(streams.telling(f"Answer {number}."))
    run = site.send("Tell us.")
    alice, bob = tab("Alice", site.room(run)).until_ended(), tab("Bob", site.room(run))
    bob.until_ended()

    for number in range(rounds):
        for viewer, name in ((alice, "Alice"), (bob, "Bob")):
            viewer.composer.fill(f"{name} {number}")
        for viewer in (alice, bob):
            viewer.composer.press("Enter", no_wait_after=True)
        for viewer in (alice, bob):
            expect(viewer.turns).to_have_count(2 + 4 * (number + 1))
            viewer.until_ended().until_idle()

    texts = [viewer.page.locator("#turns .words").all_inner_texts() for viewer in (alice, bob)]
    assert texts[0] == texts[1]
    assert sorted(texts[0][1:]) == sorted(
        f"{name} {number}" for number in range(rounds) for name in ("Alice", "Bob")
    )
    assert alice.page.locator(".siblings").count() == 0
    assert site.fake.posts == 2 * rounds + 1


def test_queue_on_hold_is_sent_or_removed(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(
        streams.telling("First, ", gate("first"), end_with=streams.fail("No more.")),
        streams.telling("Second."),
    )
    alice = tab("Alice", site.room(site.send("Tell us."))).shows("First,")
    for text in ("One", "Two"):
        alice.write(text)
        expect(lines(alice).last).to_contain_text(text)

    site.fake.release("first")
    expect(alice.page.locator("#queue")).to_contain_text("On hold, because the answer failed")
    lines(alice).nth(1).get_by_role("button", name="Remove queued message").click()
    expect(lines(alice)).to_have_count(1)
    lines(alice).first.get_by_role("button", name="Send").click()

    alice.shows("Second.").until_ended()
    expect(alice.turns).to_have_count(4)
    expect(lines(alice)).to_have_count(0)


@pytest.mark.parametrize("verb", ["edit", "retry"])
def test_page_does_not_move_when_a_colleague_makes_a_version(
    site: BrowserSite, tab: OpenTab, verb: str
) -> None:
    site.fake.script(streams.telling("A paragraph.\n\n" * 60), streams.telling("Another."))
    run = site.send("Tell us.")
    alice, bob = tab("Alice", site.room(run)).until_ended(), tab("Bob", site.room(run))
    bob.until_ended().until_live()
    bob.page.mouse.move(400, 300)
    bob.page.mouse.wheel(0, -400)
    expect(bob.page.locator("#to-end")).to_be_visible()
    before = bob.turns.last.evaluate(TOP)

    if verb == "edit":
        alice.turns.first.get_by_role("link", name="Edit").click()
        alice.turns.first.locator("textarea").fill("Tell us more.")
        alice.turns.first.locator("textarea").press("Enter")
    else:
        alice.button("Try again").click()
    alice.shows("Another.").until_ended()

    expect(bob.page.locator(".newer")).to_contain_text("Alice")
    assert bob.turns.last.evaluate(TOP) == before
    expect(bob.turns).to_have_count(2)


def test_page_does_not_move_when_a_colleague_continues_another_version(
    site: BrowserSite, tab: OpenTab
) -> None:
    for text in ("One.", "Another.", "On the first."):
        site.fake.script(streams.telling(text))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()
    alice.button("Try again").click()
    alice.shows("Another.").until_ended()
    bob = tab("Bob", site.room(run)).shows("Another.").until_live()
    before = bob.turns.last.evaluate(TOP)

    alice.button("Version 1 of 2").click()
    alice.shows("One.").until_idle().write("Go on").shows("On the first.").until_ended()

    expect(bob.page.locator(".newer")).to_contain_text("Alice continued another version")
    assert bob.turns.last.evaluate(TOP) == before
    expect(bob.turns).to_have_count(2)
