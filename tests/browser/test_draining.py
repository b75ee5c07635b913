"""An administrator drains a server: everybody who is queued sees their place and the reason."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

HELD_UP = ". The server is paused."


@pytest.fixture
def narrow(site: BrowserSite) -> Iterator[BrowserSite]:
    """The one server takes one answer at a time."""
    limit = site.value("SELECT concurrency_limit FROM chat_upstream")
    site.rows("UPDATE chat_upstream SET concurrency_limit = 1")
    yield site
    site.rows("UPDATE chat_upstream SET concurrency_limit = ?, is_draining = 0", limit)


def stands_at(tab: Tab, number: int, why: str = "") -> None:
    expect(tab.page.locator(".place")).to_have_text(f"Queued (position {number}){why}")


def test_queued_people_see_their_place_and_the_reason(narrow: BrowserSite, tab: OpenTab) -> None:
    narrow.fake.script(streams.telling("Busy", streams.hang()), streams.telling("At last."))
    first = narrow.send("Keep it busy.", by="Alice")
    narrow.fake.wait_until(lambda fake: fake.posts == 1)
    again = narrow.send("And once more.", by="Alice")
    bobs = narrow.send("I come later, and go first.", by="Bob")
    adas = tab("Ada", "/settings/servers/")
    alice, bob = tab("Alice", narrow.room(again)), tab("Bob", narrow.room(bobs))
    # Alice has an answer under way, so Bob's turn comes before her second one.
    stands_at(bob, 1)
    stands_at(alice, 2)

    adas.page.get_by_role("button", name="Pause").click()

    state = adas.page.locator(".server-state-words")
    expect(state).to_have_text("Paused 1 active run, 2 queued")
    stands_at(bob, 1, HELD_UP)
    stands_at(alice, 2, HELD_UP)
    expect(bob.page.locator("#choice-note")).to_be_visible()
    bob.reload()
    stands_at(bob, 1, HELD_UP)
    expect(bob.page.locator("#choice-note")).to_be_visible()
    label = bob.page.locator("#id_choice optgroup").get_attribute("label")
    assert label is not None
    assert label.endswith("(paused)")

    # The live answer goes on to its end, and the queue still waits.
    tab("Alice", narrow.room(first)).stop.click()
    expect(state).to_have_text("Paused 0 active runs, 2 queued")
    bob.stop.click()
    bob.until_ended().shows("Stopped by Bob")
    stands_at(alice, 1, HELD_UP)
    assert narrow.fake.posts == 1

    adas.page.get_by_role("button", name="Resume").click()

    alice.until_ended().shows("At last.")
    expect(bob.page.locator("#choice-note")).to_be_hidden()
    expect(alice.page.locator(".place")).to_have_count(0)
