"""A person's tab in a real browser, and what it noticed: frames, errors, broken policies."""

import json
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from playwright.sync_api import APIResponse, Locator, Page, Route, WebSocket, expect
from playwright.sync_api import Error as PlaywrightError

from tests.support.browser.displays import DESKTOP
from tests.support.browser.site import BrowserSite

# A deadline for what should happen at once, on a machine that has other things to do.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)

VIOLATION = "policy violation:"
WATCH_POLICY = f"""addEventListener("securitypolicyviolation", event => console.error(
  "{VIOLATION}", event.violatedDirective, event.blockedURI, event.sourceFile, event.sample));"""

# A test may keep back the forms that a page posts over its websocket, the answers to them, or news of drafts.
KEEP_SOCKETS = """window.openSockets = [];
window.heldPosts = null;
window.heldAnswers = null;
window.heldDrafts = null;
window.WebSocket = class extends WebSocket {
  constructor(...parameters) {
    super(...parameters);
    window.openSockets.push(this);
    this.addEventListener("message", event => {
      const held = event.data.startsWith('{"answer"') ? window.heldAnswers
        : event.data.startsWith('{"channel":"draft"') ? window.heldDrafts : null;
      if (!held) return;
      event.stopImmediatePropagation();
      held.push(event.data);
    });
  }
  send(data) {
    if (window.heldPosts && data.startsWith('{"type":"post"')) window.heldPosts.push(data);
    else super.send(data);
  }
};"""

HAS_ENDED = """() => {
  const answer = [...document.querySelectorAll("#turns .answer")].at(-1);
  const turn = document.querySelector("#turns > article:last-of-type");
  const footer = turn?.querySelector("footer");
  return answer && footer && !answer.hasAttribute("data-live") && !footer.hasAttribute("data-open");
}"""
# A page of every site without scripts, on which its storage can be emptied.
BLANK = "/static/favicon.svg"
CLEAR_STORAGE = """() => {
  localStorage.clear();
  sessionStorage.clear();
}"""
# As in a browser in which nothing can be stored.
NO_STORAGE = """() => Object.defineProperty(window, "localStorage", {
  get() { throw new Error("no"); },
})"""
# What a reload must show just as the live stream left it. Left out: cursors, which a page needs
# only where it begins, and clocks, which the page itself moves.
NORMALISED = """answer => {
  const shown = answer.cloneNode(true);
  for (const name of ["data-seq", "data-check"]) shown.removeAttribute(name);
  // What htmx leaves empty where it morphs says nothing.
  for (const name of ["class", "style"]) {
    for (const one of shown.querySelectorAll(`[${name}='']`)) one.removeAttribute(name);
  }
  for (const clock of shown.querySelectorAll("time.elapsed")) {
    clock.textContent = "";
    clock.removeAttribute("data-elapsed-ms");
  }
  shown.normalize();
  return shown.outerHTML;
}"""


