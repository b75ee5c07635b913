"""A picture that an answer names: asked for by nobody until a person wants it, and then by us."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Request, expect

from tests.browser.conftest import People
from tests.files.conftest import png
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.remote_host import Elsewhere


@pytest.fixture
def host() -> Iterator[Elsewhere]:
    with Elsewhere() as host:
        yield host


def test_a_picture_is_shown_when_a_person_wants_it_and_no_browser_asks_its_host(
    own_site: BrowserSite, people: People, host: Elsewhere
) -> None:
    own_site.start(PICTURE_PRIVATE_NETWORKS=host.network)
    address = host.puts("/map.png", png(320, 180))
    text = f"Here:\n\n![A map]({address})\n\nand ![gone]({host.url}/gone.png).\n\n"
    own_site.fake.script(streams.telling(text, gate("more"), f"Again: ![A map]({address})\n\nEnd."))
    room = own_site.room(own_site.send("A map."))
    alice = people.tab(own_site, "Alice", room).shows("gone")
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    alice.page.on("request", note)
    shown = alice.answer.locator("img.from-elsewhere")
    show = alice.answer.get_by_role("button", name="Show the picture")
    expect(show).to_have_count(2)
    alice.page.wait_for_timeout(300)
    assert host.asked == []

    show.first.press("Enter")
    expect(shown).to_have_count(1)
    assert shown.evaluate("img => img.decode().then(() => img.naturalWidth)") == 320
    expect(alice.answer.get_by_role("link", name="Image: A map").first).to_be_focused()
    own_site.fake.release("more")
    alice.shows("End.").until_ended()
    expect(shown).to_have_count(2)
    live = alice.normalised()
    alice.reload()
    expect(shown).to_have_count(2)
    assert live == alice.normalised()

    show.click()
    expect(alice.answer.get_by_role("button", name="It cannot be shown")).to_be_visible()
    bob = people.tab(own_site, "Bob", room)
    expect(bob.answer.locator("img.from-elsewhere")).to_have_count(2)
    assert host.paths == ["/map.png", "/gone.png"]
    assert not [url for url in asked if not url.startswith((own_site.url, "data:", "blob:"))]


def test_what_is_here_already_is_asked_for_again_after_a_failure(
    own_site: BrowserSite, people: People, host: Elsewhere
) -> None:
    own_site.start(PICTURE_PRIVATE_NETWORKS=host.network)
    address = host.puts("/map.png", png(320, 180))
    own_site.fake.script(
        streams.telling(f"Here: ![A map]({address})\n\n", gate("more"), f"![A map]({address})\n\n")
    )
    room = own_site.room(own_site.send("A map."))
    alice = people.tab(own_site, "Alice", room)
    alice.answer.get_by_role("button", name="Show the picture").click()
    expect(alice.answer.locator("img.from-elsewhere")).to_have_count(1)
    bob = people.tab(own_site, "Bob")
    bob.page.route("**/pictures/", lambda route: route.abort())
    with bob.page.expect_event("requestfailed", lambda each: each.url.endswith("/pictures/")):
        bob.open(room)
    bob.page.unroute_all()

    own_site.fake.release("more")
    bob.until_ended()

    # The first one was looked for in vain.
    expect(bob.answer.locator("img.from-elsewhere")).to_have_count(1)
    assert host.paths == ["/map.png"]
