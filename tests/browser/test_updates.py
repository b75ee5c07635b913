"""The end of an answer comes with the live connection: nobody's page asks for anything."""

from uuid import uuid4

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab
from tests.support.selection import sample

# What a page shows around its answers, without the values that differ each time.
SHOWN = """() => {
  const parts = ["room-head", "turns", "strip", "composer-slot", "conversations"];
  return parts.flatMap(id => {
    const part = document.getElementById(id)?.cloneNode(true);
    if (!part) return id;
    for (const input of part.querySelectorAll("[name=csrfmiddlewaretoken], [name=key]")) input.setAttribute("value", "");
    for (const answer of part.querySelectorAll(".answer")) answer.replaceChildren();
    const left = ["data-seq", "data-check", "data-list-version", "data-shown", "data-unread", "data-htmx-powered", "data-is-ready", "data-state", "style"];
    for (const name of left) {
      for (const one of part.querySelectorAll(`[${name}]`)) one.removeAttribute(name);
      part.removeAttribute(name);
    }
    for (const each of part.querySelectorAll(".unread-word, .here-mark, .nav-count, #presence > *, .new-line")) each.remove();
    for (const one of part.querySelectorAll("[class='']")) one.removeAttribute("class");
    for (const one of part.querySelectorAll("*")) {
      const attributes = [...one.attributes].sort((a, b) => (a.name < b.name ? -1 : 1));
      for (const { name } of attributes) one.removeAttribute(name);
      for (const { name, value } of attributes) one.setAttribute(name, value);
    }
    return part.outerHTML.replace(/\\s+/g, " ").replace(/> </g, "><").split("><");
  });
}"""


# Alice owns what she begins, Bob may write in it, and Vera only reads.
PEOPLE = ("Alice", "Bob", "Vera")


def shown(tab: Tab) -> list[str]:
    return list(tab.page.evaluate(SHOWN))


def asked_of(tab: Tab) -> list[str]:
    """Fills with the addresses of the page's requests."""
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    return asked


@pytest.mark.smoke
def test_end_of_an_answer_needs_no_request(site: BrowserSite, tab: OpenTab) -> None:
    title = f"Tell us {uuid4().hex[:8]}."
    site.fake.script(
        *(streams.telling(f"{word}.") for word in ("First", "Another")),
        streams.telling("Last, ", gate("late"), "whole."),
    )
    run = site.send(title)
    tabs = [tab(name, site.room(run)).until_ended().until_live() for name in sample(PEOPLE, 2)]
    lines = [each.page.locator("#conversations [aria-current=page]") for each in tabs]
    alice = tabs[0]
    alice.write("One more.")
    for each, line in zip(tabs, lines, strict=True):
        expect(each.turns).to_have_count(4)
        each.until_ended()
        expect(line).to_have_attribute("data-revision", "5")
    asked = [asked_of(each) for each in tabs]

    alice.write("Go on.")
    for each, line in zip(tabs, lines, strict=True):
        each.shows("Last, ")
        expect(line.locator(".mark-running")).to_be_visible()
    site.fake.release("late")
    for each, line in zip(tabs, lines, strict=True):
        each.shows("Last, whole.").until_ended()
        expect(line.locator(".mark-running")).to_have_count(0)

    assert [url for each in asked for url in each if "/changes/" in url or "/list/" in url] == []
    for each in tabs:
        live = shown(each)
        assert live == shown(each.reload().until_live())
