"""Collapsed parts of an answer: what is long is loaded when it is opened, without a jump."""

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import close_item, gate, open_item, say, think

REASONING = "".join(f"Thought number {number} of many.\n\n" for number in range(200))
LOG = "".join(f"line {number} of the log\n" for number in range(400))


def script_reasoning(site: BrowserSite) -> None:
    site.fake.script(
        streams.scripted(
            streams.BEGINNING,
            open_item("reasoning"),
            think(REASONING),
            gate("thought"),
            think("The last thought."),
            close_item("reasoning"),
            open_item("message"),
            say("So it is."),
            close_item("message"),
            streams.end(),
        )
    )


def fold(answer: Locator) -> Locator:
    return answer.locator("details.reasoning")


@pytest.mark.smoke
def test_long_reasoning_is_loaded_when_opened(site: BrowserSite, tab: OpenTab) -> None:
    script_reasoning(site)
    alice = tab("Alice", site.room(site.send("Think.")))
    expect(fold(alice.answer)).to_contain_text("Thought number 199")

    site.fake.release("thought")
    alice.shows("So it is.").until_ended()
    expect(fold(alice.answer)).not_to_contain_text("Thought number 7")
    live = alice.normalized()
    alice.reload().until_ended()
    assert alice.normalized() == live

    fold(alice.answer).locator("summary").focus()
    alice.page.keyboard.press("Enter")

    expect(fold(alice.answer)).to_contain_text("Thought number 7")
    expect(fold(alice.answer)).to_contain_text("The last thought.")


def test_open_reasoning_stays_readable_at_its_end(site: BrowserSite, tab: OpenTab) -> None:
    script_reasoning(site)
    alice = tab("Alice", site.room(site.send("Think.")))
    expect(fold(alice.answer)).to_contain_text("Thought number 199")
    fold(alice.answer).locator("summary").click()
    alice.hold("**/part/**")

    site.fake.release("thought")
    alice.shows("So it is.")

    alice.until(lambda: alice.is_holding, "the whole thought is asked for")
    expect(fold(alice.answer)).to_contain_text("Thought number 199")
    alice.release()
    expect(fold(alice.answer)).to_contain_text("The last thought.")
    expect(alice.answer.locator(".later")).to_have_count(0)


def test_tool_calls_in_a_row_open_step_by_step(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(
        streams.scripted(
            streams.BEGINNING,
            streams.call("read_log", {"lines": 400}, LOG),
            streams.call("read_gauge", {"station": "Mill"}, '{"level_m": 2.31}'),
            open_item("message"),
            say("It rises."),
            close_item("message"),
            streams.end(),
        )
    )
    alice = tab("Alice", site.room(site.send("Look."))).shows("It rises.").until_ended()
    line = alice.answer.locator(".in-a-row > summary")
    expect(line).to_contain_text("2 tool calls")
    card = alice.answer.locator(".tool").first
    expect(card).not_to_be_visible()

    line.click()
    expect(card).to_be_visible()
    expect(card).not_to_contain_text("line 399 of the log")
    card.locator("summary").first.click()

    expect(card).to_contain_text("line 399 of the log")


def test_long_text_goes_on_slice_after_slice(site: BrowserSite, tab: OpenTab) -> None:
    words = "".join(f"Paragraph {number}. {'and more ' * 200}\n\n" for number in range(180))
    site.fake.script(streams.telling(words[:100_000], words[100_000:], gate("middle"), "The end."))
    alice = tab("Alice", site.room(site.send("Tell us.")))
    rest = alice.answer.locator(".rest").last
    expect(rest).to_contain_text("You can see the rest when it is complete.")
    site.fake.release("middle")
    alice.until_ended()
    expect(rest).to_contain_text("more characters")
    live = alice.normalized()
    alice.reload().until_ended()
    assert alice.normalized() == live

    for last in ("Paragraph 130.", "Paragraph 179."):
        expect(alice.answer).not_to_contain_text(last)
        rest.locator(".later").focus()
        alice.page.keyboard.press("Enter")
        expect(alice.answer).to_contain_text(last)

    expect(alice.answer).to_contain_text("The end.")
    expect(alice.answer.locator(".later")).to_have_count(0)
    shown = alice.answer.locator("section p").all_text_contents()
    numbers = [int(text.split()[1].strip(".")) for text in shown if text.startswith("Paragraph")]
    assert numbers == list(range(180))


def test_long_text_can_be_downloaded(site: BrowserSite, tab: OpenTab) -> None:
    words = "word " * 60_000
    site.fake.script(streams.telling(words))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()

    with alice.page.expect_download() as started:
        alice.page.get_by_role("link", name="Download text").click()

    assert started.value.suggested_filename == "answer.md"
    assert started.value.path().read_text().strip() == words.strip()


def test_failed_part_can_be_loaded_again(site: BrowserSite, tab: OpenTab) -> None:
    script_reasoning(site)
    alice = tab("Alice", site.room(site.send("Think.")))
    site.fake.release("thought")
    alice.shows("So it is.").until_ended()
    alice.page.route("**/part/**", lambda route: route.abort())

    fold(alice.answer).locator("summary").click()
    button = alice.button("Couldn’t load. Try again")
    expect(button).to_be_visible()
    alice.page.unroute_all()
    button.click()

    expect(fold(alice.answer)).to_contain_text("Thought number 7")
