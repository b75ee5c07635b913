"""A room is more than its answers: turns, names and rights change under the eyes of everybody."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenTab, People
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab

SECRET = "Nobody else may read this."


@pytest.fixture
def silent_site(own_site: BrowserSite) -> BrowserSite:
    """Nobody hears a doorbell there."""
    own_site.start(fault="without_doorbell")
    return own_site


def test_a_colleagues_turn_appears_live_without_a_doorbell(
    silent_site: BrowserSite, people: People
) -> None:
    silent_site.fake.script(
        streams.telling("First."), streams.telling("Second, ", gate("middle"), "whole.")
    )
    run = silent_site.send("Tell us.")
    alice = people.tab(silent_site, "Alice", silent_site.room(run)).until_ended()
    bob = people.tab(silent_site, "Bob", silent_site.room(run)).until_ended()

    bob.write("And you, **Alice**?")

    expect(alice.turns).to_have_count(4)
    expect(alice.turns.nth(2)).to_contain_text("Bob")
    expect(alice.turns.nth(2).locator(".words")).to_have_text("And you, **Alice**?")
    alice.shows("Second, ")
    silent_site.fake.release("middle")
    alice.shows("Second, whole.").until_ended()
    assert alice.normalised() == bob.until_ended().normalised()


def test_stop_works_without_a_doorbell(silent_site: BrowserSite, people: People) -> None:
    silent_site.fake.script(streams.telling("Half", streams.hang()))
    run = silent_site.send("Tell us.")
    alice = people.tab(silent_site, "Alice", silent_site.room(run)).shows("Half")

    alice.stop.click()

    alice.until_ended().shows("Stopped.")
    silent_site.fake.wait_until(lambda fake: fake.disconnects == 1)


def test_a_rename_is_seen_by_everybody_at_once(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."))
    run = site.send("Tell us.")
    alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))

    bob.page.get_by_label("Rename, share, delete").click()
    bob.page.get_by_label("Title", exact=True).fill("Rivers & <seas>")
    bob.page.get_by_label("Title", exact=True).press("Enter")

    for viewer in (alice, bob):
        expect(viewer.page.locator("#room-head h1")).to_have_text("Rivers & <seas>")
        expect(viewer.page).to_have_title("Rivers & <seas> · Tributary")
        expect(viewer.page.locator("#conversations [aria-current]")).to_contain_text(
            "Rivers & <seas>"
        )


def test_sharing_lets_a_colleague_in_and_taking_it_back_empties_their_page(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(streams.telling(SECRET))
    run = site.send("Tell me.", visibility="private")
    alice = tab("Alice", site.room(run)).until_ended()
    bob = tab("Bob", site.room(run))
    expect(bob.page.locator("h1")).to_have_text("Nothing here")
    assert SECRET not in bob.page.content()

    alice.page.get_by_label("Rename, share, delete").click()
    alice.button("Share with River").click()
    expect(alice.page.locator("#room-head .badge")).to_have_text("River")
    bob.open(site.room(run)).shows(SECRET)

    alice.page.get_by_label("Rename, share, delete").click()
    alice.button("Make it private").click()
    assert_gone(bob, "no longer shared with you")
    alice.shows(SECRET)


def assert_gone(tab: Tab, title: str) -> None:
    """The page says so, and shows nothing of the conversation any more."""
    expect(tab.page.locator("#gone h2")).to_contain_text(title)
    expect(tab.page.locator("#transcript, #dock")).to_have_count(0)
    assert SECRET not in tab.page.content()
    expect(tab.page).to_have_title("Tributary")
    expect(tab.page.locator("#assertive")).to_contain_text(title)


def test_deletion_tells_and_empties(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(SECRET, streams.hang()))
    run = site.send("Tell us.")
    alice, bob = (
        tab("Alice", site.room(run)).shows(SECRET),
        tab("Bob", site.room(run)).shows(SECRET),
    )

    alice.page.get_by_label("Rename, share, delete").click()
    alice.button("Delete").click()
    alice.page.locator("#confirm-go").click()

    assert_gone(bob, "was deleted")
    alice.page.wait_for_url(f"{site.url}/")
    site.fake.wait_until(lambda fake: fake.disconnects == 1)


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered_before", "refused_after"])
def test_what_was_still_on_its_way_does_not_change_what_the_deletion_said(
    site: BrowserSite, tab: OpenTab, *, is_answered: bool
) -> None:
    site.fake.script(streams.telling(SECRET))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()
    bob = tab("Bob", site.room(run)).until_ended()
    hold = bob.hold_answer if is_answered else bob.hold
    hold("**/changes/")
    alice.page.get_by_label("Rename, share, delete").click()
    alice.page.get_by_label("Title", exact=True).fill("The last thing that was seen")
    alice.page.get_by_label("Title", exact=True).press("Enter")
    expect(alice.page.locator("#room-head h1")).to_have_text("The last thing that was seen")
    bob.until(lambda: bob.is_holding, "the page asks what has changed")

    alice.page.get_by_label("Rename, share, delete").click()
    alice.button("Delete").click()
    alice.page.locator("#confirm-go").click()
    assert_gone(bob, "was deleted")
    with bob.page.expect_response("**/changes/") as answer:
        bob.let_go()
    answer.value.finished()
    bob.page.evaluate("() => new Promise(done => setTimeout(done, 100))")

    assert_gone(bob, "was deleted")
    assert "The last thing that was seen" not in bob.page.locator("#room").inner_html()


def test_a_deletion_that_is_not_confirmed_deletes_nothing(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(SECRET))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()

    alice.page.get_by_label("Rename, share, delete").click()
    alice.button("Delete").click()
    alice.page.get_by_role("button", name="Cancel").click()

    expect(alice.page.locator("#confirm")).to_be_hidden()
    alice.reload().shows(SECRET)


def test_removal_from_the_team_in_mid_stream_ends_the_frames_and_empties_the_page(
    own_site: BrowserSite, people: People
) -> None:
    own_site.start()
    own_site.fake.script(streams.telling(SECRET, gate("middle"), " And neither this.", gate("end")))
    run = own_site.send("Tell us.")
    bob = people.tab(own_site, "Bob", own_site.room(run)).shows(SECRET)
    alice = people.tab(own_site, "Alice", own_site.room(run)).shows(SECRET)

    owner = people.tab(own_site, "Alice", "/people/")
    owner.page.get_by_label("More about Bob").click()
    owner.button("Remove from the team").click()
    owner.page.locator("#confirm-go").click()

    assert_gone(bob, "no longer shared with you")
    assert_hears_nothing_more(own_site, bob, alice)


def test_sign_out_in_mid_stream_ends_the_frames_of_every_tab(
    site: BrowserSite, people: People
) -> None:
    site.fake.script(streams.telling(SECRET, gate("middle"), " And neither this.", gate("end")))
    run = site.send("Tell us.")
    alice = people.tab(site, "Alice", site.room(run)).shows(SECRET)
    bob = people.sign_in(site, "Bob", site.room(run)).shows(SECRET)
    other = people.adopt(bob.page.context.new_page(), site, "/")

    other.page.locator(".person > summary").click()
    other.button("Sign out").click()

    assert_gone(bob, "You are signed out")
    assert_hears_nothing_more(site, bob, alice)
    bob.page.get_by_role("link", name="Sign in").click()
    expect(bob.page.locator("h1")).to_have_text("Sign in to Tributary")


def assert_hears_nothing_more(site: BrowserSite, tab: Tab, witness: Tab) -> None:
    heard = len(tab.messages)
    site.fake.release("middle")
    witness.shows("And neither this.")
    site.fake.release("end")
    witness.until_ended()
    assert len(tab.messages) == heard
    assert "And neither" not in str(tab.messages) + tab.page.content()
    assert len(tab.sockets) == 1
    assert tab.sockets[0].is_closed()


def test_a_reader_who_becomes_a_member_gets_a_composer_and_loses_it_again(
    own_site: BrowserSite, people: People
) -> None:
    own_site.start()
    own_site.fake.script(streams.telling("First."))
    run = own_site.send("Tell us.")
    vera = people.tab(own_site, "Vera", own_site.room(run)).until_ended()
    expect(vera.composer).to_have_count(0)
    alice = people.tab(own_site, "Alice", "/people/")

    alice.page.get_by_label("Role of Vera").select_option("Member")
    expect(vera.composer).to_be_visible()

    alice.page.get_by_label("Role of Vera").select_option("Viewer")
    expect(vera.composer).to_have_count(0)
