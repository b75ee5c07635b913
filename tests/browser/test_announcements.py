"""What a screen reader is told of a live answer, which is each person's choice."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab, People
from tests.support.browser.scenes import Scene, SceneSite
from tests.support.browser.screen_reader import announced, assert_apart, listen, until_announced
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

PARAGRAPHS = "When an answer starts and ends, and each paragraph"
ENDS = "Only when an answer is complete"
ARGUMENTS = {"at": "mill"}
TEXT = (
    "The river is *high*.\n\n- one\n- two\n\n```python\nprint(1)\nprint(2)\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)
SPOKEN = ["The river is high.", "one two", "Code, 2 lines", "a, b, 1, 2,"]


@pytest.fixture(autouse=True)
def _usual_setting(site: BrowserSite) -> Iterator[None]:
    yield
    site.rows("UPDATE chat_user SET announcements = 'states'")


def choose(tab: Tab, choice: str) -> None:
    """In the settings, as a person does."""
    tab.open("/settings/")
    tab.page.get_by_label("While an answer is being written").select_option(choice)
    tab.page.locator("form[action='/settings/announcements/']").get_by_role("button").click()
    expect(tab.page.locator("#notices")).to_contain_text("Saved")


def long_answer() -> streams.Script:
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


def open_listening(site: BrowserSite, tab: OpenTab, choice: str) -> Tab:
    """Alice with this setting, in a conversation without a live answer."""
    alice = tab("Alice")
    choose(alice, choice)
    site.fake.script(streams.telling("First."), long_answer())
    first = site.send("Tell us.")
    site.until_ended(first)
    alice.open(site.room(first)).until_ended()
    listen(alice)
    return alice


def test_paragraphs_are_announced_once_as_they_close(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_listening(site, tab, PARAGRAPHS)

    alice.write("How high is it?")
    until_announced(alice, SPOKEN[2])
    assert not any("And the" in sentence for sentence in announced(alice))
    site.fake.release("rest")
    until_announced(alice, "complete")

    said = announced(alice)
    assert [one for one in said if one in {*SPOKEN, "And the rest."}] == [*SPOKEN, "And the rest."]
    assert said[0].startswith("Answer from ")
    assert said.index("Tool gauge finished") < said.index(SPOKEN[0])
    # The end is announced after the text.
    assert said[-1].startswith("Answer complete, ")


def test_text_from_before_the_page_is_not_announced(site: BrowserSite, tab: OpenTab) -> None:
    choose(tab("Alice"), PARAGRAPHS)
    site.fake.script(long_answer())
    run = site.send("How high is it?")
    # All of it has been written when Alice's page is made.
    tab("Bob", site.room(run)).shows("And the")
    alice = tab("Alice", site.room(run)).shows("And the")
    listen(alice)

    site.fake.release("rest")

    until_announced(alice, "complete")
    assert [one for one in announced(alice) if one in SPOKEN[:3]] == []
    assert "And the rest." in announced(alice)


def test_only_the_end_and_errors_are_announced(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_listening(site, tab, ENDS)

    alice.write("How high is it?")
    alice.shows("And the")
    site.fake.release("rest")
    alice.until(lambda: announced(alice), "the end is said")
    alice.until_ended()

    said = announced(alice)
    assert len(said) == 1
    assert said[0].startswith("Answer complete, ")
    assert announced(alice, "assertive") == []
    site.fake.script(streams.scripted(streams.BEGINNING, streams.fail("It broke.")))
    alice.write("And now?")
    alice.until(lambda: announced(alice, "assertive"), "the error is said")
    assert announced(alice) == said


def test_end_rendered_with_the_page_is_announced(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Half", streams.gate("end")))
    first = site.send("Tell us.")
    site.until_ended(first)
    alice = tab("Alice", site.room(first)).until_ended()
    listen(alice)
    alice.write("Go on")
    alice.shows("Half")

    # As if the rendering of an ended answer had replaced the live one.
    alice.answer.evaluate("answer => answer.removeAttribute('data-live')")
    alice.page.evaluate("document.dispatchEvent(new CustomEvent('room:shown'))")

    until_announced(alice, "complete")
    site.fake.release("end")
    assert sum("complete" in sentence for sentence in announced(alice)) == 1


# --- with the usual setting ---------------------------------------------------------------------


def test_whole_run_is_announced_in_few_sentences(scene_site: SceneSite, people: People) -> None:
    first = scene_site.ask(Scene("lmstudio", "demo-reasoner", "Hello."))
    scene_site.until_ended(first)
    alice = people.tab(scene_site, "Alice", scene_site.room(first)).until_ended()
    listen(alice)

    alice.write("Use a tool, with one that fails.")
    until_announced(alice, "complete")
    alice.until_ended()

    said = announced(alice)
    tools = [sentence for sentence in said if sentence.startswith("Tool ")]
    names = alice.answer.locator(".tool .name").all_text_contents()
    assert said[0].startswith("Answer from ")
    assert re.fullmatch(
        r"Answer complete, [\d,]+ words\. Press the up arrow key to read it\.", said[-1]
    ), said
    # The start of a tool call that ends at once is not announced.
    assert [one for one in tools if not one.endswith(" started")] == [
        f"Tool {names[0]} finished",
        f"Tool {names[1]} failed",
    ]
    assert len(set(tools)) == len(tools)
    # Phases and progress; none is announced twice in a row.
    others = [sentence for sentence in said[1:-1] if sentence not in tools]
    assert len(others) <= 10
    assert all(one != two for one, two in pairwise(said))
    assert announced(alice, "assertive") == []
    assert_apart(alice)


@pytest.mark.smoke
def test_tool_start_and_end_are_announced_once(site: BrowserSite, tab: OpenTab) -> None:
    arguments = {"at": "mill"}
    begun, done = streams.call("gauge", arguments), streams.succeed("gauge", arguments, "2 m")
    words = [streams.open_item("message"), streams.say("Two."), streams.close_item("message")]
    gates = streams.gate("done"), streams.gate("rest")
    whole = [streams.BEGINNING, begun, gates[0], done, gates[1], words, streams.end()]
    site.fake.script(streams.telling("First."), streams.scripted(*whole))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()
    listen(alice)
    alice.write("How high is it?")
    until_announced(alice, "Tool gauge started")

    site.fake.release("done")
    until_announced(alice, "Tool gauge finished")
    site.fake.release("rest")

    until_announced(alice, "complete")
    tools = [sentence for sentence in announced(alice) if sentence.startswith("Tool ")]
    assert tools == ["Tool gauge started", "Tool gauge finished"]
    assert_apart(alice)


def test_errors_and_questions_are_announced_at_once(scene_site: SceneSite, people: People) -> None:
    asking = scene_site.ask(Scene("xerotier", "demo-question", "Help me."))
    scene_site.until_ended(asking)
    asked = people.tab(scene_site, "Alice", scene_site.room(asking))
    expect(asked.page.locator(".ask-open").first).to_be_visible()
    listen(asked)
    asked.button("Try again").click()
    asked.until(lambda: announced(asked, "assertive"), "the question is said")
    failing = scene_site.ask(Scene("lmstudio", "demo-writer", "Hello."))
    scene_site.until_ended(failing)
    failed = people.tab(scene_site, "Alice", scene_site.room(failing)).until_ended()
    listen(failed)
    failed.write("error")
    failed.until(lambda: announced(failed, "assertive"), "the error is said")

    assert announced(asked, "assertive") == ["A question needs an answer."]
    assert len(announced(failed, "assertive")) == 1
    assert "complete" not in "".join(announced(failed))


def test_long_silence_is_announced_until_the_conversation_is_lost(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Half", streams.hang()))
    alice = tab("Alice", has_clock=True)
    alice.open(site.room(site.send("Tell us."))).until_ended()
    listen(alice)
    alice.write("Go on")
    alice.shows("Half")
    alice.page.clock.run_for(2_000)
    until_announced(alice, "Writing")

    alice.page.clock.run_for(60_000)

    # After 10 seconds, and again after 20 more.
    assert announced(alice).count("Still writing…") == 2
    alice.page.evaluate(
        "document.dispatchEvent(new CustomEvent('room:gone', {detail: {reason: 'deleted'}}))"
    )
    alice.page.clock.run_for(60_000)
    assert announced(alice).count("Still writing…") == 2
