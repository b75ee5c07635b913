"""A message is sent once, and a draft is never lost."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Request, Route, expect

from tests.support.answers import png
from tests.support.browser import streams
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab


def double_click(tab: Tab) -> None:
    tab.page.locator("#send").dblclick()


def double_enter(tab: Tab) -> None:
    tab.composer.press("Enter")
    tab.composer.press("Enter")


def slow_double_click(tab: Tab) -> None:
    """The second click comes when the answer has begun and Stop has replaced Send."""
    box = tab.page.locator("#send").bounding_box()
    assert box
    mouse = tab.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse.down()
    mouse.up()
    expect(tab.stop).to_be_visible()
    mouse.down(click_count=2)
    mouse.up(click_count=2)


@pytest.mark.parametrize(
    "send", [pytest.param(double_click, marks=pytest.mark.smoke), double_enter, slow_double_click]
)
def test_double_send_sends_once(
    site: BrowserSite, tab: OpenTab, send: Callable[[Tab], None]
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second, ", gate("late"), "whole."))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()

    alice.composer.fill("Once only")
    send(alice)

    alice.shows("Second, ")
    # The sidebar is updated after the answer has begun.
    running = alice.page.locator("#conversations [aria-current] .mark-running")
    expect(running).to_be_visible()
    site.fake.release("late")
    alice.shows("Second, whole.").until_ended()
    expect(running).to_have_count(0)
    expect(alice.turns).to_have_count(4)
    expect(alice.composer).to_have_value("")
    expect(alice.page.locator("#composer-note")).to_be_empty()
    assert site.fake.posts == 2
    # The second one was no stop.
    assert site.fake.disconnects == 0


def test_own_message_is_not_fetched_again(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second, ", gate("late"), "whole."))
    run = site.send("Tell us.")
    alice, bob = (tab(name, site.room(run)).until_ended() for name in ("Alice", "Bob"))
    asked: list[str] = []
    alice.on("request", lambda request: asked.append(request.url))

    # Others see the message before the response to it arrives.
    alice.post_over_http()
    alice.hold_answer("**/send/")
    alice.write("Go on.")
    alice.until(lambda: alice.is_holding, "the message is answered")
    bob.shows("Second, ")
    expect(alice.turns).to_have_count(2)
    alice.release()
    alice.shows("Second, ")
    site.fake.release("late")
    alice.shows("Second, whole.").until_ended()
    expect(alice.button("Try again")).to_have_count(2)

    assert [url for url in asked if url.endswith("/changes/")] == []


def test_message_to_a_busy_server_is_sent_again_once(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    run = site.send("Tell us.")
    alice = tab("Alice", has_clock=True)
    alice.open(site.room(run)).until_ended()
    alice.post_over_http()
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(key_in(route.request))
        route.fulfill(status=503, headers={"Retry-After": "60"})

    alice.page.route("**/send/", refuse, times=2)
    alice.write("Go on.")
    note = alice.page.locator("#composer-note")
    expect(note).to_contain_text("The server is busy. Your message is kept and will be sent in ")
    expect(alice.composer).to_have_value("Go on.")

    # It is sent again after the time that the server named, and once more.
    alice.page.clock.fast_forward(61_000)
    alice.until(lambda: len(asked) == 2, "it is sent again")
    expect(note).to_contain_text("60 s")
    alice.on(
        "request", lambda request: request.url.endswith("/send/") and asked.append(key_in(request))
    )
    alice.page.clock.fast_forward(61_000)

    alice.shows("Second.").until_ended()
    expect(alice.composer).to_have_value("")
    expect(note).to_be_empty()
    alice.page.clock.fast_forward(61_000)
    expect(alice.turns).to_have_count(4)
    assert len(asked) == 3
    assert len(set(asked)) == 1
    alice.forget_errors()


def key_in(request: Request) -> str:
    found = re.search(r'name="key"\s+([0-9a-f-]{36})', request.post_data or "")
    assert found
    return found[1]


@pytest.mark.parametrize("send", [double_click, double_enter])
def test_double_send_begins_one_conversation(
    site: BrowserSite, tab: OpenTab, send: Callable[[Tab], None]
) -> None:
    before = site.value("SELECT count(*) FROM chat_conversation")
    site.fake.script(streams.telling("Welcome."))
    alice = tab("Alice", "/")

    alice.composer.fill("A new beginning")
    send(alice)

    # The second response redirects there, too, and may interrupt the first navigation.
    expect(alice.page).to_have_url(re.compile(r"/c/[^/]+/$"))
    alice.shows("Welcome.").until_ended()
    expect(alice.page.locator("#room-head h1")).to_have_text("A new beginning")
    assert site.value("SELECT count(*) FROM chat_conversation") == before + 1


@pytest.mark.smoke
def test_draft_survives_a_reload(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Other."))
    here, there = site.room(site.send("Here.")), site.room(site.send("There."))
    alice = tab("Alice", here)

    alice.composer.fill("Half a thought,\nin two lines")
    alice.reload()
    expect(alice.composer).to_have_value("Half a thought,\nin two lines")
    expect(alice.open(there).composer).to_have_value("")
    expect(alice.open(here).composer).to_have_value("Half a thought,\nin two lines")


def test_message_that_the_next_page_shows_is_no_draft(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(*(streams.telling(word) for word in ("First.", "Second.", "Third.")))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()

    alice.write("Go on").shows("Second.").until_ended()
    expect(alice.reload().composer).to_have_value("")

    # A message whose answer was lost on its way to the page is no draft either.
    alice.until_ended().until_live()
    lose_answer_to(alice, "Shown already")
    alice.reload()

    expect(alice.turns).to_have_count(6)
    expect(alice.composer).to_have_value("")
    alice.until_ended()
    assert alice.reload().composer.input_value() == ""


def test_message_whose_answer_was_lost_begins_one_conversation(
    site: BrowserSite, tab: OpenTab
) -> None:
    before = site.value("SELECT count(*) FROM chat_conversation")
    site.fake.script(streams.telling("Welcome."))
    alice = tab("Alice", "/").until_live()

    lose_answer_to(alice, "A new beginning")
    alice.reload()
    expect(alice.composer).to_have_value("A new beginning")
    alice.composer.press("Enter")

    expect(alice.page).to_have_url(re.compile(r"/c/[^/]+/$"))
    alice.shows("Welcome.").until_ended()
    assert site.value("SELECT count(*) FROM chat_conversation") == before + 1
    expect(alice.open("/").composer).to_have_value("")


def test_message_whose_answer_was_lost_counts_once_after_a_rename(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()
    alice.post_over_http()

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    alice.page.route("**/send/", lose, times=1)
    alice.write("Sent before")
    expect(alice.page.locator("#composer-note")).to_contain_text("Can’t reach the server.")
    alice.shows("Second.").until_ended()
    alice.page.get_by_label("Conversation options").click()
    alice.page.get_by_label("Title", exact=True).fill("Rivers")
    alice.page.get_by_label("Title", exact=True).press("Enter")
    expect(alice.page.locator("#room-head h1")).to_have_text("Rivers")
    alice.composer.press("Enter")

    expect(alice.composer).to_have_value("")
    expect(alice.turns).to_have_count(4)


def lose_answer_to(tab: Tab, text: str) -> None:
    """The server has stored the message, but the page does not know."""
    tab.page.evaluate("() => { window.heldAnswers = []; }")
    tab.write(text)
    tab.page.wait_for_function("() => window.heldAnswers.length === 1")


def test_draft_survives_an_expired_session_on_the_home_page(
    site: BrowserSite, people: People
) -> None:
    bob = people.sign_in(site, "Bob", "/")
    bob.composer.fill("Something long that I thought about")
    end_session(site, bob)

    bob.composer.press("Enter")

    expect(bob.page.locator("h1")).to_have_text("Sign in to Tributary")
    people.fill_sign_in(bob, "Bob")
    expect(bob.composer).to_have_value("Something long that I thought about")
    site.fake.script(streams.telling("Welcome back."))
    bob.composer.press("Enter")
    bob.shows("Welcome back.")


def test_draft_survives_an_expired_session(site: BrowserSite, people: People) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    room = site.room(site.send("Tell us."))
    bob = people.sign_in(site, "Bob", room).until_ended()
    bob.composer.fill("Something long")
    end_session(site, bob)

    bob.page.locator("#gone a").click()
    expect(bob.page.locator("h1")).to_have_text("Sign in to Tributary")
    people.fill_sign_in(bob, "Bob")

    bob.page.wait_for_url(f"{site.url}{room}")
    expect(bob.composer).to_have_value("Something long")
    bob.composer.press("Enter")
    bob.shows("Second.")


def end_session(site: BrowserSite, tab: Tab) -> None:
    cookies = {cookie["name"]: cookie["value"] for cookie in tab.page.context.cookies()}
    site.rows("DELETE FROM django_session WHERE session_key = ?", cookies["sessionid"])


def test_full_database_keeps_the_draft(own_site: BrowserSite, people: People) -> None:
    own_site.start(fault="full_at_times")
    own_site.fake.script(streams.telling("First."), streams.telling("Second."))
    run = own_site.send("Tell us.")
    alice = people.tab(own_site, "Alice", own_site.room(run)).until_ended()
    # More than fits into the free space of any database page.
    text = "A long message. " * 4000

    picture = {"name": "spring.png", "mimeType": "image/png", "buffer": png()}
    alice.page.locator("#attach-input").set_input_files([picture])
    expect(alice.page.locator(".attaching img")).to_have_count(1)

    own_site.fill_database()
    alice.write(text)
    expect(alice.page.locator("#composer-note")).to_contain_text("Storage is full")
    expect(alice.composer).to_have_value(text)
    expect(alice.page.locator(".attaching img")).to_have_count(1)
    expect(alice.turns).to_have_count(2)
    own_site.empty_database()
    alice.composer.press("Enter")

    alice.shows("Second.").until_ended()
    expect(alice.composer).to_have_value("")
    expect(alice.page.locator("#composer-note")).to_be_empty()
    expect(alice.turns.nth(2).locator(".attached img")).to_have_count(1)
    expect(alice.page.locator(".attaching img")).to_have_count(0)


def test_refused_draft_and_typing_while_sending_are_kept(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()

    site.rows("UPDATE chat_upstream SET is_enabled = 0")
    try:
        alice.write("Go on")
        expect(alice.page.locator("#composer-note")).to_contain_text("no longer available")
    finally:
        site.rows("UPDATE chat_upstream SET is_enabled = 1")
    expect(alice.composer).to_have_value("Go on")
    expect(alice.turns).to_have_count(2)

    alice.post_over_http()
    alice.hold("**/send/")
    alice.write("Go on")
    alice.composer.press_sequentially(" and on")
    alice.release()

    alice.shows("Second.").until_ended()
    expect(alice.composer).to_have_value("Go on and on")
    expect(alice.turns.nth(2).locator(".words")).to_have_text("Go on")


def test_typing_after_a_double_enter_is_kept(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()
    alice.post_over_http()
    answered: list[str] = []
    alice.on("requestfinished", lambda request: answered.append(request.url))
    alice.hold("**/send/")

    alice.composer.fill("Go on")
    double_enter(alice)
    alice.composer.press_sequentially(" and on")
    alice.release()

    alice.until(lambda: sum(url.endswith("/send/") for url in answered) == 2, "both are answered")
    alice.until_idle()
    expect(alice.composer).to_have_value("Go on and on")
    alice.shows("Second.").until_ended()
    expect(alice.turns).to_have_count(4)


def test_enter_that_is_held_down_sends_once(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()
    alice.post_over_http()
    asked: list[str] = []
    alice.on("request", lambda request: asked.append(request.url))
    alice.hold("**/send/")

    alice.composer.fill("Go on")
    for _ in range(3):
        alice.page.keyboard.down("Enter")
    alice.page.keyboard.up("Enter")
    alice.release()

    alice.shows("Second.").until_ended().until_idle()
    expect(alice.composer).to_have_value("")
    assert sum(url.endswith("/send/") for url in asked) == 1


def test_failures_are_said_in_sight(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("A paragraph.\n\n" * 200))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended()
    alice.post_over_http()
    alice.page.route(re.compile("/(send|retry)/$"), lambda route: route.abort())
    sentence = alice.page.get_by_text("Can’t reach the server.")

    alice.button("Try again").click()
    expect(sentence).to_be_in_viewport()
    alice.button("Close").click()
    expect(sentence).to_have_count(0)

    alice.write("Go on")
    expect(alice.page.locator("#composer-note")).to_contain_text("Can’t reach the server.")
    expect(sentence).to_be_in_viewport()
    expect(alice.composer).to_have_value("Go on")


def test_of_two_messages_at_once_the_second_is_sent_after_the_first(
    site: BrowserSite, tab: OpenTab
) -> None:
    for answer in ("First.", "For Alice.", "For Bob."):
        site.fake.script(streams.telling(answer))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()
    bob = tab("Bob", site.room(run)).until_ended()

    bob.post_over_http()
    bob.hold("**/send/")
    bob.write("From Bob")
    bob.until(lambda: bob.is_holding, "Bob's message is under way")
    alice.write("From Alice")
    alice.shows("For Alice.").until_ended()
    bob.release()

    expect(bob.composer).to_have_value("")
    for viewer in (alice, bob):
        viewer.shows("For Bob.").until_ended()
        expect(viewer.turns).to_have_count(6)
        expect(viewer.turns.nth(2).locator(".words")).to_have_text("From Alice")
        expect(viewer.turns.nth(4).locator(".words")).to_have_text("From Bob")
