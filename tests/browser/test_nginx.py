"""Answers through a real nginx, however it is set up, and what the self-test page says about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import People
from tests.browser.test_survival import assert_whole, counting
from tests.support.browser import streams
from tests.support.browser.nginx import Nginx
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.processes.site import World, site_from

pytestmark = pytest.mark.needs("nginx")

PATIENCE_MS = 60_000
STREAMING = "/settings/streaming/"


@pytest.fixture(scope="module")
def nginx(seeded: tuple[Path, World], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    folder, world = seeded
    place = tmp_path_factory.mktemp("nginx")
    with site_from(folder, place / "data", world, kind=BrowserSite) as site:
        nginx = Nginx.before(site, place)
        origins = [f"http://127.0.0.1:{port}" for port in (site.port, *nginx.ports)]
        site.start(LIVE_ORIGINS=",".join(origins))
        nginx.start()
        yield nginx
        nginx.stop()


@pytest.fixture(autouse=True)
def _settled(nginx: Nginx) -> Iterator[None]:
    yield
    nginx["careless"].settle()


# --- conversations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "by_stream", "in_steps"),
    [
        ("careless_with_websockets", False, False),
        # X-Accel-Buffering: no is what lets it through.
        ("careless", True, False),
        ("ignoring", True, True),
    ],
)
def test_an_answer_is_live_however_nginx_is_set_up(
    nginx: Nginx, people: People, name: str, by_stream: bool, in_steps: bool
) -> None:
    way = nginx[name]
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    alice = people.tab(way, "Alice", way.room(run))
    carrier = alice.page.locator("#carrier")

    expect(alice.answer).to_contain_text("One,", timeout=PATIENCE_MS)
    if by_stream:
        expect(carrier).to_be_visible(timeout=PATIENCE_MS)
    way.fake.release("first")
    alice.shows("two,")
    way.fake.release("second")

    assert_whole(alice)
    expect(carrier).to_be_visible(visible=by_stream)
    if in_steps:
        expect(carrier).to_have_class(re.compile("is-in-steps"))


@pytest.mark.parametrize("name", ["careless", "unbuffered", "compressing"])
def test_a_program_s_stream_comes_as_it_is_written(nginx: Nginx, name: str) -> None:
    way = nginx[name]
    way.fake.script(streams.telling(*counting()))
    run = way.send("Count.")
    events = f"{way.url}/api/v1/runs/{run}/events"

    with httpx.stream("GET", events, headers=way.headers("Alice"), timeout=60, trust_env=False) as (
        response
    ):
        lines = response.iter_lines()
        # The model says nothing more until it is let: what comes before came by itself.
        assert any("One, " in line for line in lines)
        way.fake.release("first")
        assert any("two, " in line for line in lines)
        way.fake.release("second")
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
        tab.button("Measure again").click()
        verdict = measured(tab)
    expect(verdict.locator("h2")).to_have_text(title)
    return verdict


VERDICTS = [
    ("unbuffered", "Answers arrive live", "get through, word by word"),
    ("careless_with_websockets", "Answers arrive live", "get through, word by word"),
    ("careless", "Websockets do not get through", "fall back to a plain stream"),
    (
        "ignoring_with_websockets",
        "Conversations are live, plain streams are not",
        "collects an answer before it passes it on",
    ),
    ("ignoring", "Answers do not arrive live", "go on in steps"),
]


@pytest.mark.parametrize(("name", "title", "text"), VERDICTS, ids=[row[0] for row in VERDICTS])
def test_the_self_test_says_what_nginx_does(
    nginx: Nginx, people: People, name: str, title: str, text: str
) -> None:
    tab = people.tab(nginx[name], "Vera", STREAMING)

    verdict = until_it_says(tab, title)

    expect(verdict).to_contain_text(text)
    expect(tab.page.locator("#test-stream .figures")).to_contain_text("Server: nginx/")
    expect(tab.page.locator("#test-stream .figures")).to_contain_text("20 of 20")
    is_good = title == "Answers arrive live"
    expect(tab.page.locator("details[data-proxy=nginx]")).to_have_js_property("open", not is_good)
    if not is_good:
        expect(verdict).to_contain_text("The lines that nginx needs are below.")


def test_the_lines_that_it_gives_out_are_what_nginx_needs(
    nginx: Nginx, people: People, tmp_path: Path
) -> None:
    before = nginx["careless"]
    tab = people.tab(before, "Vera", STREAMING)
    lines = tab.page.locator("#recipe-nginx").text_content() or ""
    tab.page.close()
    assert f"proxy_pass http://127.0.0.1:{before.site_port};" in lines

    mended = Nginx.by_recipe(lines, before, tmp_path, port=nginx.spare_port)
    mended.start()
    try:
        until_it_says(people.tab(mended["recipe"], "Vera", STREAMING), "Answers arrive live")
    finally:
        mended.stop()


def test_the_nginx_of_the_deployment_lets_everything_through(
    nginx: Nginx, people: People, tmp_path: Path
) -> None:
    way = nginx["careless"]
    deployed = Nginx.deployed(way, tmp_path, port=nginx.spare_port)
    deployed.start()
    try:
        until_it_says(people.tab(deployed["deployed"], "Vera", STREAMING), "Answers arrive live")
        way.fake.script(streams.telling(*counting()))
        run = way.send("Count.")
        alice = people.tab(deployed["deployed"], "Alice", way.room(run)).shows("One,")
        way.fake.release("first")
        alice.shows("two,")
        way.fake.release("second")
        assert_whole(alice)
        expect(alice.page.locator("#carrier")).to_be_hidden()
    finally:
        deployed.stop()


def test_compression_is_named(nginx: Nginx, people: People) -> None:
    tab = people.tab(nginx["compressing"], "Vera", STREAMING)

    measured(tab)

    expect(tab.page.locator("#test-stream .figures")).to_contain_text("gzip")


def test_a_proxy_that_cuts_quiet_connections_is_found_out(nginx: Nginx, people: People) -> None:
    tab = people.tab(nginx["impatient"], "Vera", STREAMING)
    measured(tab)

    tab.button("Test quiet connections").click()

    result = tab.page.locator("#quiet-result")
    expect(result).to_contain_text("The websocket was cut after", timeout=PATIENCE_MS)
    expect(result).to_contain_text("The plain stream was cut after")
    expect(result).to_contain_text("proxy_read_timeout")
