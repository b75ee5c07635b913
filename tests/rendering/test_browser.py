"""Patches in a real browser, applied by the htmx of our pages."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from chat.events import Event
from chat.rendering.patches import Answer
from tests.rendering.replay_stories import STORIES
from tests.rendering.stories import RICH, RUN, answer_after, told
from tests.support.chromium import launched

playwright = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.needs("chromium"),
]

PAGE = f"""<!doctype html><meta charset="utf-8"><title>kept</title>
<link rel="stylesheet" href="/static/base/tokens.css"><link rel="stylesheet" href="/static/base/base.css">
<link rel="stylesheet" href="/static/rendering/answer.css"><link rel="stylesheet" href="/static/rendering/cards.css">
<link rel="stylesheet" href="/static/rendering/tool_calls.css">
<main><div id="live"></div><div id="r{RUN}" class="answer" hx-ignore></div>
<div id="p{RUN}" class="phase"></div><textarea id="composer">draft</textarea></main>
<script src="/static/vendor/htmx/htmx.min.js"></script>"""

# What a websocket message does to the page: only partials are applied, the rest is dropped.
APPLY = """async frames => {
  const sourceElement = document.getElementById("live");
  for (const text of frames) await htmx.swap({text, sourceElement, target: sourceElement, swap: "none"});
}"""
SHOW = """([id, html]) => { document.getElementById(id).innerHTML = html; }"""
STATE = """() => {
  const shown = document.querySelector("main").cloneNode(true);
  for (const one of shown.querySelectorAll("[class='']")) one.removeAttribute("class");
  shown.normalize();
  return shown.innerHTML;
}"""


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/":
            super().do_GET()
            return
        body = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database is used here, and the browser's event loop would forbid it."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    handler = functools.partial(Handler, directory=str(ROOT))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as runner, launched(runner) as browser:
        yield browser


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    page = browser.new_page()
    page.goto(url)
    yield page
    page.close()


def show(page: Any, answer: Answer) -> str:
    """Puts the snapshot into the page, as when it is loaded."""
    page.evaluate(SHOW, [f"r{RUN}", answer.snapshot()])
    page.evaluate(SHOW, [f"p{RUN}", answer.phase()])
    return str(page.evaluate(STATE))


def frames_of(story: list[Event], size: int) -> list[str]:
    """The patches of a page that gets so many events at a time."""
    answer = Answer(RUN)
    frames = []
    for start in range(0, len(story), size):
        for event in story[start : start + size]:
            answer.apply(event)
        frames.append(answer.patches_since(start))
    return [frame for frame in frames if frame]


STREAMS = [
    pytest.param(name, size, marks=[] if (name, size) == ("rich", 6) else pytest.mark.slow)
    for name in ("rich", "letter by letter", "list", "fence", "one line")
    for size in (1, 6)
]


@pytest.mark.parametrize(("name", "size"), STREAMS)
def test_streamed_page_equals_reloaded_one(page: Any, name: str, size: int) -> None:
    story = STORIES[name]
    show(page, Answer(RUN))

    page.evaluate(APPLY, frames_of(story, size))

    assert page.evaluate(STATE) == show(page, answer_after(story))


@pytest.mark.slow
def test_replacement_frames_rebuild_the_answer(page: Any) -> None:
    answer = answer_after(RICH)

    page.evaluate(APPLY, answer.replacement(4000))

    assert page.evaluate(STATE) == show(page, answer)


def test_selection_survives_while_its_block_grows(page: Any) -> None:
    story = told("- Some words to select\n- while further words still arrive here", size=5)
    live = answer_after(story[:9])
    show(page, live)
    page.evaluate(
        "() => { const words = document.querySelector('.open li').firstChild;"
        " getSelection().setBaseAndExtent(words, 0, words, 10); }"
    )

    for event in story[9:13]:
        live.apply(event)
        page.evaluate(APPLY, [live.patches_since(event.seq - 1)])

    assert page.evaluate("() => getSelection().toString()") == "Some words"
