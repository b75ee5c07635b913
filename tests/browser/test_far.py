"""A very long answer keeps the elements that are near the reader, and the text of all of it."""

import re

import pytest
from playwright.sync_api import Page, expect

from chat.rendering.flow import SECTION_BLOCKS
from tests.browser.conftest import OpenTab
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

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


def test_what_a_search_has_found_stays_found_and_in_sight(site: BrowserSite, tab: OpenTab) -> None:
    alice = told(site, tab, text_of(LONG), "The end.")
    # The last of its section, which stands much higher in the text alone.
    words = f"Paragraph {SECTION_BLOCKS - 1}. with"

    assert alice.page.evaluate("words => window.find(words)", words)

    expect(alice.page.locator("#turns .blocks > p", has_text=words)).to_be_in_viewport()
    settled(alice)
    assert alice.page.evaluate("() => document.getSelection().toString()") == words
    expect(alice.page.locator("#turns .blocks > p", has_text=words)).to_be_in_viewport()


def test_a_search_reaches_all_of_it_when_the_window_has_become_narrow(
    site: BrowserSite, tab: OpenTab
) -> None:
    long = "with a number of words that fill some lines of a narrow window " * 6
    text = "".join(f"Paragraph {number}. {long}\n\n" for number in range(LONG * SECTION_BLOCKS))
    alice = top(told(site, tab, text, "The end."))
    alice.page.evaluate("() => scrollTo(0, document.scrollingElement.scrollHeight)")
    settled(alice)
    alice.page.set_viewport_size({"width": 360, "height": 700})
    settled(alice)
    words = f"Paragraph {SECTION_BLOCKS - 1}. with"

    assert alice.page.evaluate("words => window.find(words)", words)

    expect(alice.page.locator("#turns .blocks > p", has_text=words)).to_be_in_viewport()


@pytest.mark.parametrize(("key", "begin", "end"), [("Tab", 0, 1), ("Shift+Tab", 1, 0)])
def test_tab_leads_to_links_that_are_far(
    site: BrowserSite, tab: OpenTab, key: str, begin: int, end: int
) -> None:
    links = [f"[Link {number}](https://example.org/{number})\n\n" for number in range(2)]
    # Where it begins at the top, the other is in the middle: the last section is never far.
    rest = text_of(LONG) if begin == 0 else ""
    alice = told(site, tab, f"{links[0]}{text_of(LONG)}{links[1]}{rest}", "The end.")
    if begin == 0:
        top(alice)
    alice.page.get_by_role("link", name=f"Link {begin}").focus()

    alice.page.keyboard.press(key)

    link = alice.page.get_by_role("link", name=f"Link {end}")
    expect(link).to_be_focused()
    expect(link).to_be_in_viewport()


def test_a_fold_that_was_closed_opens_with_what_is_near(site: BrowserSite, tab: OpenTab) -> None:
    thought = [streams.open_item("reasoning"), streams.think(text_of(LONGER))]
    site.fake.script(streams.scripted(streams.BEGINNING, thought, streams.gate("thought")))
    alice = tab("Alice", site.room(site.send("Think.")))
    last = f"Paragraph {LONGER * SECTION_BLOCKS - 1}."
    alice.page.wait_for_function(PATIENT, arg=last, timeout=BUSY_MS)
    fold = alice.page.locator("#turns details.reasoning")
    fold.evaluate("fold => { fold.open = false; }")
    settled(alice)

    most = alice.page.evaluate(
        """async () => {
          let most = 0;
          document.querySelector("#turns details.reasoning").open = true;
          for (let frame = 0; frame < 10; frame += 1) {
            await new Promise(requestAnimationFrame);
            most = Math.max(most, document.querySelectorAll("#turns .blocks > p").length);
          }
          return most;
        }"""
    )

    assert most < 10 * SECTION_BLOCKS
    site.fake.release("thought")


def test_a_picture_that_was_wished_for_and_is_far_by_then_can_be_wished_for_again(
    site: BrowserSite, tab: OpenTab
) -> None:
    pictures = "".join(f"![Picture](https://example.org/{name}.png)\n\n" for name in "ab")
    alice = top(told(site, tab, f"{pictures}{text_of(LONG)}", "The end."))
    alice.hold("**/pictures/")
    buttons = alice.page.locator("#turns .show-picture")
    # As by a browser that does not move the focus to what is clicked.
    buttons.evaluate_all("buttons => buttons.forEach(button => button.click())")
    alice.until(lambda: alice.is_holding, "the first picture is asked for")
    alice.page.evaluate("() => scrollTo(0, document.scrollingElement.scrollHeight)")
    settled(alice)
    expect(buttons).to_have_count(0)

    with alice.page.expect_response("**/pictures/"):
        alice.let_go()
    settled(alice)
    top(alice)

    expect(buttons).to_have_count(2)
    expect(alice.page.locator("#turns .show-picture[aria-busy]")).to_have_count(0)
