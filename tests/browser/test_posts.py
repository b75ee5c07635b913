"""Forms over the page's websocket: no request, no follow, and exactly one message whatever breaks."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import Tab

COUNT = "SELECT count(*) FROM chat_message WHERE text = ?"


def said_over_socket(tab: Tab) -> list[str]:
    """What this page says over its websocket from now on."""
    said: list[str] = []
    tab.sockets[-1].on("framesent", lambda payload: said.append(str(payload)))
    return said


@pytest.mark.smoke
def test_message_edit_and_retry_need_no_request(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(
        *(streams.telling(word) for word in ("First.", "Second.", "Third.", "Fourth."))
    )
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended().until_live()
    posted: list[str] = []
    alice.on("request", lambda request: posted.append(f"{request.method} {request.url}"))
    said = said_over_socket(alice)

    alice.write("Go on").shows("Second.").until_ended()
    expect(alice.composer).to_have_value("")
    alice.button("Try again").last.click()
    alice.shows("Third.").until_ended()
    alice.page.get_by_role("link", name="Edit").last.click()
    alice.page.locator(".edit textarea").fill("Go elsewhere")
    alice.page.locator(".edit").get_by_role("button", name="Send").click()
    alice.shows("Fourth.").until_ended()

    assert [line for line in posted if line.startswith("POST")] == []
    messages = [json.loads(line) for line in said if line.startswith("{")]
    assert len([message for message in messages if message["type"] == "post"]) == 3
    # The server follows them already. One that had begun when its turn was rendered is asked for.
    follows = [message for message in messages if message["type"] == "follow"]
    assert [message for message in follows if message["seq"] == 0] == []
    assert alice.normalized() == alice.reload().until_ended().normalized()


def test_first_message_of_a_conversation_needs_no_request(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Welcome."))
    alice = tab("Alice", "/").until_live()
    posted: list[str] = []
    alice.on("request", lambda request: posted.append(request.method))

    alice.write("A new beginning")

    expect(alice.page).to_have_url(re.compile(r"/c/[^/]+/$"))
    alice.shows("Welcome.").until_ended()
    assert "POST" not in posted


@pytest.mark.parametrize("held", ["heldPosts", "heldAnswers"])
def test_server_restarts_while_a_message_is_under_way(
    own_site: BrowserSite, people: People, held: str
) -> None:
    own_site.start()
    own_site.fake.script(streams.telling("First."), streams.telling("Second."))
    room = own_site.room(own_site.send("Tell us."))
    alice = people.tab(own_site, "Alice", room).until_ended().until_live()

    # It reached the server, or it did not; no answer did.
    alice.page.evaluate(f"() => {{ window.{held} = []; }}")
    alice.write("Once only")
    alice.page.wait_for_function(f"() => window.{held}.length === 1")
    alice.page.evaluate(f"() => {{ window.{held} = null; }}")
    own_site.kill9()
    own_site.start()

    # An answer that had begun was interrupted.
    expect(alice.turns).to_have_count(4)
    alice.until_ended()
    expect(alice.composer).to_have_value("")
    assert own_site.value(COUNT, "Once only") == 1


def test_message_under_way_when_the_websocket_breaks_is_posted(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second, ", gate("rest"), "whole."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended().until_live()

    alice.page.evaluate("() => { window.heldAnswers = []; }")
    alice.write("Only once")
    alice.page.wait_for_function("() => window.heldAnswers.length === 1")
    alice.page.evaluate("() => { window.heldAnswers = null; }")
    with alice.page.expect_request("**/send/"):
        alice.close_sockets()

    alice.shows("Second,")
    site.fake.release("rest")
    alice.shows("Second, whole.").until_ended()
    expect(alice.turns).to_have_count(4)
    assert site.value(COUNT, "Only once") == 1


def test_message_that_a_silent_websocket_swallows_is_posted(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended().until_live()

    alice.page.evaluate("() => { window.heldPosts = []; }")
    with alice.page.expect_request("**/send/"):
        alice.write("Into the silence")

    alice.shows("Second.").until_ended()
    expect(alice.composer).to_have_value("")
    assert site.value(COUNT, "Into the silence") == 1


def test_websocket_that_is_back_before_the_request_fails_is_used_at_once(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended().until_live()
    # The request fails as soon as the page is connected again.
    alice.hold("**/send/")
    alice.page.evaluate(NOTE_WAITING)

    alice.page.evaluate("() => { window.heldPosts = []; }")
    alice.write("Back at once")
    alice.page.wait_for_function("() => window.heldPosts.length === 1")
    alice.page.evaluate("() => { window.heldPosts = null; }")
    alice.close_sockets()
    alice.until(lambda: alice.is_holding, "it is posted")
    alice.page.wait_for_function("() => window.isBack")
    alice.fail_held()

    alice.shows("Second.").until_ended()
    expect(alice.composer).to_have_value("")
    assert 20_000 not in alice.page.evaluate("() => window.waits")
    assert site.value(COUNT, "Back at once") == 1


# Records the timers of the page, and that it is connected again.
NOTE_WAITING = """() => {
  window.waits = [];
  const setTimeout = window.setTimeout;
  window.setTimeout = (work, ms, ...rest) => { window.waits.push(ms); return setTimeout(work, ms, ...rest); };
  document.addEventListener("connection:state", event => { window.isBack = event.detail.isConnected; });
}"""


def test_message_that_took_too_long_is_not_asked_for_again(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("First."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended().until_live()

    alice.page.evaluate("() => { window.heldPosts = []; htmx.config.defaultTimeout = 500; }")
    alice.write("Into the silence")

    expect(alice.page.locator("#composer-note")).to_contain_text("Can’t reach the server.")
    expect(alice.composer).to_have_value("Into the silence")
    assert alice.page.evaluate("() => window.heldPosts.length") == 1


def test_message_for_which_the_websocket_has_no_room_is_posted(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(streams.telling("First."), streams.telling("Second."))
    alice = tab("Alice", site.room(site.send("Tell us."))).until_ended().until_live()

    alice.page.evaluate("() => { window.heldPosts = []; }")
    alice.write("No room")
    alice.page.wait_for_function("() => window.heldPosts.length === 1")
    with alice.page.expect_request("**/send/"):
        alice.page.evaluate(ANSWER_TOO_MANY)

    alice.shows("Second.").until_ended()
    expect(alice.composer).to_have_value("")
    expect(alice.page.locator("#composer-note")).to_be_empty()


# As the server does with a form when the websocket has too many of them waiting.
ANSWER_TOO_MANY = """() => {
  const { id } = JSON.parse(window.heldPosts[0]);
  const data = JSON.stringify({ answer: id, status: 429, headers: {}, body: "" });
  window.openSockets.at(-1).dispatchEvent(new MessageEvent("message", { data }));
}"""


def test_text_that_is_too_long_is_kept(own_site: BrowserSite, people: People) -> None:
    own_site.start(MAX_BODY_BYTES="100000")
    own_site.fake.script(streams.telling("First."), streams.telling("Second."))
    room = own_site.room(own_site.send("Tell us."))
    alice = people.tab(own_site, "Alice", room).until_ended().until_live()
    text = "A long message. " * 10_000

    alice.write(text)

    expect(alice.page.locator("#composer-note")).to_contain_text("too large to send")
    expect(alice.composer).to_have_value(text)
    # The connection is the same, and takes the next message.
    alice.write("Go on").shows("Second.").until_ended()
    assert len(alice.sockets) == 1
