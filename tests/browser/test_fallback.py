"""Where websockets do not get through, the page goes on over a plain stream, by itself."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.conftest import People
from tests.browser.test_survival import HIDE, assert_whole, counting
from tests.support.browser import between, streams
from tests.support.browser.between import Between
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab
from tests.support.processes.site import World, site_from

# Longer than a page gives a websocket that hangs; its other patience is far below.
PATIENCE_MS = 60_000
STREAMING = "/settings/streaming/"
# Two more ways are those of the other tests.
BLOCKED = [between.STRIP, between.HANG, between.MUTE, between.KILL]


@pytest.fixture(scope="module")
def proxied(
    seeded: tuple[Path, World], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Between]:
    """A running site, as it is reached through something that can be unkind."""
    folder, world = seeded
    data = tmp_path_factory.mktemp("between") / "data"
    with site_from(folder, data, world, kind=BrowserSite) as site:
        proxy = Between(site)
        site.start(LIVE_ORIGINS=f"{site.url},{proxy.url}")
        proxy.start()
        yield proxy
        proxy.stop()


@pytest.fixture
def way(proxied: Between) -> Iterator[Between]:
    yield proxied
    proxied.mode = between.PASS
    proxied.is_away = False
    proxied.settle()


# The slots for streams that tabs of this browser hold.
HELD = "async () => (await navigator.locks.query()).held.length"


def carrier(tab: Tab) -> Locator:
    return tab.page.locator("#carrier")


def lost(tab: Tab) -> Locator:
    return tab.page.locator("#connection")


def until_plain(tab: Tab) -> Tab:
    expect(carrier(tab)).to_be_visible(timeout=PATIENCE_MS)
    return tab


def seconds_pass(tab: Tab, seconds: int) -> None:
    """The page's own clock goes on so far, for what it does after a while."""
    tab.page.clock.fast_forward(seconds * 1000)


@pytest.mark.parametrize("mode", BLOCKED)
def test_an_answer_is_shown_to_its_end_whatever_happens_to_websockets(
    way: Between, people: People, mode: str
) -> None:
    way.mode = mode
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = people.tab(way, "Alice", way.room(run))

    expect(alice.answer).to_contain_text("One,", timeout=PATIENCE_MS)
    until_plain(alice)
    way.fake.release("first")
    alice.shows("two,")
    way.fake.release("second")

    assert_whole(alice)
    expect(alice.page.locator("#connection")).to_be_hidden()


def test_colleagues_stop_and_reload_work_as_ever(way: Between, people: People) -> None:
    way.mode = between.REFUSE
    way.fake.script(streams.telling("First."), streams.telling("Second, ", streams.hang()))
    run = way.send("Tell us.")
    alice = people.tab(way, "Alice", way.room(run)).until_ended()
    until_plain(alice)
    bob = until_plain(people.tab(way, "Bob", way.room(run)))

    bob.write("And then?")
    alice.shows("Second,")
    expect(alice.turns).to_have_count(4)
    tried = way.handshakes
    alice.reload().shows("Second,")
    alice.stop.first.click()

    for viewer in (alice, bob):
        viewer.until_ended().shows("Stopped.")
    # What was blocked on the last page of the tab is not tried at once on the next.
    assert way.handshakes == tried
    until_plain(alice)
    expect(carrier(alice).get_by_role("link")).to_have_attribute("href", "/settings/streaming/")


def test_a_lost_network_comes_back(way: Between, people: People) -> None:
    way.mode = between.RESET
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = until_plain(people.tab(way, "Alice", way.room(run)).shows("One,"))

    way.is_away = True
    way.cut()
    expect(alice.page.locator("#connection")).to_be_visible(timeout=PATIENCE_MS)
    way.fake.release("first")
    way.is_away = False
    expect(alice.answer).to_contain_text("two,", timeout=PATIENCE_MS)
    expect(alice.page.locator("#connection")).to_be_hidden()
    way.fake.release("second")

    assert_whole(alice)


def test_a_page_that_came_back_from_the_cache_or_was_hidden_goes_on(
    way: Between, people: People
) -> None:
    way.mode = between.REFUSE
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = until_plain(people.tab(way, "Alice", way.room(run)).shows("One,"))

    alice.page.evaluate(HIDE, True)
    alice.until(lambda: alice.page.evaluate(HELD) == 0, "a hidden tab lets go")
    way.fake.release("first")
    alice.page.evaluate(HIDE, False)
    alice.shows("two,")
    alice.page.locator(".sidebar-new").click()
    # The room has a composer, too.
    alice.page.wait_for_url(f"{way.url}/")
    expect(alice.composer).to_be_visible()
    alice.page.go_back()
    way.fake.release("second")

    assert_whole(alice)


