"""Several choices of one run as tabs, and the probability of each token."""

import math
from typing import Any

from playwright.sync_api import expect

from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.upstream.script import Gate, chunk, openai_chunks, stream

Chunk = dict[str, Any]


def piece(choice: int, text: str = "", *, finish: str | None = None) -> Chunk:
    """A piece of one of several answers, as a server that is asked for `n` sends them."""
    made = chunk({"content": text}, finish_reason=finish)
    made["choices"][0]["index"] = choice
    return made


def with_logprobs(text: str, share: float, rival: str) -> Chunk:
    """A token with its probability and that of an alternative."""
    made = piece(0, text)
    rivals = [{"token": rival, "logprob": math.log(1 - share), "bytes": None}]
    made["choices"][0]["logprobs"] = {
        "content": [
            {"token": text, "logprob": math.log(share), "bytes": None, "top_logprobs": rivals}
        ]
    }
    return made


def open_room(site: BrowserSite, tab: OpenTab, *parts: list[Chunk] | Gate) -> Tab:
    last = len(parts) - 1
    steps = [
        part if isinstance(part, Gate) else openai_chunks(part, is_done=number == last)
        for number, part in enumerate(parts)
    ]
    before = site.fake.posts
    with site.speaking("openai_chat"):
        site.fake.script(stream(*steps))
        alice = tab("Alice", "/")
        alice.write("How high is it?")
        alice.page.wait_for_url("**/c/*/")
        # The page may be there before the request to the server is made.
        site.fake.wait_until(lambda fake: fake.posts > before)
    return alice


def test_choice_is_switched_live_and_reloaded(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_room(
        site,
        tab,
        [piece(0, "Two metres "), piece(1, "Knee-deep "), piece(2, "No idea ")],
        Gate(name="rest"),
        [*(piece(n, "today.") for n in range(3)), *(piece(n, finish="stop") for n in range(3))],
    )
    answers = [alice.answer.get_by_text(text) for text in ("Two metres", "Knee-deep", "No idea")]

    def is_only(number: int) -> None:
        for each, answer in enumerate(answers):
            expect(answer).to_be_visible(visible=each == number)

    def choose(number: int) -> None:
        alice.answer.locator(".choice").nth(number).click()

    is_only(0)
    choose(1)
    is_only(1)
    site.fake.release("rest")
    expect(answers[1]).to_have_text("Knee-deep today.")
    alice.until_ended()
    is_only(1)
    live = alice.normalized()
    alice.reload().until_ended()

    assert alice.normalized() == live
    choose(2)
    is_only(2)
    alice.page.keyboard.press("ArrowLeft")
    is_only(1)


def test_logprobs_are_read_by_pointer_and_keyboard(site: BrowserSite, tab: OpenTab) -> None:
    words = [with_logprobs("Two", 0.97, "Three"), with_logprobs(" metres", 0.6, " feet")]
    alice = open_room(site, tab, [*words, piece(0, finish="stop")])
    alice.shows("Two metres").until_ended()
    fold, line = alice.answer.locator(".likely"), alice.answer.locator(".heat-line")
    text = alice.answer.locator(".heat-text")

    def reads_them() -> None:
        fold.locator("summary").focus()
        alice.page.keyboard.press("Enter")
        expect(text).to_have_text("Two metres")
        expect(text.locator(".odd-5")).to_have_text("Two")
        expect(text.locator(".odd-3")).to_have_text(" metres")
        alice.page.keyboard.press("Tab")
        alice.page.keyboard.press("ArrowRight")
        expect(line).to_have_text("“Two” 97%. Alternatives: “Three” 3%")
        alice.page.keyboard.press("ArrowRight")
        expect(line).to_have_text("“ metres” 60%. Alternatives: “ feet” 40%")
        text.locator(".odd").first.hover()
        expect(line).to_have_text("“Two” 97%. Alternatives: “Three” 3%")

    live = alice.normalized()
    reads_them()
    alice.reload().until_ended()

    assert alice.normalized() == live
    reads_them()
