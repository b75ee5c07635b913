"""A page like a conversation's that shows any HTML, in a real browser that reports what it does."""

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

from chat.rendering.parts import partial
from tests.hostile import rules
from tests.rendering.hostile_texts import ATTRIBUTES, BAR_ATTRIBUTES, MEDIUM_LINK
from tests.support.chromium import launched
from tests.support.foreign_server import ForeignServer, foreign_server

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("inspect.js")
# How long a page may take to do what it should not.
SETTLE_MS = 30
FOLD_URL = re.compile(r"/r/01234567-89ab-cdef-0123-456789abcdef/part/[\w-]+/", re.ASCII)
# What our scripts add: to a fold that is being fetched, and to a token under the pointer.
SCRIPTED_ATTRIBUTES = {"aria-busy"}
SCRIPTED_CLASSES = ("is-told",)
SCRIPTS = (
    "base/copy",
    *("rendering/code", "rendering/unfold", "rendering/logprobs", "rendering/math"),
)
BODY = f"""<body>
<main id="main"><div id="live"></div><div id="turns"><article class="turn"><div id="{rules.ANSWER_ID}" class="answer" hx-ignore>%s</div></article></div>
<textarea id="composer">draft</textarea></main>
<template id="katex"><link rel="stylesheet" href="/static/vendor/katex/katex.min.css"><script src="/static/vendor/katex/katex.min.js"></script></template>
<script id="rules" type="application/json">%s</script>
<script src="/inspect.js"></script>
<script src="/static/vendor/htmx/htmx.min.js"></script><script src="/static/vendor/htmx/hx-ws.min.js"></script>
{"".join(f'<script type="module" src="/static/{name}.js"></script>' for name in SCRIPTS)}
</body>"""
HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>kept</title>
<meta name="htmx-config" content='{"includeIndicatorCSS": false, "history": false, "extensions": "ws", "defaultSettleDelay": 0}'>
<link rel="stylesheet" href="/static/base/tokens.css"><link rel="stylesheet" href="/static/rendering/answer.css">
<link rel="stylesheet" href="/static/rendering/text.css"><link rel="stylesheet" href="/static/rendering/code.css">
</head>"""


def _numbered(fragments: Sequence[str]) -> str:
    return "".join(f'<div data-n="{at}">{html}</div>' for at, html in enumerate(fragments))


@dataclass
class Report:
    """What a page noticed in a batch, and what it requested meanwhile.

    ``hits``: scripts that ran. ``requests``: all that the page should not ask for. ``reached``: those
    that arrived at the foreign server.
    """

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


class Inspector:
    """The page's server, a browser, and a foreign server that all other hosts lead to."""

    def __init__(self, browser: Any, foreign: ForeignServer) -> None:
        self._browser = browser
        self._foreign = foreign
        self._batches: list[str] = []
        self._pages: dict[str, tuple[str, bool]] = {}
        handler = functools.partial(_Handler, self, directory=str(ROOT))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def content(self, path: str) -> tuple[str, str, dict[str, str]] | None:
        """Body, media type and headers of what is not a static file."""
        if path == "/inspect.js":
            return SCRIPT.read_text(), "text/javascript", {}
        if path in self._pages:
            html, has_policy = self._pages[path]
            policy = {"Content-Security-Policy": build_policy()} if has_policy else {}
            return html, "text/html", policy
        if path.startswith("/batch/"):
            return self._batches[int(path.rpartition("/")[2])], "text/plain", {}
        return None

    def inspect(self, fragments: Sequence[str], *, has_policy: bool, size: int = 500) -> Report:
        """Shows the fragments in a page that is loaded, and then through a frame."""
        report = Report()
        for start in range(0, len(fragments), size):
            batch = fragments[start : start + size]
            inside = _numbered(batch)
            frame = partial(rules.ANSWER_ID, "innerHTML", inside)
            report += self._run("inspectBatch", inside, frame, len(batch), has_policy)
        return report

    def insert(self, htmls: Sequence[str], *, has_policy: bool = False) -> Report:
        """Puts the HTML into the page without the protection of a frame."""
        return self._run("insertRaw", "", json.dumps(list(htmls)), len(htmls), has_policy)

    def hosts_of(self, addresses: Sequence[str]) -> list[str | None]:
        """The host where the browser would go for each; none where it is no URL."""
        page = self._browser.new_page()
        hosts: list[str | None] = page.evaluate(
            "all => all.map(one => { try { return new URL(one).hostname; } catch { return null; } })",
            list(addresses),
        )
        page.close()
        return hosts

    def _run(self, function: str, inside: str, batch: str, count: int, has_policy: bool) -> Report:
        number = len(self._batches)
        self._batches.append(batch)
        path = f"/page/{number}"
        self._pages[path] = (self._html(inside), has_policy)
        allowed = {f"{self.url}{each}" for each in (path, f"/batch/{number}", "/inspect.js")}
        requested: list[str] = []
        context = self._browser.new_context()
        context.add_cookies([{"name": "kept", "value": "1", "url": self.url}])
        page = context.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.on("dialog", lambda dialog: (requested.append("dialog"), dialog.dismiss()))
        page.route("**/*", _without_navigation())
        before = len(self._foreign.hits)
        page.goto(f"{self.url}{path}")
        page.evaluate(
            "([name, ...parameters]) => { window[name](...parameters); }", [function, number, count]
        )
        report = page.wait_for_function("() => window.report").json_value()
        requested += ["popup"] * _count_of_popups(context, page)
        context.close()
        assert "failure" not in report, report["failure"]
        return Report(
            requests=[url for url in requested if url not in allowed and not self._is_own(url)],
            reached=self._foreign.hits[before:],
            **report,
        )

    def _is_own(self, url: str) -> bool:
        """What the page is made of, sounds that came as bytes, and the contents of folds."""
        if url.startswith((f"{self.url}/static/", "data:")):
            return True
        path = url.removeprefix(self.url)
        return any(own.fullmatch(path) is not None for own in (MEDIUM_LINK, FOLD_URL))

    def _html(self, inside: str) -> str:
        told = {
            "answer": rules.ANSWER_ID,
            "tags": sorted(rules.TAGS),
            "attributes": sorted(
                {
                    *ATTRIBUTES,
                    *BAR_ATTRIBUTES,
                    *SCRIPTED_ATTRIBUTES,
                    "viewBox",
                    "preserveAspectRatio",
                }
            ),
            "classes": [*sorted(rules.classes()), *SCRIPTED_CLASSES],
            "kept": rules.OWN_LINK.pattern,
            "medium": f"^{MEDIUM_LINK.pattern}$",
            "note": rules.NOTE_LINK.pattern,
            "origin": self.url,
            "settle": SETTLE_MS,
            # The main part, and the scripts.
            "body": BODY.count("<script") + 1,
        }
        return HEAD + BODY % (inside, json.dumps(told).replace("<", "\\u003c")) + "</html>"


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, inspector: Inspector, *arguments: Any, **named: Any) -> None:
        self._inspector = inspector
        super().__init__(*arguments, **named)

    def do_GET(self) -> None:
        made = self._inspector.content(self.path)
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


def _count_of_popups(context: Any, page: Any) -> int:
    """The browser knows a popup at once; ``page.on("popup")`` hears of it when it has loaded."""
    session = context.new_cdp_session(page)
    own = session.send("Target.getTargetInfo")["targetInfo"]["browserContextId"]
    targets = session.send("Target.getTargets")["targetInfos"]
    of_context = [target for target in targets if target.get("browserContextId") == own]
    return sum(target["type"] == "page" for target in of_context) - 1


def _without_navigation() -> Callable[[Any], None]:
    """Keeps the page where it is, so that the rest of the batch is inspected too."""
    navigations: list[str] = []

    def route_it(route: Any) -> None:
        request = route.request
        if request.is_navigation_request() and request.frame.parent_frame is None:
            navigations.append(request.url)
            if len(navigations) > 1:
                route.abort()
                return
        route.continue_()

    return route_it


@contextmanager
def running_inspector() -> Iterator[Inspector]:
    from playwright.sync_api import sync_playwright

    with (
        foreign_server() as foreign,
        sync_playwright() as runner,
        launched(runner, foreign.resolver_rules) as browser,
    ):
        inspector = Inspector(browser, foreign)
        yield inspector
        inspector.close()
