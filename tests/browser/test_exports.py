"""A conversation saved as a file from its menu, and the page that is printed."""

from pathlib import Path

from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.displays import (
    DESKTOP_DARK,
    PHONE_LIGHT,
    overflow,
    serious_findings,
)
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab


def open_room(site: BrowserSite, tab: OpenTab) -> Tab:
    site.fake.script(streams.telling("The **river** rises."))
    return tab("Alice", site.room(site.send("Tell us."))).until_ended()


def open_menu(alice: Tab) -> None:
    alice.page.get_by_label("Conversation options").click()


def test_html_file_looks_like_the_page_and_loads_nothing(
    site: BrowserSite, tab: OpenTab, tmp_path: Path
) -> None:
    alice = open_room(site, tab)
    open_menu(alice)

    with alice.page.expect_download() as saved:
        alice.page.get_by_role("link", name="HTML", exact=True).click()

    assert saved.value.suggested_filename == "Tell us.html"
    path = tmp_path / "exported.html"
    saved.value.save_as(path)
    page = alice.page.context.new_page()
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.goto(path.as_uri())
    expect(page.get_by_role("article")).to_have_count(2)
    expect(page.locator(".answer strong")).to_have_text("river")
    assert loaded == [path.as_uri()]
    for display in (DESKTOP_DARK, PHONE_LIGHT):
        display.show(page)
        assert overflow(page) == []
    assert serious_findings(page, [PHONE_LIGHT]) == []
    page.close()


def test_print_opens_the_document_with_the_dialog(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_room(site, tab)
    alice.add_init_script("window.print = () => { document.title = 'Printing'; };")
    open_menu(alice)
    link = alice.page.get_by_role("link", name="Print", exact=True)
    expect(link).to_have_attribute("target", "_blank")

    alice.page.goto(str(link.evaluate("link => link.href")))

    expect(alice.page.get_by_role("article")).to_have_count(2)
    expect(alice.page).to_have_title("Printing")
