"""A page like a room's, with nothing in it but what a test wants to look at, in a real browser."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from csp.utils import build_policy

from chat import events
from chat.rendering.markdown import render
from chat.rendering.parts import partial
from chat.rendering.patches import Answer
from tests.hostile.foreign import Evil, counting
from tests.rendering.dom import parse
from tests.rendering.stories import MARKDOWN, RUN, message, numbered
from tests.rendering.test_hostile import ATTRIBUTES, BAR, KEPT, MEDIUM, OURS, everywhere
from tests.support.chromium import launched

ROOT = Path(__file__).parents[2]
LOOK = Path(__file__).with_name("look.js")
# How long a page is given to do what it should not.
SETTLE_MS = 30
PLACE = f"r{RUN}"
FOLD = re.compile(r"/r/01234567-89ab-cdef-0123-456789abcdef/part/[\w-]+/", re.ASCII)
# What our scripts add: to a fold that is being fetched, to a token that is pointed at.
SCRIPTED = {"aria-busy"}
SCRIPTED_CLASSES = ("is-told",)
SCRIPTS = ("copy", "code", "unfold", "heat", "math")
BODY = f"""<body>
<main id="main"><div id="live"></div><div id="turns"><article class="turn"><div id="{PLACE}" class="answer" hx-ignore>%s</div></article></div>
<textarea id="composer">draft</textarea></main>
<script id="rules" type="application/json">%s</script>
<script src="/look.js"></script>
<script src="/static/vendor/htmx/htmx.min.js"></script><script src="/static/vendor/htmx/hx-ws.min.js"></script>
{"".join(f'<script src="/static/js/{name}.js"></script>' for name in SCRIPTS)}
</body>"""
HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>kept</title>
<meta name="htmx-config" content='{"includeIndicatorCSS": false, "history": false, "extensions": "ws"}'>
<link rel="stylesheet" href="/static/css/tokens.css"><link rel="stylesheet" href="/static/css/answer.css">
</head>"""

# Everything that Markdown has, from somebody who means no harm.
HARMLESS = (
    "![Picture](https://example.org/picture.png) and a note[^n]\n\n[^n]: Its words.\n\n"
    "$x^2$ and\n\n$$\nx^2\n$$\n\n```mermaid\ngraph TD\n```\n\n" + "> " * 120 + f"deep\n\n{MARKDOWN}"
)


HARMLESS_JSON = '{"a": [1, "b", {"c": [{"d": "https://example.org/"}]}], "e": null, "f": "data:image/png;base64,AAAA"}'


def _classes() -> list[str]:
    """Those which our own code gives when nobody tries to: as an answer goes on, and at its end."""
    citation = events.Citation(kind="url", title="S", url="https://example.org/", end=1)
    read = {"arguments": {"url": "https://example.org/"}}
    answer, folded = Answer(RUN), Answer(RUN)
    answer.unfold()
    trees = [parse(render(HARMLESS))]
    for event in numbered(
        [
            events.ActivityStep(
                family="research", step="read", phase="start", label="R", detail=read
            ),
            events.ToolCallArguments(item=89, tool="t", arguments={"code": "a\nb"}),
            events.ToolCallSuccess(item=90, tool="t", arguments={}, output=HARMLESS_JSON),
            *message("Said.", item=91),
            events.CitationAdd(item=91, citation=citation),
            *everywhere("text"),
        ]
    ):
        folded.apply(event)
        answer.apply(event)
        answer.unfold()
        trees += [parse(each.snapshot()) for each in (answer, folded)]
    found = [e.attributes.get("class", "") for tree in trees for e in tree.elements()]
    return sorted({name for value in found for name in value.split()})


def _in_places(fragments: Sequence[str]) -> str:
    return "".join(f'<div data-n="{at}">{html}</div>' for at, html in enumerate(fragments))


@dataclass
class Report:
    """What a page noticed of a batch, and who was asked for something meanwhile."""

    problems: list[str] = field(default_factory=list)
    hits: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)

    def __add__(self, other: Report) -> Report:
        return Report(
            self.problems + other.problems,
            self.hits + other.hits,
            self.violations + other.violations,
            self.requests + other.requests,
            self.reached + other.reached,
        )


