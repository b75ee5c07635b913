"""The inbox: questions that wait for an answer; and new answers, marked in the sidebar."""

from collections.abc import Iterator
from math import inf
from uuid import UUID

import pytest
from playwright.sync_api import Locator, expect

from tests.runs.waiting import WEATHER, calling, saying
from tests.support.browser import streams
from tests.support.browser.interruptions import HIDE
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

REFRESH_LIST = """() => htmx.ajax("GET", document.getElementById("conversations").dataset.list,
  {source: "#conversations", swap: "innerHTML"})"""

ANSWER_HAS_ENDED = (
    """() => document.querySelector("#turns > article:last-of-type .answer:not([data-live])")"""
)
# Each page may store what it shows, and once more what the other has stored.
A_FEW_WRITES = 4


@pytest.fixture
def calm_site(site: BrowserSite) -> Iterator[BrowserSite]:
    """Nothing waits for an answer yet, and the server speaks a dialect with tools."""
    site.close_questions()
    read_all(site)
    with site.speaking("openai_chat"):
        yield site


def waiting_run(site: BrowserSite) -> UUID:
    site.fake.script(calling(WEATHER), saying("It rains."))
    run = site.send("How is the weather?")
    assert site.until_ended(run)["status"] == "waiting"
    return run


@pytest.mark.smoke
def test_question_is_found_and_answered(calm_site: BrowserSite, tab: OpenTab) -> None:
    bob = tab("Bob", "/inbox/")
    expect(bob.page.get_by_role("heading", name="Nothing needs your attention")).to_be_visible()
    expect(bob.page.locator(".nav-count")).to_have_count(0)
    waiting_run(calm_site)
    bob.reload()
    # Bob may answer what Alice asked for, and it's not for him alone.
    expect(bob.page.get_by_role("navigation", name="Inbox")).to_contain_text("Team1")
    expect(bob.page.locator(".nav-count")).to_have_count(0)

    bob.page.locator(".inbox-line > summary").click()
    bob.page.get_by_role("link", name="Open conversation").click()
    expect(bob.page.locator(".ask")).to_be_in_viewport()
    bob.page.get_by_label("Result", exact=True).fill("wet")
    bob.button("Submit result").click()
    bob.shows("It rains.").until_ended()

    # The count in the sidebar is updated, too.
    expect(bob.page.locator(".nav-count")).to_have_count(0)
    bob.composer.press("ArrowUp")
    bob.page.keyboard.press("g")
    bob.page.keyboard.press("i")
    expect(bob.page.get_by_role("heading", name="Nothing needs your attention")).to_be_visible()


@pytest.mark.smoke
def test_question_is_answered_in_the_inbox(calm_site: BrowserSite, tab: OpenTab) -> None:
    run = waiting_run(calm_site)
    bob = tab("Bob", "/inbox/")
    line = bob.page.locator(".inbox-line")
    expect(bob.page.locator(".tab[aria-current]")).to_have_text("Team1")
    line.locator("summary").first.click()
    result = bob.page.get_by_label("Result", exact=True)
    result.fill("wet")

    # A claim keeps what is typed, and moves the question to what is for oneself.
    bob.button("Claim").click()
    expect(line).to_contain_text("You’re answering")
    expect(result).to_have_value("wet")
    bob.button("Submit result").click()

    expect(line.locator(".ask-settled")).to_contain_text("Result submitted by Bob")
    expect(line.locator(".ask-settled")).to_be_focused()
    expect(bob.page.get_by_role("heading", name="Inbox")).to_be_visible()
    bob.page.get_by_role("link", name="Answered").click()
    expect(bob.page.locator(".inbox-line").first).to_contain_text("Result submitted by Bob")
    bob.open(calm_site.room(run)).shows("It rains.").until_ended()


# Other tests leave conversations of their own.
TITLES = {"The first one", "The second one", "Where one goes", "Where one was"}


def unread(tab: Tab) -> list[str]:
    titles = tab.page.locator("#conversations a[data-unread]").evaluate_all(
        "links => links.map(link => link.title)"
    )
    return [title for title in titles if title in TITLES]


def read_all(site: BrowserSite) -> None:
    """Nothing that there is so far is unread for anybody."""
    site.rows("DELETE FROM chat_readmark")
    site.rows("UPDATE chat_user SET unread_since = strftime('%Y-%m-%d %H:%M:%f', 'now')")


