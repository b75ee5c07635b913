"""How much of a live answer is spoken is each person's choice."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenTab
from tests.browser.test_accessibility import LISTEN, heard
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

PARAGRAPHS = "What happens, and the answer paragraph by paragraph"
ENDS = "Only that an answer is complete"
ARGUMENTS = {"at": "mill"}
TEXT = (
    "The river is *high*.\n\n- one\n- two\n\n```python\nprint(1)\nprint(2)\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)
SPOKEN = ["The river is high.", "one two", "Code, 2 lines", "a, b, 1, 2,"]


@pytest.fixture(autouse=True)
def _as_they_were(site: BrowserSite) -> Iterator[None]:
    yield
    site.rows("UPDATE chat_user SET announcements = 'states'")


def choose(tab: Tab, choice: str) -> None:
    """As a person does: in the settings."""
    tab.open("/settings/")
    tab.page.get_by_label("Of an answer that is being written").select_option(choice)
    tab.page.locator("form[action='/settings/announcements/']").get_by_role("button").click()
    expect(tab.page.locator("#notices")).to_contain_text("Saved.")


def telling_much() -> streams.Script:
    """A tool, a text in two parts with a gate between them, and the rest of it."""
    return streams.scripted(
        streams.BEGINNING,
        streams.call("gauge", ARGUMENTS, "2 m"),
        streams.open_item("message"),
        streams.say(TEXT),
        streams.say("And the"),
        streams.gate("rest"),
        streams.say(" rest."),
        streams.close_item("message"),
        streams.end(),
    )


def listening(site: BrowserSite, tab: OpenTab, choice: str) -> Tab:
    """Alice, who has chosen so, in a room where nothing is written."""
    alice = tab("Alice")
    choose(alice, choice)
    site.fake.script(streams.telling("First."), telling_much())
    first = site.send("Tell us.")
    site.until_ended(first)
    alice.open(site.room(first)).until_ended()
    alice.page.evaluate(LISTEN)
    return alice


def test_paragraphs_are_read_as_they_close_and_each_once(site: BrowserSite, tab: OpenTab) -> None:
    alice = listening(site, tab, PARAGRAPHS)

    alice.write("How high is it?")
    alice.until(lambda: SPOKEN[2] in heard(alice), "what is closed is said")
    assert not any("And the" in sentence for sentence in heard(alice))
    site.fake.release("rest")
    alice.until(lambda: "complete" in "".join(heard(alice)), "the end is said")

    said = heard(alice)
    assert [one for one in said if one in {*SPOKEN, "And the rest."}] == [*SPOKEN, "And the rest."]
    assert said[0].startswith("Answer started, ")
    assert said.index("Tool gauge finished") < said.index(SPOKEN[0])
    # The text before its end.
    assert said[-1].startswith("Answer complete, ")


def test_what_was_written_before_the_page_came_is_not_read_aloud(
    site: BrowserSite, tab: OpenTab
) -> None:
    choose(tab("Alice"), PARAGRAPHS)
    site.fake.script(telling_much())
    run = site.send("How high is it?")
    alice = tab("Alice", site.room(run)).shows("And the")
    alice.page.evaluate(LISTEN)

    site.fake.release("rest")

    alice.until(lambda: "complete" in "".join(heard(alice)), "the end is said")
    assert [one for one in heard(alice) if one in SPOKEN[:3]] == []
    assert "And the rest." in heard(alice)


def test_only_the_end_of_an_answer_is_said(site: BrowserSite, tab: OpenTab) -> None:
    alice = listening(site, tab, ENDS)

    alice.write("How high is it?")
    alice.shows("And the")
    site.fake.release("rest")
    alice.until(lambda: heard(alice), "the end is said")
    alice.until_ended()

    assert len(heard(alice)) == 1
    assert heard(alice)[0].startswith("Answer complete, ")


def test_an_error_is_said_whatever_is_chosen(site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice")
    choose(alice, ENDS)
    site.fake.script(
        streams.telling("First."), streams.scripted(streams.BEGINNING, streams.fail("It broke."))
    )
    first = site.send("Tell us.")
    site.until_ended(first)
    alice.open(site.room(first)).until_ended()
    alice.page.evaluate(LISTEN)

    alice.write("How high is it?")

    alice.until(lambda: heard(alice, "assertive"), "the error is said")
    assert heard(alice) == []


def test_nothing_goes_on_in_a_room_that_was_taken_away(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Half", streams.hang()))
    alice = tab("Alice")
    alice.page.clock.install()
    first = site.send("Tell us.")
    site.until_ended(first)
    alice.open(site.room(first)).until_ended()
    alice.page.evaluate(LISTEN)
    alice.write("Go on")
    alice.shows("Half")
    alice.page.clock.run_for(2_000)
    alice.until(lambda: "Writing" in heard(alice), "the phase is said")

    alice.page.evaluate(
        "document.dispatchEvent(new CustomEvent('room:gone', {detail: {reason: 'deleted'}}))"
    )
    alice.page.clock.run_for(60_000)

    assert "Still writing" not in heard(alice)


def test_an_end_that_came_with_the_page_is_said_too(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Half", streams.gate("end")))
    first = site.send("Tell us.")
    site.until_ended(first)
    alice = tab("Alice", site.room(first)).until_ended()
    alice.page.evaluate(LISTEN)
    alice.write("Go on")
    alice.shows("Half")

    # As a rendering of the answer that has ended, in place of the live one.
    alice.answer.evaluate("answer => answer.removeAttribute('data-live')")
    alice.page.evaluate("document.dispatchEvent(new CustomEvent('room:shown'))")

    alice.until(lambda: "complete" in "".join(heard(alice)), "the end is said")
    site.fake.release("end")
    assert sum("complete" in sentence for sentence in heard(alice)) == 1
