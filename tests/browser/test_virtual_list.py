"""A very long answer keeps only the elements near the reader, and the text of all of it."""

import re

import pytest
from playwright.sync_api import Page, expect

from chat.rendering.markdown.blocks import SECTION_BLOCKS
from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

# Sections of an answer of usual length, of a long one, and of one three times as long.
USUAL, LONG, LONGER = 8, 20, 60
BUSY_MS = 120_000

ELEMENTS = "() => document.querySelectorAll('#turns .answer *').length"
REMOVED = "() => document.querySelectorAll('#turns .is-far').length"
IS_STILL = """async () => {
  const count = () => document.querySelectorAll("#turns .is-far").length;
  const before = count();
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))));
  return count() === before;
}"""
# Without spaces: there are none between blocks that are elements.
TEXT = "() => document.querySelector('#turns .answer .flow').textContent.replace(/\\s+/g, '')"
# A script that returns whether a paragraph with this text is rendered.
SHOWN = """text => {
  const all = [...document.querySelectorAll("#turns .answer .blocks > p")];
  return all.some(each => each.textContent.includes(text) && each.checkVisibility({contentVisibilityAuto: true}));
}"""
HEIGHT = "() => document.scrollingElement.scrollHeight"
HAS_TEXT = "text => document.querySelector('#turns .answer')?.textContent.includes(text)"


def paragraph(number: int) -> str:
    return f"Paragraph {number}. with *words* and `code`\n\n"


def text_of(sections: int) -> str:
    return "".join(paragraph(number) for number in range(sections * SECTION_BLOCKS))


def shown_text(sections: int) -> str:
    return re.sub(r"[\s*`]+", "", text_of(sections))


def open_answer(site: BrowserSite, tab: OpenTab, *pieces: str) -> Tab:
    site.fake.script(streams.telling(*pieces))
    alice = tab("Alice", site.room(site.send("Much.")))
    alice.page.wait_for_function(HAS_TEXT, arg=pieces[-1].split("\n")[0], timeout=BUSY_MS)
    return reading(alice.until_ended())


def reading(tab: Tab) -> Tab:
    """A search, and what is selected, begin where the focus is: not in the composer."""
    tab.page.evaluate(
        """() => {
          document.activeElement.blur();
          document.getSelection().collapse(document.getElementById("turns"), 0);
        }"""
    )
    return settled(tab)


def settled(tab: Tab) -> Tab:
    tab.until(lambda: tab.page.evaluate(IS_STILL), "no section is removed or restored any more")
    return tab


def removed_sections(page: Page) -> int:
    return int(page.evaluate(REMOVED))


def scroll_to_top(tab: Tab) -> Tab:
    tab.page.evaluate("() => scrollTo(0, 0)")
    return settled(tab)


def height_after_a_round(tab: Tab) -> int:
    scroll_to_end(scroll_to_top(tab))
    return int(tab.page.evaluate(HEIGHT))


@pytest.fixture(scope="module")
def long_room(shared_site: BrowserSite) -> str:
    """The address of a conversation with a long answer that has ended."""
    shared_site.fake.script(streams.telling(text_of(LONG), "The end."))
    run = shared_site.send("Much.")
    shared_site.until_ended(run)
    return shared_site.room(run)


@pytest.fixture
def alice(tab: OpenTab, long_room: str) -> Tab:
    """Alice at the end of that answer."""
    alice = tab("Alice", long_room)
    alice.page.wait_for_function(HAS_TEXT, arg="The end.", timeout=BUSY_MS)
    return reading(alice.until_ended())


def test_elements_are_bounded_and_the_text_is_whole(site: BrowserSite, tab: OpenTab) -> None:
    live, loaded = [], []
    for sections in (LONG, LONGER):
        alice = open_answer(site, tab, text_of(sections), "The end.")
        for counts in (live, loaded):
            if counts is loaded:
                settled(alice.reload())
            counts.append(alice.page.evaluate(ELEMENTS))
            assert alice.page.evaluate(TEXT) == f"{shown_text(sections)}Theend."
            assert removed_sections(alice.page) > sections - 10

    # One element for each section that is far away, and none for its content.
    for counts in (live, loaded):
        assert counts[1] - counts[0] <= 2 * (LONGER - LONG), counts


