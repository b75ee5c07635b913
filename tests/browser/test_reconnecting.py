"""The server dies, the network goes, the tab is hidden or left: no text is lost or doubled."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.interruptions import HIDE, assert_whole, counting
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab
from tests.support.processes.site import World, site_from


@pytest.fixture(scope="module")
def running_site(
    seeded: tuple[Path, World], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserSite]:
    folder, world = seeded
    data = tmp_path_factory.mktemp("restarted") / "data"
    with site_from(folder, data, world, kind=BrowserSite) as site:
        site.is_shared = True
        site.start()
        yield site


@pytest.fixture
def restartable_site(running_site: BrowserSite) -> Iterator[BrowserSite]:
    """A running site that a test may kill or stop."""
    yield running_site
    if not running_site.is_alive:
        running_site.start()
    running_site.settle()


def test_killed_server_keeps_text_and_allows_retry(
    restartable_site: BrowserSite, people: People
) -> None:
    restartable_site.fake.script(streams.telling(*counting()))
    run = restartable_site.send("Count.")
    alice = people.tab(restartable_site, "Alice", restartable_site.room(run)).shows("One,")
    bob = people.tab(restartable_site, "Bob", restartable_site.room(run)).shows("One,")

    restartable_site.kill9()
    expect(alice.page.locator("#connection")).to_be_visible()
    restartable_site.start()

    for viewer in (alice, bob):
        viewer.until_ended().shows("One,").shows("interrupted because Tributary restarted")
        expect(viewer.page.locator("#connection")).to_be_hidden()
    assert restartable_site.fake.posts == 1
    restartable_site.fake.script(streams.telling("Anew."))
    alice.button("Try again").click()
    alice.shows("Anew.").until_ended()
    expect(alice.turns.last.locator(".siblings .figure")).to_have_text("Version 2/ of 2")
    expect(bob.turns.last.locator(".newer")).to_contain_text("Alice asked for another answer")


def test_restart_between_answers_loses_nothing(
    restartable_site: BrowserSite, people: People
) -> None:
    restartable_site.fake.script(streams.telling("First."), streams.telling("Second."))
    run = restartable_site.send("Tell us.")
    alice = people.tab(restartable_site, "Alice", restartable_site.room(run)).until_ended()
    bob = people.tab(restartable_site, "Bob", restartable_site.room(run)).until_ended()

    restartable_site.restart()
    alice.write("And then?")

    for viewer in (alice, bob):
        viewer.shows("Second.").until_ended()
        expect(viewer.turns).to_have_count(4)


@pytest.mark.smoke
def test_lost_network_loses_and_doubles_nothing(people: People, site: BrowserSite) -> None:
    site.fake.script(streams.telling(*counting()))
    run = site.send("Count.")
    alice = people.tab(site, "Alice", site.room(run)).shows("One,")
    bob = people.tab(site, "Bob", site.room(run)).shows("One,")
    alice.until_live()

    alice.page.context.set_offline(True)
    alice.close_sockets()
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


def test_message_without_a_network_is_sent_when_there_is_one(
    people: People, site: BrowserSite
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    run = site.send("Tell us.")
    alice = people.tab(site, "Alice", site.room(run)).until_ended()

    alice.page.context.set_offline(True)
    alice.close_sockets()
    expect(alice.page.locator("#connection")).to_have_text("You’re offline.", use_inner_text=True)
    alice.write("Are you there?")
    expect(alice.page.locator("#composer-note")).to_contain_text("You’re offline.")
    expect(alice.composer).to_have_value("Are you there?")
    alice.page.context.set_offline(False)

    alice.shows("Second.").until_ended()
    expect(alice.composer).to_have_value("")
    expect(alice.page.locator("#composer-note")).to_be_empty()
    expect(alice.page.locator("#connection")).to_be_hidden()
    expect(alice.turns).to_have_count(4)


def test_message_that_somebody_has_overtaken_meanwhile_is_sent_after_theirs(
    people: People, site: BrowserSite
) -> None:
    for answer in ("First.", "For Bob.", "For Alice."):
        site.fake.script(streams.telling(answer))
    run = site.send("Tell us.")
    alice = people.tab(site, "Alice", site.room(run)).until_ended()
    bob = people.tab(site, "Bob", site.room(run)).until_ended()

    alice.page.context.set_offline(True)
    alice.close_sockets()
    alice.write("From Alice")
    expect(alice.page.locator("#composer-note")).to_contain_text("You’re offline.")
    bob.write("From Bob").shows("For Bob.").until_ended()
    alice.page.context.set_offline(False)

    alice.shows("For Alice.").until_ended()
    expect(alice.composer).to_have_value("")
    expect(alice.turns).to_have_count(6)
    expect(alice.turns.nth(2).locator(".words")).to_have_text("From Bob")


def test_hidden_tab_stays_current(people: People, site: BrowserSite) -> None:
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
    # The conversation has a composer, too.
    tab.page.wait_for_url(f"{tab.site.url}/")
    expect(tab.composer).to_be_visible()
    tab.page.go_back()


def from_the_cache(tab: Tab) -> None:
    """The events that a browser sends to a page in its back/forward cache."""
    tab.page.evaluate(
        "() => { for (const name of ['pagehide', 'pageshow'])"
        " dispatchEvent(new PageTransitionEvent(name, {persisted: true})); }"
    )


@pytest.mark.parametrize("leave", [by_link_and_back, from_the_cache])
def test_page_resumes_after_back_and_cache(
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


def test_closed_second_tab_disturbs_nothing(tab: OpenTab, site: BrowserSite) -> None:
    site.fake.script(streams.telling(*counting()))
    run = site.send("Count.")
    first = tab("Alice", site.room(run)).shows("One,")

    second = tab("Alice", site.room(run)).shows("One,")
    site.fake.release("first")
    second.shows("two,").page.close()
    site.fake.release("second")

    assert_whole(first)


# Records the timer of the next attempt, which hx-ws sets when its websocket closes.
REMEMBER_DELAY = """random => {
  Math.random = () => random;
  let delays = null;
  const setTimeout = window.setTimeout;
  window.setTimeout = (work, ms, ...rest) => { delays?.push(ms); return setTimeout(work, ms, ...rest); };
  const remember = event => {
    if (event.detail.code === null) return;
    delays = [];
    queueMicrotask(() => { window.ending ??= {code: event.detail.code, delays}; delays = null; });
  };
  document.getElementById("live").addEventListener("htmx:ws:close", remember);
}"""


def test_tabs_reconnect_spread_over_seconds(restartable_site: BrowserSite, people: People) -> None:
    restartable_site.fake.script(streams.telling("First."))
    run = restartable_site.send("Tell us.")
    tabs = [
        people.tab(restartable_site, "Alice", restartable_site.room(run)).until_ended()
        for _ in range(2)
    ]
    for tab, random in zip(tabs, (0.0, 0.999), strict=True):
        tab.until(lambda tab=tab: {"heartbeat": True} in tab.messages, "its websocket carries")
        tab.page.evaluate(REMEMBER_DELAY, random)

    restartable_site.terminate()
    closed = [tab.page.wait_for_function("() => window.ending").json_value() for tab in tabs]
    restartable_site.start()

    assert [each["code"] for each in closed] == [1012, 1012]
    # The last timer; the one before is that of the page, which shows the loss after two seconds.
    assert [each["delays"][-1] for each in closed] == [pytest.approx(0), pytest.approx(2997)]
    for tab in tabs:
        expect(tab.page.locator("#connection")).to_be_hidden()
    restartable_site.fake.script(streams.telling(*counting()[:1], gate("first"), "two."))
    tabs[0].write("Count.")
    for tab in tabs:
        tab.shows("One,")
    restartable_site.fake.release("first")
    for tab in tabs:
        tab.until_ended().shows("One, two.")
        expect(tab.page.locator("#carrier")).to_be_hidden()


def test_update_waits_until_nobody_types(own_site: BrowserSite, people: People) -> None:
    own_site.start()
    own_site.fake.script(streams.telling("A long answer.\n\n" * 100))
    alice = people.tab(own_site, "Alice", own_site.room(own_site.send("Tell us."))).until_ended()
    alice.until_live()
    # Keys in the page's own time, however busy this machine is.
    alice.page.evaluate("""() => {
      Math.random = () => 0;
      window.isEarlier = true;
      window.typing = setInterval(() => dispatchEvent(new KeyboardEvent("keydown")), 100);
    }""")
    alice.page.mouse.move(640, 300)
    alice.page.mouse.wheel(0, -600)
    alice.composer.press_sequentially("Half sentence")
    for _ in range(len("sentence")):
        alice.composer.press("ArrowLeft")
    alice.page.wait_for_timeout(100)
    place = alice.page.evaluate("() => scrollY")
    told = {"gone": True, "reason": "restored"}

    own_site.kill9()
    own_site.start(fault="other_version")
    alice.until(lambda: told in alice.messages, "the page is told")
    # A page in which nobody types would reload within this time.
    alice.composer.press_sequentially("a little bit of a ", delay=150)

    assert alice.page.evaluate("() => window.isEarlier")
    expect(alice.page.locator("#connection")).to_be_hidden()
    alice.page.evaluate("() => clearInterval(window.typing)")
    alice.page.wait_for_function("() => !window.isEarlier && document.readyState === 'complete'")
    expect(alice.composer).to_have_value("Half a little bit of a sentence")
    expect(alice.composer).to_be_focused()
    alice.composer.press_sequentially("whole ")
    expect(alice.composer).to_have_value("Half a little bit of a whole sentence")
    assert alice.page.evaluate("() => scrollY") == place
