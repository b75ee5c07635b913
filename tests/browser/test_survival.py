"""The server dies, the network goes, the tab is hidden or left: nothing is lost or doubled."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from chat.demo.script import Gate
from tests.browser.conftest import OpenTab, People
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab

FIRST, SECOND = gate("first"), gate("second")
WHOLE = "One, two, three."


def counting() -> tuple[str | Gate, ...]:
    return "One, ", FIRST, "two, ", SECOND, "three."


def assert_whole(tab: Tab) -> None:
    tab.until_ended()
    expect(tab.answer.locator(".message")).to_have_text(WHOLE)


def test_kill_9_and_restart_keep_the_text_mark_the_answer_and_let_one_try_again(
    own_site: BrowserSite, people: People
) -> None:
    own_site.start()
    own_site.fake.script(streams.telling(*counting()))
    run = own_site.send("Count.")
    alice = people.tab(own_site, "Alice", own_site.room(run)).shows("One,")
    bob = people.tab(own_site, "Bob", own_site.room(run)).shows("One,")

    own_site.kill9()
    expect(alice.page.locator("#connection")).to_be_visible()
    own_site.start()

    for viewer in (alice, bob):
        viewer.until_ended().shows("One,").shows("interrupted because our server stopped")
        expect(viewer.page.locator("#connection")).to_be_hidden()
    assert own_site.fake.posts == 1
    own_site.fake.script(streams.telling("Anew."))
    alice.button("Try again").click()
    for viewer in (alice, bob):
        viewer.shows("Anew.").until_ended()
    expect(alice.turns.last.locator(".siblings .figure")).to_have_text("Version 2/ of 2")


def test_a_restart_between_answers_is_not_noticed_beyond_the_notice(
    own_site: BrowserSite, people: People
) -> None:
    own_site.start()
    own_site.fake.script(streams.telling("First."), streams.telling("Second."))
    run = own_site.send("Tell us.")
    alice = people.tab(own_site, "Alice", own_site.room(run)).until_ended()
    bob = people.tab(own_site, "Bob", own_site.room(run)).until_ended()

    own_site.restart()
    alice.write("And then?")

    for viewer in (alice, bob):
        viewer.shows("Second.").until_ended()
        expect(viewer.turns).to_have_count(4)


def test_a_lost_network_comes_back_without_loss_or_doubling(
    people: People, site: BrowserSite
) -> None:
    site.fake.script(streams.telling(*counting()))
    run = site.send("Count.")
    alice = people.tab(site, "Alice", site.room(run)).shows("One,")
    bob = people.tab(site, "Bob", site.room(run)).shows("One,")

    alice.page.context.set_offline(True)
    alice.cut_sockets()
    expect(alice.page.locator("#connection")).to_be_visible()
    site.fake.release("first")
    bob.shows("two,")
    expect(alice.answer).not_to_contain_text("two,")
    alice.page.context.set_offline(False)

    alice.shows("One, two,")
    expect(alice.page.locator("#connection")).to_be_hidden()
    site.fake.release("second")
    assert_whole(alice)
    assert_whole(bob)


def test_words_sent_without_a_network_are_kept_and_can_be_sent_again(
    people: People, site: BrowserSite
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    run = site.send("Tell us.")
    alice = people.tab(site, "Alice", site.room(run)).until_ended()

    alice.page.context.set_offline(True)
    alice.write("Are you there?")
    expect(alice.page.locator("#notices")).to_contain_text("cannot be reached")
    expect(alice.composer).to_have_value("Are you there?")
    alice.page.context.set_offline(False)
    alice.composer.press("Enter")

    alice.shows("Second.").until_ended()
    expect(alice.composer).to_have_value("")
    expect(alice.turns).to_have_count(4)


HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", {configurable: true, get: () => isHidden});
  Object.defineProperty(document, "visibilityState",
    {configurable: true, get: () => isHidden ? "hidden" : "visible"});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_tab_keeps_its_one_connection_and_its_text_current(
    people: People, site: BrowserSite
) -> None:
    site.fake.script(streams.telling(*counting()))
    run = site.send("Count.")
    alice = people.tab(site, "Alice", site.room(run)).shows("One,")

    alice.page.evaluate(HIDE, True)
    site.fake.release("first")
    alice.shows("two,")
    alice.page.evaluate(HIDE, False)
    site.fake.release("second")

    assert_whole(alice)
    assert len(alice.sockets) == 1


def by_link_and_back(tab: Tab) -> None:
    tab.page.locator(".sidebar-new").click()
    # The room has a composer, too.
    tab.page.wait_for_url(f"{tab.site.url}/")
    expect(tab.composer).to_be_visible()
    tab.page.go_back()


def from_the_cache(tab: Tab) -> None:
    """What the browser says to a page that it keeps, and gives back, whole."""
    tab.page.evaluate(
        "() => { for (const name of ['pagehide', 'pageshow'])"
        " dispatchEvent(new PageTransitionEvent(name, {persisted: true})); }"
    )


@pytest.mark.parametrize("leave", [by_link_and_back, from_the_cache])
def test_a_page_that_was_left_and_came_back_goes_on(
    people: People, site: BrowserSite, leave: Callable[[Tab], None]
) -> None:
    site.fake.script(streams.telling(*counting()))
    run = site.send("Count.")
    alice = people.tab(site, "Alice", site.room(run)).shows("One,")

    leave(alice)
    site.fake.release("first")
    alice.shows("One, two,")
    site.fake.release("second")

    assert_whole(alice)


def test_a_second_tab_opened_in_mid_stream_and_closed_again_disturbs_nothing(
    tab: OpenTab, site: BrowserSite
) -> None:
    site.fake.script(streams.telling(*counting()))
    run = site.send("Count.")
    first = tab("Alice", site.room(run)).shows("One,")

    second = tab("Alice", site.room(run)).shows("One,")
    site.fake.release("first")
    second.shows("two,").page.close()
    site.fake.release("second")

    assert_whole(first)
