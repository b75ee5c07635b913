"""A long answer costs the page as much per word as a short one, whatever it consists of."""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.upstream.script import Gate, Send, lmstudio_events

# With fewer, the beginning would weigh too much: a small block is rendered again as a whole. With more,
# the long answer would be cut, and one that is a single block before that.
DELTAS = 2_400
DELTAS_OF_A_BLOCK = 1_200
TIMES = 3
MOST_TIMES_THE_COST = 3.6
# Deltas between two checks of the page; the same for short and long answers.
BATCH = 200
BUSY_MS = 120_000

# Counts every mutation record, and every node that it added or removed.
COUNT = """() => {
  window.touched = 0;
  const size = node => 1 + (node.querySelectorAll?.("*").length ?? 0);
  new MutationObserver(records => {
    for (const record of records) {
      window.touched += 1;
      for (const node of [...record.addedNodes, ...record.removedNodes]) window.touched += size(node);
    }
  }).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
}"""
# Each is rendered in a frame of its own.
STEPS = 10
# Several hundred elements are in view, and many more on the page.
MOST_STYLED = 60

IS_SHOWN = """marker => document.querySelector("#turns .answer").textContent.includes(marker)"""


def paragraphs(number: int) -> str:
    return f"Paragraph {number} of\n\n" if number % 5 == 4 else f"some *words* {number} "


def one_list(number: int) -> str:
    return f"- entry {number}\n"


def one_table(number: int) -> str:
    return f"|{number}|v|\n" if number > 1 else ("| a | b |\n", "|---|---|\n")[number]


def one_fence(number: int) -> str:
    return f"line_{number} = {number}\n" if number else "```python\n"


def one_paragraph(number: int) -> str:
    return f"word{number} "


KINDS = (paragraphs, one_list, one_table, one_fence, one_paragraph)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_touched_nodes_grow_linearly_with_the_answer(
    site: BrowserSite, tab: OpenTab, kind: Callable[[int], str]
) -> None:
    deltas = DELTAS if kind is paragraphs else DELTAS_OF_A_BLOCK
    # What else the machine does adds to a count: the deltas come in more frames, and a page that
    # falls behind is shown the whole block again. So a length that costs too much is measured again.
    short = [touched(site, tab, kind, deltas, "short")]
    long = [touched(site, tab, kind, TIMES * deltas, "long")]
    if long[0] > MOST_TIMES_THE_COST * short[0]:
        short.append(touched(site, tab, kind, deltas, "short again"))
        long.append(touched(site, tab, kind, TIMES * deltas, "long again"))

    assert min(long) <= MOST_TIMES_THE_COST * max(short), (short, long)


def touched(
    site: BrowserSite, tab: OpenTab, kind: Callable[[int], str], deltas: int, gates: str
) -> int:
    """How many nodes of the page an answer of so many deltas has touched."""
    batches = range(0, deltas, BATCH)
    steps: list[Send | Gate] = []
    for start in batches:
        events = [streams.say(kind(number)) for number in range(start, start + BATCH)]
        name = f"{kind.__name__}-{gates}-{start}"
        steps += [streams.gate(name), Send(base64=lmstudio_events(events))]
    site.fake.script(
        streams.scripted(
            streams.BEGINNING,
            streams.open_item("message"),
            *steps,
            streams.close_item("message"),
            streams.end(),
        )
    )
    alice = tab("Alice", site.room(site.send("Much.")))
    alice.page.evaluate(COUNT)
    for start in batches:
        site.fake.release(f"{kind.__name__}-{gates}-{start}")
        marker = str(start + BATCH - 1)
        alice.page.wait_for_function(IS_SHOWN, arg=marker, polling=50, timeout=BUSY_MS)
    alice.until_ended()
    count = int(alice.page.evaluate("() => window.touched"))
    alice.page.close()
    return count


def test_new_paragraph_restyles_few_elements(site: BrowserSite, tab: OpenTab) -> None:
    alice = long_answer(site, tab, "paragraphs")

    def paragraphs_come() -> None:
        for number in range(STEPS):
            site.fake.release(f"paragraphs-{number}")
            alice.wait_for_function(IS_SHOWN, arg=f"Step {number}.", polling=20)

    assert styled(alice, paragraphs_come) / STEPS <= MOST_STYLED


def test_typing_restyles_few_elements(site: BrowserSite, tab: OpenTab) -> None:
    alice = long_answer(site, tab, "letters")
    alice.locator("#text").focus()

    def letters_are_typed() -> None:
        for _ in range(STEPS):
            # Also between an empty and a filled field, which changes the send button.
            alice.keyboard.type("ab")
            alice.keyboard.press("Backspace")
            alice.keyboard.press("Backspace")

    assert styled(alice, letters_are_typed) / (4 * STEPS) <= MOST_STYLED


def long_answer(site: BrowserSite, tab: OpenTab, name: str) -> Page:
    """A page with a long live answer; each further paragraph waits at a gate."""
    steps = [
        step
        for number in range(STEPS)
        for step in (streams.gate(f"{name}-{number}"), f"Step {number}.\n\n")
    ]
    pieces = [paragraphs(number) for number in range(DELTAS)]
    site.fake.script(streams.telling("".join(pieces), *steps))
    alice = tab("Alice", site.room(site.send("Much."))).page
    alice.wait_for_function(IS_SHOWN, arg=pieces[-1].strip(), polling=50, timeout=BUSY_MS)
    return alice


def styled(page: Page, act: Callable[[], None]) -> int:
    """How many elements the browser restyles during ``act``."""
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=["-*", "devtools.timeline"])
    act()
    recorded = json.loads(browser.stop_tracing())["traceEvents"]
    updates = [event["args"] for event in recorded if event["name"] == "UpdateLayoutTree"]
    assert updates, "nothing was recorded"
    return sum(update.get("elementCount", 0) for update in updates)
