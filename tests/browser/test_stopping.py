"""Members stop an answer at any moment, and everybody sees it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab


def by_button(tab: Tab) -> None:
    tab.stop.click()


def by_keys(tab: Tab) -> None:
    tab.composer.press("Control+.")


@pytest.mark.parametrize(("by", "stop"), [("Alice", by_button), ("Bob", by_keys)])
def test_stop_before_the_first_byte(
    site: BrowserSite, tab: OpenTab, by: str, stop: Callable[[Tab], None]
) -> None:
    site.fake.script(streams.scripted(streams.hang()))
    run = site.send("Never mind.")
    tabs = {name: tab(name, site.room(run)) for name in ("Alice", "Bob")}
    site.fake.wait_until(lambda fake: fake.posts == 1)

    stop(tabs[by])

    site.fake.wait_until(lambda fake: fake.disconnects == 1)
    for viewer in tabs.values():
        viewer.until_ended().shows(f"Stopped by {by}").shows("Nothing was received.")
        expect(viewer.page.locator("#send")).to_have_accessible_name("Send")
        expect(viewer.page.locator("#strip .phase")).to_have_count(0)
    assert site.run(run)["status"] == "stopped"


@pytest.mark.smoke
def test_stop_keeps_the_text_for_everybody(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("*Half* of ", "`the answer`", streams.hang()))
    run = site.send("Tell us.")
    alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))
    alice.shows("Half of the answer")

    by_button(bob)

    site.fake.wait_until(lambda fake: fake.disconnects == 1)
    for viewer in (alice, bob):
        viewer.until_ended().shows("Half of the answer").shows("Stopped by Bob")
        expect(viewer.button("Try again")).to_be_visible()
    assert alice.normalized() == bob.normalized() == bob.reload().normalized()


@pytest.mark.parametrize("stop", [by_button, by_keys])
def test_stop_button_shows_that_it_was_pressed(
    site: BrowserSite, tab: OpenTab, stop: Callable[[Tab], None]
) -> None:
    site.fake.script(streams.telling("Half", streams.hang()))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).shows("Half")
    alice.post_over_http()
    alice.hold("**/stop/")

    stop(alice)

    expect(alice.button("Stopping")).to_be_disabled()
    alice.until(lambda: alice.is_holding, "the request")
    assert site.fake.disconnects == 0
    alice.release()
    alice.until_ended().shows("Stopped by Alice")
    expect(alice.page.locator("#send")).to_have_accessible_name("Send")


def test_stop_does_not_wait_for_other_requests(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Half", streams.hang()))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).shows("Half")
    alice.hold("**/changes/")
    alice.page.evaluate("document.dispatchEvent(new CustomEvent('room:changed', {detail: {}}))")
    alice.until(lambda: alice.is_holding, "the request for changes")

    by_button(alice)

    site.fake.wait_until(lambda fake: fake.disconnects == 1)
    alice.release()
    alice.until_ended().shows("Stopped by Alice")
    expect(alice.page.locator("#send")).to_have_accessible_name("Send")


def test_failed_stop_can_be_repeated(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Half", streams.hang()))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).shows("Half")
    alice.post_over_http()
    alice.page.route("**/stop/", lambda route: route.abort())

    by_button(alice)

    expect(alice.page.locator("#toasts")).to_contain_text("Can’t reach the server.")
    expect(alice.button("Stop")).to_be_enabled()
    alice.page.unroute_all()
    by_button(alice)
    alice.until_ended().shows("Stopped by Alice")
    expect(alice.page.locator("#toasts")).to_be_empty()


def test_viewer_cannot_stop(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Half", streams.hang()))
    run = site.send("Tell us.")
    vera = tab("Vera", site.room(run)).shows("Half")

    vera.page.keyboard.press("Control+.")

    expect(vera.stop).to_have_count(0)
    expect(vera.composer).to_have_count(0)
    expect(vera.page.locator("#composer-slot .notice")).to_contain_text("You have read-only access")
    assert site.fake.disconnects == 0


def test_queued_run_shows_its_place_and_stops(site: BrowserSite, tab: OpenTab) -> None:
    limit = site.value("SELECT concurrency_limit FROM chat_upstream")
    site.fake.script(*[streams.telling("Busy", streams.hang()) for _ in range(limit)])
    for number in range(limit):
        site.send(f"Number {number}")
    site.fake.wait_until(lambda fake: fake.posts == limit)
    run = site.send("I wait.")
    alice = tab("Alice", site.room(run))
    expect(alice.page.locator(".place")).to_have_text("Queued (position 1)")

    by_button(alice)

    alice.until_ended().shows("Stopped by Alice")
    assert site.fake.posts == limit