class Tab:
    """One page of one person. Everything that a test does goes through the page itself.

    A later test may get the same page (`TabPool`). So a test listens to it with ``on``, which ends
    with the test, and scripts for pages to come go through ``add_init_script``, after which no
    other test gets the page.
    """

    def __init__(self, page: Page, site: BrowserSite | None = None) -> None:
        self.page = page
        self._site = site
        self.errors: list[str] = []
        self.violations: list[str] = []
        # Everything that the console shows as an error; a page that was cut off has some as well.
        self.console_errors: list[str] = []
        self.sockets: list[WebSocket] = []
        self.messages: list[dict[str, Any]] = []
        self._held: list[Route] = []
        self._answers: list[tuple[Route, APIResponse]] = []
        self._handlers: list[tuple[str, Callable[..., object]]] = []
        self._is_reusable = True
        page.set_default_timeout(PATIENCE_MS)
        page.add_init_script(WATCH_POLICY)
        page.add_init_script(KEEP_SOCKETS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._on_console)
        page.on("websocket", self._on_socket)

    @property
    def site(self) -> BrowserSite:
        assert self._site is not None, "a page of no site"
        return self._site

    def _on_console(self, message: Any) -> None:
        text = message.text
        if message.type == "error":
            self.console_errors.append(f"{self.page.url}: {text}")
        if message.type == "error" and (
            VIOLATION in text or "Content Security Policy" in text or "Refused to" in text
        ):
            self.violations.append(f"{self.page.url}: {text}")

    def _on_socket(self, socket: WebSocket) -> None:
        self.sockets.append(socket)
        socket.on("framereceived", lambda payload: self.messages.append(json.loads(payload)))

    def on(self, event: Any, handler: Callable[..., object]) -> None:
        """As Playwright's, until the test ends."""
        self.page.on(event, handler)
        self._handlers.append((event, handler))

    def add_init_script(self, script: str) -> None:
        """Runs it first on every page that is opened from now on."""
        self.page.add_init_script(script)
        self._is_reusable = False

    def start_clock(self) -> None:
        """From the next page on, time passes as ``page.clock`` is told, beginning with now."""
        self.page.clock.install()

    def forget_errors(self) -> None:
        """For a test that expects them."""
        self.violations.clear()
        self.errors.clear()

    # --- for the next test -----------------------------------------------------------------

    def leave(self) -> bool:
        """Leaves the page that is shown, and says whether that was possible."""
        if self.page.is_closed() or not self._is_reusable:
            return False
        for event, handler in self._handlers:
            self.page.remove_listener(event, handler)
        self._handlers.clear()
        try:
            self.page.unroute_all(behavior="ignoreErrors")
            self.open(BLANK)
        except PlaywrightError:
            return False
        return True

    def reset(self) -> None:
        """Makes a tab that was left as good as new."""
        self.page.evaluate(CLEAR_STORAGE)
        # Outside of the page, so that nothing is hovered over.
        self.page.mouse.move(-1, -1)
        if self.page.viewport_size != DESKTOP:
            self.page.set_viewport_size(DESKTOP)
        self.page.emulate_media(color_scheme="light", reduced_motion="reduce")
        noticed: tuple[list[Any], ...] = (self.errors, self.violations, self.console_errors)
        for each in (*noticed, self.sockets, self.messages, self._held, self._answers):
            each.clear()

    # --- going somewhere -----------------------------------------------------------------

    def open(self, path: str) -> "Tab":
        self.page.goto(f"{self.site.url}{path}")
        return self

    def open_room_of(self, run: UUID) -> "Tab":
        return self.open(self.site.room(run))

    def reload(self) -> "Tab":
        self.page.reload()
        return self

    # --- what is on it --------------------------------------------------------------------

    @property
    def composer(self) -> Locator:
        return self.page.locator("#text")

    @property
    def turns(self) -> Locator:
        return self.page.locator("#turns > article")

    @property
    def answers(self) -> Locator:
        return self.page.locator("#turns .answer")

    @property
    def answer(self) -> Locator:
        return self.answers.last

    @property
    def stop(self) -> Locator:
        return self.page.locator("[data-stop]")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    def shows(self, text: str) -> "Tab":
        """Waits until the newest answer holds this text."""
        expect(self.answer).to_contain_text(text)
        return self

    def has_title(self, title: str) -> None:
        """Waits for the title of the page, whatever other tests have left in the person's inbox."""
        expect(self.page).to_have_title(re.compile(rf"^(\(\d+\+?\) )?{re.escape(title)}$"))

    def until_live(self) -> "Tab":
        """Waits for the first message of the socket; text alone may have come with the page."""
        self.until(lambda: self.messages, "the page is connected")
        return self

    def until_ended(self) -> "Tab":
        """Waits until the newest answer has ended, and its actions are those of an ended one.

        Not by `expect`: with each look in vain it describes the whole element for its error, which
        of a table of 9,000 rows takes the page several seconds.
        """
        self.page.wait_for_function(HAS_ENDED, polling=25)
        return self

    def until_idle(self) -> "Tab":
        """Waits until the composer's form is not under way."""
        expect(self.page.locator("#composer.htmx-request")).to_have_count(0)
        return self

    def normalized(self) -> str:
        return str(self.answer.evaluate(NORMALISED))

    # --- acting ----------------------------------------------------------------------------

    def write(self, text: str) -> "Tab":
        """Sends by the keyboard, as a person does."""
        self.composer.fill(text)
        self.composer.press("Enter")
        return self

    def hold(self, pattern: str) -> None:
        """Keeps requests to this address under way until `release`."""
        self.page.route(pattern, lambda route: self._held.append(route))

    def hold_answer(self, pattern: str) -> None:
        """Lets requests to this address through, and keeps what comes back until `release`."""

        def keep(route: Route) -> None:
            self._answers.append((route, route.fetch()))

        self.page.route(pattern, keep)

    def post_over_http(self) -> None:
        """From now on the forms on the page are requests, as where websockets are blocked."""
        self.page.evaluate(
            "() => document.querySelectorAll('[data-live-post]').forEach(form => form.removeAttribute('data-live-post'))"
        )

    def lose_updates(self) -> None:
        """From now on pushed changes of page and list are lost. After some seconds the server tells it to ask
        for them."""
        self.page.evaluate(
            """() => document.addEventListener("htmx:ws:before:message:incoming", event => {
              if (/"(page|list)":/.test(event.detail.message.data)) event.preventDefault();
            }, true)"""
        )

    @property
    def is_holding(self) -> bool:
        return bool(self._held or self._answers)

    def release(self) -> None:
        while self._held:
            self._held.pop(0).continue_()
        while self._answers:
            route, answer = self._answers.pop(0)
            route.fulfill(response=answer)
        self.page.unroute_all()

    def fail_held(self) -> None:
        """Ends the requests that are kept, as a network does that breaks."""
        for route in [*self._held, *(route for route, _ in self._answers)]:
            route.abort()
        self._held.clear()
        self._answers.clear()
        self.page.unroute_all()

    def close_sockets(self) -> None:
        """An emulated lack of network leaves open sockets alone; a real one does not."""
        self.page.evaluate("() => { for (const socket of window.openSockets) socket.close(); }")

    # --- waiting ---------------------------------------------------------------------------

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Lets the page go on until it holds; its messages arrive only meanwhile."""
        for _ in range(PATIENCE_MS // 25):
            if holds():
                return
            self.page.wait_for_timeout(25)
        raise AssertionError(f"never: {what}")
