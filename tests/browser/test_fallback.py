"""Where websockets do not get through, the page falls back to a plain stream by itself."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.support.browser import faulty_proxy, streams
from tests.support.browser.faulty_proxy import FaultyProxy
from tests.support.browser.interruptions import HIDE, assert_whole, counting
from tests.support.browser.people import People
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

STREAMING = "/settings/streaming/"
# The other tests cover two more modes.
BLOCKED = [
    pytest.param(faulty_proxy.STRIP, marks=pytest.mark.smoke),
    faulty_proxy.HANG,
    faulty_proxy.MUTE,
    faulty_proxy.KILL,
]


@pytest.fixture(scope="module")
def started_proxy(shared_site: BrowserSite) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(shared_site).start()
    yield proxy
    proxy.stop()


@pytest.fixture
def proxy(site: BrowserSite, started_proxy: FaultyProxy) -> Iterator[FaultyProxy]:
    """The shared site, as it is reached through a proxy that can break websockets."""
    yield started_proxy
    started_proxy.mode = faulty_proxy.PASS
    started_proxy.is_down = False


# What carries the page, what a screen reader is told, and whether the page waits for the first
# word of a stream.
WATCH = """(() => {
  const {fetch} = window;
  window.announced = [];
  window.fetch = (address, ...more) => {
    if (String(address).includes("/live/stream/")) window.isAsking = true;
    return fetch(address, ...more);
  };
  document.addEventListener("connection:state", event => {
    window.state = event.detail;
    window.isAsking = event.detail.isAsking;
  });
  document.addEventListener("tributary:announce", event => window.announced.push(event.detail.text));
})();"""
IS_PLAIN = "() => Boolean(window.state?.isStream)"
IS_ASKING = "() => Boolean(window.isAsking)"
# The slots for streams that tabs of this browser hold.
HELD = "async () => (await navigator.locks.query()).held.length"
SKIPPED_MS = 500


def open_tab(people: People, proxy: FaultyProxy, name: str, path: str = "") -> Tab:
    """A tab with a clock that tests may put forward."""
    tab = people.tab(proxy, name, has_clock=True)  # type: ignore[arg-type]
    tab.add_init_script(WATCH)
    return tab.open(path) if path else tab


def carrier(tab: Tab) -> Locator:
    """The line that says that the plain stream carries the page."""
    return tab.page.locator("#carrier")


def lost(tab: Tab) -> Locator:
    """The line that says that nothing does."""
    return tab.page.locator("#connection")


def announced(tab: Tab) -> list[str]:
    return list(tab.page.evaluate("() => window.announced"))


def seconds_pass(tab: Tab, seconds: int) -> None:
    """Puts the page's clock forward, for what it does after a while."""
    tab.page.clock.fast_forward(seconds * 1000)


def skip_until(tab: Tab, holds: Callable[[], object], what: str) -> None:
    """Puts the clock forward until it holds, but not while the page waits for the network."""

    def holds_or_skips() -> bool:
        if holds():
            return True
        if not tab.page.evaluate(IS_ASKING):
            tab.page.clock.fast_forward(SKIPPED_MS)
        return False

    tab.until(holds_or_skips, what)


def until_plain(tab: Tab) -> Tab:
    skip_until(tab, lambda: tab.page.evaluate(IS_PLAIN), "the plain stream carries the page")
    skip_until(tab, lambda: carrier(tab).is_visible(), "the page says so")
    return tab


@pytest.mark.parametrize("mode", BLOCKED)
def test_answer_is_complete_without_websockets(
    proxy: FaultyProxy, people: People, mode: str
) -> None:
    proxy.mode = mode
    proxy.fake.script(streams.telling(*counting()))
    run = proxy.send("Count.")
    alice = open_tab(people, proxy, "Alice", proxy.room(run))

    alice.shows("One,")
    until_plain(alice)
    proxy.fake.release("first")
    alice.shows("two,")
    proxy.fake.release("second")

    assert_whole(alice)
    expect(lost(alice)).to_be_hidden()


def test_stop_and_reload_work_over_the_plain_stream(proxy: FaultyProxy, people: People) -> None:
    proxy.mode = faulty_proxy.REFUSE
    proxy.fake.script(streams.telling("First."), streams.telling("Second, ", streams.hang()))
    run = proxy.send("Tell us.")
    alice = open_tab(people, proxy, "Alice", proxy.room(run)).until_ended()
    until_plain(alice)
    bob = until_plain(open_tab(people, proxy, "Bob", proxy.room(run)))

    bob.write("And then?")
    alice.shows("Second,")
    expect(alice.turns).to_have_count(4)
    tried = proxy.handshakes
    alice.reload().shows("Second,")
    alice.stop.first.click()

    for viewer in (alice, bob):
        viewer.until_ended().shows("Stopped by Alice")
    # A websocket that was blocked on the last page of a tab is not tried at once on the next one.
    assert proxy.handshakes == tried
    until_plain(alice)
    expect(carrier(alice).get_by_role("link")).to_have_attribute("href", "/settings/streaming/")


