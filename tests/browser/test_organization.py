"""Pins, archive and trash in the sidebar and on their pages; what one does is seen by the others."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.displays import PHONE_LIGHT, serious_findings
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

Begin = Callable[[str], str]


@pytest.fixture
def begin(site: BrowserSite) -> Begin:
    """Begins a conversation of Alice, shared, and returns its title: no other test has it."""

    def begin(name: str) -> str:
        title = f"{name} {uuid4().hex[:8]}"
        site.fake.script(streams.telling("The answer."))
        run = site.send(title)
        site.until_ended(run)
        addresses[title] = site.room(run)
        return title

    addresses: dict[str, str] = {}
    begin.addresses = addresses
    return begin


def line(tab: Tab, title: str) -> Locator:
    return tab.page.locator("#conversations .line").filter(has_text=title)


def pinned(tab: Tab) -> Locator:
    return tab.page.locator("#conversations [data-pinned] .nav-link .truncate")


def choose(tab: Tab, title: str, *buttons: str) -> None:
    line(tab, title).hover()
    line(tab, title).get_by_role("button").click()
    for name in buttons:
        tab.page.locator("#line-menu").get_by_role("button", name=name, exact=True).click()


@pytest.mark.smoke
def test_archived_in_one_browser_leaves_the_others_sidebar(tab: OpenTab, begin: Begin) -> None:
    title = begin("To be archived")
    alice, bob = tab("Alice", "/"), tab("Bob", "/")
    expect(line(bob, title)).to_have_count(1)

    choose(alice, title, "Archive")

    for each in (alice, bob):
        expect(line(each, title)).to_have_count(0)
    expect(bob.open("/conversations/archived/").page.locator(".things")).to_contain_text(title)
    # The offer to undo is still there.
    alice.page.locator("#toasts .undo").get_by_role("button", name="Undo").click()
    for each in (alice, bob):
        expect(line(each, title)).to_have_count(1)
    expect(alice.page.locator("#toasts .undo")).to_have_count(0)


def test_deletion_is_undone_on_the_page_that_one_lands_on(tab: OpenTab, begin: Begin) -> None:
    title = begin("To be thrown away")
    alice = tab("Alice", begin.addresses[title]).until_ended()
    alice.page.locator("#room-head .room-menu > summary").click()
    alice.page.locator("#room-head").get_by_role("button", name="Delete").click()
    alice.page.locator("#confirm-go").click()
    alice.page.wait_for_url(f"{alice.site.url}/")
    expect(line(alice, title)).to_have_count(0)

    alice.page.locator("#toasts .undo").get_by_role("button", name="Undo").click()

    expect(line(alice, title)).to_have_count(1)
    line(alice, title).locator("[data-room]").click()
    alice.shows("The answer.")


def test_offer_to_undo_ends_after_ten_seconds_unless_it_is_looked_at(
    tab: OpenTab, begin: Begin
) -> None:
    title = begin("To be archived, slowly")
    alice = tab("Alice", has_clock=True)
    alice.open("/")
    choose(alice, title, "Archive")
    toast = alice.page.locator("#toasts .undo")
    expect(toast).to_be_visible()

    toast.get_by_role("button").focus()
    alice.page.clock.run_for(30_000)
    expect(toast).to_be_visible()
    alice.page.locator("#text").focus()
    alice.page.clock.run_for(9_000)
    expect(toast).to_be_visible()
    alice.page.clock.run_for(2_000)

    expect(toast).to_have_count(0)


def test_click_that_has_begun_is_not_lost_with_the_old_list(tab: OpenTab, begin: Begin) -> None:
    title, other = begin("To be opened"), begin("To be archived")
    alice = tab("Alice", "/")
    alice.hold_answer("**/c/list/**")
    choose(alice, other, "Archive")
    alice.until(lambda: alice.is_holding, "a new list has been asked for")
    line(alice, title).locator("[data-room]").hover()
    alice.page.mouse.down()

    with alice.page.expect_request_finished(lambda sent: "/c/list/" in sent.url):
        alice.release()
    alice.page.evaluate("() => new Promise(shown => setTimeout(shown, 100))")
    alice.page.mouse.up()

    alice.page.wait_for_url(alice.site.url + begin.addresses[title])
    expect(line(alice, other)).to_have_count(0)


def drag_to_first_pin(tab: Tab, title: str, place: Locator) -> None:
    """The place is there only while something is dragged."""
    mouse = tab.page.mouse
    line(tab, title).locator("[data-room]").hover()
    mouse.down()
    mouse.move(140, 400, steps=3)
    expect(place).to_be_visible()
    box = place.bounding_box()
    assert box is not None
    # Where one enters it, and on.
    for offset in (40, 50):
        mouse.move(box["x"] + offset, box["y"] + 10)
    expect(place).to_have_class("drop-into")
    mouse.up()


def test_pins_are_ordered_by_menu_by_dragging_and_in_another_window(
    tab: OpenTab, begin: Begin
) -> None:
    first, second, third = (begin(name) for name in ("First", "Second", "Third"))
    bob, other = tab("Bob", "/"), tab("Bob", begin.addresses[third])
    unpin = other.page.locator('#room-head form[action$="/unpin/"]')
    place = bob.page.get_by_text("Drop here to pin")
    expect(place).to_be_hidden()
    drag_to_first_pin(bob, first, place)
    expect(pinned(bob)).to_have_text([first])
    expect(place).to_have_count(0)
    choose(bob, second, "Pin")
    expect(pinned(bob).filter(has_text=second)).to_have_count(1)
    choose(bob, second, "Move up")
    expect(pinned(bob)).to_have_text([second, first])

    line(bob, third).locator("[data-room]").drag_to(
        pinned(bob).first, target_position={"x": 5, "y": 1}
    )

    for each in (bob, other):
        expect(pinned(each)).to_have_text([third, second, first])
    expect(unpin).to_have_count(1)
    for title in (first, second, third):
        choose(bob, title, "Unpin")
        expect(pinned(bob).filter(has_text=title)).to_have_count(0)
    expect(unpin).to_have_count(0)


def test_menu_of_a_line_by_keyboard_alone(tab: OpenTab, begin: Begin) -> None:
    title = begin("By keyboard")
    alice = tab("Alice", "/")
    keyboard = alice.page.keyboard
    line(alice, title).locator("[data-room]").focus()

    keyboard.press("Tab")
    keyboard.press("Enter")
    menu = alice.page.locator("#line-menu")
    expect(menu.locator(".menu-item").first).to_be_focused()
    keyboard.press("ArrowDown")
    expect(menu.locator(".menu-item").nth(1)).to_be_focused()
    keyboard.press("Escape")

    expect(menu).to_be_hidden()
    expect(line(alice, title).locator(".line-more")).to_be_focused()
    keyboard.press(" ")
    expect(menu.locator(".menu-item").first).to_be_focused()
    keyboard.press("Enter")
    expect(pinned(alice)).to_have_text([title])
    expect(line(alice, title).locator(".line-more")).to_be_focused()
    expect(alice.page.locator("#polite")).to_have_text("Pinned")
    choose(alice, title, "Unpin")
    expect(pinned(alice)).to_have_count(0)


def test_line_is_renamed_where_it_stands(tab: OpenTab, begin: Begin) -> None:
    title = begin("Old title")
    alice, bob = tab("Alice", "/"), tab("Bob", begin.addresses[title])
    choose(alice, title)
    field = alice.page.locator("#line-menu").get_by_label("Title")

    field.fill(f"{title}, new")
    field.press("Enter")

    expect(line(alice, f"{title}, new")).to_have_count(1)
    expect(bob.page.locator("#room-head h1")).to_have_text(f"{title}, new")


def test_several_are_deleted_and_restored_at_once(tab: OpenTab, begin: Begin) -> None:
    titles = [begin(name) for name in ("One", "Two")]
    alice = tab("Alice", "/conversations/")
    for title in titles:
        alice.page.get_by_label(f"Select {title}").check()
    expect(alice.page.locator("main [data-count]")).to_have_text("2 selected")

    alice.page.locator(".chosen-bar").get_by_role("button", name="Delete").click()

    expect(alice.page.locator("#toasts .undo")).to_contain_text(
        "2 conversations moved to the trash"
    )
    alice.open("/conversations/trash/")
    for title in titles:
        alice.page.get_by_label(f"Select {title}").check()
    alice.page.locator(".chosen-bar").get_by_role("button", name="Restore").click()
    expect(alice.page.locator("#notices")).to_contain_text("2 conversations restored")
    for title in titles:
        expect(line(alice, title)).to_have_count(1)


def test_delete_for_ever_asks_first(tab: OpenTab, begin: Begin) -> None:
    title = begin("For ever")
    alice = tab("Alice", "/conversations/")
    alice.page.get_by_label(f"Select {title}").check()
    alice.page.locator(".chosen-bar").get_by_role("button", name="Delete").click()
    alice.open("/conversations/trash/")
    alice.page.get_by_label(f"Select {title}").check()
    button = alice.page.locator(".chosen-bar").get_by_role("button", name="Delete forever")

    button.click()
    alice.page.get_by_role("button", name="Cancel").click()
    expect(alice.page.get_by_label(f"Select {title}")).to_be_checked()
    button.click()
    alice.page.locator("#confirm-go").click()

    expect(alice.page.locator("#notices")).to_contain_text("deleted forever")
    expect(alice.page.get_by_label(f"Select {title}")).to_have_count(0)


def test_without_scripts_there_are_options_and_the_trash(
    site: BrowserSite, people: People, begin: Begin
) -> None:
    title = begin("Without scripts")
    alice = people.tab(site, "Alice", "/", java_script_enabled=False)
    alice.page.get_by_role("button", name=f"Options for {title}").click(force=True)
    alice.page.locator("main").get_by_role("button", name="Pin", exact=True).click()
    expect(alice.page.locator("#room-head h1")).to_have_text(title)
    alice.open("/")
    expect(pinned(alice)).to_have_text([title])
    alice.page.get_by_role("button", name=f"Options for {title}").click(force=True)
    alice.page.locator("main").get_by_role("button", name="Delete").click()

    alice.page.locator("#notices").get_by_role("button", name="Undo").click()

    alice.open("/")
    expect(pinned(alice)).to_have_text([title])
    alice.page.get_by_role("button", name=f"Options for {title}").click(force=True)
    alice.page.locator("main").get_by_role("button", name="Unpin").click()


def test_temporary_conversation_says_so(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("The answer."))
    alice = tab("Alice", "/")
    alice.page.get_by_label("Expiration").select_option("7")
    alice.composer.fill("Only for a week")
    alice.composer.press("Enter")

    alice.shows("The answer.").until_ended()

    badge = alice.page.locator("#room-head [data-state=temporary]")
    expect(badge).to_contain_text("Expires")
    expect(line(alice, "Only for a week").get_by_text("Temporary")).to_have_count(1)
    alice.page.locator("#room-head .room-menu > summary").click()
    alice.page.locator("#room-head").get_by_role("button", name="Keep").click()
    expect(badge).to_have_count(0)


def test_older_lines_come_as_the_list_is_scrolled_and_stay(
    site: BrowserSite, tab: OpenTab, begin: Begin
) -> None:
    # A refreshed list has 500 lines at most, and other tests have left more than a few.
    site.rows("UPDATE chat_conversation SET archived_at = '2019-01-01' WHERE archived_at IS NULL")
    site.rows(
        "INSERT INTO chat_conversation (public_id, team_id, owner_id, visibility, title, system_prompt,"
        " model, parameters, revision, created_at, updated_at)"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)"
        " SELECT lower(hex(randomblob(16))), m.team_id, m.user_id, 'private', 'Old ' || i, '', '', '{}', 1,"
        " datetime('2020-01-01', i || ' minutes'), datetime('2020-01-01', i || ' minutes')"
        " FROM n, chat_membership m JOIN chat_user u ON u.id = m.user_id WHERE u.name = 'Bob'"
    )
    bob = tab("Bob", "/")
    last = bob.page.locator("#conversations .line").last
    expect(bob.page.locator("#conversations .line")).not_to_have_count(0)

    while bob.page.locator("#conversations .nav-more").count():
        # It is replaced while somebody scrolls to it.
        bob.page.evaluate("document.querySelector('#conversations .nav-more')?.scrollIntoView()")
        bob.page.wait_for_timeout(50)
    expect(last).to_contain_text("Old 1")
    title = begin("Comes while somebody is far down")

    expect(line(bob, title)).to_have_count(1)
    expect(line(bob, "Old 100")).to_have_count(1)
    site.rows("DELETE FROM chat_conversation WHERE title LIKE 'Old %'")
    site.rows("UPDATE chat_conversation SET archived_at = NULL WHERE archived_at = '2019-01-01'")


def test_drawer_is_accessible_and_fits_a_phone(
    site: BrowserSite, people: People, begin: Begin
) -> None:
    title = begin("A title that is as wide as a phone")
    phone = people.tab(site, "Alice", "/", viewport={"width": 360, "height": 700}, has_touch=True)
    assert phone.page.evaluate("document.documentElement.scrollWidth") == 360
    phone.page.locator("[data-sidebar-open]").first.click()
    line(phone, title).get_by_role("button").click()
    menu = phone.page.locator("#line-menu")
    expect(menu).to_be_visible()
    box = menu.bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= 360 - box["width"]
    assert serious_findings(phone.page, [PHONE_LIGHT], within="#sidebar") == []
    menu.get_by_role("button", name="Archive").click()
    # Above the drawer.
    phone.page.locator("#toasts .undo").get_by_role("button", name="Undo").click()
    expect(line(phone, title)).to_have_count(1)