def room_behind(line: Locator, mark: str) -> float:
    """How many pixels lie between the beginning of the mark and the end of its line."""
    whole, part = line.bounding_box(), line.locator(mark).bounding_box()
    return whole["x"] + whole["width"] - part["x"] if whole and part else inf


def test_new_answer_is_marked_until_shown(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(*(streams.telling("So.") for _ in range(3)))
    first, second = site.send("The first one"), site.send("The second one")
    site.until_ended(second)
    read_all(site)
    alice = tab("Alice", site.room(first)).until_ended()
    assert unread(alice) == []

    bob = tab("Bob", site.room(second)).until_ended()
    bob.write("More")
    bob.until_ended()
    alice.page.evaluate(REFRESH_LIST)
    alice.until(lambda: unread(alice) == ["The second one"], "a mark")
    link = alice.page.get_by_role("link", name="The second one")
    expect(link).to_contain_text(", new")
    # Both marks, of sharing and of news, stand at the end of the line; a list that is just replaced has no box.
    alice.until(lambda: room_behind(link, ".mark") < 48, "marks at the end")

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
    read_all(site)
    return site.room(runs[0]), site.room(runs[1])


def until_end_is_shown(tab: Tab) -> None:
    tab.page.wait_for_function(ANSWER_HAS_ENDED, polling=25)


def test_end_that_was_seen_is_not_new(
    site: BrowserSite, tab: OpenTab, two_rooms: tuple[str, str]
) -> None:
    other, here = two_rooms
    site.fake.script(streams.telling("Going", streams.gate("end"), " on."))
    alice = tab("Alice", here).until_ended()
    alice.write("More").shows("Going")
    alice.hold("**/changes/")
    alice.hold("**/c/list/**")
    site.fake.release("end")
    until_end_is_shown(alice)

    alice.open(other)

    assert unread(alice) == []
    alice.reload()
    assert unread(alice) == []


def test_answer_after_the_seen_end_is_new(
    site: BrowserSite, tab: OpenTab, two_rooms: tuple[str, str]
) -> None:
    other, here = two_rooms
    site.fake.script(
        streams.telling("Going", streams.gate("end"), " on."), streams.telling("Then.")
    )
    alice = tab("Alice", here).until_ended()
    bob = tab("Bob", here).until_ended()
    alice.write("More").shows("Going")
    bob.shows("Going")
    alice.hold("**/changes/")
    alice.hold("**/c/list/**")
    alice.lose_updates()
    site.fake.release("end")
    until_end_is_shown(alice)
    bob.until_ended().write("And then?").shows("Then.").until_ended()

    alice.open(other)

    assert unread(alice) == ["Where one was"]


def test_end_in_a_hidden_tab_is_new(
    site: BrowserSite, tab: OpenTab, two_rooms: tuple[str, str]
) -> None:
    other, here = two_rooms
    site.fake.script(streams.telling("Going", streams.gate("end"), " on."))
    alice = tab("Alice", here).until_ended()
    alice.write("More").shows("Going")
    alice.hold("**/changes/")
    alice.hold("**/c/list/**")
    alice.page.evaluate(HIDE, True)
    site.fake.release("end")
    until_end_is_shown(alice)

    alice.open(other)

    assert unread(alice) == ["Where one was"]


COUNT_WRITES = """() => {
  const store = Storage.prototype.setItem;
  window.writes = 0;
  Storage.prototype.setItem = function (...entry) { window.writes += 1; return store.apply(this, entry); };
}"""


def test_two_windows_stop_writing_read_marks(
    site: BrowserSite, tab: OpenTab, two_rooms: tuple[str, str]
) -> None:
    one, other = two_rooms
    alice = tab("Alice", one).until_ended()
    beside = alice.page.context.new_page()
    beside.goto(alice.page.url.replace(one, other))
    beside.locator("#turns .answer").wait_for()
    for page in (alice.page, beside):
        page.evaluate(COUNT_WRITES)

    # Each stores what it shows. If they kept on answering each other, there would be many writes.
    for page in (alice.page, beside):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    beside.wait_for_timeout(500)

    assert sum(page.evaluate("window.writes") for page in (alice.page, beside)) <= A_FEW_WRITES
    assert unread(alice) == []
