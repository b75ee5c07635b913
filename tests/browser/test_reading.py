"""Reading a live answer: scrolling, the keyboard, focus, names for a screen reader."""

from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.screen_reader import announced, listen, until_announced
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab

PARAGRAPHS = "".join(f"Paragraph {number} of a long text.\n\n" for number in range(60))
MORE = "".join(f"Further paragraph {number}.\n\n" for number in range(30))
POSITION = "() => [scrollY, document.scrollingElement.scrollHeight - innerHeight - scrollY]"


def long_answer(site: BrowserSite, tab: OpenTab, **options: object) -> Tab:
    site.fake.script(
        streams.telling(PARAGRAPHS, gate("more"), MORE, gate("most"), MORE, "The end of it.")
    )
    run = site.send("Much.")
    return tab("Alice", site.room(run), **options).shows("Paragraph 59")


def position(tab: Tab) -> tuple[float, float]:
    """Pixels above and below the visible part."""
    above, below = tab.page.evaluate(POSITION)
    return above, below


def is_at_end(tab: Tab) -> bool:
    return position(tab)[1] < 4


def by_wheel(tab: Tab) -> None:
    tab.page.mouse.move(700, 300)
    tab.page.mouse.wheel(0, -700)


def by_key(tab: Tab) -> None:
    tab.page.locator("#main").focus()
    tab.page.keyboard.press("PageUp")


def by_space(tab: Tab) -> None:
    tab.page.locator("#main").focus()
    tab.page.keyboard.press("Shift+Space")


def by_touch(tab: Tab) -> None:
    session = tab.page.context.new_cdp_session(tab.page)
    # A second apart by the clock of the events, so that no scrolling goes on by itself.
    moves = (("touchStart", 200), ("touchMove", 300), ("touchMove", 600), ("touchEnd", None))
    for second, (kind, y) in enumerate(moves):
        points = [] if y is None else [{"x": 700, "y": y}]
        event = {"type": kind, "touchPoints": points, "timestamp": 1_000 + second}
        session.send("Input.dispatchTouchEvent", event)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", ["PageUp", "PageDown", "Home", "End"]),
        ("One line", ["PageUp", "PageDown"]),
    ],
)
def test_keys_that_a_short_message_has_no_use_for_scroll_the_page(
    site: BrowserSite, tab: OpenTab, text: str, keys: list[str]
) -> None:
    alice = long_answer(site, tab)
    alice.until(lambda: is_at_end(alice), "the page at its end")
    alice.composer.fill(text)

    for key in keys:
        before, _ = position(alice)
        alice.page.keyboard.press(key)
        is_up = key in ("PageUp", "Home")
        alice.until(lambda: (position(alice)[0] < before) == is_up, key)  # noqa: B023
        if key == "Home":
            assert position(alice)[0] == 0

    expect(alice.composer).to_be_focused()
    alice.until(lambda: is_at_end(alice), "the page at its end again")


def test_keys_of_a_long_message_stay_in_it(site: BrowserSite, tab: OpenTab) -> None:
    alice = long_answer(site, tab)
    alice.until(lambda: is_at_end(alice), "the page at its end")
    alice.composer.fill("One\nTwo\nThree")

    alice.page.keyboard.press("PageUp")
    alice.page.keyboard.press("Home")

    assert alice.composer.evaluate("field => field.selectionStart") == 0
    assert is_at_end(alice)


@pytest.mark.parametrize(
    "scroll", [pytest.param(by_wheel, marks=pytest.mark.smoke), by_key, by_space, by_touch]
)
def test_page_follows_the_end_until_the_reader_scrolls(
    site: BrowserSite, tab: OpenTab, scroll: Callable[[Tab], None]
) -> None:
    alice = long_answer(site, tab, has_touch=True)
    alice.until(lambda: is_at_end(alice), "the page at its end")

    scroll(alice)
    alice.until(lambda: position(alice)[1] > 200, "the page away from its end")
    before = position(alice)[0]
    site.fake.release("more")
    button = alice.button("New text below")
    expect(button).to_be_visible()
    alice.shows("Further paragraph 29")
    assert abs(position(alice)[0] - before) < 2

    button.click()
    alice.until(lambda: is_at_end(alice), "the page at its end again")
    expect(alice.page.locator("#to-end")).to_be_hidden()
    site.fake.release("most")
    alice.shows("The end of it.").until_ended()
    alice.until(lambda: is_at_end(alice), "the page still at its end")


def test_scrolling_to_the_end_follows_again(site: BrowserSite, tab: OpenTab) -> None:
    alice = long_answer(site, tab)
    by_wheel(alice)
    alice.until(lambda: position(alice)[1] > 200, "the page away from its end")

    alice.page.mouse.wheel(0, 5000)
    alice.until(lambda: is_at_end(alice), "the page at its end")
    site.fake.release("more")
    alice.shows("Further paragraph 29")

    alice.until(lambda: is_at_end(alice), "the page still at its end")


def test_selection_survives_streaming(site: BrowserSite, tab: OpenTab) -> None:
    alice = long_answer(site, tab)
    alice.until(lambda: is_at_end(alice), "the page at its end")
    alice.page.get_by_text("Paragraph 55 of").select_text()
    before = position(alice)[0]

    site.fake.release("more")
    alice.shows("Further paragraph 29")

    assert "Paragraph 55 of" in alice.page.evaluate("() => getSelection().toString()")
    assert abs(position(alice)[0] - before) < 2


