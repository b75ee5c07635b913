"""The inbox: from a question that waits to its card; and what the list beside it marks."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenTab, People
from tests.runs.waiting import WEATHER, calling, saying
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

REFRESH_LIST = """() => htmx.ajax("GET", document.getElementById("room").dataset.list,
  {source: "#conversations", swap: "innerHTML"})"""

ANSWER_HAS_ENDED = (
    """() => document.querySelector("#turns > article:last-of-type .answer:not([data-live])")"""
)
# What two pages may still have to tell each other.
A_FEW_WRITES = 4
# A tab behind another one; the browser of the tests shows all of them.
LOOK_AWAY = """() => {
  Object.defineProperty(document, "hidden", { get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def own(own_site: BrowserSite) -> Iterator[BrowserSite]:
    """A site in which nothing waits yet, and whose server speaks a dialect that takes tools."""
    own_site.start()
    with own_site.speaking("openai_chat"):
        yield own_site


def waiting(site: BrowserSite) -> UUID:
    site.fake.script(calling(WEATHER), saying("It rains."))
    run = site.send("How is the weather?")
    assert site.until_ended(run)["status"] == "waiting"
    return run


def test_a_question_is_found_answered_and_gone(own: BrowserSite, people: People) -> None:
    bob = people.tab(own, "Bob", "/inbox/")
    expect(bob.page.get_by_role("heading", name="Nobody waits for you")).to_be_visible()
    expect(bob.page.locator(".nav-count")).to_have_count(0)
    waiting(own)
    bob.reload()
    expect(bob.page.locator(".nav-count")).to_contain_text("1")

    bob.page.locator(".inbox-link").click()
    card = bob.page.locator(".ask")
    expect(card).to_be_in_viewport()
    bob.page.get_by_label("Result", exact=True).fill("wet")
    bob.button("Give the result").click()
    bob.shows("It rains.").until_ended()

    # The list beside the room has noticed.
    expect(bob.page.locator(".nav-count")).to_have_count(0)
    bob.page.locator("#main").focus()
    bob.page.keyboard.press("g")
    bob.page.keyboard.press("i")
    expect(bob.page.get_by_role("heading", name="Nobody waits for you")).to_be_visible()


def test_a_viewer_has_nothing_to_answer(own: BrowserSite, people: People) -> None:
    waiting(own)

    vera = people.tab(own, "Vera", "/inbox/")

    expect(vera.page.get_by_role("heading", name="Nobody waits for you")).to_be_visible()
    expect(vera.page.locator(".nav-count")).to_have_count(0)


def unread(tab: Tab) -> list[str]:
    return tab.page.locator("#conversations a[data-unread]").evaluate_all(
        "links => links.map(link => link.title)"
    )


def test_what_is_new_is_marked_until_it_was_shown(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(*(streams.telling("So.") for _ in range(3)))
    first, second = site.send("The first one"), site.send("The second one")
    site.until_ended(second)
    alice = tab("Alice", site.room(first)).until_ended()
    assert unread(alice) == []

    bob = tab("Bob", site.room(second)).until_ended()
    bob.write("More")
    bob.until_ended()
    alice.page.evaluate(REFRESH_LIST)
    alice.until(lambda: unread(alice) == ["The second one"], "a mark")
    expect(alice.page.get_by_role("link", name="The second one")).to_contain_text(", new")

    alice.page.get_by_role("link", name="The second one").click()
    alice.page.wait_for_url(f"**{site.room(second)}")
    alice.until_ended()
    assert unread(alice) == []
    alice.open(site.room(first))
    assert unread(alice) == []


@pytest.fixture
def two_rooms(site: BrowserSite) -> tuple[str, str]:
    site.fake.script(*(streams.telling("So.") for _ in range(2)))
    runs = [site.send("Where one goes"), site.send("Where one was")]
    for run in runs:
        site.until_ended(run)
    return site.room(runs[0]), site.room(runs[1])


def see_the_end(tab: Tab) -> None:
    """Of an answer, and of nothing that comes behind it."""
    tab.page.wait_for_function(ANSWER_HAS_ENDED, polling=25)


def test_whoever_saw_the_end_and_left_at_once_finds_nothing_new(
    site: BrowserSite, tab: OpenTab, two_rooms: tuple[str, str]
) -> None:
    elsewhere, here = two_rooms
    site.fake.script(streams.telling("Going", streams.gate("end"), " on."))
    alice = tab("Alice", here).until_ended()
    alice.write("More").shows("Going")
    alice.hold("**/changes/")
    alice.hold("**/c/list/**")
    site.fake.release("end")
    see_the_end(alice)

    alice.open(elsewhere)

    assert unread(alice) == []
    alice.reload()
    assert unread(alice) == []


def test_what_came_behind_the_end_that_was_seen_is_new(
    site: BrowserSite, tab: OpenTab, two_rooms: tuple[str, str]
) -> None:
    elsewhere, here = two_rooms
    site.fake.script(
        streams.telling("Going", streams.gate("end"), " on."), streams.telling("Then.")
    )
    alice = tab("Alice", here).until_ended()
    bob = tab("Bob", here).until_ended()
    alice.write("More").shows("Going")
    bob.shows("Going")
    alice.hold("**/changes/")
    alice.hold("**/c/list/**")
    site.fake.release("end")
    see_the_end(alice)
    bob.until_ended().write("And then?").shows("Then.").until_ended()

    alice.open(elsewhere)

    assert unread(alice) == ["Where one was"]


def test_whoever_looked_away_at_the_end_finds_it_new(
    site: BrowserSite, tab: OpenTab, two_rooms: tuple[str, str]
) -> None:
    elsewhere, here = two_rooms
    site.fake.script(streams.telling("Going", streams.gate("end"), " on."))
    alice = tab("Alice", here).until_ended()
    alice.write("More").shows("Going")
    alice.hold("**/changes/")
    alice.hold("**/c/list/**")
    alice.page.evaluate(LOOK_AWAY)
    site.fake.release("end")
    see_the_end(alice)

    alice.open(elsewhere)

    assert unread(alice) == ["Where one was"]


COUNT_WRITES = """() => {
  const store = Storage.prototype.setItem;
  window.writes = 0;
  Storage.prototype.setItem = function (...entry) { window.writes += 1; return store.apply(this, entry); };
}"""


def test_two_windows_side_by_side_come_to_rest(
    site: BrowserSite, tab: OpenTab, two_rooms: tuple[str, str]
) -> None:
    """Each hears what the other has stored, and stores what it shows itself."""
    one, other = two_rooms
    alice = tab("Alice", one).until_ended()
    beside = alice.page.context.new_page()
    beside.goto(alice.page.url.replace(one, other))
    beside.locator("#turns .answer").wait_for()
    for page in (alice.page, beside):
        page.evaluate(COUNT_WRITES)

    # Each begins to store what it shows, and many more messages between them have time to come.
    for page in (alice.page, beside):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    beside.wait_for_timeout(500)

    assert sum(page.evaluate("window.writes") for page in (alice.page, beside)) <= A_FEW_WRITES
    assert unread(alice) == []
