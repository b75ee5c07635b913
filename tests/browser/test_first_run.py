"""A new installation: one command, one link, one account, and the first answer."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.displays import DESKTOP_LIGHT, PHONE_LIGHT, serious_findings
from tests.support.browser.people import People
from tests.support.browser.site import free_port
from tests.support.processes.site import READY_SECONDS, ROOT, SOON_SECONDS, STATIC_ROOT, soon


class FirstStart:
    """What ``make run`` starts, on a database that has only its tables. Ends only what it started."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        # Where a server of one's own listens.
        self.server_port = free_port()
        environment = {
            **kept,
            "DATA_DIR": str(folder),
            "PORT": str(self.port),
            "SERVER_PORTS": str(self.server_port),
            # tests/core/test_static_files.py builds them from nothing.
            "STATIC_ROOT": str(STATIC_ROOT),
        }
        self._log = folder / "server.log"
        with self._log.open("wb") as log:
            self._popen = subprocess.Popen(
                [sys.executable, "manage.py", "start"],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def until_ready(self) -> None:
        self.setup_link = str(soon(self._link, seconds=READY_SECONDS))

    def _link(self) -> str:
        text = self._log.read_text()
        assert self._popen.poll() is None, text
        found = re.search(r"\| (http\S+) \|", text)
        return found[1] if found and "serving address=" in text else ""

    @contextlib.contextmanager
    def demo_paused(self) -> Iterator[None]:
        """Meanwhile the demo servers stand still: an answer begins only when its page is there."""
        pid = self._popen.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert children
        for child in children:
            os.kill(int(child), signal.SIGSTOP)
        try:
            yield
        finally:
            for child in children:
                os.kill(int(child), signal.SIGCONT)

    def close(self) -> None:
        # The demo servers watch this process, and end with it.
        self._popen.terminate()
        try:
            self._popen.wait(SOON_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


# Records what is shown for a moment only: the progress of the prompt, and the reasoning.
NOTE = """() => {
  window.seen = {progress: [], reasoning: []};
  new MutationObserver(() => {
    const bar = document.querySelector("#strip progress");
    const summary = document.querySelector(".answer details.reasoning summary");
    if (bar?.checkVisibility()) window.seen.progress.push(Number(bar.getAttribute("value") ?? -1));
    if (summary?.checkVisibility()) window.seen.reasoning.push(summary.textContent);
  }).observe(document.body, {childList: true, subtree: true, characterData: true, attributes: true});
}"""


@pytest.fixture
def first_start(data_dir: Path) -> Iterator[FirstStart]:
    start = FirstStart(data_dir)
    try:
        start.until_ready()
        yield start
    finally:
        start.close()


def fill_setup(page: Page, *, password: str) -> None:
    page.get_by_label("Your name").fill("Ana Maria")
    page.get_by_label("Email address").fill("ana@example.org")
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_label(re.compile("team", re.IGNORECASE)).fill("River")
    page.get_by_role("button", name="Create account").click()


def assert_answers(first_start: FirstStart, page: Page) -> None:
    """A demo server answers the first message, with progress, reasoning and figures."""
    page.locator("#text").fill("What can you show me?")
    with first_start.demo_paused():
        page.locator("#text").press("Enter")
        page.wait_for_url("**/c/*/")
        expect(page.locator("[data-stop]")).to_be_visible()
        expect(page.locator(".after-demo")).to_be_hidden()
        page.evaluate(NOTE)

    answer = page.locator(".answer")
    expect(answer.locator(".message")).not_to_be_empty()
    seen = page.evaluate("() => window.seen")
    assert seen["progress"]
    assert all(0 <= value <= 100 for value in seen["progress"])
    assert any("Think" in summary for summary in seen["reasoning"])
    expect(answer).not_to_have_attribute("data-live", "", timeout=60_000)
    expect(answer.locator("details.reasoning summary")).to_contain_text("Thought for")
    expect(answer.locator(".figures")).to_have_text(re.compile(r"^\d+ tokens · [\d.]+ s$"))
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    expect(page.locator(".after-demo .starter").first).to_be_visible()


class OwnServer(BaseHTTPRequestHandler):
    """What vLLM answers: a list of one model, and a streamed answer."""

    TEXT = "Ada Lovelace wrote the first program."

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            models = {"data": [{"id": "acme/river", "object": "model", "owned_by": "vllm"}]}
            self._send(200, "application/json", json.dumps(models).encode())
        else:
            self._send(404, "application/json", b'{"detail": "Not Found"}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        deltas = [{"role": "assistant", "content": ""}, {"content": self.TEXT}, {}]
        chunks = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]}
            for delta in deltas
        ]
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self._send(200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def own_server(port: int) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", port), OwnServer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield
    server.shutdown()
    thread.join()
    server.server_close()


# Counts what a person does: clicks, and fields that are filled in.
COUNT = """() => {
  addEventListener("click", event => { if (event.isTrusted) window.counted("click"); }, true);
}"""


def test_first_five_minutes(first_start: FirstStart, people: People) -> None:
    """From the setup link to an answer of one's own server, with the demo servers hidden."""
    page = people.foreign_page()
    clicks: list[str] = []
    page.expose_function("counted", lambda kind: clicks.append(kind))
    page.add_init_script(f"({COUNT})()")

    set_up(first_start, page)
    assert_answers(first_start, page)
    assert_runs_a_tool(first_start, page)
    page.goto(first_start.url)
    clicks.clear()
    # On a phone the suggestions leave room for the answer.
    PHONE_LIGHT.show(page)
    page.locator("#text").fill("Who was Ada Lovelace?")
    page.locator("#text").press("Enter")
    page.wait_for_url("**/c/*/")
    answer = page.locator(".answer .message")
    expect(answer).to_contain_text("I'm the demo model")
    expect(page.locator(".after-demo .starter").last).to_be_in_viewport(ratio=1)
    expect(answer).to_be_in_viewport(ratio=1)
    DESKTOP_LIGHT.show(page)
    with own_server(first_start.server_port):
        page.get_by_role("button", name="Connect a server").click()
        expect(page.locator("#found")).to_contain_text("vLLM")
        page.get_by_role("button", name="Connect", exact=True).click()
        page.wait_for_url("**/?server=*")
        page.locator("#text").fill("Who was Ada Lovelace?")
        page.locator("#text").press("Enter")
        page.wait_for_url("**/c/*/")
        expect(page.locator(".answer .message")).to_contain_text(OwnServer.TEXT)
        page.get_by_role("button", name="Hide demo servers").click()
        expect(page.locator("#notices")).to_contain_text("The demo servers are hidden.")

    # Besides four fields of the account, and the button that creates it.
    assert len(clicks) <= 3
    again = people.foreign_page().goto(first_start.setup_link)
    assert again is not None
    assert again.status == 404


def set_up(first_start: FirstStart, page: Page) -> None:
    assert first_start.setup_link.startswith(f"{first_start.url}/setup/")
    page.goto(first_start.setup_link)
    fill_setup(page, password="12345")
    expect(page.locator(".field-error").first).to_be_visible()
    assert serious_findings(page, [DESKTOP_LIGHT]) == []
    fill_setup(page, password="a river in the hills")
    page.wait_for_url(f"{first_start.url}/")
    expect(page.locator("h1")).to_have_text("Ask anything")
    expect(page.locator(".starter").first).to_be_visible()


def assert_runs_a_tool(first_start: FirstStart, page: Page) -> None:
    page.goto(first_start.url)
    page.locator(".starter:has-text('Use a tool')").click()
    page.wait_for_url("**/?server=*")
    expect(page.locator("#text")).to_have_value("What is the river level at Basel?")
    page.locator("#text").press("Enter")
    page.wait_for_url("**/c/*/")
    expect(page.locator(".answer").last).to_contain_text("2.31 m at Basel", timeout=60_000)
    expect(page.locator(".ask")).to_contain_text("Ran automatically")
