"""Every page in every look: axe finds nothing serious. In the scenes of the demo: `test_scenes`."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenTab, People
from tests.browser.test_policy import PARTS, Made, all_routes, is_entrance
from tests.browser.test_scenes import Scene, SceneSite
from tests.browser.test_scenes import scenes as scenes
from tests.support.browser import streams
from tests.support.browser.looks import DESKTOP, LOOKS, TWO_LOOKS, found_in, unfold
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab


@pytest.fixture(scope="module")
def made(shared_site: BrowserSite) -> Iterator[Made]:
    made = Made(shared_site)
    yield made
    made.unmake()


# Lists and forms of the administration are alike: one sheet colours them all.
ALIKE = re.compile(r"admin/chat/(?!(conversation|run)/<path:object_id>/change/)")


@pytest.mark.parametrize("first", range(PARTS))
def test_no_page_has_a_serious_finding(
    site: BrowserSite, people: People, made: Made, first: int
) -> None:
    tabs = {name: people.tab(site, name) for name in ("", "Ada")}
    found: list[str] = []
    for route in all_routes()[first::PARTS]:
        tab = tabs["" if is_entrance(route) else "Ada"]
        address = made.address(route)
        answer = tab.page.request.get(site.url + address)
        if not is_page(answer.text()):
            continue
        tab.open(address)
        unfold(tab.page)
        found += found_in(tab.page, TWO_LOOKS if ALIKE.match(route) else LOOKS)

    assert not found, "\n".join(found)


def is_page(text: str) -> bool:
    """Parts of pages are looked at where they stand."""
    return text.lstrip().lower().startswith("<!doctype html")


MENUS = ("Rename, share, delete", "Parameters and system prompt", "settings and sign out")


def test_what_opens_over_a_room_has_no_serious_finding(site: BrowserSite, tab: OpenTab) -> None:
    run = site.send("What is there?")
    site.until_ended(run)
    ada = tab("Ada", site.room(run))
    found: list[str] = []

    for label in MENUS:
        ada.page.locator(f"summary[aria-label='{label}'], summary:has-text('{label}')").click()
        found += found_in(ada.page, [(DESKTOP, "dark")])
        ada.page.keyboard.press("Escape")
    ada.composer.evaluate("text => text.blur()")
    ada.page.keyboard.press("?")
    expect(ada.page.locator("#keys")).to_be_visible()
    found += found_in(ada.page, TWO_LOOKS)
    ada.page.keyboard.press("Escape")
    ada.page.locator("#to-people").click()
    expect(ada.page.locator("#panel-title")).to_be_focused()
    found += found_in(ada.page, TWO_LOOKS)

    assert not found, "\n".join(found)


# --- what a screen reader hears ---------------------------------------------------------------

# What is in a region after each change, and when it came. An observer is told only when the task that
# changed it is over, which on a busy page is some milliseconds later.
LISTEN = """() => {
  window.heard = [];
  for (const id of ["polite", "assertive"]) {
    const region = document.getElementById(id);
    let at;
    region.replaceChildren = (...nodes) => {
      at = performance.now();
      Element.prototype.replaceChildren.apply(region, nodes);
    };
    new MutationObserver(() => window.heard.push([id, region.textContent, at ?? performance.now()]))
      .observe(region, {childList: true, characterData: true, subtree: true});
  }
}"""


def heard(tab: Tab, region: str = "polite") -> list[str]:
    return [text for id, text, _ in tab.page.evaluate("() => window.heard") if id == region]


def test_a_whole_run_of_the_demo_is_told_in_a_few_sentences(
    scenes: SceneSite, people: People
) -> None:
    first = scenes.ask(Scene("lmstudio", "demo-reasoner", "Hello."))
    scenes.until_ended(first)
    alice = people.tab(scenes, "Alice", scenes.room(first)).until_ended()
    alice.page.evaluate(LISTEN)

    alice.write("Use a tool, with one that fails.")
    alice.until(lambda: "complete" in "".join(heard(alice)), "the end is said")
    alice.until_ended()

    said = heard(alice)
    tools = [sentence for sentence in said if sentence.startswith("Tool ")]
    names = alice.answer.locator(".tool .name").all_text_contents()
    assert said[0].startswith("Answer started, ")
    assert re.fullmatch(
        r"Answer complete, [\d,]+ words\. Press g, then n to read it\.", said[-1]
    ), said
    # What ends at once is not said to have begun.
    assert [one for one in tools if not one.endswith(" started")] == [
        f"Tool {names[0]} finished",
        f"Tool {names[1]} failed",
    ]
    assert len(set(tools)) == len(tools)
    # Phases, of which none comes twice in a row, and progress.
    others = [sentence for sentence in said[1:-1] if sentence not in tools]
    assert len(others) <= 10
    assert all(one != two for one, two in pairwise(said))
    assert heard(alice, "assertive") == []
    assert_apart(alice)


def test_a_tool_is_said_to_begin_and_to_end_once_each(site: BrowserSite, tab: OpenTab) -> None:
    arguments = {"at": "mill"}
    begun, done = streams.call("gauge", arguments), streams.succeed("gauge", arguments, "2 m")
    words = [streams.open_item("message"), streams.say("Two."), streams.close_item("message")]
    whole = [streams.BEGINNING, begun, streams.gate("done"), done, words, streams.end()]
    site.fake.script(streams.telling("First."), streams.scripted(*whole))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()
    alice.page.evaluate(LISTEN)
    alice.write("How high is it?")
    alice.until(lambda: "Tool gauge started" in heard(alice), "the beginning is said")

    site.fake.release("done")

    alice.until(lambda: "complete" in "".join(heard(alice)), "the end is said")
    tools = [sentence for sentence in heard(alice) if sentence.startswith("Tool ")]
    assert tools == ["Tool gauge started", "Tool gauge finished"]
    assert_apart(alice)


def assert_apart(tab: Tab) -> None:
    """At least half a second between any two sentences of a region."""
    for region in ("polite", "assertive"):
        at = [moment for id, _, moment in tab.page.evaluate("() => window.heard") if id == region]
        assert all(later - earlier >= 490 for earlier, later in pairwise(at)), at


def test_an_error_and_a_question_are_told_at_once(scenes: SceneSite, people: People) -> None:
    asking = scenes.ask(Scene("xerotier", "demo-question", "Help me."))
    scenes.until_ended(asking)
    asked = people.tab(scenes, "Alice", scenes.room(asking))
    expect(asked.page.locator(".ask-open").first).to_be_visible()
    asked.page.evaluate(LISTEN)
    asked.button("Try again").click()
    asked.until(lambda: heard(asked, "assertive"), "the question is said")
    failing = scenes.ask(Scene("lmstudio", "demo-writer", "Hello."))
    scenes.until_ended(failing)
    failed = people.tab(scenes, "Alice", scenes.room(failing)).until_ended()
    failed.page.evaluate(LISTEN)
    failed.write("error")
    failed.until(lambda: heard(failed, "assertive"), "the error is said")

    assert heard(asked, "assertive") == ["A question needs an answer."]
    assert len(heard(failed, "assertive")) == 1
    assert "complete" not in "".join(heard(failed))


def test_a_long_silence_is_broken_by_a_word(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Half", streams.hang()))
    alice = tab("Alice")
    alice.page.clock.install()
    alice.open(site.room(site.send("Tell us."))).until_ended()
    alice.page.evaluate(LISTEN)
    alice.write("Go on")
    alice.shows("Half")
    alice.page.clock.run_for(2_000)
    alice.until(lambda: "Writing" in heard(alice), "the phase is said")

    alice.page.clock.run_for(60_000)

    # After ten seconds, and then after twice as long.
    assert heard(alice).count("Still writing") == 2
