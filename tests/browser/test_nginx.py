"""Answers through a real nginx in several configurations, and what the self-test says about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.interruptions import assert_whole, counting
from tests.support.browser.nginx import Nginx
from tests.support.browser.people import People
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

pytestmark = pytest.mark.needs("nginx")

PATIENCE_MS = 60_000
STREAMING = "/settings/streaming/"


@pytest.fixture(scope="module")
def running_nginx(
    shared_site: BrowserSite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nginx]:
    nginx = Nginx.before(shared_site, tmp_path_factory.mktemp("nginx"))
    nginx.start()
    yield nginx
    nginx.stop()


@pytest.fixture
def nginx(site: BrowserSite, running_nginx: Nginx) -> Nginx:
    """In front of the shared site."""
    return running_nginx


# --- conversations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "is_plain"),
    [
        ("careless_with_websockets", False),
        # `X-Accel-Buffering: no` lets the stream through.
        ("careless", True),
    ],
)
def test_answer_is_live_behind_nginx(
    nginx: Nginx, people: People, name: str, is_plain: bool
) -> None:
    address = nginx[name]
    address.fake.script(streams.telling(*counting()))
    run = address.send("Count.")
    alice = people.tab(address, "Alice", address.room(run))
    carrier = alice.page.locator("#carrier")

    alice.shows("One,")
    if is_plain:
        expect(carrier).to_be_visible(timeout=PATIENCE_MS)
    address.fake.release("first")
    alice.shows("two,")
    address.fake.release("second")

    assert_whole(alice)
    expect(carrier).to_be_visible(visible=is_plain)


def test_answer_comes_in_steps_where_nginx_buffers(nginx: Nginx, people: People) -> None:
    address = nginx["ignoring"]
    address.fake.script(streams.telling(*counting()))
    run = address.send("Count.")
    alice = people.tab(address, "Alice", has_clock=True)
    requests: list[str] = []
    alice.on("request", lambda request: requests.append(request.url))
    alice.open(address.room(run)).shows("One,")

    def goes_in_steps() -> bool:
        # The first message of the stream never comes: nginx buffers it.
        alice.page.clock.fast_forward(1_000)
        return any("/live/stream/" in url and "wait=" in url for url in requests)

    alice.until(goes_in_steps, "it asks for a step")
    address.fake.release("first")
    alice.shows("two,")
    address.fake.release("second")

    assert_whole(alice)
    carrier = alice.page.locator("#carrier")
    alice.page.clock.fast_forward(3_000)
    expect(carrier).to_be_visible()
    expect(carrier).to_have_class(re.compile("is-in-steps"))


@pytest.mark.parametrize("name", ["careless", "unbuffered", "compressing"])
def test_api_stream_is_not_buffered(nginx: Nginx, name: str) -> None:
    address = nginx[name]
    address.fake.script(streams.telling(*counting()))
    run = address.send("Count.")
    events = f"{address.url}/api/v1/runs/{run}/events"

    with httpx.stream(
        "GET", events, headers=address.headers("Alice"), timeout=60, trust_env=False
    ) as response:
        lines = response.iter_lines()
        # The model says nothing more until a gate opens: what comes before came by itself.
        assert any("One, " in line for line in lines)
        address.fake.release("first")
        assert any("two, " in line for line in lines)
        address.fake.release("second")
        assert any("chat.end" in line for line in lines)


# --- the self-test ------------------------------------------------------------------------------


def measured(tab: Tab) -> Locator:
    verdict = tab.page.locator("#verdict")
    expect(verdict).not_to_have_attribute("data-state", "running", timeout=PATIENCE_MS)
    return verdict


def until_it_says(tab: Tab, title: str) -> Locator:
    """A busy machine may delay events as a proxy would: then it is measured again."""
    verdict = measured(tab)
    for _ in range(10):
        if verdict.locator("h2").inner_text() == title:
            break
        tab.button("Test again").click()
        verdict = measured(tab)
    expect(verdict.locator("h2")).to_have_text(title)
    return verdict


VERDICTS = [
    ("unbuffered", "Answers stream live", "word by word over both"),
    ("careless_with_websockets", "Answers stream live", "word by word over both"),
    ("careless", "WebSockets are blocked", "fall back to an event stream"),
    (
        "ignoring_with_websockets",
        "Conversations are live, but event streams aren’t",
        "buffers responses",
    ),
    ("ignoring", "Answers don’t stream live", "update in bursts"),
]


# The server lets each person measure twice at a time.
MEASURERS = ("Vera", "Bob", "Alice", "Ada", "Charlie")


def test_self_test_names_what_nginx_does(
    nginx: Nginx, people: People, subtests: pytest.Subtests
) -> None:
    # A measurement takes two seconds, so all of them run at the same time.
    tabs = [
        people.tab(nginx[name], person, STREAMING)
        for person, (name, _, _) in zip(MEASURERS, VERDICTS, strict=True)
    ]

    for tab, (name, title, text) in zip(tabs, VERDICTS, strict=True):
        with subtests.test(msg=name), people.screenshots_on_failure(name):
            verdict = until_it_says(tab, title)

            expect(verdict).to_contain_text(text)
            figures = tab.page.locator("#test-stream .figures")
            expect(figures).to_contain_text("Server: nginx/")
            expect(figures).to_contain_text("20 of 20")
            is_good = title == "Answers stream live"
            recipe = tab.page.locator("details[data-proxy=nginx]")
            expect(recipe).to_have_js_property("open", not is_good)
            if not is_good:
                expect(verdict).to_contain_text("The lines that nginx needs are below.")


@pytest.fixture
def spare_port(shared_site: BrowserSite) -> int:
    """For another nginx in front of the same site."""
    return shared_site.proxy_ports[-1]


def test_suggested_nginx_lines_work(
    nginx: Nginx, people: People, tmp_path: Path, spare_port: int
) -> None:
    before = nginx["careless"]
    tab = people.tab(before, "Vera", STREAMING)
    lines = tab.page.locator("#recipe-nginx").text_content() or ""
    tab.page.close()
    assert f"proxy_pass http://127.0.0.1:{before.site_port};" in lines

    mended = Nginx.by_recipe(lines, before, tmp_path, port=spare_port)
    mended.start()
    try:
        until_it_says(people.tab(mended["recipe"], "Vera", STREAMING), "Answers stream live")
    finally:
        mended.stop()


def test_deployed_nginx_lets_everything_through(
    nginx: Nginx, people: People, tmp_path: Path, spare_port: int
) -> None:
    address = nginx["careless"]
    deployed = Nginx.deployed(address, tmp_path, port=spare_port)
    deployed.start()
    try:
        until_it_says(people.tab(deployed["deployed"], "Vera", STREAMING), "Answers stream live")
        address.fake.script(streams.telling(*counting()))
        run = address.send("Count.")
        alice = people.tab(deployed["deployed"], "Alice", address.room(run)).shows("One,")
        address.fake.release("first")
        alice.shows("two,")
        address.fake.release("second")
        assert_whole(alice)
        expect(alice.page.locator("#carrier")).to_be_hidden()
    finally:
        deployed.stop()


def test_self_test_names_compression(nginx: Nginx, people: People) -> None:
    tab = people.tab(nginx["compressing"], "Vera", STREAMING)

    measured(tab)

    expect(tab.page.locator("#test-stream .figures")).to_contain_text("gzip")


def test_self_test_finds_cut_idle_connections(nginx: Nginx, people: People) -> None:
    tab = people.tab(nginx["impatient"], "Vera", STREAMING)
    measured(tab)

    tab.button("Test idle connections").click()

    result = tab.page.locator("#quiet-result")
    expect(result).to_contain_text("The WebSocket was cut off after", timeout=PATIENCE_MS)
    expect(result).to_contain_text("The event stream was cut off after")
    expect(result).to_contain_text("proxy_read_timeout")
