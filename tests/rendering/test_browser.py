"""The patches in a real browser, taken by the htmx that the pages use."""

import functools
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chat.rendering.patches import Answer
from tests.rendering.stories import MARKDOWN, RICH, RUN, told
from tests.rendering.test_hostile import HOSTILE, everywhere, numbered
from tests.rendering.test_replay import STORIES
from tests.support.chromium import launched

playwright = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.needs("chromium"),
]

PAGE = f"""<!doctype html><meta charset="utf-8"><title>kept</title>
<link rel="stylesheet" href="/static/css/tokens.css"><link rel="stylesheet" href="/static/css/base.css">
<link rel="stylesheet" href="/static/css/answer.css"><link rel="stylesheet" href="/static/css/cards.css">
<main><div id="live"></div><div id="r{RUN}" class="answer" hx-ignore></div>
<div id="p{RUN}" class="phase"></div><textarea id="composer">draft</textarea></main>
<script src="/static/vendor/htmx/htmx.min.js"></script>"""

# What a websocket message does to the page: partials only, everything else is dropped.
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
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    handler = functools.partial(Handler, directory=str(ROOT))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as runner, launched(runner) as browser:
        yield browser


@pytest.fixture
def page(browser, address) -> Iterator[object]:  # type: ignore[no-untyped-def]
    page = browser.new_page()
    page.goto(address)
    yield page
    page.close()


def show(page, answer: Answer) -> str:  # type: ignore[no-untyped-def]
    page.evaluate(SHOW, [f"r{RUN}", answer.snapshot()])
    page.evaluate(SHOW, [f"p{RUN}", answer.phase()])
    return page.evaluate(STATE)


def frames_of(story: list, size: int) -> list[str]:  # type: ignore[type-arg]
    answer = Answer(RUN)
    frames = []
    for start in range(0, len(story), size):
        for event in story[start : start + size]:
            answer.apply(event)
        frames.append(answer.patches_since(start))
    return [frame for frame in frames if frame]


def finished(story: list) -> Answer:  # type: ignore[type-arg]
    answer = Answer(RUN)
    for event in story:
        answer.apply(event)
    return answer


@pytest.mark.parametrize("size", [1, 6])
@pytest.mark.parametrize("name", ["rich", "letter by letter", "list", "fence", "one line"])
def test_streamed_and_reloaded_pages_are_equal_in_a_browser(  # type: ignore[no-untyped-def]
    page, name: str, size: int
) -> None:
    story = STORIES[name]
    show(page, Answer(RUN))

    page.evaluate(APPLY, frames_of(story, size))

    assert page.evaluate(STATE) == show(page, finished(story))


def test_replacement_frames_rebuild_the_answer_in_a_browser(page) -> None:  # type: ignore[no-untyped-def]
    answer = finished(RICH)
    page.evaluate(APPLY, answer.replacement(4000))

    assert page.evaluate(STATE) == show(page, answer)


# What the page itself asks for: its icons, and how long a sound is that came as bytes.
OURS = re.compile(
    r"^http://127\.0\.0\.1:\d+/(static/icons\.svg|r/[0-9a-f-]{36}/media/\d+/\d+/\d+/$)"
)


def test_hostile_text_runs_nothing_asks_nothing_and_changes_nothing_else(page) -> None:  # type: ignore[no-untyped-def]
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))

    for text in HOSTILE:
        show(page, Answer(RUN))
        page.evaluate(APPLY, frames_of(numbered(everywhere(text)), 1))

    assert [url for url in asked if not OURS.search(url)] == []
    assert said == []
    assert page.title() == "kept"
    assert page.evaluate("() => document.getElementById('composer').value") == "draft"
    assert page.evaluate("() => document.querySelectorAll('#composer').length") == 1


def test_an_opened_fold_stays_open_while_its_text_grows(page) -> None:  # type: ignore[no-untyped-def]
    story = RICH[:25]
    show(page, Answer(RUN))
    page.evaluate(APPLY, frames_of(story[:18], 1))
    page.evaluate("() => { document.querySelector('details').open = true; }")

    live = finished(story[:18])
    for event in story[18:]:
        live.apply(event)
    page.evaluate(APPLY, [live.patches_since(18)])

    assert page.evaluate("() => document.querySelector('details').open")


def test_a_selection_in_the_open_block_survives_its_growth(page) -> None:  # type: ignore[no-untyped-def]
    story = told("- Some words to select\n- while further words still arrive here", size=5)
    show(page, finished(story[:9]))
    page.evaluate(
        "() => { const words = document.querySelector('.open li').firstChild;"
        " getSelection().setBaseAndExtent(words, 0, words, 10); }"
    )

    live = finished(story[:9])
    for event in story[9:13]:
        live.apply(event)
        page.evaluate(APPLY, [live.patches_since(event.seq - 1)])

    assert page.evaluate("() => getSelection().toString()") == "Some words"


def test_a_copied_code_block_is_its_source(page) -> None:  # type: ignore[no-untyped-def]
    show(page, finished(told(MARKDOWN)))

    code = page.evaluate("() => document.querySelector('.codeblock pre code').textContent")

    assert code == 'def flow(rate: float) -> str:\n    return f"<{rate}>"\n'