def test_plain_stream_survives_a_lost_network(proxy: FaultyProxy, people: People) -> None:
    proxy.mode = faulty_proxy.RESET
    proxy.fake.script(streams.telling(*counting()))
    run = proxy.send("Count.")
    alice = until_plain(open_tab(people, proxy, "Alice", proxy.room(run)).shows("One,"))

    proxy.is_down = True
    proxy.cut_connections()
    skip_until(alice, lambda: lost(alice).is_visible(), "the page says that it is cut off")
    proxy.fake.release("first")
    proxy.is_down = False
    skip_until(alice, lambda: "two," in alice.answer.inner_text(), "the stream is back")
    expect(lost(alice)).to_be_hidden()
    proxy.fake.release("second")

    assert_whole(alice)


def test_hidden_and_cached_pages_resume(proxy: FaultyProxy, people: People) -> None:
    proxy.mode = faulty_proxy.REFUSE
    proxy.fake.script(streams.telling(*counting()))
    run = proxy.send("Count.")
    alice = until_plain(open_tab(people, proxy, "Alice", proxy.room(run)).shows("One,"))

    alice.page.evaluate(HIDE, True)
    skip_until(alice, lambda: alice.page.evaluate(HELD) == 0, "a hidden tab lets go")
    proxy.fake.release("first")
    alice.page.evaluate(HIDE, False)
    alice.shows("two,")
    alice.page.locator(".sidebar-new").click()
    # The conversation has a composer, too.
    alice.page.wait_for_url(f"{proxy.url}/")
    expect(alice.composer).to_be_visible()
    alice.page.go_back()
    proxy.fake.release("second")

    assert_whole(alice)


def test_page_returns_to_a_working_websocket(proxy: FaultyProxy, people: People) -> None:
    proxy.mode = faulty_proxy.REFUSE
    proxy.fake.script(streams.telling(*counting()))
    run = proxy.send("Count.")
    alice = open_tab(people, proxy, "Alice")
    alice.open(proxy.room(run)).shows("One,")
    until_plain(alice)

    # A websocket that opens and carries nothing does not replace the stream.
    proxy.mode = faulty_proxy.MUTE
    tried = proxy.handshakes
    skip_until(alice, lambda: proxy.handshakes > tried, "the websocket is tried again")
    proxy.fake.release("first")
    alice.shows("two,")
    expect(carrier(alice)).to_be_visible()

    proxy.mode = faulty_proxy.PASS
    received = len(alice.messages)
    opened = len(alice.sockets)
    # In steps shorter than the silence after which a new websocket counts as dead.
    for _ in range(40):
        if len(alice.messages) > received:
            break
        seconds_pass(alice, 15)
        # Only a websocket needs time to bring something.
        alice.page.wait_for_timeout(200 if len(alice.sockets) > opened else 25)
    expect(carrier(alice)).to_be_hidden()
    received = len(alice.messages)
    proxy.fake.release("second")

    assert_whole(alice)
    assert any("three." in str(message) for message in alice.messages[received:])


def test_many_tabs_leave_connections_for_requests(proxy: FaultyProxy, people: People) -> None:
    proxy.mode = faulty_proxy.REFUSE
    proxy.fake.script(streams.telling("First."), streams.telling(*counting()))
    run = proxy.send("Tell us.")
    tabs = [open_tab(people, proxy, "Alice", proxy.room(run)).until_ended() for _ in range(7)]
    for tab in tabs:
        until_plain(tab)

    tabs[-1].write("And then?")
    for tab in tabs:
        skip_until(tab, lambda tab=tab: "One," in tab.answer.inner_text(), "it arrives")
    proxy.fake.release("first")
    proxy.fake.release("second")

    for tab in tabs:
        tab.until_ended()
        expect(tab.answer.locator(".message")).to_have_text("One, two, three.")


def test_plain_stream_ends_with_the_access(proxy: FaultyProxy, people: People) -> None:
    proxy.mode = faulty_proxy.REFUSE
    proxy.fake.script(streams.telling("Only for the team.", streams.hang()))
    run = proxy.send("Tell us.")
    vera = until_plain(open_tab(people, proxy, "Vera", proxy.room(run)).shows("Only for the team."))

    proxy.post("Alice", f"{proxy.room(run)}visibility/", visibility="private")

    expect(vera.page.locator("#gone")).to_contain_text("no longer shared with you")
    expect(vera.page.locator("#transcript")).to_have_count(0)
    expect(carrier(vera)).to_have_count(0)


