"""The queue of messages survives the end of its process at every step, and sends each message once."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import httpx
import pytest

from tests.support.processes.runs import ANSWER, SEEN, UNSEEN
from tests.support.processes.site import Site, soon
from tests.support.upstream.script import Gate, Script, stream

pytestmark = pytest.mark.process


def queue(site: Site, run: UUID, text: str, *, by: str, key: UUID | None = None) -> None:
    form = {
        "text": text,
        "choice": f"{site.world.upstream}:test/model",
        "key": str(key or uuid.uuid4()),
        "parent": site.message_of(run).hex,
    }
    answer = site.post(by, f"/c/{site.conversation_of(run)}/send/", **form)
    assert answer.status_code == 302, answer.text


def answered_in_two_halves() -> Script:
    return stream(SEEN, Gate(name="rest"), UNSEEN)


def said(site: Site) -> list[str]:
    rows = site.rows("SELECT id, parent_id, role, text FROM chat_message ORDER BY id")
    assert [row["parent_id"] for row in rows[1:]] == [row["id"] for row in rows[:-1]]
    return [row["text"] for row in rows if row["role"] == "user"]


def waiting(site: Site) -> int:
    return int(site.value("SELECT count(*) FROM chat_queuedmessage"))


@pytest.mark.parametrize(
    "place",
    [
        "before_queued_message",
        pytest.param("inside_queued_message", marks=pytest.mark.slow),
        pytest.param("after_queued_message", marks=pytest.mark.slow),
    ],
)
def test_kill_while_a_message_leaves_the_queue(site: Site, place: str) -> None:
    site.fake.script(answered_in_two_halves(), stream(ANSWER, times=2))
    site.start(change=place)
    run = site.send("First")
    key = uuid.uuid4()
    for _ in range(2):
        # The second time, as a page that has lost the response.
        queue(site, run, "Second", by="Bob", key=key)
    queue(site, run, "Third", by="Alice")

    site.fake.release("rest")
    site.until_stopped_at_place()
    if place == "after_queued_message":
        # An answer that is killed would hold the third one.
        soon(lambda: not site.value("SELECT count(*) FROM chat_run WHERE finished_at IS NULL"))
    site.kill9()
    site.start()

    soon(lambda: said(site) == ["First", "Second", "Third"])
    soon(lambda: not site.value("SELECT count(*) FROM chat_run WHERE finished_at IS NULL"))
    assert waiting(site) == 0
    assert site.fake.posts == 3


@pytest.mark.slow
def test_kill_before_the_response_queues_once(site: Site) -> None:
    site.fake.script(answered_in_two_halves(), stream(ANSWER))
    site.start(change="after_enqueue")
    run = site.send("First")
    site.fake.wait_until(lambda fake: fake.waiting == ["rest"])
    key = uuid.uuid4()

    with ThreadPoolExecutor(1) as pool:
        posted = pool.submit(queue, site, run, "Second", by="Bob", key=key)
        site.until_stopped_at_place()
        site.kill9()
        assert isinstance(posted.exception(), httpx.TransportError)
    site.start()
    site.until_ended(run)
    # The page sends it again when it is connected.
    queue(site, run, "Second", by="Bob", key=key)

    assert (waiting(site), said(site)) == (1, ["First"])


@pytest.mark.slow
def test_kill_while_the_answer_runs_holds_the_queue(site: Site) -> None:
    site.fake.script(answered_in_two_halves(), stream(ANSWER))
    site.start()
    run = site.send("First")
    site.fake.wait_until(lambda fake: fake.waiting == ["rest"])
    queue(site, run, "Second", by="Bob")
    site.kill9()
    site.start()

    assert site.until_ended(run)["status"] == "interrupted"
    with site.browser("Alice") as browser:
        path = f"/c/{site.conversation_of(run)}/"
        soon(lambda: "On hold, because the answer was interrupted" in browser.get(path).text)
        assert (waiting(site), said(site)) == (1, ["First"])
        queued = site.value("SELECT public_id FROM chat_queuedmessage")
        assert browser.post(f"/queued/{UUID(queued)}/send/").status_code == 302

    soon(lambda: said(site) == ["First", "Second"])
    soon(lambda: site.fake.posts == 2)
