"""An administrator opens a private conversation, and its owner sees it at that moment."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import People
from tests.support.browser.site import BrowserSite


def test_owner_sees_at_once_why_a_conversation_was_opened(
    site: BrowserSite, people: People
) -> None:
    site.fake.script(streams.telling("Below the mill."))
    run = site.send("Where is the spring?", visibility="private")
    site.until_ended(run)
    number = site.run(run)["conversation_id"]
    alice = people.tab(site, "Alice", site.room(run))

    ada = people.tab(site, "Ada", f"/admin/chat/conversation/{number}/change/")
    expect(ada.page.locator("main")).not_to_contain_text("spring")
    ada.page.get_by_label("Reason").fill("Report 12")
    ada.button("Open conversation").click()

    expect(ada.page.locator("main")).to_contain_text("Below the mill.")
    expect(alice.page.locator("#turns .opened")).to_contain_text(
        "Opened by an administrator: Report 12"
    )
