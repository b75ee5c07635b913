"""A very long answer keeps the elements that are near the reader, and the text of all of it."""

import re

import pytest
from playwright.sync_api import Page, expect

from chat.rendering.flow import SECTION_BLOCKS
from tests.browser import streams
from tests.browser.conftest import OpenTab
from tests.browser.site import BrowserSite
from tests.browser.tab import Tab

# Sections of an answer that is left whole, of a long one, and of one three times as long.
USUAL, LONG, LONGER = 8, 20, 60
BUSY_MS = 120_000

ELEMENTS = "() => document.querySelectorAll('#turns .answer *').length"
FAR = "() => document.querySelectorAll('#turns .is-far').length"
IS_STILL = """async () => {
  const count = () => document.querySelectorAll("#turns .is-far").length;
  const before = count();
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))));
  return count() === before;
}"""
# Without spaces: between blocks there are none where they stand as elements.
TEXT = "() => document.querySelector('#turns .flow').textContent.replace(/\\s+/g, '')"
# Where a paragraph stands in the window, and the words that stand at that place.
SHOWN = """text => {
  const all = [...document.querySelectorAll("#turns .blocks > p")];
  return all.some(each => each.textContent.includes(text) && each.checkVisibility({contentVisibilityAuto: true}));
}"""
PATIENT = "text => document.querySelector('#turns .answer')?.textContent.includes(text)"


def paragraph(number: int) -> str:
    return f"Paragraph {number}. with *words* and `code`\n\n"


def text_of(sections: int) -> str:
    return "".join(paragraph(number) for number in range(sections * SECTION_BLOCKS))


def shown_text(sections: int) -> str:
    return re.sub(r"[\s*`]+", "", text_of(sections))


def told(site: BrowserSite, tab: OpenTab, *pieces: str) -> Tab:
    site.fake.script(streams.telling(*pieces))
    alice = tab("Alice", site.room(site.send("Much.")))
    alice.page.wait_for_function(PATIENT, arg=pieces[-1].split("\n")[0], timeout=BUSY_MS)
    alice.until_ended()
    return settled(alice)


def settled(tab: Tab) -> Tab:
    tab.until(lambda: tab.page.evaluate(IS_STILL), "nothing put away or brought back any more")
    return tab


def far(page: Page) -> int:
    return int(page.evaluate(FAR))


def top(tab: Tab) -> Tab:
    tab.page.evaluate("() => scrollTo(0, 0)")
    return settled(tab)


@pytest.mark.parametrize("way", ["live", "loaded"])
def test_elements_are_bounded_by_what_is_near_and_the_text_is_whole(
    site: BrowserSite, tab: OpenTab, way: str
) -> None:
    counts = []
    for sections in (LONG, LONGER):
        alice = told(site, tab, text_of(sections), "The end.")
        if way == "loaded":
            settled(alice.reload())
        counts.append(alice.page.evaluate(ELEMENTS))
        assert alice.page.evaluate(TEXT) == f"{shown_text(sections)}Theend."
        assert far(alice.page) > sections - 10

    # An element for each section, none for what is in it.
    assert counts[1] - counts[0] <= 2 * (LONGER - LONG), counts


def test_an_answer_of_usual_length_is_left_whole(site: BrowserSite, tab: OpenTab) -> None:
    alice = told(site, tab, text_of(USUAL - 1), "The end.")
    top(alice)

    assert far(alice.page) == 0


def test_what_the_reader_comes_to_is_there_again(site: BrowserSite, tab: OpenTab) -> None:
    alice = told(site, tab, text_of(LONG), "The end.")
    height = alice.page.evaluate("() => document.scrollingElement.scrollHeight")
    assert not alice.page.evaluate(SHOWN, "Paragraph 0.")

    top(alice)

    assert alice.page.evaluate(SHOWN, "Paragraph 0.")
    assert alice.page.locator("#turns .blocks > p em").first.is_visible()
    assert 0 < far(alice.page) < LONG
    # And whatever stood between did not change its place.
    alice.page.keyboard.press("End")
    settled(alice)
    assert alice.page.evaluate(SHOWN, f"Paragraph {LONG * SECTION_BLOCKS - 1}.")
    assert alice.page.evaluate("() => document.scrollingElement.scrollHeight") == height
    assert alice.errors == []


def test_one_scrolls_through_all_of_it(site: BrowserSite, tab: OpenTab) -> None:
    alice = top(told(site, tab, text_of(LONG), "The end."))
    seen: set[str] = set()

    def reads_on() -> bool:
        seen.update(
            alice.page.evaluate(
                """() => [...document.querySelectorAll("#turns .blocks > p")]
                    .filter(each => { const box = each.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; })
                    .map(each => each.firstChild.textContent)"""
            )
        )
        before = alice.page.evaluate("() => scrollY")
        alice.page.evaluate("() => scrollBy({top: innerHeight * 0.7, behavior: 'instant'})")
        alice.page.evaluate(IS_STILL)
        return bool(alice.page.evaluate("() => scrollY") == before)

    alice.until(reads_on, "the end of the page")
    numbers = {int(match[1]) for text in seen if (match := re.match(r"Paragraph (\d+)\.", text))}
    assert numbers == set(range(LONG * SECTION_BLOCKS))


def test_a_link_to_a_place_that_is_far_leads_there(site: BrowserSite, tab: OpenTab) -> None:
    note = "[^1]: The note.\n\n"
    alice = told(site, tab, f"Marked[^1].\n\n{text_of(LONG)}{note}", "The end.")
    back = alice.page.locator("#turns .answer a.to-mark")
    expect(back).to_be_visible()

    back.click()

    alice.until(lambda: alice.page.evaluate(SHOWN, "Marked"), "the mark")
    expect(alice.page.locator("#turns sup").first).to_be_in_viewport()


def test_a_selection_is_copied_as_it_stands_and_is_not_taken_away(
    site: BrowserSite, tab: OpenTab
) -> None:
    alice = told(site, tab, text_of(LONG), "The end.")
    alice.page.evaluate(
        "() => document.getSelection().selectAllChildren(document.querySelector('#turns .flow'))"
    )
    alice.page.evaluate(
        """() => addEventListener("copy", () => {
          window.copied = document.getSelection().getRangeAt(0).cloneContents().querySelectorAll("p em").length;
        })"""
    )
    alice.page.keyboard.press("Control+c")

    alice.until(lambda: alice.page.evaluate("() => window.copied"), "what was copied")
    assert alice.page.evaluate("() => window.copied") == LONG * SECTION_BLOCKS
    top(alice)
    assert far(alice.page) == 0


def test_all_of_it_is_printed(site: BrowserSite, tab: OpenTab) -> None:
    alice = told(site, tab, text_of(LONG), "The end.")
    assert far(alice.page)

    # A browser lays out what it prints behind the event, before anything else happens.
    printed = alice.page.evaluate(
        """() => {
          dispatchEvent(new Event("beforeprint"));
          return document.querySelectorAll("#turns .blocks > p em").length;
        }"""
    )

    assert printed == LONG * SECTION_BLOCKS
    # And then it is as it was.
    settled(alice)
    assert far(alice.page)


def test_a_search_in_the_page_finds_what_is_far(site: BrowserSite, tab: OpenTab) -> None:
    alice = told(site, tab, text_of(LONG), "The end.")

    assert alice.page.evaluate("() => window.find('Paragraph 3. with')")

    alice.until(lambda: alice.page.evaluate(SHOWN, "Paragraph 3."), "what was looked for")
