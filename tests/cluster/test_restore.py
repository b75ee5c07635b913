"""A backup is restored while pages are open: they correct themselves, whatever they had shown."""

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.support.browser.tab import NORMALISED
from tests.support.cluster.cluster import Cluster, Web
from tests.support.pages import cursor_of, page_of
from tests.support.processes.runs import (
    ANSWER,
    SEEN,
    SEEN_END,
    SEEN_TEXT,
    UNSEEN,
    assert_ended,
    text_of,
)
from tests.support.processes.site import SOON_SECONDS
from tests.support.processes.viewers import Tab
from tests.support.servers import PostgreSQL
from tests.support.upstream.script import Script, lmstudio_events, lmstudio_run, stream

# What a page shows of a room: each turn with its words, or with its answers.
SHOWN = f"""() => JSON.stringify([document.title, ...[...document.querySelectorAll("#turns > article")]
  .map(turn => [turn.dataset.turn, turn.querySelector(".turn-body")?.textContent,
                [...turn.querySelectorAll(".answer")].map({NORMALISED})])])"""
# Pages reconnect and reload after a random part of some seconds.
NO_RANDOM_DELAY = "Math.random = () => 0.01"
POLL_MS = 50
# Why a page that should load itself again doesn't.
WAITS_FOR = """() => JSON.stringify({
  storage: {...sessionStorage}, epoch: document.getElementById("room")?.dataset.epoch, hidden: document.hidden,
  age: performance.now(), busy: [...document.querySelectorAll("dialog[open], :popover-open, form.edit, .htmx-request")].map(
    each => each.cloneNode().outerHTML), connection: document.getElementById("connection")?.innerText})"""

Restore = Callable[[Cluster, PostgreSQL, Path], None]


def with_processes_stopped(cluster: Cluster, postgres: PostgreSQL, file: Path) -> None:
    """As the manual says."""
    cluster.terminate([cluster.web, *cluster.runners])
    cluster.records.close()
    postgres.restore_new(cluster.database, file)
    cluster.heal()


def in_use(cluster: Cluster, postgres: PostgreSQL, file: Path) -> None:
    """As somebody does it who is in a hurry."""
    postgres.restore_in_use(cluster.database, file)


def answer(text: str) -> Script:
    return stream(lmstudio_events(lmstudio_run(text)))


def send_turn(web: Web, run: UUID, text: str) -> None:
    """One more turn behind this run."""
    room = web.conversation_of(run)
    choice = f"{web.world.upstream}:test/model"
    sent = web.post(
        "Alice",
        f"/c/{room}/send/",
        text=text,
        choice=choice,
        key=str(uuid.uuid4()),
        parent=web.message_of(run).hex,
    )
    assert sent.status_code == 302, sent.text


class Pages:
    """Bob's pages in a real browser."""

    def __init__(self, browser: Browser, web: Web) -> None:
        self._web = web
        self._url = f"http://127.0.0.1:{web.port}"
        self._context: BrowserContext = browser.new_context()
        self._context.add_init_script(NO_RANDOM_DELAY)
        session = {"name": "sessionid", "value": web.world.sessions["Bob"], "url": self._url}
        self._context.add_cookies([session])  # type: ignore[list-item]

    def of(self, run: UUID) -> Page:
        return self.at(f"{self._url}/c/{self._web.conversation_of(run)}/")

    def at(self, url: str) -> Page:
        page = self._context.new_page()
        page.goto(url)
        return page

    def until_shown(self, page: Page, text: str) -> None:
        self._until(page, lambda: text in shown(page))

    def until_not_shown(self, page: Page, text: str) -> None:
        self._until(page, lambda: (now := shown(page)) and text not in now)

    def until_as_fresh(self, page: Page) -> str:
        """Until the page shows what one shows that is opened now."""
        fresh = self.at(page.url)

        def is_as_fresh() -> bool:
            fresh.reload()
            return shown(page) == shown(fresh)

        self._until(page, is_as_fresh)
        return shown(page)

    def _until(self, page: Page, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + SOON_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"never; it shows {shown(page)}, {page.evaluate(WAITS_FOR)}")
            # The messages of the page are handled only meanwhile.
            page.wait_for_timeout(POLL_MS)


def shown(page: Page) -> str:
    """Empty while the page loads."""
    try:
        return json.dumps(json.loads(page.evaluate(SHOWN)), ensure_ascii=False)
    except Exception as error:
        if "Execution context" not in str(error) and "navigat" not in str(error):
            raise
        return ""


@pytest.mark.parametrize("restore", [with_processes_stopped, in_use])
def test_open_pages_show_what_was_restored(
    own_cluster: Cluster, postgres: PostgreSQL, browser: Browser, tmp_path: Path, restore: Restore
) -> None:
    cluster, web = own_cluster, own_cluster.web
    web.keep_port()
    cluster.heal()
    gate = cluster.gate()
    cluster.fake.script(stream(ANSWER), stream(SEEN, gate, UNSEEN))
    ended = web.send("What has ended")
    assert_ended(web, ended, "completed")
    running = web.send("What is being answered")
    pages = Pages(browser, web)
    at_ended, at_running = pages.of(ended), pages.of(running)
    tab = Tab(web, running)
    tab.until_shown(running, SEEN_END)

    backup = tmp_path / "backup"
    postgres.dump(cluster.database, backup)
    # What happens from here on is lost.
    cluster.fake.release(gate.name)
    assert_ended(web, running, "completed")
    cluster.fake.script(answer("An answer that is lost."))
    send_turn(web, ended, "A question that is lost")
    pages.until_shown(at_ended, "An answer that is lost.")
    cluster.fake.script(answer("A room that is lost."))
    lost = web.send("A room that is lost")
    at_lost = pages.of(lost)
    pages.until_shown(at_running, "to the sea")
    pages.until_shown(at_lost, "A room that is lost.")
    tab.until_shown(running, "to the sea")
    restore(cluster, postgres, backup)
    # Other words get the numbers that the lost ones had.
    cluster.fake.script(answer("Another answer."))
    send_turn(web, ended, "Another question")

    assert_ended(web, running, "interrupted")
    assert text_of(web, running) == SEEN_TEXT
    as_fresh = [pages.until_as_fresh(page) for page in (at_ended, at_running)]
    assert "Another question" in as_fresh[0]
    assert not any("is lost" in text for text in as_fresh)
    assert "to the sea" not in as_fresh[1]
    # It is told that the room is gone, or finds that there never was one.
    pages.until_not_shown(at_lost, "is lost")
    assert_corrects_itself(web, tab, running)


def assert_corrects_itself(web: Web, tab: Tab, run: UUID) -> None:
    """A tab comes back with a cursor of what is lost, at a number that exists again."""
    entries = web.entries(run)
    tab.until_ended()
    assert tab.cursors[run][0] >= len(entries)

    back = Tab(web, run, pages=tab.pages, cursors=tab.cursors)
    back.until(lambda tab: tab.cursors[run] == cursor_of(entries))

    assert back.pages[run].state() == page_of(run, entries).state()
    back.leave()
    tab.leave()