def test_typing_survives_streaming(site: BrowserSite, tab: OpenTab) -> None:
    names = [f"step {number}" for number in range(8)]
    pieces = [part for name in names for part in (gate(name), f"- {name}\n")]
    site.fake.script(streams.telling("Begin.\n\n", *pieces, gate("end")))
    alice = tab("Alice", site.room(site.send("Tell us."))).shows("Begin.")

    alice.composer.focus()
    for name in names:
        alice.page.keyboard.type(f"{name[-1]} ")
        site.fake.release(name)
        alice.shows(name)
        expect(alice.composer).to_be_focused()
    site.fake.release("end")

    alice.until_ended()
    expect(alice.composer).to_be_focused()
    expect(alice.composer).to_have_value("0 1 2 3 4 5 6 7 ")


def test_keys_reach_the_composer_close_menus_and_send(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()
    press = alice.page.keyboard.press

    alice.page.locator("#main").focus()
    press("/")
    expect(alice.composer).to_be_focused()
    expect(alice.composer).to_have_value("")
    press("/")
    expect(alice.composer).to_have_value("/")

    for label in ("Conversation options", "account menu"):
        summary = alice.page.locator(f"summary[aria-label='{label}'], summary:has-text('{label}')")
        summary.click()
        menu = alice.page.locator("details.menu[open]")
        expect(menu.locator(".menu-items")).to_be_visible()
        press("Tab")
        press("Escape")
        expect(menu).to_have_count(0)
        expect(summary).to_be_focused()

    # An empty message is not sent.
    alice.write("  \n ")
    alice.page.locator("#send").click()
    expect(alice.turns).to_have_count(2)
    assert site.fake.posts == 1

    alice.composer.fill("")
    alice.page.keyboard.type("One")
    press("Shift+Enter")
    alice.page.keyboard.type("Two")
    expect(alice.composer).to_have_value("One\nTwo")
    press("Enter")
    alice.shows("Second.").until_ended()
    expect(alice.turns.nth(2).locator(".words")).to_have_text("One\nTwo", use_inner_text=True)
    expect(alice.composer).to_be_focused()

    press("Control+Shift+O")
    alice.page.wait_for_url(f"{site.url}/")
    expect(alice.composer).to_be_focused()


def test_phases_and_end_are_announced(site: BrowserSite, tab: OpenTab) -> None:
    names = [f"step {number}" for number in range(12)]
    pieces = [part for name in names for part in (gate(name), f"{name}, ")]
    site.fake.script(streams.telling("First."), streams.telling(*pieces, "the end."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()
    listen(alice)

    alice.write("Go on")
    for name in names:
        site.fake.release(name)
        alice.shows(name)
    alice.until_ended()
    until_announced(alice, "Answer complete")

    sentences = announced(alice)
    assert 2 <= len(sentences) <= 6
    assert not any("step" in sentence for sentence in sentences)
    assert len(set(sentences)) == len(sentences)


def test_page_has_landmarks_and_names(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Half", gate("rest"), " and whole."))
    alice = tab("Alice", site.room(site.send("Tell us."))).shows("Half")
    page = alice.page

    expect(page.get_by_role("log", name="Conversation")).to_have_attribute("aria-live", "off")
    expect(page.get_by_role("article", name="Message 1 by Alice")).to_be_visible()
    expect(page.get_by_role("article", name="Answer 2 by Test")).to_be_visible()
    expect(page.get_by_role("navigation", name="Conversations")).to_be_visible()
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    expect(page.get_by_role("button", name="Model: ")).to_be_visible()
    expect(page.get_by_role("main")).to_be_visible()
    expect(alice.answer).to_have_attribute("aria-busy", "true")
    site.fake.release("rest")
    alice.until_ended()
    assert alice.answer.get_attribute("aria-busy") is None


def test_link_to_a_section_opens_what_is_folded_there(site: BrowserSite, tab: OpenTab) -> None:
    ada = tab("Ada", f"/settings/servers/{UUID(site.world.upstream)}/settings/")
    fold = ada.page.locator("#parameters > details")
    fold.evaluate("fold => { fold.open = false; }")

    ada.page.get_by_role("link", name="Default parameters").click()

    expect(fold.locator("input").first).to_be_visible()


def test_actions_come_when_the_answer_has_ended(site: BrowserSite, tab: OpenTab) -> None:
    said = [streams.open_item("message"), streams.say("By the spring.")]
    closing = [streams.close_item("message"), streams.end()]
    site.fake.script(streams.scripted(streams.BEGINNING, gate("words"), said, gate("end"), closing))
    alice = tab("Alice", site.room(site.send("Where does it rise?")))
    copy = alice.turns.last.locator("[data-copy-source]")
    expect(alice.page.locator("#strip .word")).to_have_text("Waiting for the model…")
    expect(copy).to_be_hidden()

    site.fake.release("words")
    alice.shows("By the spring.")
    alice.turns.last.hover()

    expect(copy).to_be_hidden()
    site.fake.release("end")
    alice.until_ended()
    alice.turns.last.hover()
    expect(copy).to_be_visible()
    alice.reload().shows("By the spring.").turns.last.hover()
    expect(copy).to_be_visible()


def test_source_of_a_message_is_shown_in_place(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."))
    alice = tab("Alice", site.room(site.send("Tell us of **rivers**."))).until_ended()
    turn = alice.turns.first
    expect(turn.locator(".words strong")).to_have_text("rivers")

    turn.hover()
    turn.get_by_role("link", name="Show source").click()
    expect(turn.locator("pre.source")).to_have_text("Tell us of **rivers**.")
    turn.get_by_role("button", name="Show formatted").click()

    expect(turn.locator(".words strong")).to_have_text("rivers")
