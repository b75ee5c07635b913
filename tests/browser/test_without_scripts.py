"""Without scripts every page works as a document with forms, or says that it needs them."""

from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import People
from tests.support.browser.site import BrowserSite

PLAIN: dict[str, Any] = {"java_script_enabled": False}


def test_message_is_sent_and_its_answer_read_after_a_reload(
    site: BrowserSite, people: People
) -> None:
    site.fake.script(streams.telling("The first answer."), streams.telling("The second answer."))
    run = site.send("What is the level?")
    site.until_ended(run)
    alice = people.tab(site, "Alice", site.room(run), **PLAIN)
    alice.shows("The first answer.")

    alice.composer.fill("And tomorrow?")
    alice.button("Send").click()
    expect(alice.turns.nth(2)).to_contain_text("And tomorrow?")
    newest = site.value("SELECT public_id FROM chat_run ORDER BY id DESC LIMIT 1")
    site.until_ended(UUID(newest))
    alice.reload().shows("The second answer.")


# Controls of which nothing would come: the browser only submits forms and opens what they name.
DEAD = """() => [...document.querySelectorAll("main button, main [hx-get], main [hx-post]")]
  .filter(each => each.checkVisibility())
  .filter(each => !each.matches("a[href], form, details:has(noscript), [popovertarget], [commandfor]"))
  .filter(each => each.type !== "submit" || !each.form)
  .map(each => each.outerHTML)"""
# A page, and what says that it works, or that it needs scripts.
PAGES = {
    "/": "button:text-is('Start'), #send",
    "/c/search/?q=level": "main a:has-text('What is the level?')",
    "/inbox/": "main h1",
    "/settings/": "main button:has-text('Save')",
    "/settings/tokens/": "main button:has-text('Create token')",
    "/settings/servers/": "main .switch",
    "/settings/servers/add/": "main a:has-text('LM Studio')",
    "/people/": "main td:has-text('Alice')",
    "/people/teams/": "main :text('River')",
    "/people/tools/": "main h1",
    "/people/accounts/": "main td:has-text('Alice')",
    "/admin/": "main h2",
    "/admin/chat/run/": "main tbody a",
    "/settings/streaming/": "main :text('This test needs JavaScript')",
    "/r/{run}/details/": "main h1:has-text('Run details')",
    "/r/{run}/details/?tab=events": "main li summary",
    "/r/{run}/replay/": "main a[aria-label='Next event']",
    "/c/{room}/files/": "main h1:has-text('Files')",
    "/c/{room}/people/": "main select[name=visibility]",
}


def test_every_page_works_or_says_what_it_needs(
    site: BrowserSite, people: People, subtests: pytest.Subtests
) -> None:
    site.fake.script(streams.telling("The first answer."))
    run = site.send("What is the level?", by="Ada")
    site.until_ended(run)
    room = site.conversation_of(run)
    ada = people.tab(site, "Ada", **PLAIN)

    for page, shown in PAGES.items():
        with subtests.test(msg=page):
            ada.open(page.format(run=run, room=room))

            expect(ada.page.locator(shown).first).to_be_visible()
            assert ada.page.evaluate(DEAD) == []


def test_answer_in_progress_asks_for_a_reload(site: BrowserSite, people: People) -> None:
    site.fake.script(streams.telling("The first words.", streams.gate("rest"), " The rest."))
    run = site.send("What is the level?")
    alice = people.tab(site, "Alice", site.room(run), **PLAIN)

    site.fake.release("rest")
    site.until_ended(run)
    alice.page.get_by_role("link", name="Reload").click()

    alice.shows("The first words. The rest.")


def test_options_of_another_api_type_are_shown(site: BrowserSite, people: People) -> None:
    ada = people.tab(site, "Ada", "/settings/servers/add/?kind=lm-studio", **PLAIN)
    ada.page.get_by_label("Name").fill("Typed")
    ada.page.get_by_label("API type").select_option("xerotier")

    ada.button("Show the options of this API type").click()

    expect(ada.page.get_by_label("Name")).to_have_value("Typed")
    expect(ada.page.get_by_label("API type")).to_have_value("xerotier")
    expect(ada.page.locator("#dialect-help")).to_contain_text("Xerotier")
