"""Reading settings over a conversation and on the settings page, and questions about a passage that is selected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import axe, streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

ANSWER = """The **river** has three parts:

1. the spring, with `key=length`
2. the valley
3. the mouth

```python
def flow(river):
    return river.length
```

| Part | km |
| --- | --- |
| Valley | 30 |

It ends at sea.
"""
# Selects from the first words to the last ones.
SELECT = """([first, last]) => {
  const walker = document.createTreeWalker(document.getElementById("turns"), NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  const start = nodes.find(({ data }) => data.includes(first));
  const end = nodes.findLast(({ data }) => data.includes(last));
  // As a click there does.
  document.activeElement.blur();
  document.getSelection().setBaseAndExtent(start, start.data.indexOf(first), end, end.data.lastIndexOf(last) + last.length);
}"""


@pytest.fixture(autouse=True)
def _standard_reading(site: BrowserSite) -> Iterator[None]:
    yield
    site.rows(
        "UPDATE chat_user SET reading_width='', reading_size='', reading_density='', wraps_code=false"
    )


def tools(tab: Tab) -> Locator:
    return tab.page.get_by_role("toolbar", name="Selected text")


def ask_about(tab: Tab, first: str, last: str) -> None:
    tab.page.evaluate(SELECT, [first, last])
    tools(tab).get_by_role("button", name="Ask about this").click()


def test_passages_are_quoted_in_the_composer(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(ANSWER))
    alice = tab("Alice", site.room(site.send("Which\nriver?"))).until_ended().until_live()
    text = alice.page.locator("#text")

    alice.page.evaluate(SELECT, ["spring", "the valley"])
    expect(tools(alice)).to_be_visible()
    assert axe.findings(alice.page, within="#selection-tools") == []
    ask_about(alice, "the spring", "the valley")
    expect(text).to_be_focused()
    expect(text).to_have_value("> 1. the spring, with `key=length`\n> 2. the valley\n\n")
    expect(tools(alice)).to_be_hidden()
    alice.page.keyboard.type("Where?")

    # At the caret, and apart from what is there.
    ask_about(alice, "def", "length")
    quoted = "> ```python\n> def flow(river):\n>     return river.length\n> ```\n\n"
    expect(text).to_have_value(
        f"> 1. the spring, with `key=length`\n> 2. the valley\n\nWhere?\n\n{quoted}"
    )
    text.fill("")
    ask_about(alice, "Part", "30")
    expect(text).to_have_value("> Part | km\n> Valley | 30\n\n")
    text.fill("")
    ask_about(alice, "the mouth", "sea.")
    expect(text).to_have_value(
        f"> 3. the mouth\n>\n{quoted.rstrip()}\n>\n> Part | km\n> Valley | 30\n>\n> It ends at sea.\n\n"
    )

    # By keyboard: the message that keys act on, or what is selected.
    text.fill("")
    alice.page.keyboard.press("Shift+Escape")
    alice.page.keyboard.press("ArrowUp")
    alice.page.keyboard.press("k")
    alice.page.keyboard.press("q")
    expect(text).to_have_value("> Which\n> river?\n\n")
    expect(text).to_be_focused()


def test_long_passage_is_bounded(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("word " * 2000))
    alice = tab("Alice", site.room(site.send("Many words"))).until_ended().until_live()
    text = alice.page.locator("#text")

    text.focus()
    text.press("ArrowUp")
    alice.page.keyboard.press("q")

    expect(alice.page.get_by_text("Its first 4,000 characters were quoted.")).to_be_visible()
    assert len(text.input_value()) < 4010
    text.fill("")


def test_reading_settings_apply_at_once_and_everywhere(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(ANSWER))
    room = site.room(site.send("Read this"))
    alice, bob = tab("Alice", room).until_ended().until_live(), tab("Bob", room).until_live()
    page, root = alice.page, alice.page.locator("html")
    width = page.locator("#transcript").evaluate("each => each.clientWidth")

    page.get_by_label("Conversation options").click()
    page.get_by_role("link", name="Reading settings…").click()
    dialog = page.get_by_role("dialog", name="Reading settings")
    expect(dialog).to_be_visible()
    assert axe.findings(page, within="#reading-dialog") == []
    dialog.get_by_label("Wide").check()
    dialog.get_by_label("Large", exact=True).check()
    with page.expect_response("**/settings/reading/"):
        dialog.get_by_label("Compact").check()
    with page.expect_response("**/settings/reading/"):
        dialog.get_by_label("Wrap long lines of code").check()
    expect(root).to_have_attribute("data-reading", "wide large compact")
    expect(root).to_have_class("wraps-code")
    assert page.locator("#transcript").evaluate("each => each.clientWidth") > width
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_label("Conversation options")).to_be_focused()

    # Another page of the same person has them from its first byte, nobody else's.
    response = page.goto(f"{site.url}/settings/#reading")
    assert response is not None
    assert 'data-reading="wide large compact"' in response.text()
    bob.reload()
    expect(bob.page.locator("html")).not_to_have_attribute("data-reading", "wide large compact")

    section = page.locator("#reading")
    assert axe.findings(page, within="#reading") == []
    size = "each => getComputedStyle(each).fontSize"
    sample = section.locator(".answer")
    before = sample.evaluate(size)
    section.get_by_label("Largest").check()
    assert sample.evaluate(size) != before
    section.get_by_role("button", name="Save").click()
    expect(page.locator("html")).to_have_attribute("data-reading", "wide largest compact")
    shoot(alice, "settings")


def shoot(tab: Tab, name: str) -> None:
    if folder := os.environ.get("SHOTS"):
        tab.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)