def test_it_goes_back_to_the_websocket_when_one_proves_itself(way: Between, people: People) -> None:
    way.mode = between.REFUSE
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = people.tab(way, "Alice")
    alice.page.clock.install()
    alice.open(way.room(run)).shows("One,")
    until_plain(alice)

    # One that opens and says nothing takes nothing over.
    way.mode = between.MUTE
    tried = way.handshakes
    seconds_pass(alice, 60)
    alice.until(lambda: way.handshakes > tried, "the websocket is tried again")
    way.fake.release("first")
    alice.shows("two,")
    expect(carrier(alice)).to_be_visible()

    way.mode = between.PASS
    heard = len(alice.messages)
    # In steps below the silence after which a websocket that has just come counts as dead.
    for _ in range(40):
        if len(alice.messages) > heard:
            break
        seconds_pass(alice, 15)
        alice.page.wait_for_timeout(200)
    expect(carrier(alice)).to_be_hidden(timeout=PATIENCE_MS)
    heard = len(alice.messages)
    way.fake.release("second")

    assert_whole(alice)
    assert any("three." in message.get("content", "") for message in alice.messages[heard:])


def test_many_tabs_leave_room_for_what_people_do(way: Between, people: People) -> None:
    way.mode = between.REFUSE
    way.fake.script(streams.telling("First."), streams.telling(*counting()))
    run = way.send("Tell us.")
    tabs = [people.tab(way, "Alice", way.room(run)).until_ended() for _ in range(7)]
    for tab in tabs:
        until_plain(tab)

    tabs[-1].write("And then?")
    for tab in tabs:
        expect(tab.answer).to_contain_text("One,", timeout=PATIENCE_MS)
    way.fake.release("first")
    way.fake.release("second")

    for tab in tabs:
        tab.until_ended()
        expect(tab.answer.locator(".message")).to_have_text("One, two, three.")


def test_whoever_is_signed_out_or_sent_away_is_told_so(way: Between, people: People) -> None:
    way.mode = between.REFUSE
    way.fake.script(streams.telling("Only for the team.", streams.hang()))
    run = way.send("Tell us.")
    vera = until_plain(people.tab(way, "Vera", way.room(run)).shows("Only for the team."))

    way.post("Alice", f"{way.room(run)}visibility/", visibility="private")

    expect(vera.page.locator("#gone")).to_contain_text("no longer shared with you")
    expect(vera.page.locator("#transcript")).to_have_count(0)
    expect(carrier(vera)).to_have_count(0)


# --- what does not move says so ---------------------------------------------------------------

# What a screen reader is given, whenever that is read out.
LISTEN = """window.heard = [];
document.addEventListener("tributary:announce", event => window.heard.push(event.detail.text));"""


def heard(tab: Tab) -> list[str]:
    return list(tab.page.evaluate("() => window.heard"))


@pytest.mark.parametrize("mode", [between.MUTE, between.KILL])
def test_a_page_that_nothing_reaches_says_so_however_often_a_websocket_opens(
    way: Between, people: People, mode: str
) -> None:
    way.mode = mode
    way.fake.script(streams.telling("First."))
    run = way.send("Tell us.")
    alice = people.tab(way, "Alice")
    alice.page.clock.install()
    # It comes back within less than the moment that a page waits before it complains.
    alice.page.add_init_script("Math.random = () => 0.3")
    alice.page.add_init_script(LISTEN)
    alice.page.route("**/live/stream/**", lambda route: route.abort())
    alice.open(way.room(run))
    alice.until(lambda: way.handshakes, "the websocket is tried")
    seconds_pass(alice, 6)

    expect(lost(alice)).to_be_visible()
    assert heard(alice)[-1].startswith("Connection lost.")
    tried = way.handshakes
    seconds_pass(alice, 31)
    alice.until(lambda: way.handshakes > tried, "the websocket is tried again")
    expect(lost(alice)).to_be_visible()
    expect(carrier(alice)).to_be_hidden()

    alice.page.unroute_all()
    seconds_pass(alice, 20)
    expect(lost(alice)).to_be_hidden()
    assert "The connection is back." in heard(alice)
    alice.until_ended()


