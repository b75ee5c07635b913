"""Two people send at the same moment at two web processes: no branch, one order, one request each.

`make test-all` does it 20 times, and once in two browsers; ``RACES=1000 make test
ARGS=tests/cluster/test_message_queue.py`` a thousand times, and ten times in browsers.
"""

import os
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.processes import test_message_queue as processes
from tests.support.browser.people import signed_in_context
from tests.support.cluster.cluster import Cluster, Web
from tests.support.processes.site import soon
from tests.support.upstream.script import lmstudio_events, lmstudio_run, stream

RACES = int(os.environ.get("RACES", "20"))
IN_BROWSERS = max(1, RACES // 100)
IN_ONE_ROOM = 20
ANSWER = lmstudio_events(lmstudio_run("The river."))
Person = tuple[Web, httpx.Client, str]


def post(browser: httpx.Client, web: Web, room: UUID, parent: UUID, text: str) -> int:
    form = {
        "text": text,
        "choice": f"{web.world.upstream}:test/model",
        "key": str(uuid.uuid4()),
        "parent": parent.hex,
    }
    return browser.post(f"/c/{room}/send/", data=form).status_code


def turns(cluster: Cluster, room: UUID) -> list[dict[str, object]]:
    return cluster.rows(
        "SELECT m.id, m.public_id, m.parent_id, m.role, m.text, r.finished_at FROM chat_message m"
        " JOIN chat_conversation c ON c.id = m.conversation_id"
        " LEFT JOIN chat_run r ON r.message_id = m.id WHERE c.public_id = ? ORDER BY m.id",
        room.hex,
    )


def are_answered(rows: list[dict[str, object]], count: int) -> bool:
    return len(rows) == count and all(row["finished_at"] for row in rows[1::2])


def race(cluster: Cluster, people: Sequence[Person], count: int) -> None:
    """Both people send ``count`` times at the same moment, in one conversation."""
    run = cluster.web.send("Tell us.")
    cluster.web.until_ended(run)
    room, parent = cluster.web.conversation_of(run), cluster.web.message_of(run)
    together = threading.Barrier(2)

    def send(person: Person, parent: UUID, number: int) -> int:
        web, browser, name = person
        together.wait(60)
        return post(browser, web, room, parent, f"{name} {number}")

    with ThreadPoolExecutor(2) as pool:
        for number in range(count):
            sent = [pool.submit(send, person, parent, number) for person in people]
            assert [each.result() for each in sent] == [302, 302]
            # Both are answered before the next two.
            expected = 2 + 4 * (number + 1)
            soon(lambda expected=expected: are_answered(turns(cluster, room), expected))
            parent = UUID(str(turns(cluster, room)[-1]["public_id"]))

    rows = turns(cluster, room)
    assert [row["parent_id"] for row in rows[1:]] == [row["id"] for row in rows[:-1]]
    texts = [row["text"] for row in rows if row["role"] == "user"][1:]
    expected_texts = [f"{name} {number}" for number in range(count) for *_, name in people]
    assert sorted(map(str, texts)) == sorted(expected_texts)


@pytest.mark.timeout(120 + 2 * RACES)
def test_race_of_two_messages_makes_no_branch(cluster: Cluster) -> None:
    # A long conversation makes long prompts.
    rooms = [min(IN_ONE_ROOM, RACES - begun) for begun in range(0, RACES, IN_ONE_ROOM)]
    posts = 2 * RACES + len(rooms)
    cluster.fake.script(stream(ANSWER, times=posts))

    with cluster.webs[0].browser("Alice") as alice, cluster.webs[1].browser("Bob") as bob:
        people = list(zip(cluster.webs, (alice, bob), ("Alice", "Bob"), strict=True))
        for count in rooms:
            race(cluster, people, count)

    assert cluster.value("SELECT count(*) FROM chat_queuedmessage") == 0
    assert cluster.fake.posts == posts


# --- killed processes --------------------------------------------------------------------------------

# Where the runner is killed, and how many answers may have been asked for by then. Only one of its threads stops
# at the place, so it may ask for the answer to a message that it has just sent.
PLACES = {
    "before_request": (0,),
    "after_last_commit": (1,),
    "before_queued_message": (1,),
    "inside_queued_message": (1,),
    "after_queued_message": (1, 2),
}


@pytest.mark.parametrize("place", PLACES)
def test_runner_killed_at_each_step_loses_and_doubles_nothing(
    own_cluster: Cluster, place: str
) -> None:
    web, (runner,), fake = own_cluster.web, own_cluster.runners, own_cluster.fake
    fake.script(processes.answered_in_two_halves(), stream(ANSWER))
    runner.launch(change=place)
    web.start()
    runner.until_ready()
    run, key = web.send("First"), uuid.uuid4()
    soon(lambda: web.run(run)["runner_id"])
    for _ in range(2):
        # The second time, as a page that has lost the response.
        processes.queue(web, run, "Second", by="Bob", key=key)

    fake.release("rest")
    runner.until_stopped_at_place()
    asked = fake.posts
    runner.kill9()
    runner.start()

    soon(lambda: processes.said(web) == ["First", "Second"])
    soon(lambda: not web.value("SELECT count(*) FROM chat_run WHERE finished_at IS NULL"))
    assert asked in PLACES[place]
    assert processes.waiting(web) == 0
    # A run that the killed runner has just claimed is not sent again: nobody knows whether it was. Its request may
    # have been under way when the others were counted.
    (last,) = web.rows("SELECT status FROM chat_run ORDER BY id DESC LIMIT 1")
    assert fake.posts in ({asked, 2} if last["status"] == "interrupted" else {2})


def test_web_process_killed_in_the_form_queues_once(own_cluster: Cluster) -> None:
    web, (runner,), fake = own_cluster.web, own_cluster.runners, own_cluster.fake
    fake.script(processes.answered_in_two_halves(), stream(ANSWER))
    runner.launch()
    web.start(change="after_enqueue")
    runner.until_ready()
    run, key = web.send("First"), uuid.uuid4()

    with ThreadPoolExecutor(1) as pool:
        posted = pool.submit(processes.queue, web, run, "Second", by="Bob", key=key)
        web.until_stopped_at_place()
        web.kill9()
        assert isinstance(posted.exception(), httpx.TransportError)
    fake.release("rest")
    # The runner sends it without any web process.
    soon(lambda: processes.said(web) == ["First", "Second"])
    web.start()
    # The page sends it again when it is connected.
    processes.queue(web, run, "Second", by="Bob", key=key)

    soon(lambda: not web.value("SELECT count(*) FROM chat_run WHERE finished_at IS NULL"))
    assert (processes.said(web), processes.waiting(web)) == (["First", "Second"], 0)
    assert fake.posts == 2


# --- in two browsers ---------------------------------------------------------------------------------

# At a time of the machine's clock, which both browsers read.
SEND_AT = """([text, at]) => {
  const field = document.getElementById("text");
  field.value = text;
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
  setTimeout(() => field.form.requestSubmit(), at - Date.now());
}"""
SHOWN = (
    """() => [...document.querySelectorAll("#turns > article")].map(turn => turn.dataset.turn)"""
)
MOMENT_MS = 500


@pytest.fixture
def webs(cluster: Cluster, tmp_path: Path) -> Iterator[list[Web]]:
    """Two processes at addresses from which their pages may open websockets."""
    webs = []
    for name in ("alices", "bobs"):
        (tmp_path / name).mkdir()
        records, settings = cluster.records, cluster.settings
        web = Web(tmp_path / name, cluster.world, cluster.fake, records=records, settings=settings)
        web.keep_port()
        web.launch()
        webs.append(web)
    for web in webs:
        web.until_ready()
    yield webs
    for web in webs:
        web.close()


@pytest.mark.needs("chromium")
@pytest.mark.timeout(120 + 30 * IN_BROWSERS)
def test_race_in_two_browsers_shows_both_the_same(
    cluster: Cluster, webs: list[Web], browser: Browser
) -> None:
    cluster.fake.script(stream(ANSWER, times=1 + 2 * IN_BROWSERS))
    run = webs[0].send("Tell us.")
    room = webs[0].conversation_of(run)
    webs[0].until_ended(run)
    pages: list[Page] = []
    for web, name in zip(webs, ("Alice", "Bob"), strict=True):
        pages.append(signed_in_context(browser, web, name).new_page())
        pages[-1].goto(f"{web.url}/c/{room}/")

    for number in range(IN_BROWSERS):
        at = time.time() * 1000 + MOMENT_MS
        for page, name in zip(pages, ("Alice", "Bob"), strict=True):
            page.evaluate(SEND_AT, [f"{name} {number}", at])
        expected = 2 + 4 * (number + 1)
        for page in pages:
            expect(page.locator("#turns > article")).to_have_count(expected, timeout=60_000)
            expect(page.locator("#turns [data-live]")).to_have_count(0, timeout=60_000)
        rows = turns(cluster, room)
        order = [UUID(str(row["public_id"])).hex for row in rows]
        assert [page.evaluate(SHOWN) for page in pages] == [order, order]
        assert [row["parent_id"] for row in rows[1:]] == [row["id"] for row in rows[:-1]]
    assert cluster.fake.posts == 1 + 2 * IN_BROWSERS
