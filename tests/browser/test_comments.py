"""Comments on passages and turns: written by one person while an answer streams, seen by another."""

from __future__ import annotations

from uuid import UUID

from playwright.sync_api import Locator, expect

from tests.support.browser import axe, streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab

# Selects words of an element, and returns them.
SELECT = """(element, words) => {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const at = walker.currentNode.data.indexOf(words);
    if (at < 0) continue;
    document.getSelection().setBaseAndExtent(walker.currentNode, at, walker.currentNode, at + words.length);
    return document.getSelection().toString();
  }
  return "";
}"""
MARKED = """() => [...CSS.highlights.get("comments") ?? []].map(String)"""
# Where every part of the conversation is.
PLACES = """() => [...document.querySelectorAll("#turns, #turns > .turn > *, #turns .item, #dock")].map(each => {
  const { top, left, width, height } = each.getBoundingClientRect();
  return [each.id || each.className, top, left, width, height];
})"""


def select(tab: Tab, place: Locator, words: str) -> None:
    assert place.evaluate(SELECT, words) == words


def marked(tab: Tab) -> list[str]:
    return list(tab.page.evaluate(MARKED))


def threads(tab: Tab) -> Locator:
    return tab.page.locator("#comments .comment-thread")


def comment(tab: Tab, text: str) -> None:
    field = tab.page.locator("#comment-text")
    expect(field).to_be_focused()
    field.fill(text)
    field.press("Enter")
    expect(field).to_have_count(0)


def test_two_people_comment_while_an_answer_streams(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(
        streams.telling("The river begins in the **hills**. ", gate("more"), "It ends at sea.")
    )
    run = site.send("Where does it begin?")
    alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))
    for each in (alice, bob):
        each.shows("The river begins")
    places = alice.page.evaluate(PLACES)

    # Bob comments on words of the answer that is being written.
    select(bob, bob.page.locator("#turns .item.message"), "The river begins")
    bob.page.locator("#selection-tools").get_by_role("button", name="Comment").click()
    expect(bob.page.locator(".comment-new .comment-quote")).to_have_text("The river begins")
    comment(bob, "Which one? See https://example.org/rivers")
    expect(threads(bob)).to_have_count(1)
    expect(threads(bob).locator(".comment-body a")).to_have_attribute(
        "href", "https://example.org/rivers"
    )

    alice.until(lambda: marked(alice) == ["The river begins"], "the mark")
    mark = alice.turns.nth(1).locator(".comment-mark")
    expect(mark).to_have_accessible_name("1 comment")
    expect(alice.page.locator("#polite")).to_have_text("Bob commented on message 2")
    assert alice.page.evaluate(PLACES) == places
    site.fake.release("more")
    for each in (alice, bob):
        each.shows("It ends at sea.").until_ended()
        each.until(lambda each=each: marked(each) == ["The river begins"], "the mark")

    # Alice opens it by its mark and replies; what Bob is writing stays.
    draft = threads(bob).locator("textarea")
    draft.fill("And also")
    mark.click()
    expect(threads(alice).locator(".comment").first).to_be_focused()
    assert axe.findings(alice.page) == []
    reply = threads(alice).locator("textarea")
    reply.press_sequentially("The long one, @Bo")
    expect(threads(alice).locator(".completion-option.is-active")).to_contain_text("Bob")
    reply.press("Enter")
    expect(reply).to_have_value("The long one, @Bob ")
    reply.press("Enter")
    expect(threads(bob).locator(".comment")).to_have_count(2)
    expect(draft).to_have_value("And also")
    expect(draft).to_be_focused()

    # She resolves it. Bob, who is writing, keeps it and reopens it.
    threads(alice).get_by_role("button", name="Resolve").click()
    expect(threads(alice)).to_have_count(0)
    for each in (alice, bob):
        each.until(lambda each=each: marked(each) == [], "no mark")
        expect(each.page.locator(".comment-mark")).to_have_count(0)
    expect(draft).to_have_value("And also")
    draft.press("Enter")
    expect(threads(alice).locator(".comment")).to_have_count(3)
    alice.until(lambda: marked(alice) == ["The river begins"], "the mark")
    alice.page.keyboard.press("Escape")
    expect(alice.page.locator("#panel")).to_be_hidden()