# --- faults of connections ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", [faulty_proxy.MUTE, faulty_proxy.KILL])
def test_lost_connection_is_shown_though_websockets_open(
    proxy: FaultyProxy, people: People, mode: str
) -> None:
    proxy.mode = mode
    proxy.fake.script(streams.telling("First."))
    run = proxy.send("Tell us.")
    alice = open_tab(people, proxy, "Alice")
    # It reconnects sooner than the page complains.
    alice.add_init_script("Math.random = () => 0.3")
    alice.page.route("**/live/stream/**", lambda route: route.abort())
    alice.open(proxy.room(run))
    alice.until(lambda: proxy.handshakes, "the websocket is tried")
    seconds_pass(alice, 6)

    skip_until(alice, lambda: lost(alice).is_visible(), "the page says that it is cut off")
    assert announced(alice)[-1].startswith("Connection lost.")
    tried = proxy.handshakes
    skip_until(alice, lambda: proxy.handshakes > tried, "the websocket is tried again")
    expect(lost(alice)).to_be_visible()
    expect(carrier(alice)).to_be_hidden()

    alice.page.unroute_all()
    seconds_pass(alice, 20)
    skip_until(alice, lambda: lost(alice).is_hidden(), "the connection is back")
    assert "The connection is back." in announced(alice)
    alice.until_ended()


def test_dead_websocket_is_replaced_at_once(proxy: FaultyProxy, people: People) -> None:
    proxy.fake.script(streams.telling(*counting()))
    run = proxy.send("Count.")
    alice = open_tab(people, proxy, "Alice")
    alice.open(proxy.room(run)).shows("One,")
    # The page may have come with the word in it, before its websocket was open.
    alice.until(lambda: alice.messages, "the websocket carries the page")

    proxy.process.send_signal(signal.SIGSTOP)
    try:
        skip_until(alice, lambda: len(alice.sockets) > 1, "another websocket is opened")
        skip_until(alice, lost(alice).is_visible, "the page says that it is cut off")
    finally:
        proxy.process.send_signal(signal.SIGCONT)
    proxy.fake.release("first")
    alice.shows("two,")
    expect(lost(alice)).to_be_hidden()
    proxy.fake.release("second")

    assert_whole(alice)


def test_websocket_reconnects_after_every_close_code(proxy: FaultyProxy, people: People) -> None:
    proxy.fake.script(streams.telling(*counting()))
    run = proxy.send("Count.")
    alice = people.tab(proxy, "Alice", proxy.room(run)).shows("One,")

    # By itself, hx-ws would not reconnect after this code.
    alice.page.evaluate("() => { for (const socket of window.openSockets) socket.close(1000); }")
    proxy.fake.release("first")
    alice.shows("two,")
    proxy.fake.release("second")

    assert_whole(alice)


# Loses one frame; the websocket stays open.
LOSE_ONE = """document.addEventListener("htmx:ws:before:message:incoming", function lose(event) {
  if (!event.detail.message.data.includes("two,")) return;
  document.removeEventListener("htmx:ws:before:message:incoming", lose, true);
  window.hasLost = true;
  event.preventDefault();
}, true);"""


def test_lost_frame_is_requested_again(proxy: FaultyProxy, people: People) -> None:
    proxy.fake.script(streams.telling(*counting()))
    run = proxy.send("Count.")
    alice = people.tab(proxy, "Alice", proxy.room(run)).shows("One,")

    alice.page.evaluate(LOSE_ONE)
    proxy.fake.release("first")
    alice.page.wait_for_function("() => window.hasLost")
    proxy.fake.release("second")

    assert_whole(alice)


def test_buffered_stream_is_tried_again_later(proxy: FaultyProxy, people: People) -> None:
    proxy.mode = faulty_proxy.REFUSE
    proxy.fake.script(streams.telling("First."))
    run = proxy.send("Tell us.")
    alice = open_tab(people, proxy, "Alice")
    alice.hold("**/live/stream/**")
    alice.open(proxy.room(run))
    alice.until(lambda: alice.is_holding, "a stream is asked for")
    seconds_pass(alice, 9)
    alice.release()
    in_steps = carrier(alice).locator(".carrier-steps")

    skip_until(alice, in_steps.is_visible, "it goes on in steps")
    alice.until_ended()

    # Not by the clock of the page: its timers would take the current step for one that hangs.
    alice.page.evaluate("() => { const now = Date.now; Date.now = () => now() + 301_000; }")
    proxy.post("Alice", f"{proxy.room(run)}rename/", title="Something new")
    expect(in_steps).to_be_hidden()
    expect(carrier(alice)).to_be_visible()


# The next message cannot be parsed.
GARBLE_ONE = """() => {
  const parse = JSON.parse;
  JSON.parse = () => { JSON.parse = parse; throw new SyntaxError("garbled"); };
}"""


