"""An answer that waits twice, for tests that interrupt what carries it."""

from playwright.sync_api import expect

from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab
from tests.support.upstream.script import Gate

# A script that sets whether the browser tells the page that it is hidden behind another one.
HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", {configurable: true, get: () => isHidden});
  Object.defineProperty(document, "visibilityState",
    {configurable: true, get: () => isHidden ? "hidden" : "visible"});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def counting() -> tuple[str | Gate, ...]:
    return "One, ", gate("first"), "two, ", gate("second"), "three."


def assert_whole(tab: Tab) -> None:
    """Nothing is missing or there twice."""
    tab.until_ended()
    expect(tab.answer.locator(".message")).to_have_text("One, two, three.")
