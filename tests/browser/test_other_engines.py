"""The eight main flows in the engines of Safari and Firefox, one page each; Chromium has all flows."""

from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from tests.support.browser import streams
from tests.support.browser.engines import ENGINES
from tests.support.browser.seed import PASSWORD
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.processes.site import soon
from tests.support.upstream.script import Pause, Script

HAS_ENDED = """
const answer = [...document.querySelectorAll("#turns .answer")].at(-1);
const footer = document.querySelector("#turns > article:last-of-type footer");
return Boolean(answer && footer) && !answer.hasAttribute("data-live");
"""
ANSWER = "return [...document.querySelectorAll('#turns .answer')].at(-1)?.textContent ?? '';"
IS_AT_END = """
const page = document.scrollingElement;
const isFar = page.scrollHeight > 2 * page.clientHeight;
return isFar && page.scrollHeight - page.clientHeight - page.scrollTop < 48;
"""
# Like a scroll bar that is pulled: a single jump right after a change may be the page's own.
PULL_UP = """
let moves = 0;
const pulling = setInterval(() => {
  scrollTo(0, 400);
  if (++moves === 100) clearInterval(pulling);
}, 5);
"""
WATCH_ERRORS = """
window.errors = [];
addEventListener("error", event => window.errors.push(event.message));
addEventListener("unhandledrejection", event => window.errors.push(String(event.reason)));
addEventListener("securitypolicyviolation", event => window.errors.push(event.violatedDirective));
"""


class Page:
    """One window of another engine, in which Alice is signed in."""

    def __init__(self, driver: WebDriver, site: BrowserSite) -> None:
        self.driver = driver
        self.site = site

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def sign_in(self) -> None:
        self.driver.get(f"{self.site.url}/static/favicon.svg")
        self.driver.delete_all_cookies()
        self.driver.add_cookie({"name": "sessionid", "value": self.site.world.sessions["Alice"]})

    def open(self, path: str) -> None:
        self.driver.get(f"{self.site.url}{path}")
        # On a busy machine WebKit's driver returns before the scripts of the page have run, and keys
        # that are pressed by then are lost.
        soon(lambda: self.run("return document.readyState") == "complete")
        self.run(WATCH_ERRORS)

    def write(self, text: str) -> None:
        composer = self.find("#text")
        composer.send_keys(text)
        composer.send_keys(Keys.ENTER)

    def find(self, selector: str) -> Any:
        soon(lambda: self.count(selector))
        return self.driver.find_element("css selector", selector)

    def count(self, selector: str) -> int:
        return len(self.driver.find_elements("css selector", selector))

    def press(self, *keys: str) -> None:
        chain = ActionChains(self.driver)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in keys[:-1]:
            chain.key_up(key)
        chain.perform()

    def shows(self, text: str) -> None:
        # Firefox returns nothing from a script that is overtaken by a navigation.
        soon(lambda: text in (self.run(ANSWER) or ""))

    def until_ended(self) -> None:
        soon(lambda: self.run(HAS_ENDED))

    @property
    def errors(self) -> list[str]:
        return list(self.run("return window.errors ?? [];"))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("webkit", marks=pytest.mark.needs("webkit", "xvfb")),
        pytest.param("firefox", marks=pytest.mark.needs("firefox")),
    ],
)
def driver(request: pytest.FixtureRequest) -> Iterator[WebDriver]:
    with ENGINES[request.param]() as driver:
        driver.set_window_rect(0, 0, 1280, 900)
        yield driver


@pytest.fixture
def page(driver: WebDriver, site: BrowserSite) -> Iterator[Page]:
    page = Page(driver, site)
    page.sign_in()
    yield page
    assert page.errors == []


def test_sign_in(page: Page, request: pytest.FixtureRequest) -> None:
    agent = page.run("return navigator.userAgent")
    assert {"webkit": "AppleWebKit", "firefox": "Gecko/"}[request.node.callspec.id] in agent
    assert "Chrom" not in agent
    page.driver.delete_all_cookies()
    page.open("/")

    page.find("input[name=login]").send_keys("alice@example.org")
    page.find("input[name=password]").send_keys(PASSWORD + Keys.ENTER)

    soon(lambda: page.count("#text"))
    assert page.driver.current_url == f"{page.site.url}/"


