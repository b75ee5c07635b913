"""Edits and retries are versions of a turn; each person chooses which one is shown."""

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.screen_reader import listen, until_announced
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

TO_END = "() => document.scrollingElement.scrollHeight - innerHeight - scrollY"
TOP = "turn => turn.getBoundingClientRect().top"


def versions(turn: Locator) -> Locator:
    return turn.locator(".siblings .figure")


def show_version(tab: Tab, number: int, count: int) -> None:
    tab.button(f"Version {number} of {count}").click()


@pytest.mark.smoke
def test_readers_keep_their_version_when_a_colleague_edits(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Of rivers.\n\n" * 60), streams.telling("Of seas."))
    run = site.send("Tell us of rivers.")
    alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))
    listen(bob)
    alice.shows("Of rivers.").until_ended()
    # Bob reads in the middle of the answer.
    bob.until_ended().page.mouse.move(640, 300)
    bob.page.mouse.wheel(0, -600)
    bob.until(lambda: bob.page.evaluate(TO_END) > 500, "the middle")
    place = bob.answer.evaluate(TOP)

    alice.turns.first.get_by_role("link", name="Edit").click()
    field = alice.turns.first.locator("textarea")
    expect(field).to_be_focused()
    expect(field).to_have_value("Tell us of rivers.")
    field.fill("Tell us of seas.")
    field.press("Enter")

    alice.shows("Of seas.").until_ended()
    expect(alice.turns.first.locator(".words")).to_have_text("Tell us of seas.")
    expect(versions(alice.turns.first)).to_have_text("Version 2/ of 2")
    line = bob.turns.first.locator(".newer")
    expect(line).to_contain_text("Alice edited this message")
    until_announced(bob, "Alice edited this message.")
    assert bob.answer.evaluate(TOP) == place
    expect(bob.turns).to_have_count(2)
    expect(bob.turns.first.locator(".words")).to_have_text("Tell us of rivers.")
    expect(versions(bob.turns.first)).to_have_text("Version 1/ of 2")
    bob.reload().shows("Of rivers.")

    line.get_by_role("button", name="Show").click()

    bob.shows("Of seas.").until_ended()
    expect(line).to_have_count(0)
    show_version(bob, 1, 2)
    bob.shows("Of rivers.")
    expect(line).to_have_count(0)
    expect(alice.answer).to_contain_text("Of seas.")
    bob.reload().shows("Of rivers.")
    alice.reload().shows("Of seas.")


def test_own_edit_is_followed_by_the_other_tab(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First try."), streams.telling("Second try."))
    run = site.send("Tell us.")
    first, second = tab("Alice", site.room(run)).until_ended(), tab("Alice", site.room(run))
    second.until_ended()

    first.button("Try again").click()

    second.shows("Second try.").until_ended()
    expect(versions(second.turns.last)).to_have_text("Version 2/ of 2")


def test_edit_goes_on_in_the_version_that_replaces_its_message(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(*(streams.telling(f"Of {each}.") for each in ("rivers", "seas", "lakes")))
    alice = tab("Alice", site.room(site.send("Tell us of rivers."))).until_ended()
    field = alice.turns.first.locator("textarea")

    # The answer to the edit is lost, and the person goes on writing.
    alice.turns.first.get_by_role("link", name="Edit").click()
    field.fill("Tell us of seas.")
    alice.post_over_http()
    alice.hold_answer("**/edit/")
    field.press("Enter")
    alice.until(lambda: alice.is_holding, "the edit is answered")
    field.fill("Tell us of lakes.")
    alice.fail_held()
    alice.shows("Of seas.").until_ended()

    expect(versions(alice.turns.first)).to_have_text("Version 2/ of 2")
    expect(field).to_have_value("Tell us of lakes.")
    field.press("Enter")
    alice.shows("Of lakes.").until_ended()
    expect(versions(alice.turns.first)).to_have_text("Version 3/ of 3")
    expect(field).to_have_count(0)


def test_canceled_edit_changes_nothing(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Of rivers."))
    run = site.send("Tell us of rivers.")
    alice = tab("Alice", site.room(run)).until_ended()

    alice.turns.first.get_by_role("link", name="Edit").click()
    alice.turns.first.locator("textarea").fill("Something else")
    alice.turns.first.get_by_role("link", name="Cancel").click()
    expect(alice.turns.first.locator(".words")).to_have_text("Tell us of rivers.")

    alice.turns.first.get_by_role("link", name="Edit").click()
    expect(alice.turns.first.locator("textarea")).to_have_value("Tell us of rivers.")


def test_retry_makes_a_second_version(site: BrowserSite, tab: OpenTab) -> None:
    for text in ("First try.", "Second try.", "On the first."):
        site.fake.script(streams.telling(text))
    run = site.send("Tell us.")
    alice, bob = tab("Alice", site.room(run)).until_ended(), tab("Bob", site.room(run))

    alice.button("Try again").click()

    alice.shows("Second try.").until_ended()
    expect(versions(alice.turns.last)).to_have_text("Version 2/ of 2")
    expect(bob.turns.last.locator(".newer")).to_contain_text("Alice asked for another answer")
    bob.shows("First try.")
    bob.write("Go on from the first").shows("On the first.").until_ended()
    expect(bob.turns).to_have_count(4)
    expect(alice.turns).to_have_count(2)
    show_version(alice, 1, 2)
    alice.shows("On the first.")
    show_version(alice, 2, 2)
    alice.shows("Second try.")
    expect(alice.turns).to_have_count(2)


def test_sending_from_an_older_version_branches(site: BrowserSite, tab: OpenTab) -> None:
    for text in ("First try.", "Second try.", "On the first.", "On the second."):
        site.fake.script(streams.telling(text))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()
    alice.button("Try again").click()
    alice.shows("Second try.").until_ended()
    show_version(alice, 1, 2)
    alice.shows("First try.")

    alice.write("Go on from the first").shows("On the first.").until_ended()
    show_version(alice, 2, 2)
    alice.shows("Second try.")
    expect(alice.turns).to_have_count(2)
    alice.write("Go on from the second").shows("On the second.").until_ended()

    show_version(alice, 1, 2)
    expect(alice.turns).to_have_count(4)
    alice.shows("On the first.")


def test_viewer_switches_versions_but_cannot_edit(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First try."), streams.telling("Second try."))
    run = site.send("Tell us.")
    site.until_ended(run)
    site.until_ended(site.retry(run))
    vera = tab("Vera", site.room(run)).shows("Second try.")

    show_version(vera, 1, 2)

    vera.shows("First try.")
    expect(vera.composer).to_have_count(0)
    expect(vera.button("Try again")).to_have_count(0)
    expect(vera.page.get_by_role("link", name="Edit")).to_have_count(0)
    expect(vera.button("Copy").first).to_be_visible()