# Anchors of random passages in random texts that are changed at random, and in elements that divide a text
# differently. Returns the cases that are wrong.
ANCHORS = """async seed => {
  const source = performance.getEntriesByType("resource").find(({ name }) => name.includes("/comments/anchors")).name;
  const { anchorOf, rangeOf } = await import(source);
  const dense = text => text.replace(/\\s+/g, "");
  const random = limit => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * limit);
  };
  const pick = letters => letters[random(letters.length)];
  const LETTERS = [["a"], ["a", "b"], [..."abcdefghijklmnop"], ["ä", "👩‍👩‍👧", "水", "e\\u0301", "x"]];
  const write = (letters, most) => Array.from({ length: random(most) }, () => pick(letters)).join("");
  const wrong = [];
  // Of texts without white space, in elements with one text each.
  const holding = text => Object.assign(document.createElement("div"), { textContent: text });
  const describe = (text, start, end) => {
    const part = holding(text);
    const range = document.createRange();
    range.setStart(part.firstChild, start);
    range.setEnd(part.firstChild, end);
    return anchorOf(part, range);
  };
  const locate = (text, anchor) => {
    const range = text && rangeOf(holding(text), anchor);
    return range && [range.startOffset, range.endOffset];
  };
  const check = (holds, ...facts) => { if (!holds) wrong.push(JSON.stringify(facts)); };

  for (let round = 0; round < 400; round += 1) {
    const letters = pick(LETTERS);
    const text = write(letters, 400) + pick(letters);
    const start = random(text.length);
    const anchor = describe(text, start, start + 1 + random(Math.min(text.length - start, 60)));
    // Half of a character is no passage.
    if (!anchor) continue;
    const end = start + anchor.quote.length;

    check(String(locate(text, anchor)) === String([start, end]), "same", text, start, end);

    // A change that is not near: found with all that was around it.
    const before = Math.max(start - 32, 0);
    const cut = random(before + 1);
    const changed = text.slice(0, cut) + write(letters, 50) + text.slice(cut + random(before - cut + 1));
    const place = locate(changed, anchor);
    check(place && changed.slice(...place) === anchor.quote
      && changed.slice(0, place[0]).endsWith(anchor.prefix)
      && changed.slice(place[1]).startsWith(anchor.suffix), "far", text, changed, start, end);

    // Any change: never another text.
    const at = random(text.length);
    const other = text.slice(0, at) + write(letters, 9) + text.slice(at + random(80));
    const found = locate(other, anchor);
    check(!found || other.slice(...found) === anchor.quote, "any", text, other, start, end);
  }

  // In elements: white space and the places where they divide the text do not count.
  const build = text => {
    const part = document.createElement("div");
    part.id = "part";
    let place = part;
    for (const letter of text) {
      if (!random(6)) place = part.appendChild(document.createElement(pick(["p", "em", "li", "code"])));
      if (!random(9)) place.append(" \\n ");
      if (!random(20)) place.append(Object.assign(document.createElement("button"), { textContent: "Copy" }));
      place.append(letter);
    }
    return part;
  };
  for (let round = 0; round < 100; round += 1) {
    const text = write(pick(LETTERS), 200) + "end";
    const [first, second] = [build(text), build(text)];
    const nodes = [...first.querySelectorAll("*"), first].flatMap(({ childNodes }) => [...childNodes]);
    const range = document.createRange();
    range.setStart(pick(nodes), 0);
    range.setEnd(first, first.childNodes.length);
    const anchor = anchorOf(first, range);
    if (!anchor) continue;
    for (const part of [first, second]) {
      const again = rangeOf(part, anchor);
      check(again && dense(again.toString().replaceAll("Copy", "")) === dense(anchor.quote), "elements", first.outerHTML, part.outerHTML, anchor);
    }
  }
  return wrong.slice(0, 3);
}"""


def test_passages_are_found_again(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("So."))
    run = site.send("Where?")
    alice = tab("Alice", site.room(run)).until_ended()

    for seed in range(1, 6):
        assert alice.page.evaluate(ANCHORS, seed) == []


# A point in the middle of the first passage that is marked.
POINT = """() => {
  const { left, top, width, height } = [...CSS.highlights.get("comments")][0].getBoundingClientRect();
  return [left + width / 2, top + height / 2];
}"""
ACTIVE = """() => [...CSS.highlights.get("comment-active") ?? []].map(String)"""


def test_address_of_a_comment_opens_it_at_its_turn(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("The river begins in the hills."), streams.telling("So."))
    run = site.send("Where does it begin?")
    site.until_ended(run)
    alice, bob = tab("Alice", site.room(run)).until_ended(), tab("Bob", site.room(run))
    bob.until_ended()
    select(bob, bob.page.locator("#turns .item.message"), "in the hills")
    # By the action of the turn, as with the keyboard.
    bob.turns.nth(1).get_by_role("link", name="Comment", exact=True).press("Enter")
    expect(bob.page.locator(".comment-new .comment-quote")).to_have_text("in the hills")
    comment(bob, "Which?")
    alice.until(lambda: marked(alice) == ["in the hills"], "the mark")

    # By a click on the passage, and by the comment's address, of which the model learns nothing.
    alice.page.mouse.click(*alice.page.evaluate(POINT))
    expect(threads(alice).locator(".comment")).to_be_focused()
    threads(alice).get_by_label("Comment options").click()
    link = threads(alice).locator("[data-copy-link]").get_attribute("data-copy-link") or ""
    bob.write("And then?").until_ended()
    assert "Which?" not in str(site.fake.requests[-1].body)
    later = UUID(bob.turns.nth(2).get_attribute("data-turn") or "")
    for address in (link, f"{site.room(run)}earlier/{later}/#{link.partition('#')[2]}"):
        alice.open(address)
        expect(threads(alice).locator(".comment")).to_be_focused()
        alice.until(lambda: alice.page.evaluate(ACTIVE) == ["in the hills"], "the passage")

    # A thread that somebody resolves while another one has its address.
    threads(bob).get_by_role("button", name="Resolve").click()
    expect(threads(bob)).to_have_count(0)
    alice.open(link)
    expect(threads(alice)).to_contain_text("Resolved by Bob")
    threads(bob).page.locator("#comments-tabs").get_by_text("Resolved").click()
    threads(bob).get_by_label("Comment options").click()
    threads(bob).get_by_role("button", name="Delete").click()
    bob.page.locator("#confirm-go").click()
    expect(threads(bob)).to_have_count(0)