def test_unreadable_stream_is_closed(proxy: FaultyProxy, people: People) -> None:
    proxy.mode = faulty_proxy.REFUSE
    proxy.fake.script(streams.telling(*counting()))
    run = proxy.send("Count.")
    alice = until_plain(open_tab(people, proxy, "Alice", proxy.room(run)).shows("One,"))
    ended: list[str] = []
    alice.on("requestfailed", lambda request: ended.append(request.url))

    alice.page.evaluate(GARBLE_ONE)
    proxy.fake.release("first")
    alice.until(lambda: any("/live/stream/" in url for url in ended), "it is closed")
    proxy.fake.release("second")

    assert_whole(alice)


def test_tab_without_timers_acknowledges(proxy: FaultyProxy, people: People) -> None:
    said: list[dict[str, Any]] = []
    proxy.fake.script(streams.telling(*counting()))
    run = proxy.send("Count.")
    alice = people.tab(proxy, "Alice")
    alice.add_init_script("window.setInterval = () => 0;")
    alice.on(
        "websocket",
        lambda socket: socket.on("framesent", lambda text: said.append(json.loads(text))),
    )

    alice.open(proxy.room(run)).shows("One,")
    proxy.fake.release("first")
    alice.shows("two,")

    alice.until(lambda: any(one["type"] == "ack" for one in said), "it acknowledges")
    proxy.fake.release("second")
    assert_whole(alice)


def test_failed_change_is_fetched_later(proxy: FaultyProxy, people: People) -> None:
    proxy.fake.script(streams.telling("First."))
    run = proxy.send("Tell us.")
    alice = open_tab(people, proxy, "Alice")
    alice.open(proxy.room(run)).until_ended()
    failing = [lambda route: route.fulfill(status=503), lambda route: route.abort()]

    def fail(route: Route) -> None:
        failing.pop(0)(route)

    alice.page.route("**/changes/", fail, times=len(failing))
    alice.lose_updates()
    proxy.post("Alice", f"{proxy.room(run)}rename/", title="Another name")
    title = alice.page.locator("#room-head", has_text="Another name")
    alice.until(
        lambda: any("revision" in one and "content" not in one for one in alice.messages),
        "the page is told to ask",
    )

    skip_until(alice, title.is_visible, "it is asked for again")
    assert failing == []


def test_page_of_another_database_is_reloaded_once(proxy: FaultyProxy, people: People) -> None:
    proxy.fake.script(streams.telling("First."))
    run = proxy.send("Tell us.")
    alice = people.tab(proxy, "Alice", proxy.room(run)).until_ended().until_live()
    alice.page.evaluate(
        "() => { Math.random = () => 0; document.getElementById('room').dataset.epoch = '0'; }"
    )

    # The server is busy, so that the page does not load for a while.
    asked: list[str] = []
    alice.on("request", lambda one: one.is_navigation_request() and asked.append(one.url))
    alice.hold(f"**{proxy.room(run)}")
    # What the page has asked for by itself meanwhile does not keep it.
    alice.hold("**/c/list/**")
    alice.page.evaluate(
        """() => { htmx.ajax("GET", "/c/list/", { source: "#conversations", swap: "none" }); }"""
    )
    alice.close_sockets()
    told = {"gone": True, "reason": "restored"}
    alice.until(lambda: alice.messages.count(told) > 2, "it comes back, and is told again")
    alice.until(lambda: asked, "the page is asked for")
    assert len(asked) == 1
    alice.release()

    alice.page.wait_for_function("() => document.getElementById('room')?.dataset.epoch.length > 1")
    alice.until_ended()


# --- the self-test ----------------------------------------------------------------------------


def test_self_test_tells_lost_from_buffered(proxy: FaultyProxy, people: People) -> None:
    tab = people.tab(proxy, "Vera")
    tab.page.route(
        "**/live/test/?pace=answer",
        lambda route: route.fulfill(status=502, headers={"Server": 'a "proxy"] of ours'}),
    )
    verdict = tab.page.locator("#verdict")

    tab.open(STREAMING)
    expect(verdict.locator("h2")).to_have_text("Conversations are live, but event streams aren’t")
    expect(verdict).to_contain_text("Event streams can’t be opened.")
    proxy.mode = faulty_proxy.REFUSE
    tab.button("Test again").click()
    expect(verdict.locator("h2")).to_have_text("Answers don’t stream live")
    expect(verdict).to_contain_text("conversations stop updating")

    tab.page.route("**/live/test/?pace=quiet", lambda route: route.fulfill(status=429))
    tab.button("Test idle connections").click()
    expect(tab.page.locator("#quiet-result")).to_contain_text("already running in another tab")
