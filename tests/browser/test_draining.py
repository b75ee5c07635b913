"""An administrator drains a server: everybody who is queued sees their place and the reason."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

HELD_UP = ". Waits: the server is being drained."


@pytest.fixture
def narrow(site: BrowserSite) -> Iterator[BrowserSite]:
    """The one server takes one answer at a time."""
    limit = site.value("SELECT concurrency_limit FROM chat_upstream")
    site.rows("UPDATE chat_upstream SET concurrency_limit = 1")
    yield site
    site.rows("UPDATE chat_upstream SET concurrency_limit = ?, is_draining = 0", limit)


def stands_at(tab: Tab, number: int, why: str = "") -> None:
    expect(tab.page.locator(".place")).to_have_text(f"Place {number} in line{why}")


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

    adas.page.get_by_role("button", name="Drain").click()

    state = adas.page.locator(".server-state-words")
    expect(state).to_have_text("Draining 1 answer under way, 2 waiting")
    stands_at(bob, 1, HELD_UP)
    stands_at(alice, 2, HELD_UP)
    expect(bob.page.locator("#choice-note")).to_be_visible()
    bob.reload()
    stands_at(bob, 1, HELD_UP)
    expect(bob.page.locator("#choice-note")).to_be_visible()
    label = bob.page.locator("#id_choice optgroup").get_attribute("label")
    assert label is not None
    assert label.endswith("(being drained)")

    # The live answer goes on to its end, and the queue still waits.
    tab("Alice", narrow.room(first)).stop.click()
    expect(state).to_have_text("Draining 0 answers under way, 2 waiting")
    bob.stop.click()
    bob.until_ended().shows("Stopped by Bob")
    stands_at(alice, 1, HELD_UP)
    assert narrow.fake.posts == 1

    adas.page.get_by_role("button", name="Resume").click()

    alice.until_ended().shows("At last.")
    expect(bob.page.locator("#choice-note")).to_be_hidden()
    expect(alice.page.locator(".place")).to_have_count(0)
