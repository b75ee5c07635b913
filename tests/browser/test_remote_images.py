"""Images on other hosts: fetched by the server, and only when a person asks for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.answers import png
from tests.support.browser import streams
from tests.support.browser.people import People
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.processes.site import World, site_from
from tests.support.remote_host import RemoteHost


@pytest.fixture(scope="module")
def running_host() -> Iterator[RemoteHost]:
    with RemoteHost() as host:
        yield host


@pytest.fixture(scope="module")
def running_site(
    seeded: tuple[Path, World], running_host: RemoteHost, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserSite]:
    """A site that may fetch images from the host on this machine."""
    folder, world = seeded
    data = tmp_path_factory.mktemp("images") / "data"
    with site_from(folder, data, world, kind=BrowserSite) as site:
        site.is_shared = True
        site.start(PICTURE_PRIVATE_NETWORKS=running_host.network)
        yield site


@pytest.fixture
def image_site(running_site: BrowserSite) -> Iterator[BrowserSite]:
    yield running_site
    running_site.settle()


@pytest.fixture
def host(running_host: RemoteHost) -> RemoteHost:
    """The host, without any requests yet."""
    running_host.requests.clear()
    return running_host


def test_remote_image_is_loaded_on_request_by_the_server(
    image_site: BrowserSite, people: People, host: RemoteHost
) -> None:
    address = host.serve("/map.png", png(320, 180))
    text = f"Here:\n\n![A map]({address})\n\nand ![gone]({host.url}/gone.png).\n\n"
    image_site.fake.script(
        streams.telling(text, gate("more"), f"Again: ![A map]({address})\n\nEnd.")
    )
    room = image_site.room(image_site.send("A map."))
    alice = people.tab(image_site, "Alice", room).shows("gone")
    asked: list[str] = []
    alice.on("request", lambda request: asked.append(request.url))
    shown = alice.answer.locator("img.from-elsewhere")
    show = alice.answer.get_by_role("button", name="Show image")
    expect(show).to_have_count(2)
    alice.page.wait_for_timeout(300)
    assert host.requests == []

    show.first.press("Enter")
    expect(shown).to_have_count(1)
    assert shown.evaluate("img => img.decode().then(() => img.naturalWidth)") == 320
    expect(alice.answer.get_by_role("link", name="Image: A map").first).to_be_focused()
    image_site.fake.release("more")
    alice.shows("End.").until_ended()
    expect(shown).to_have_count(2)
    live = alice.normalized()
    alice.reload()
    expect(shown).to_have_count(2)
    assert live == alice.normalized()

    show.click()
    expect(alice.answer.get_by_role("button", name="Couldn’t load")).to_be_visible()
    bob = people.tab(image_site, "Bob", room)
    expect(bob.answer.locator("img.from-elsewhere")).to_have_count(2)
    assert host.paths == ["/map.png", "/gone.png"]
    assert not [url for url in asked if not url.startswith((image_site.url, "data:", "blob:"))]


def test_stored_image_is_requested_again_after_a_failure(
    image_site: BrowserSite, people: People, host: RemoteHost
) -> None:
    address = host.serve("/chart.png", png(320, 180))
    image_site.fake.script(
        streams.telling(f"Here: ![A map]({address})\n\n", gate("more"), f"![A map]({address})\n\n")
    )
    room = image_site.room(image_site.send("A map."))
    alice = people.tab(image_site, "Alice", room)
    alice.answer.get_by_role("button", name="Show image").click()
    expect(alice.answer.locator("img.from-elsewhere")).to_have_count(1)
    bob = people.tab(image_site, "Bob")
    bob.page.route("**/pictures/", lambda route: route.abort())
    with bob.page.expect_event("requestfailed", lambda each: each.url.endswith("/pictures/")):
        bob.open(room)
    bob.page.unroute_all()

    image_site.fake.release("more")
    bob.until_ended()

    # The request for the first image had failed.
    expect(bob.answer.locator("img.from-elsewhere")).to_have_count(1)
    assert host.paths == ["/chart.png"]
