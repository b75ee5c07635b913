"""Several answers of one run as tabs, and how likely each word of one was: chosen and read in a room."""

import math
from typing import Any

from playwright.sync_api import expect

from chat.demo.script import Gate, chunk, openai_chunks, stream
from tests.browser.conftest import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

Chunk = dict[str, Any]


def of(choice: int, text: str = "", *, finish: str | None = None) -> Chunk:
    """A piece of one of several answers, as a server that is asked for `n` sends them."""
    made = chunk({"content": text}, finish_reason=finish)
    made["choices"][0]["index"] = choice
    return made


def likely(text: str, share: float, rival: str) -> Chunk:
    """A piece with its probability, and what might have stood there."""
    made = of(0, text)
    rivals = [{"token": rival, "logprob": math.log(1 - share), "bytes": None}]
    made["choices"][0]["logprobs"] = {
        "content": [
            {"token": text, "logprob": math.log(share), "bytes": None, "top_logprobs": rivals}
        ]
    }
    return made


def room(site: BrowserSite, tab: OpenTab, *parts: list[Chunk] | Gate) -> Tab:
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


def test_one_of_several_answers_is_chosen_while_they_grow_and_after_a_reload(
    site: BrowserSite, tab: OpenTab
) -> None:
    alice = room(
        site,
        tab,
        [of(0, "Two metres "), of(1, "Knee-deep "), of(2, "No idea ")],
        Gate(name="rest"),
        [*(of(n, "today.") for n in range(3)), *(of(n, finish="stop") for n in range(3))],
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
    live = alice.normalised()
    alice.reload().until_ended()

    assert alice.normalised() == live
    choose(2)
    is_only(2)
    alice.page.keyboard.press("ArrowLeft")
    is_only(1)


def test_how_likely_each_word_was_is_read_by_pointer_and_by_keyboard(
    site: BrowserSite, tab: OpenTab
) -> None:
    words = [likely("Two", 0.97, "Three"), likely(" metres", 0.6, " feet")]
    alice = room(site, tab, [*words, of(0, finish="stop")])
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
        expect(line).to_have_text("“Two” 97 %; else “Three” 3 %")
        alice.page.keyboard.press("ArrowRight")
        expect(line).to_have_text("“ metres” 60 %; else “ feet” 40 %")
        text.locator(".odd").first.hover()
        expect(line).to_have_text("“Two” 97 %; else “Three” 3 %")

    live = alice.normalised()
    reads_them()
    alice.reload().until_ended()

    assert alice.normalised() == live
    reads_them()