def test_a_websocket_that_has_died_is_let_go_of_without_waiting_for_its_goodbye(
    way: Between, people: People
) -> None:
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = people.tab(way, "Alice")
    alice.page.clock.install()
    alice.open(way.room(run)).shows("One,")

    way.process.send_signal(signal.SIGSTOP)
    try:
        seconds_pass(alice, 31)
        alice.until(lambda: len(alice.sockets) > 1, "another websocket is opened")
        seconds_pass(alice, 3)
        expect(lost(alice)).to_be_visible()
    finally:
        way.process.send_signal(signal.SIGCONT)
    way.fake.release("first")
    alice.shows("two,")
    expect(lost(alice)).to_be_hidden()
    way.fake.release("second")

    assert_whole(alice)


def test_a_websocket_comes_back_whatever_code_it_was_closed_with(
    way: Between, people: People
) -> None:
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = people.tab(way, "Alice", way.room(run)).shows("One,")

    # hx-ws takes it for the end.
    alice.page.evaluate("() => { for (const socket of window.openSockets) socket.close(1000); }")
    way.fake.release("first")
    alice.shows("two,")
    way.fake.release("second")

    assert_whole(alice)


# A frame is lost on its way; the socket and the page go on.
LOSE_ONE = """document.addEventListener("htmx:ws:before:message:incoming", function lose(event) {
  if (!event.detail.message.data.includes("two,")) return;
  document.removeEventListener("htmx:ws:before:message:incoming", lose, true);
  window.hasLost = true;
  event.preventDefault();
}, true);"""


def test_a_page_that_missed_a_frame_asks_for_it(way: Between, people: People) -> None:
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = people.tab(way, "Alice", way.room(run)).shows("One,")

    alice.page.evaluate(LOSE_ONE)
    way.fake.release("first")
    alice.page.wait_for_function("() => window.hasLost")
    way.fake.release("second")

    assert_whole(alice)


def test_a_stream_that_one_bad_moment_held_back_is_tried_again(
    way: Between, people: People
) -> None:
    way.mode = between.REFUSE
    way.fake.script(streams.telling("First."))
    run = way.send("Tell us.")
    alice = people.tab(way, "Alice")
    alice.page.clock.install()
    alice.hold("**/live/stream/**")
    alice.open(way.room(run))
    alice.until(lambda: alice.is_holding, "a stream is asked for")
    seconds_pass(alice, 9)
    alice.let_go()
    in_steps = carrier(alice).locator(".carrier-steps")

    expect(in_steps).to_be_visible(timeout=PATIENCE_MS)
    alice.until_ended()

    # Without its timers: they would take the step under way for one that hangs.
    alice.page.evaluate("() => { const now = Date.now; Date.now = () => now() + 301_000; }")
    way.post("Alice", f"{way.room(run)}rename/", title="Something new")
    expect(in_steps).to_be_hidden(timeout=PATIENCE_MS)
    expect(carrier(alice)).to_be_visible()


# The first thing that is read from now on is not what the server wrote.
GARBLE_ONE = """() => {
  const parse = JSON.parse;
  JSON.parse = () => { JSON.parse = parse; throw new SyntaxError("garbled"); };
}"""


def test_a_stream_that_cannot_be_read_does_not_stay_open_beside_the_next(
    way: Between, people: People
) -> None:
    way.mode = between.REFUSE
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = until_plain(people.tab(way, "Alice", way.room(run)).shows("One,"))
    ended: list[str] = []
    alice.page.on("requestfailed", lambda request: ended.append(request.url))

    alice.page.evaluate(GARBLE_ONE)
    way.fake.release("first")
    alice.until(lambda: any("/live/stream/" in url for url in ended), "it is let go of")
    way.fake.release("second")

    assert_whole(alice)


def test_a_hidden_tab_whose_timers_stand_still_acknowledges_what_it_has(
    way: Between, people: People
) -> None:
    said: list[dict[str, Any]] = []
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = people.tab(way, "Alice")
    alice.page.add_init_script("window.setInterval = () => 0;")
    alice.page.on(
        "websocket",
        lambda socket: socket.on("framesent", lambda text: said.append(json.loads(text))),
    )

    alice.open(way.room(run)).shows("One,")
    way.fake.release("first")
    alice.shows("two,")

    alice.until(lambda: any(one["type"] == "ack" for one in said), "it acknowledges")
    way.fake.release("second")
    assert_whole(alice)