class Stage:
    """The page's server, the browser, and the server of somebody else that all names lead to."""

    def __init__(self, browser: Any, evil: Evil) -> None:
        self._browser = browser
        self._evil = evil
        self._batches: list[str] = []
        self._pages: dict[str, tuple[str, bool]] = {}
        handler = functools.partial(_Handler, self, directory=str(ROOT))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self._classes = _classes()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def content(self, path: str) -> tuple[str, str, dict[str, str]] | None:
        """Body, media type and headers of what is no file of ours."""
        if path == "/look.js":
            return LOOK.read_text(), "text/javascript", {}
        if path in self._pages:
            html, has_policy = self._pages[path]
            policy = {"Content-Security-Policy": build_policy()} if has_policy else {}
            return html, "text/html", policy
        if path.startswith("/batch/"):
            return self._batches[int(path.rpartition("/")[2])], "text/plain", {}
        return None

    # --- looking -------------------------------------------------------------------------------

    def look(self, fragments: Sequence[str], *, has_policy: bool, size: int = 500) -> Report:
        """As a page that was loaded shows them, and as a frame brings them."""
        report = Report()
        for start in range(0, len(fragments), size):
            batch = fragments[start : start + size]
            inside = _in_places(batch)
            report += self._run(
                "both", inside, partial(PLACE, "innerHTML", inside), len(batch), has_policy
            )
        return report

    def plant(self, htmls: Sequence[str], *, has_policy: bool = False) -> Report:
        """With nothing between them and the page."""
        return self._run("plant", "", json.dumps(list(htmls)), len(htmls), has_policy)

    def names_of(self, addresses: Sequence[str]) -> list[str | None]:
        """The host where the browser would go with each; none where it is no address."""
        page = self._browser.new_page()
        names: list[str | None] = page.evaluate(
            "all => all.map(one => { try { return new URL(one).hostname; } catch { return null; } })",
            list(addresses),
        )
        page.close()
        return names

    def _run(self, way: str, inside: str, batch: str, count: int, has_policy: bool) -> Report:
        number = len(self._batches)
        self._batches.append(batch)
        path = f"/page/{number}"
        self._pages[path] = (self._html(inside), has_policy)
        allowed = {f"{self.url}{each}" for each in (path, f"/batch/{number}", "/look.js")}
        asked: list[str] = []
        context = self._browser.new_context()
        context.add_cookies([{"name": "kept", "value": "1", "url": self.url}])
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: (asked.append("dialog"), dialog.dismiss()))
        page.on("popup", lambda popup: asked.append("popup"))
        page.route("**/*", _staying())
        before = len(self._evil.hits)
        page.goto(f"{self.url}{path}")
        page.evaluate(
            "([way, ...parameters]) => { window[way](...parameters); }", [way, number, count]
        )
        said = page.wait_for_function("() => window.report").json_value()
        context.close()
        assert "failure" not in said, said["failure"]
        return Report(
            requests=[url for url in asked if url not in allowed and not self._is_ours(url)],
            reached=self._evil.hits[before:],
            **said,
        )

    def _is_ours(self, url: str) -> bool:
        """What the page is made of, the sounds that came as bytes, and what a fold holds."""
        if url.startswith((f"{self.url}/static/", "data:")):
            return True
        path = url.removeprefix(self.url)
        return any(own.fullmatch(path) is not None for own in (MEDIUM, FOLD))

    def _html(self, inside: str) -> str:
        rules = {
            "answer": PLACE,
            "tags": sorted({*OURS, "hr", "h3", "h4", "h5", "h6"}),
            "attributes": sorted({*ATTRIBUTES, *BAR, *SCRIPTED, "viewBox", "preserveAspectRatio"}),
            "classes": [*self._classes, *SCRIPTED_CLASSES],
            "kept": f"^({KEPT.pattern}|{MEDIUM.pattern}(\\?download)?)$",
            "medium": f"^{MEDIUM.pattern}$",
            # Marks and notes of a text that stands in no answer.
            "note": r"^#?doc-(?:note|ref)\d+(?:-\d+)?$",
            "origin": self.url,
            "settle": SETTLE_MS,
            # The main part, and the scripts.
            "body": BODY.count("<script") + 1,
        }
        return HEAD + BODY % (inside, json.dumps(rules).replace("<", "\\u003c")) + "</html>"


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, stage: Stage, *arguments: Any, **named: Any) -> None:
        self._stage = stage
        super().__init__(*arguments, **named)

    def do_GET(self) -> None:
        made = self._stage.content(self.path)
        if made is None and self.path.startswith("/static/"):
            super().do_GET()
            return
        body, media_type, headers = made or ("", "text/plain", {})
        data = body.encode("utf-8", "replace")
        self.send_response(200)
        self.send_header("Content-Type", f"{media_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

    def log_message(self, *arguments: object) -> None:
        """Quiet."""


def _staying() -> Callable[[Any], None]:
    """Whoever goes elsewhere is noted and kept on the page, where the others are still looked at."""
    gone: list[str] = []

    def route_it(route: Any) -> None:
        request = route.request
        if request.is_navigation_request() and request.frame.parent_frame is None:
            gone.append(request.url)
            if len(gone) > 1:
                route.abort()
                return
        route.continue_()

    return route_it


@contextmanager
def staged() -> Iterator[Stage]:
    from playwright.sync_api import sync_playwright

    with counting() as evil, sync_playwright() as runner, launched(runner, evil.rules) as browser:
        stage = Stage(browser, evil)
        yield stage
        stage.close()