def test_message_is_answered_live(page: Page) -> None:
    page.site.fake.script(streams.telling("One, ", gate("middle"), "two **three**."))
    page.open("/")

    page.write("Count.")

    page.shows("One,")
    page.site.fake.release("middle")
    page.shows("One, two three.")
    page.until_ended()
    assert page.count("#turns .answer strong") == 1


def test_reload_in_mid_answer(page: Page) -> None:
    page.site.fake.script(streams.telling("Before, ", gate("middle"), "after."))
    run = page.site.send("Tell us.")
    page.open(page.site.room(run))
    page.shows("Before,")

    page.driver.refresh()
    page.run(WATCH_ERRORS)

    page.shows("Before,")
    page.site.fake.release("middle")
    page.shows("Before, after.")
    page.until_ended()


def long_answer() -> Script:
    """Comes in patches of their own, so that the page grows and shrinks by blocks."""
    paragraphs = [streams.say(f"Paragraph {n}, {'and more ' * (n % 23)}\n\n") for n in range(160)]
    pauses = [Pause(seconds=0.02)] * len(paragraphs)
    parts = [part for both in zip(paragraphs, pauses, strict=True) for part in both]
    middle = len(parts) // 2
    return streams.scripted(
        *(streams.BEGINNING, streams.open_item("message")),
        *(*parts[:middle], gate("middle"), *parts[middle:]),
        *(streams.close_item("message"), streams.end()),
    )


def test_end_and_place_are_kept_over_reloads(page: Page) -> None:
    page.site.fake.script(long_answer())
    page.open(page.site.room(page.site.send("Tell us.")))
    page.shows("Paragraph 10,")

    page.driver.refresh()
    page.shows("Paragraph 79,")
    soon(lambda: page.run(IS_AT_END))
    page.site.fake.release("middle")
    page.until_ended()
    soon(lambda: page.run(IS_AT_END))

    page.driver.refresh()
    page.until_ended()
    soon(lambda: page.run(IS_AT_END))
    page.run(PULL_UP)
    soon(lambda: page.run("return !document.getElementById('to-end').hidden && scrollY === 400"))
    page.driver.refresh()
    page.run(WATCH_ERRORS)
    page.until_ended()
    soon(lambda: page.run("return scrollY === 400"))


def test_stop_keeps_the_text(page: Page) -> None:
    page.site.fake.script(streams.telling("Half of it", streams.hang()))
    run = page.site.send("Tell us.")
    page.open(page.site.room(run))
    page.shows("Half of it")

    page.find("[data-stop]").click()

    page.shows("Stopped by Alice")
    page.shows("Half of it")
    assert page.site.until_ended(run)["status"] == "stopped"


def test_colleague_is_seen_live(page: Page) -> None:
    page.site.fake.script(streams.telling("Done."))
    run = page.site.send("Tell us.", by="Bob")
    page.open(page.site.room(run))
    page.until_ended()

    page.site.post("Bob", f"{page.site.room(run)}rename/", title="Renamed by Bob")

    soon(lambda: "Renamed by Bob" in page.driver.title)
    assert (
        page.run("return document.querySelector('#room-head h1').textContent") == "Renamed by Bob"
    )


def test_tool_card_opens(page: Page) -> None:
    arguments = {"station": "Mill Bridge"}
    page.site.fake.script(
        streams.scripted(
            streams.BEGINNING,
            streams.call("read_gauge", arguments, '{"level_m": 2.31}'),
            streams.end(),
        )
    )
    run = page.site.send("How high?")
    page.open(page.site.room(run))
    page.until_ended()

    page.find("#turns details.tool > summary").click()

    page.shows("2.31")


def test_search_palette(page: Page) -> None:
    page.site.fake.script(streams.telling("Yes."))
    run = page.site.send("Willows in autumn")
    page.site.until_ended(run)
    page.open("/")

    page.press(Keys.CONTROL, "k")
    page.find("#palette input:focus").send_keys("willows")

    # Those for the first letters may be shown before.
    page.find("#palette-found > [data-query=willows] a.is-active")
    page.press(Keys.ENTER)
    soon(lambda: page.driver.current_url.endswith(page.site.room(run)))
