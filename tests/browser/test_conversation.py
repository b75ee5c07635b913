"""Turns, titles and rights of a conversation change live for everybody who has it open."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab

SECRET = "Nobody else may read this."


@pytest.fixture
def team_site(site: BrowserSite) -> Iterator[BrowserSite]:
    """A site whose team may be changed."""
    with site.members_restored():
        yield site


@pytest.mark.smoke
def test_rename_is_seen_live(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."))
    room = site.room(site.send("Tell us."))
    alice, bob = tab("Alice", room), tab("Bob", room)

    alice.page.get_by_label("Conversation options").click()
    alice.page.get_by_label("Title", exact=True).fill("Rivers & <seas>")
    alice.page.get_by_label("Title", exact=True).press("Enter")

    for viewer in (alice, bob):
        expect(viewer.page.locator("#room-head h1")).to_have_text("Rivers & <seas>")
        viewer.has_title("Rivers & <seas> · Tributary")
        expect(viewer.page.locator("#conversations [aria-current]")).to_contain_text(
            "Rivers & <seas>"
        )


@pytest.mark.smoke
def test_colleagues_turn_appears_live(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second, ", gate("end"), "whole."))
    room = site.room(site.send("Tell us."))
    alice, bob = tab("Alice", room).until_ended(), tab("Bob", room).until_ended()

    bob.write("And you, **Alice**?")

    alice.shows("Second, ")
    expect(alice.turns).to_have_count(4)
    expect(alice.turns.nth(2)).to_contain_text("Bob")
    expect(alice.turns.nth(2).locator(".words")).to_have_text("And you, Alice?")
    site.fake.release("end")
    alice.shows("Second, whole.").until_ended()
    assert alice.normalized() == bob.until_ended().normalized()


@pytest.mark.smoke
def test_sharing_admits_and_revoking_empties_the_page(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(SECRET))
    run = site.send("Tell me.", visibility="private")
    alice = tab("Alice", site.room(run)).until_ended()
    bob = tab("Bob", site.room(run))
    expect(bob.page.locator("h1")).to_have_text("Page not found")
    assert SECRET not in bob.page.content()

    alice.page.locator("#to-people").click()
    choose_audience(alice, "team")
    expect(alice.page.locator("#room-head .badge")).to_have_text("River")
    bob.open(site.room(run)).shows(SECRET)

    choose_audience(alice, "private")
    assert_gone(bob, "no longer shared with you")
    alice.shows(SECRET)


def choose_audience(tab: Tab, audience: str) -> None:
    dialog = tab.page.locator("#share")
    dialog.get_by_label("General access").select_option(audience)
    dialog.get_by_role("button", name="Save").locator("visible=true").click()


def assert_gone(tab: Tab, title: str) -> None:
    """The page names the reason and shows nothing of the conversation any more."""
    expect(tab.page.locator("#gone h2")).to_contain_text(title)
    expect(tab.page.locator("#transcript, #dock")).to_have_count(0)
    assert SECRET not in tab.page.content()
    tab.has_title("Tributary")
    # Nor beside it: its line had the title, and by whom it was shared.
    expect(tab.page.locator("#conversations [aria-current]")).to_have_count(0)
    expect(tab.page.locator("#assertive")).to_contain_text(title)


def test_deletion_empties_the_page(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(SECRET, streams.hang()))
    run = site.send("Tell us.")
    alice, bob = (
        tab("Alice", site.room(run)).shows(SECRET),
        tab("Bob", site.room(run)).shows(SECRET),
    )

    alice.page.get_by_label("Conversation options").click()
    alice.button("Delete").click()
    alice.page.get_by_role("button", name="Cancel").click()
    expect(alice.page.locator("#confirm")).to_be_hidden()
    alice.reload().shows(SECRET)
    bob.shows(SECRET)

    alice.page.get_by_label("Conversation options").click()
    alice.button("Delete").click()
    alice.page.locator("#confirm-go").click()

    assert_gone(bob, "was deleted")
    alice.page.wait_for_url(f"{site.url}/")
    site.fake.wait_until(lambda fake: fake.disconnects == 1)


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered_before", "refused_after"])
def test_late_response_does_not_undo_a_deletion(
    site: BrowserSite, tab: OpenTab, *, is_answered: bool
) -> None:
    site.fake.script(streams.telling(SECRET))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()
    bob = tab("Bob", site.room(run)).until_ended()
    hold = bob.hold_answer if is_answered else bob.hold
    hold("**/changes/")
    bob.lose_updates()
    alice.page.get_by_label("Conversation options").click()
    alice.page.get_by_label("Title", exact=True).fill("The last thing that was seen")
    alice.page.get_by_label("Title", exact=True).press("Enter")
    expect(alice.page.locator("#room-head h1")).to_have_text("The last thing that was seen")
    bob.until(lambda: bob.is_holding, "the page asks what has changed")

    alice.page.get_by_label("Conversation options").click()
    alice.button("Delete").click()
    alice.page.locator("#confirm-go").click()
    assert_gone(bob, "was deleted")
    with bob.page.expect_response("**/changes/") as answer:
        bob.release()
    answer.value.finished()
    bob.page.evaluate("() => new Promise(done => setTimeout(done, 100))")

    assert_gone(bob, "was deleted")
    assert "The last thing that was seen" not in bob.page.locator("#room").inner_html()


def test_removal_from_the_team_ends_the_stream(team_site: BrowserSite, people: People) -> None:
    team_site.fake.script(
        streams.telling("Something else."),
        streams.telling(SECRET, gate("middle"), " And neither this.", gate("end")),
    )
    team_site.until_ended(team_site.send("Tell us of something else."))
    run = team_site.send("Tell us.")
    bob = people.tab(team_site, "Bob", team_site.room(run)).shows(SECRET)
    alice = people.tab(team_site, "Alice", team_site.room(run)).shows(SECRET)

    owner = people.tab(team_site, "Alice", "/people/")
    owner.page.get_by_label("More actions for Bob").click()
    owner.button("Remove from team").click()
    owner.page.locator("#confirm-go").click()

    assert_gone(bob, "no longer shared with you")
    expect(bob.page.locator("#conversations [data-room]")).to_have_count(0)
    assert_receives_nothing_more(team_site, bob, alice)


@pytest.mark.smoke
def test_sign_out_ends_the_stream_of_every_tab(site: BrowserSite, people: People) -> None:
    site.fake.script(streams.telling(SECRET, gate("middle"), " And neither this.", gate("end")))
    run = site.send("Tell us.")
    alice = people.tab(site, "Alice", site.room(run)).shows(SECRET)
    bob = people.sign_in(site, "Bob", site.room(run)).shows(SECRET)
    other = people.adopt(bob.page.context.new_page(), site, "/")

    other.page.locator(".person > summary").click()
    other.button("Sign out").click()

    assert_gone(bob, "You’re signed out")
    assert_receives_nothing_more(site, bob, alice)
    bob.page.get_by_role("link", name="Sign in").click()
    expect(bob.page.locator("h1")).to_have_text("Sign in to Tributary")


def assert_receives_nothing_more(site: BrowserSite, tab: Tab, other: Tab) -> None:
    received = len(tab.messages)
    site.fake.release("middle")
    other.shows("And neither this.")
    site.fake.release("end")
    other.until_ended()
    assert len(tab.messages) == received
    assert "And neither" not in str(tab.messages) + tab.page.content()
    assert len(tab.sockets) == 1
    assert tab.sockets[0].is_closed()


def test_long_message_is_folded(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Read."))
    run = site.send("The level at the mill. " * 200)
    alice = tab("Alice", site.room(run)).until_ended()
    words = alice.turns.first.locator(".words")
    more = alice.turns.first.get_by_text("Show more")
    folded = words.evaluate("words => [words.clientHeight, words.scrollHeight]")

    more.click()

    expect(more).to_be_hidden()
    unfolded = words.evaluate("words => [words.clientHeight, words.scrollHeight]")
    assert folded[0] < folded[1]
    assert unfolded[0] == unfolded[1]


def test_card_of_a_failed_answer_starts_a_new_one(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.scripted(streams.BEGINNING, streams.fail("No room left.")))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()
    posts = site.fake.posts
    site.fake.script(streams.telling("Second try."))

    alice.turns.last.locator(".answer .retry").click()

    alice.shows("Second try.").until_ended()
    assert site.fake.posts == posts + 1
    expect(alice.turns.last.locator(".siblings .figure")).to_have_text("Version 2/ of 2")
    expect(alice.turns.last.locator(".answer .retry")).to_have_count(0)


def test_server_is_told_the_time_zone(site: BrowserSite, tab: OpenTab) -> None:
    page = tab("Alice", "/").page

    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}

    assert cookies["timezone"] == page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")


def give_role(alice: Tab, role: str) -> None:
    """Changes Vera's role on the page of people."""
    alice.page.get_by_label("Role of Vera").select_option(role)
    alice.button("Save").click()


