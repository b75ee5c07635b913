"""The list of conversations follows what others do, on the home page as beside a conversation."""

from uuid import uuid4

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

# The list is fetched now and then in any case; here it comes only when the page is told.
NEVER_BY_ITSELF = """
  const set = window.setInterval;
  window.setInterval = (callback, ms, ...rest) => ms === 30000 ? 0 : set(callback, ms, ...rest);
"""


@pytest.fixture(params=[pytest.param("home", marks=pytest.mark.smoke), "inbox", "room"])
def place(request: pytest.FixtureRequest, site: BrowserSite) -> str:
    """Where somebody is while things happen in other conversations."""
    if request.param != "room":
        return {"home": "/", "inbox": "/inbox/"}[request.param]
    site.fake.script(streams.telling("Of another one."))
    run = site.send("Where Bob is")
    site.until_ended(run)
    return site.room(run)


@pytest.fixture
def bob(site: BrowserSite, tab: OpenTab, place: str) -> Tab:
    bob = tab("Bob")
    bob.add_init_script(NEVER_BY_ITSELF)
    return bob.open(place)


@pytest.fixture
def title() -> str:
    """Other tests leave conversations of their own."""
    return f"Begun by a colleague {uuid4().hex[:8]}"


def line(tab: Tab, title: str) -> Locator:
    return tab.page.locator("#conversations [data-room]").filter(has_text=title)


def run_menu(tab: Tab, *buttons: str) -> None:
    tab.page.get_by_label("Conversation options").click()
    for name in buttons:
        tab.page.get_by_role("button", name=name, exact=True).click()


def test_list_follows_a_colleague(site: BrowserSite, tab: OpenTab, bob: Tab, title: str) -> None:
    site.fake.script(streams.telling("The answer", streams.gate("end"), "."))
    expect(line(bob, title)).to_have_count(0)

    run = site.send(title)

    new = line(bob, title)
    expect(new.locator(".mark-running")).to_be_visible()
    site.fake.release("end")
    expect(new.locator(".mark-running")).to_have_count(0)
    alice = tab("Alice", site.room(run)).until_ended()
    run_menu(alice)
    alice.page.get_by_label("Title", exact=True).fill(f"{title}, renamed")
    alice.page.get_by_label("Title", exact=True).press("Enter")
    expect(line(bob, f"{title}, renamed")).to_have_attribute("data-unread", "")


def test_found_title_goes_with_its_conversation(site: BrowserSite, tab: OpenTab, bob: Tab) -> None:
    site.fake.script(streams.telling("The answer."))
    run = site.send("To be taken back")
    alice = tab("Alice", site.room(run)).until_ended()
    bob.page.keyboard.press("Control+k")
    bob.page.keyboard.type("taken back")
    found = bob.page.locator("#palette-found").get_by_text("To be taken back")
    expect(found.first).to_be_visible()

    run_menu(alice, "Delete")
    alice.page.locator("#confirm-go").click()

    expect(found).to_have_count(0)
    expect(line(bob, "To be taken back")).to_have_count(0)
    assert "To be taken back" not in bob.page.content()


def test_list_that_is_pointed_at_waits(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("One."), streams.telling("Two."))
    run = site.send("To be pointed at")
    site.until_ended(run)
    bob = tab("Bob")
    bob.add_init_script(NEVER_BY_ITSELF)
    bob.open("/")
    line(bob, "To be pointed at").hover()
    site.send("To be seen later")
    bob.until(lambda: any("list" in message for message in bob.messages), "the page is told")
    expect(line(bob, "To be seen later")).to_have_count(0)

    # What is taken away does not wait.
    with site.browser("Alice") as browser:
        browser.post(f"{site.room(run)}visibility/", data={"visibility": "private"})
    expect(line(bob, "To be pointed at")).to_have_count(0)
    expect(line(bob, "To be seen later")).to_have_count(1)


# As `emit` in static/base/dom.js, for changes behind a newer one: the version stays as it is.
LATE_CHANGE = """async () => {
  const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
  const { takeForChannel } = await import(loaded.find(name => name.includes("/live/channels.")));
  const list = document.querySelector("[data-list-version]").dataset.listVersion;
  takeForChannel({ channel: "list", list, late: true }, { isOneWay: false });
}"""


def test_list_without_a_late_change_is_fetched(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("One."))
    site.until_ended(site.send("To be fetched late"))
    bob = tab("Bob")
    bob.add_init_script(NEVER_BY_ITSELF)
    bob.open("/")
    requests: list[str] = []
    bob.page.on("request", lambda request: requests.append(request.url))
    line(bob, "To be fetched late").hover()

    bob.page.evaluate(LATE_CHANGE)
    assert requests == []
    bob.page.mouse.move(0, 0)

    bob.until(lambda: any("/c/list/" in url for url in requests), "the list is fetched")


def test_sign_out_empties_the_list_of_the_home_page(site: BrowserSite, people: People) -> None:
    site.fake.script(streams.telling("One."))
    site.until_ended(site.send("Of the team"))
    bob = people.sign_in(site, "Bob")
    expect(line(bob, "Of the team")).not_to_have_count(0)
    other = people.adopt(bob.page.context.new_page(), site, "/inbox/")

    other.page.locator(".person > summary").click()
    other.button("Sign out").click()

    expect(bob.page.locator("#toasts")).to_contain_text("You’re signed out")
    expect(bob.page.locator("#conversations")).to_be_empty()
