"""The version before participants came is replaced by this one, process by process, while people read, write and
wait for answers: nothing is lost, and nobody sees an error.

`make test-all` does it with 12 conversations; ``ROOMS=50 make test ARGS=tests/cluster/test_rolling_update.py`` with
50.
"""

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import databases
from tests.support.browser.people import signed_in_context
from tests.support.cluster.answers import Words, assert_whole
from tests.support.cluster.cluster import KEYS, Cluster, RunnerProcess, Web
from tests.support.cluster.nginx import PlainNginx
from tests.support.cluster.open_rooms import OpenRoom
from tests.support.earlier import source_before
from tests.support.processes.site import ORIGIN, SOON_SECONDS, STATIC_ROOT, Process, seed, soon
from tests.support.servers import PostgreSQL, Redis
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Gate

ROOMS = int(os.environ.get("ROOMS", "12"))
# The first migration that the earlier version doesn't have.
ADDED = "chat/migrations/0035_participants.py"
EARLIER = "earlier"
# In the access log: the address and a status that says that no process answered, or that one failed.
FAILED = re.compile(r"\S+ \S+ [A-Z]+ \S+ 5\d\d ")
# The earlier version reads the session before it accepts a websocket, and answers with 500 if it can't. The page
# connects again, and shows nothing. This version accepts first.
HANDSHAKE_FAILED = re.compile(r"\S+ \S+ GET /live/ 500 ")
TYPED = "Half a sentence that nobody has sent, and"
# What a person sees of an error, kept across reloads. That a page reconnects is none.
NOTE_ERRORS = """setInterval(() => {
  for (const id of ["composer-note", "notices"]) {
    const shown = document.getElementById(id);
    const text = shown?.checkVisibility() ? shown.innerText.trim() : "";
    if (text) sessionStorage.setItem(`seen-${id}`, text);
  }
}, 50);"""
SEEN_ERRORS = (
    """() => Object.entries(sessionStorage).filter(([name]) => name.startsWith("seen-"))"""
)


class Rollout(Cluster):
    """A cluster of the earlier version behind nginx; `replace` starts this version in its place."""

    def start(self, source: Path, folder: Path) -> None:
        self.proxy_folder = folder
        for web in self.webs:
            web.keep_port()
        self.proxy = PlainNginx(folder, webs=[web.port for web in self.webs])
        address = f"http://127.0.0.1:{self.proxy.http}"
        self.runners = self.runners[:1]
        for process in (*self.webs, *self.runners):
            process.root = source
            # As containers, each version has its own static files.
            process.settings["STATIC_ROOT"] = f"{STATIC_ROOT}-earlier"
            process.settings |= {"LIVE_ORIGINS": f"{ORIGIN},{address}", "SITE_URL": address}
        self.heal()
        self.proxy.start()
        self.address = Web(self._folder("address"), self.world, self.fake, records=self.records)
        self.address.port = self.proxy.http

    def migrate(self) -> None:
        databases.migrate(self.folder, **self.settings)

    def replace(self, process: Web) -> None:
        assert process.terminate() == 0
        self.update(process)
        process.start()
        # nginx leaves out a process for two seconds after a failed request, and must have another one.
        begun = self.served_by(process)
        with self.address.browser("Alice") as browser:
            soon(lambda: browser.get("/healthz") and self.served_by(process) > begun)

    def failures(self) -> list[str]:
        """Lines of the access log about requests that no process answered, or at which one failed."""
        return [line for line in self.proxy.log.splitlines() if FAILED.match(line)]

    def served_by(self, process: Web) -> int:
        """How often this process answered for nginx."""
        answered = re.compile(rf" /healthz 200 .* 127\.0\.0\.1:{process.port} 200$", re.MULTILINE)
        return len(answered.findall(self.proxy.log))

    def replace_runner(self) -> RunnerProcess:
        """Returns the one that finishes its answers, and claims no more."""
        [before] = self.runners
        after = self.runner("runner-after", STATIC_ROOT=str(STATIC_ROOT))
        self.runners.append(after)
        after.start()
        before.process.terminate()
        return before

    def log_lines(self) -> Iterator[str]:
        for process in self.processes:
            yield from (f"{process.folder.name}: {line}" for line in process.log.splitlines())

    @staticmethod
    def update(process: Process) -> None:
        """From its next start on it is of this version."""
        del process.root
        process.settings["STATIC_ROOT"] = str(STATIC_ROOT)

    def close(self) -> None:
        self.proxy.close()
        super().close()