def test_usual_answer_is_not_virtualized(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_answer(site, tab, text_of(USUAL - 1), "The end.")
    scroll_to_top(alice)

    assert removed_sections(alice.page) == 0


def scroll_to_end(tab: Tab) -> None:
    tab.page.keyboard.press("End")
    settled(tab)


@pytest.mark.smoke
def test_scrolling_restores_sections(alice: Tab) -> None:
    # A section has an estimated height until it was rendered once, and its own from then on.
    heights = [height_after_a_round(alice)]

    def is_known() -> bool:
        heights.append(height_after_a_round(alice))
        return heights[-1] == heights[-2]

    alice.until(is_known, "the heights near both ends are known")
    assert not alice.page.evaluate(SHOWN, "Paragraph 0.")

    scroll_to_top(alice)

    assert alice.page.evaluate(SHOWN, "Paragraph 0.")
    assert alice.page.locator("#turns .answer .blocks > p em").first.is_visible()
    assert 0 < removed_sections(alice.page) < LONG
    # The sections between have kept their height.
    scroll_to_end(alice)
    assert alice.page.evaluate(SHOWN, f"Paragraph {LONG * SECTION_BLOCKS - 1}.")
    assert alice.page.evaluate(HEIGHT) == heights[-1]
    assert alice.errors == []


# Scrolls from the top to the end, and returns the paragraphs that were in the window.
READ_ALL = """async () => {
  const seen = new Set();
  for (;;) {
    for (const each of document.querySelectorAll("#turns .answer .blocks > p")) {
      const box = each.getBoundingClientRect();
      if (box.bottom > 0 && box.top < innerHeight) seen.add(each.firstChild.textContent);
    }
    const before = scrollY;
    scrollBy({top: innerHeight * 0.7, behavior: "instant"});
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))));
    if (scrollY === before) return [...seen];
  }
}"""


def test_scrolling_shows_every_paragraph(alice: Tab) -> None:
    scroll_to_top(alice)

    seen = alice.page.evaluate(READ_ALL)

    numbers = {int(match[1]) for text in seen if (match := re.match(r"Paragraph (\d+)\.", text))}
    assert numbers == set(range(LONG * SECTION_BLOCKS))


def test_link_leads_to_a_removed_section(site: BrowserSite, tab: OpenTab) -> None:
    note = "[^1]: The note.\n\n"
    alice = open_answer(site, tab, f"Marked[^1].\n\n{text_of(LONG)}{note}", "The end.")
    back = alice.page.locator("#turns .answer a.to-mark")
    expect(back).to_be_visible()

    back.click()

    alice.until(lambda: alice.page.evaluate(SHOWN, "Marked"), "the mark")
    expect(alice.page.locator("#turns sup").first).to_be_in_viewport()


def test_removed_sections_are_printed_found_and_copied(alice: Tab) -> None:
    assert removed_sections(alice.page)
    # The browser lays out the print right after this event.
    printed = alice.page.evaluate(
        """() => {
          dispatchEvent(new Event("beforeprint"));
          return document.querySelectorAll("#turns .answer .blocks > p em").length;
        }"""
    )
    assert printed == LONG * SECTION_BLOCKS
    # Afterwards the sections are removed again.
    settled(alice)
    assert removed_sections(alice.page)

    # The last paragraph of its section: without its elements the text would be much higher.
    words = f"Paragraph {SECTION_BLOCKS - 1}. with"
    assert alice.page.evaluate("words => window.find(words)", words)
    found = alice.page.locator("#turns .answer .blocks > p", has_text=words)
    expect(found).to_be_in_viewport()
    settled(alice)
    assert alice.page.evaluate("() => document.getSelection().toString()") == words
    expect(found).to_be_in_viewport()

    alice.page.evaluate(
        """() => {
          document.getSelection().selectAllChildren(document.querySelector("#turns .answer .flow"));
          addEventListener("copy", () => {
            window.copied = document.getSelection().getRangeAt(0).cloneContents().querySelectorAll("p em").length;
          });
        }"""
    )
    alice.page.keyboard.press("Control+c")
    alice.until(lambda: alice.page.evaluate("() => window.copied"), "what was copied")
    assert alice.page.evaluate("() => window.copied") == LONG * SECTION_BLOCKS
    # Selected turns stay in the document.
    scroll_to_top(alice)
    assert removed_sections(alice.page) == 0


def test_find_in_page_works_in_a_narrowed_window(site: BrowserSite, tab: OpenTab) -> None:
    long = "with a number of words that fill some lines of a narrow window " * 2
    text = "".join(f"Paragraph {number}. {long}\n\n" for number in range(LONG * SECTION_BLOCKS))
    alice = scroll_to_top(open_answer(site, tab, text, "The end."))
    alice.page.evaluate("() => scrollTo(0, document.scrollingElement.scrollHeight)")
    settled(alice)
    alice.page.set_viewport_size({"width": 360, "height": 700})
    settled(alice)
    words = f"Paragraph {SECTION_BLOCKS - 1}. with"

    assert alice.page.evaluate("words => window.find(words)", words)

    expect(alice.page.locator("#turns .answer .blocks > p", has_text=words)).to_be_in_viewport()


@pytest.mark.parametrize(("key", "begin", "end"), [("Tab", 0, 1), ("Shift+Tab", 1, 0)])
def test_tab_key_leads_to_removed_links(
    site: BrowserSite, tab: OpenTab, key: str, begin: int, end: int
) -> None:
    links = [f"[Link {number}](https://example.org/{number})\n\n" for number in range(2)]
    # The last section is never removed, so one of the links is in the middle.
    rest = text_of(LONG) if begin == 0 else ""
    alice = open_answer(site, tab, f"{links[0]}{text_of(LONG)}{links[1]}{rest}", "The end.")
    if begin == 0:
        scroll_to_top(alice)
    alice.page.get_by_role("link", name=f"Link {begin}").focus()

    alice.page.keyboard.press(key)

    link = alice.page.get_by_role("link", name=f"Link {end}")
    expect(link).to_be_focused()
    expect(link).to_be_in_viewport()


def test_reopened_reasoning_is_virtualized(site: BrowserSite, tab: OpenTab) -> None:
    thought = [streams.open_item("reasoning"), streams.think(text_of(LONGER))]
    site.fake.script(streams.scripted(streams.BEGINNING, thought, streams.gate("thought")))
    alice = tab("Alice", site.room(site.send("Think.")))
    last = f"Paragraph {LONGER * SECTION_BLOCKS - 1}."
    alice.page.wait_for_function(HAS_TEXT, arg=last, timeout=BUSY_MS)
    fold = alice.page.locator("#turns details.reasoning")
    fold.evaluate("fold => { fold.open = false; }")
    settled(alice)

    most = alice.page.evaluate(
        """async () => {
          let most = 0;
          document.querySelector("#turns details.reasoning").open = true;
          for (let frame = 0; frame < 10; frame += 1) {
            await new Promise(requestAnimationFrame);
            most = Math.max(most, document.querySelectorAll("#turns .answer .blocks > p").length);
          }
          return most;
        }"""
    )

    assert most < 10 * SECTION_BLOCKS
    site.fake.release("thought")


def test_removed_image_can_be_requested_again(site: BrowserSite, tab: OpenTab) -> None:
    pictures = "".join(f"![Picture](https://example.org/{name}.png)\n\n" for name in "ab")
    alice = scroll_to_top(open_answer(site, tab, f"{pictures}{text_of(LONG)}", "The end."))
    alice.hold("**/pictures/")
    buttons = alice.page.locator("#turns .show-picture")
    # As in a browser that does not focus what is clicked.
    buttons.evaluate_all("buttons => buttons.forEach(button => button.click())")
    alice.until(lambda: alice.is_holding, "the first picture is asked for")
    alice.page.evaluate("() => scrollTo(0, document.scrollingElement.scrollHeight)")
    settled(alice)
    expect(buttons).to_have_count(0)

    with alice.page.expect_response("**/pictures/"):
        alice.release()
    settled(alice)
    scroll_to_top(alice)

    expect(buttons).to_have_count(2)
    expect(alice.page.locator("#turns .show-picture[aria-busy]")).to_have_count(0)


def test_answer_with_notes_obeys_the_policy_when_it_ends(site: BrowserSite, tab: OpenTab) -> None:
    noted = f"It rises[^a].\n\n[^a]: In spring.\n\n{text_of(LONG)}"
    site.fake.script(streams.telling(noted, "The middle.\n\n", streams.gate("end"), "The end."))
    alice = tab("Alice", site.room(site.send("Much.")))
    alice.page.wait_for_function(HAS_TEXT, arg="The middle.", timeout=BUSY_MS)
    alice.until(lambda: removed_sections(alice.page) > 0, "sections are far away")

    # Notes find their marks now, so all of it is rendered anew.
    site.fake.release("end")
    alice.shows("The end.").until_ended()

    expect(alice.answer.locator(".notes")).to_contain_text("In spring.")
    assert alice.violations == []
