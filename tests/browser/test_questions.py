"""An answer waits for people, who claim the question, answer it, and see the answer go on."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import Locator, expect

from tests.runs.waiting import WEATHER, calling, saying
from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.upstream.script import stream


@pytest.fixture
def site(site: BrowserSite) -> Iterator[BrowserSite]:
    """The shared site, whose server speaks a dialect that takes tools meanwhile."""
    with site.speaking("openai_chat"):
        yield site


def card(tab: Tab) -> Locator:
    return tab.page.locator(".ask")


def result(tab: Tab) -> Locator:
    return tab.page.get_by_label("Result", exact=True)


def waiting(site: BrowserSite) -> UUID:
    """A run that has asked for the weather, and waits."""
    site.fake.script(calling(WEATHER), saying("It rains."))
    run = site.send("How is the weather?")
    assert site.until_ended(run)["status"] == "waiting"
    return run


@pytest.mark.smoke
def test_viewers_see_the_question_and_its_answer(site: BrowserSite, tab: OpenTab) -> None:
    asking = stream(streams.gate("asked"), *calling(WEATHER).steps)
    site.fake.script(asking, saying("It rains."))
    run = site.send("How is the weather?")
    alice, bob, vera = (tab(name, site.room(run)) for name in ("Alice", "Bob", "Vera"))
    site.fake.wait_until(lambda fake: fake.posts == 1)

    site.fake.release("asked")
    for each, answer in ((alice, "your answer"), (bob, "your answer"), (vera, "an answer")):
        expect(card(each)).to_contain_text("weather")
        expect(each.page.locator("#strip")).to_contain_text(f"Waiting for {answer}")
    expect(vera.page.locator(".ask-form")).to_have_count(0)
    result(alice).fill("cold\nand wet")
    alice.button("Submit result").click()

    for each in (alice, bob, vera):
        expect(card(each)).to_contain_text("Result submitted by Alice")
        expect(each.page.locator("#turns .answer")).to_have_count(2)
        each.shows("It rains.").until_ended()
        expect(each.turns).to_have_count(2)
        expect(each.page.locator("#strip .phase")).to_have_count(0)
        # The end of the first run is not shown below an answer that has gone on.
        expect(each.page.locator("#turns").get_by_text("The answer continues when")).to_be_hidden()
    expect(card(alice).locator(".ask-settled")).to_be_focused()
    live = bob.page.locator(".runs").last.inner_text()
    assert bob.reload().page.locator(".runs").last.inner_text() == live


def test_claim_keeps_what_a_colleague_types(site: BrowserSite, tab: OpenTab) -> None:
    run = waiting(site)
    alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))
    result(bob).press_sequentially("It is hal")

    alice.button("Claim").click()

    expect(card(alice)).to_contain_text("You’re answering")
    expect(card(bob)).to_contain_text("Alice is answering")
    expect(result(bob)).to_be_focused()
    result(bob).press_sequentially("f written")
    expect(result(bob)).to_have_value("It is half written")
    bob.button("Submit result").click()
    expect(card(bob).get_by_role("alert")).to_contain_text("Alice is answering this")
    expect(result(bob)).to_have_value("It is half written")
    alice.button("Release").click()
    expect(card(bob)).not_to_contain_text("Alice is answering")


def test_late_answer_names_the_first(site: BrowserSite, tab: OpenTab) -> None:
    run = waiting(site)
    alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))
    result(bob).fill("hot")
    bob.hold("**/q/*/answer/")
    bob.button("Submit result").click()
    bob.until(lambda: bob.is_holding, "the request")

    alice.page.locator(".ask-refuse > summary").click()
    alice.page.get_by_label("Reason (optional").fill("The gauge is closed.")
    alice.button("Decline").click()
    expect(card(alice)).to_contain_text("Declined by Alice")
    bob.release()

    expect(card(bob)).to_contain_text("Alice has already responded")
    expect(card(bob)).to_contain_text("Declined by Alice")
    bob.shows("It rains.")
    assert (
        site.value(
            "SELECT count(*) FROM chat_run WHERE position = 1 AND message_id ="
            " (SELECT message_id FROM chat_run WHERE public_id = ?)",
            run.hex,
        )
        == 1
    )


def test_enabled_tool_is_counted_for_everybody(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(saying("Good."))
    run = site.send("Hello.")
    site.until_ended(run)
    team = str(UUID(site.world.team))
    site.post("Alice", f"/people/tools/add/{team}/", name="gauge", description="", schema="")
    tool = UUID(site.value("SELECT public_id FROM chat_tool"))
    try:
        alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))

        alice.page.locator(".tools-menu > summary").click()
        alice.page.get_by_role("checkbox", name="gauge").check()

        for each in (alice, bob):
            expect(each.page.locator("#tools-count")).to_have_text("1")
        expect(alice.page.get_by_role("checkbox", name="gauge")).to_be_checked()
        expect(alice.page.get_by_role("checkbox", name="gauge")).to_be_focused()
        bob.page.locator(".tools-menu > summary").click()
        bob.page.get_by_role("checkbox", name="gauge").uncheck()
        expect(alice.page.locator("#tools-count")).to_have_text("none")
        expect(alice.page.get_by_role("checkbox", name="gauge")).not_to_be_checked()
    finally:
        site.post("Alice", f"/people/tools/{tool}/remove/")