@pytest.fixture
def rollout(
    postgres: PostgreSQL, redis: Redis, fake: FakeUpstream, tmp_path: Path
) -> Iterator[Rollout]:
    source = source_before(ADDED)
    fake.clear()
    postgres.create(EARLIER)
    url = postgres.url(EARLIER)
    databases.migrate(tmp_path, root=source, DATABASE_URL=url, **KEYS)
    world = seed(tmp_path, root=source, DATABASE_URL=url, **KEYS)
    rollout = Rollout(
        tmp_path,
        world,
        postgres=postgres,
        redis=redis,
        database=f"rollout_{uuid.uuid4().hex[:8]}",
        fake=fake,
        of=EARLIER,
    )
    rollout.rows("UPDATE chat_upstream SET concurrency_limit = 1000")
    # Not below pytest's folder, which the workers of nginx cannot read.
    folder = Path("/tmp") / f"tributary-rollout-{uuid.uuid4().hex}"
    folder.mkdir()
    rollout.start(source, folder)
    yield rollout
    rollout.close()
    shutil.rmtree(folder)
    postgres.drop(EARLIER)
    fake.clear()


class Begun:
    """Conversations whose answers are on their way, each with a page that is open."""

    def __init__(self, rollout: Rollout) -> None:
        self.rollout = rollout
        self.gates = [rollout.gate() for _ in range(3)]
        self.answers: list[tuple[UUID, Words]] = []
        self.pages: list[OpenRoom] = []

    def add(self, *gates: Gate, is_open: bool = True) -> UUID:
        rollout, number = self.rollout, len(self.answers)
        words = Words(f"w{number}", count=40)
        posts = rollout.fake.posts
        rollout.fake.script(words.script(*gates))
        run = rollout.address.send(f"Tell story {number}")
        # Scripts are used in the order of the requests.
        rollout.fake.wait_until(lambda fake: fake.posts > posts, timeout=SOON_SECONDS)
        self.answers.append((run, words))
        if is_open:
            self.pages.append(OpenRoom(rollout.address, rollout.web.conversation_of(run)))
        return run

    def release(self, number: int) -> None:
        """All answers go on, to the next gate, and all pages show it."""
        self.rollout.fake.release(self.gates[number].name)
        shown = f"-{(number + 1) * 10 + 9}"
        for at, page in enumerate(self.pages[:ROOMS]):
            page.until_shown(f"w{at}{shown}")

    def queue_behind_every_fourth(self) -> list[OpenRoom]:
        pages = self.pages[::4]
        self.rollout.fake.script(*(Words("next", count=8).script() for _ in pages))
        for (run, _), page in zip(self.answers[:ROOMS:4], pages, strict=True):
            page.send("And then?", self.rollout.web.message_of(run))
        return pages

    def close(self) -> None:
        for page in self.pages:
            page.leave()


@pytest.fixture
def begun(rollout: Rollout) -> Iterator[Begun]:
    begun = Begun(rollout)
    yield begun
    begun.close()


@pytest.fixture
def tab(browser: Browser, rollout: Rollout) -> Iterator[Page]:
    context = signed_in_context(browser, rollout.address, "Alice")
    page = context.new_page()
    page.add_init_script(NOTE_ERRORS)
    page.set_default_timeout(SOON_SECONDS * 1000)
    yield page
    context.close()


@pytest.mark.needs("nginx", "chromium")
@pytest.mark.timeout(180 + 6 * ROOMS)
def test_rolling_update_loses_nothing(rollout: Rollout, begun: Begun, tab: Page) -> None:
    for _ in range(ROOMS):
        begun.add(*begun.gates)
    watched, words = begun.answers[0]
    tab.goto(f"{rollout.address.url}/c/{rollout.web.conversation_of(watched)}/")
    tab.locator("#text").press_sequentially(TYPED)
    epoch = tab.locator("#room").get_attribute("data-epoch")

    # Processes of the earlier version go on with the new tables and columns.
    rollout.migrate()
    begun.add(is_open=False)
    begun.release(0)
    rollout.replace(rollout.webs[0])
    begun.add(is_open=False)
    begun.release(1)
    expect(tab.locator("#text")).to_have_value(TYPED)
    rollout.replace(rollout.webs[1])
    handshakes = [line for line in rollout.failures() if HANDSHAKE_FAILED.match(line)]
    before = rollout.replace_runner()
    begun.add(is_open=False)
    queued = begun.queue_behind_every_fourth()
    begun.release(2)

    for run, answer in begun.answers:
        assert_whole(rollout, run, answer)
    # It has finished its answers.
    assert before.process.wait(SOON_SECONDS) == 0
    for page in queued:
        page.until_shown("next-7")
    assert rollout.fake.posts == len(begun.answers) + len(queued)
    assert rollout.value("SELECT count(*) FROM chat_queuedmessage") == 0
    assert [
        (page.errors, page.failure) for page in begun.pages if page.errors or page.failure
    ] == []
    expect(tab.locator("#turns .answer").first).to_contain_text(words.last)
    tab.wait_for_function(
        "epoch => document.getElementById('room').dataset.epoch !== epoch", arg=epoch
    )
    expect(tab.locator("#text")).to_have_value(TYPED)
    expect(tab.locator("#text")).to_be_focused()
    expect(tab.locator("#connection")).to_be_hidden()
    assert tab.evaluate(SEEN_ERRORS) == []
    assert [line for line in rollout.log_lines() if "ERROR" in line or "Traceback" in line] == []
    assert [line for line in rollout.failures() if line not in handshakes] == []