def test_role_change_gives_and_takes_the_composer(team_site: BrowserSite, people: People) -> None:
    # The card of an answer that failed has a button of its own.
    failing = streams.scripted(streams.BEGINNING, streams.fail("No room left."))
    team_site.fake.script(failing, streams.telling("Second."))
    run = team_site.send("Tell us.")
    vera = people.tab(team_site, "Vera", team_site.room(run)).until_ended()
    expect(vera.composer).to_have_count(0)
    alice = people.tab(team_site, "Alice", "/people/")

    give_role(alice, "Member")
    expect(vera.composer).to_be_visible()
    expect(vera.button("Try again")).to_have_count(1)
    vera.write("And then?").shows("Second.").until_ended()
    expect(vera.button("Try again")).to_have_count(2)

    give_role(alice, "Viewer")
    expect(vera.composer).to_have_count(0)
    expect(vera.button("Try again")).to_have_count(0)
    expect(vera.page.locator("#turns").get_by_role("link", name="Edit")).to_have_count(0)


def test_new_member_stops_a_running_answer(team_site: BrowserSite, people: People) -> None:
    team_site.fake.script(streams.telling("Half", streams.hang()))
    run = team_site.send("Tell us.")
    vera = people.tab(team_site, "Vera", team_site.room(run)).shows("Half")
    alice = people.tab(team_site, "Alice", "/people/")

    give_role(alice, "Member")
    vera.stop.click()

    vera.until_ended().shows("Stopped by Vera")
    give_role(alice, "Viewer")
    expect(vera.composer).to_have_count(0)