def test_a_change_that_could_not_be_fetched_is_fetched_later(way: Between, people: People) -> None:
    way.fake.script(streams.telling("First."))
    run = way.send("Tell us.")
    alice = people.tab(way, "Alice")
    alice.page.clock.install()
    alice.open(way.room(run)).until_ended()
    failing = [lambda route: route.fulfill(status=503), lambda route: route.abort()]

    def fail(route: Route) -> None:
        failing.pop(0)(route)

    alice.page.route("**/changes/", fail, times=len(failing))
    way.post("Alice", f"{way.room(run)}rename/", title="Another name")
    for left in (1, 0):
        alice.until(lambda left=left: len(failing) == left, "it is asked for")
        seconds_pass(alice, 10)

    expect(alice.page.locator("#room-head")).to_contain_text("Another name")


def test_a_page_of_another_database_is_loaded_anew_once(way: Between, people: People) -> None:
    way.fake.script(streams.telling("First."))
    run = way.send("Tell us.")
    alice = people.tab(way, "Alice", way.room(run)).until_ended()
    alice.page.evaluate(
        "() => { Math.random = () => 0; document.getElementById('room').dataset.epoch = '0'; }"
    )

    # The server has so much to do that the page does not come for a while.
    asked: list[str] = []
    alice.page.on("request", lambda one: one.is_navigation_request() and asked.append(one.url))
    alice.hold(f"**{way.room(run)}")
    alice.cut_sockets()
    told = {"gone": True, "reason": "restored"}
    alice.until(lambda: alice.messages.count(told) > 2, "it comes back, and is told again")
    alice.until(lambda: asked, "the page is asked for")
    assert len(asked) == 1
    alice.let_go()

    alice.page.wait_for_function("() => document.getElementById('room')?.dataset.epoch.length > 1")
    alice.until_ended()


# --- the self-test ----------------------------------------------------------------------------


def test_the_self_test_does_not_call_held_back_what_does_not_arrive(
    way: Between, people: People
) -> None:
    tab = people.tab(way, "Vera")
    tab.page.route(
        "**/live/test/?pace=answer",
        lambda route: route.fulfill(status=502, headers={"Server": 'a "proxy"] of ours'}),
    )
    verdict = tab.page.locator("#verdict")

    tab.open(STREAMING)
    expect(verdict.locator("h2")).to_have_text("Conversations are live, plain streams are not")
    expect(verdict).to_contain_text("Plain streams cannot be opened.")
    way.mode = between.REFUSE
    tab.button("Measure again").click()
    expect(verdict.locator("h2")).to_have_text("Answers do not arrive live")
    expect(verdict).to_contain_text("conversations stand still")

    tab.page.route("**/live/test/?pace=quiet", lambda route: route.fulfill(status=429))
    tab.button("Test quiet connections").click()
    expect(tab.page.locator("#quiet-result")).to_contain_text("running in another tab already")


# --- a new version of the server --------------------------------------------------------------


# What hx-ws does in the turn in which its socket closes: it sets the time of the next attempt.
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


def test_tabs_come_back_from_a_restart_spread_over_seconds(
    own_site: BrowserSite, people: People
) -> None:
    own_site.start()
    own_site.fake.script(streams.telling("First."))
    run = own_site.send("Tell us.")
    tabs = [people.tab(own_site, "Alice", own_site.room(run)).until_ended() for _ in range(2)]
    for tab, random in zip(tabs, (0.0, 0.999), strict=True):
        tab.until(lambda tab=tab: {"heartbeat": True} in tab.messages, "its websocket carries")
        tab.page.evaluate(REMEMBER_DELAY, random)

    own_site.terminate()
    closed = [tab.page.wait_for_function("() => window.ending").json_value() for tab in tabs]
    own_site.start()

    assert [each["code"] for each in closed] == [1012, 1012]
    # After the page's own complaint, which waits for two seconds.
    assert [each["delays"][-1] for each in closed] == [pytest.approx(0), pytest.approx(2997)]
    for tab in tabs:
        expect(tab.page.locator("#connection")).to_be_hidden(timeout=PATIENCE_MS)
    own_site.fake.script(streams.telling(*counting()[:1], gate("first"), "two."))
    tabs[0].write("Count.")
    for tab in tabs:
        tab.shows("One,")
    own_site.fake.release("first")
    for tab in tabs:
        tab.until_ended().shows("One, two.")
        expect(carrier(tab)).to_be_hidden()
