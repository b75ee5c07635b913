"""Open pages of conversations as browsers keep them: they reconnect when they are cut off, reload when a
server says so, and send a message until they know that it was accepted."""

import contextlib
import json
import re
import time
import uuid
from typing import Any
from uuid import UUID

import httpx
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync import client

from tests.rendering.dom import Element, Page, _Builder
from tests.support.cluster.viewers import _FirstElement
from tests.support.open_blocks import completed
from tests.support.pages import Cursor
from tests.support.processes.site import SOON_SECONDS, Site
from tests.support.processes.viewers import Listener, open_socket

# As in a browser, but more often.
AGAIN_SECONDS = 0.3
EPOCH = re.compile(r'data-epoch="([^"]*)"')
REVISION = re.compile(r'data-revision="(\d+)"')
ANSWER = re.compile(r'<\w+ [^>]*\bid="(r[0-9a-f]{32})"')


def element_at(html: str, start: int) -> Element:
    builder: _Builder = _FirstElement()
    with contextlib.suppress(StopIteration):
        builder.feed(html[start:])
    (element,) = builder.root.children
    assert isinstance(element, Element)
    return element


class OpenRoom(Listener):
    """The page of one conversation in one tab. ``site`` is the address that it was opened at."""

    def __init__(self, site: Site, room: UUID, *, by: str = "Bob") -> None:
        super().__init__()
        self.room = room
        self.pages: dict[UUID, Page] = {}
        self.cursors: dict[UUID, Cursor] = {}
        self.reloads = 0
        # Responses that a browser would show as an error, and exceptions.
        self.errors: list[str] = []
        self._held: dict[UUID, dict[str, str]] = {}
        self._live: set[UUID] = set()
        self._site, self._by = site, by
        self._browser = httpx.Client(
            base_url=f"http://127.0.0.1:{site.port}",
            headers=site.headers(by),
            timeout=SOON_SECONDS,
            trust_env=False,
            verify=False,
        )
        self._is_left = False
        self._socket: client.ClientConnection | None = None
        self._load()
        self._thread.start()

    # --- the page ----------------------------------------------------------------------------

    def _load(self) -> None:
        response = self._browser.get(f"/c/{self.room}/")
        if response.status_code != 200:
            self.errors.append(f"GET {response.status_code}")
            return
        html = response.text
        epoch, revision = EPOCH.search(html), REVISION.search(html)
        assert epoch, html
        assert revision, html
        with self._changed:
            self.epoch, self._revision = epoch[1], int(revision[1])
            self.pages, self.cursors, self._live = {}, {}, set()
            for found in ANSWER.finditer(html):
                self._show(element_at(html, found.start()))

    def _show(self, answer: Element) -> None:
        run = UUID(answer.attributes["id"][1:])
        page = Page(run.hex)
        page.answer.children = answer.children
        self.pages[run] = page
        if "data-live" in answer.attributes:
            self._live.add(run)
            self.cursors[run] = int(answer.attributes["data-seq"]), answer.attributes["data-check"]

    # --- its connection ------------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._is_left:
            try:
                must_reload = self._connect()
            except (OSError, TimeoutError, InvalidStatus, ConnectionClosed):
                must_reload = False
            if self._is_left:
                return
            if must_reload:
                self.reloads += 1
                self._load()
            else:
                time.sleep(AGAIN_SECONDS)

    def _connect(self) -> bool:
        """Until the connection ends; whether the page is to be loaded anew."""
        with open_socket(self._site, by=self._by) as socket:
            self._socket = socket
            self._held = {run: {} for run in self.pages}
            self._hello()
            for text in socket:
                message = json.loads(text)
                if message.get("gone"):
                    # Also of this version's servers, which go on: these pages reload at once.
                    return bool(message["reason"] == "restored")
                with self._changed:
                    self._take(message)
                    self._changed.notify_all()
                if self._is_news(message):
                    return True
        return False

    def _hello(self) -> None:
        runs = [
            {"run": run.hex, "seq": seq, "check": check, "holds": True}
            for run, (seq, check) in self.cursors.items()
            if run in self._live
        ]
        channels = {"queue": {}, "page": {"revision": self._revision}}
        self._say(type="hello", room=self.room.hex, epoch=self.epoch, runs=runs, channels=channels)

    def _is_news(self, message: dict[str, Any]) -> bool:
        """A browser would fetch the changes; this page is loaded anew."""
        is_of_page = message.get("channel") == "page" and "room" in message
        return is_of_page and message.get("revision") != self._revision

    def _say(self, **message: object) -> None:
        assert self._socket is not None
        self._socket.send(json.dumps(message))

    def _take(self, message: dict[str, Any]) -> None:
        if "content" not in message or "run" not in message:
            return
        message = {"replaces": False, "live": True, **message}
        run = UUID(message["run"])
        assert message["replaces"] or message["after"] == self.cursors[run][0]
        self.pages[run].apply(completed(message, self._held[run]))
        self.cursors[run] = message["seq"], message["check"]
        if not message["live"]:
            self._live.discard(run)
        self._say(type="ack", runs={run.hex: message["seq"]})

    # --- what tests ask and do ---------------------------------------------------------------

    @property
    def text(self) -> str:
        return "\n".join(page.answer.words() for page in list(self.pages.values()))

    def until_shown(self, *texts: str) -> None:
        self.until(lambda page: all(text in page.text for text in texts))

    def send(self, text: str, parent: UUID) -> None:
        """As the composer does: after an error the same form is sent again."""
        form = {
            "text": text,
            "choice": f"{self._site.world.upstream}:test/model",
            "key": str(uuid.uuid4()),
            "parent": parent.hex,
        }
        deadline = time.monotonic() + SOON_SECONDS
        while time.monotonic() < deadline:
            try:
                status = self._browser.post(f"/c/{self.room}/send/", data=form).status_code
            except httpx.TransportError:
                status = 0
            if status == 302:
                return
            time.sleep(AGAIN_SECONDS)
        raise TimeoutError(f"the message was not accepted: {status}")

    def leave(self) -> None:
        self._is_left = True
        if self._socket is not None:
            self._socket.close()
        self._thread.join(SOON_SECONDS)
        self._browser.close()

    def __repr__(self) -> str:
        return f"{super().__repr__()} errors={self.errors} at={self.cursors} text={self.text!r}"
