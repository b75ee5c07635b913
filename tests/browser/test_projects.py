"""Projects in the sidebar: creating, folding, moving by keyboard and by dragging, and what others see."""

from uuid import uuid4

from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.displays import (
    DESKTOP,
    DESKTOP_DARK,
    PHONE_LIGHT,
    overflow,
    serious_findings,
)
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

# As a response does that has changed the list.
ASK_FOR_LIST = (
    """() => document.dispatchEvent(new CustomEvent("list:stale", { detail: { text: "" } }))"""
)
MARK = "summary => { summary.dataset.old = ''; }"
NARROW = {"width": 360, "height": 760}


def unique(name: str) -> str:
    return f"{name} {uuid4().hex[:8]}"


def project_of(tab: Tab, name: str) -> Locator:
    return tab.page.locator("#conversations [data-project]").filter(has_text=name)


def line(place: Locator, title: str) -> Locator:
    return place.locator(".line").filter(has_text=title)


def recent(tab: Tab) -> Locator:
    return tab.page.locator("#conversations [data-recent]")


def create(tab: Tab, name: str) -> str:
    """A project for everyone on the team; returns its address."""
    tab.open("/projects/new/")
    tab.page.locator("#id_name").fill(name)
    tab.page.locator("main").get_by_label("Teal").check(force=True)
    tab.page.locator("main").get_by_role("button", name="Create project").click()
    expect(tab.page.locator("main h1")).to_contain_text(name)
    return tab.page.url.removeprefix(tab.site.url)


def send(site: BrowserSite, title: str) -> str:
    """The address of a conversation of Alice, shared with the team."""
    site.fake.script(streams.telling("The answer."))
    run = site.send(title)
    site.until_ended(run)
    return site.room(run)


def test_project_from_its_creation_to_the_move_out_of_it(site: BrowserSite, tab: OpenTab) -> None:
    name, loose = unique("Gauges"), unique("Loose")
    send(site, loose)
    alice = tab("Alice")
    page, keyboard = alice.page, alice.page.keyboard
    address = create(alice, name)
    project = project_of(alice, name)
    found = serious_findings(page, [DESKTOP_DARK])
    page.set_viewport_size(DESKTOP)

    page.locator("main").get_by_role("link", name="New conversation").click()
    expect(page.locator(".project-chip")).to_have_text(name)
    site.fake.script(streams.telling("Twelve."))
    title = unique("Count them")
    alice.composer.fill(title)
    keyboard.press("Enter")
    alice.until_ended()
    expect(page.locator("#room-head .room-project")).to_have_text(name)
    expect(page.locator("#to-people")).to_have_attribute("aria-label", f"Shared with {name}")
    expect(line(project, title)).to_be_visible()
    expect(line(recent(alice), title)).to_have_count(0)

    # Folded by keyboard, and so on the next page.
    project.locator("summary").focus()
    keyboard.press("Enter")
    expect(line(project, title)).to_be_hidden()
    alice.reload()
    expect(project.locator("summary")).to_be_visible()
    expect(line(project, title)).to_be_hidden()
    project.locator("summary").focus()
    keyboard.press(" ")
    expect(line(project, title)).to_be_visible()

    # A list that was asked for before comes after the key: neither the fold nor the focus is lost.
    alice.hold_answer("**/c/list/**")
    alice.composer.focus()
    page.evaluate(ASK_FOR_LIST)
    alice.until(lambda: alice.is_holding, "a list")
    project.locator("summary").evaluate(MARK)
    project.locator("summary").focus()
    keyboard.press(" ")
    expect(line(project, title)).to_be_hidden()
    alice.release()
    expect(page.locator("summary[data-old]")).to_have_count(0)
    expect(line(project, title)).to_be_hidden()
    expect(project.locator("summary")).to_be_focused()
    keyboard.press(" ")
    expect(line(project, title)).to_be_visible()

    # Out of the project, by keyboard alone.
    project.locator("[data-room]").focus()
    keyboard.press("Tab")
    keyboard.press("Enter")
    page.locator("#line-menu [data-move]").focus()
    keyboard.press("Enter")
    dialog = page.locator("#move")
    expect(dialog.locator(".menu-item").first).to_be_focused()
    keyboard.press("ArrowUp")
    expect(dialog.get_by_role("button", name="No project")).to_be_focused()
    keyboard.press("Enter")
    expect(dialog.locator(".move-effect")).to_contain_text("AAdaBBobVVera")
    found += serious_findings(page, (DESKTOP_DARK,), within="#move")
    expect(dialog.get_by_role("button", name="Move", exact=True)).to_be_focused()
    keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(line(recent(alice), title)).to_have_count(1)
    expect(line(project, title)).to_have_count(0)
    expect(page.locator("#room-head .room-project")).to_have_count(0)

    # Into it by dragging. Nobody gains or loses access to what the team reads already.
    line(recent(alice), loose).locator("[data-room]").drag_to(project.locator("summary"))
    expect(line(project, loose)).to_have_count(1)
    line(recent(alice), title).locator("[data-room]").drag_to(project.locator("summary"))
    expect(dialog.locator(".move-effect")).to_contain_text("Get access")
    dialog.get_by_role("button", name="Cancel").click()
    expect(line(recent(alice), title)).to_have_count(1)

    # Who loses access by a change of the settings is asked about in a dialog.
    alice.open(f"{address}settings/")
    page.get_by_label("Selected people").check()
    page.locator(".project-form").get_by_role("button", name="Save").click()
    asking = page.locator("#access-question")
    expect(asking.locator(".move-effect").first).to_contain_text("Lose accessAAdaBBobVVera")
    found += serious_findings(page, [DESKTOP_DARK], within="#access-question")
    keyboard.press("Escape")
    expect(asking).to_be_hidden()
    page.locator(".project-form").get_by_role("button", name="Save").click()
    asking.get_by_role("button", name="Save").click()
    expect(page.locator(".project-head")).to_contain_text("Selected people")

    page.set_viewport_size(NARROW)
    for part in ("", "instructions/", "members/", "settings/"):
        alice.open(f"{address}{part}")
        assert overflow(page) == []
    found += serious_findings(page, (PHONE_LIGHT,))
    assert found == []
