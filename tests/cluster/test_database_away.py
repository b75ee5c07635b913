"""PostgreSQL stops at once and comes back ten seconds later, while runs are answered."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx
import pytest

from chat.demo.script import Flood, Gate, lmstudio_event, stream
from chat.views.errors import AWAY
from tests.support.cluster.audience import Audience
from tests.support.cluster.cluster import Cluster, Web, resident_bytes
from tests.support.cluster.stories import (
    Story,
    assert_ended,
    assert_nothing_lost,
    assert_whole,
    begin,
    text_of,
)
from tests.support.processes.site import soon
from tests.support.servers import PostgreSQL

AWAY_SECONDS = 10
# More than the sockets between the two hold, and what a run keeps for an absent database.
PIECE = "flood " * 1000
PIECES = 6000
LAST = "The last word."
# What the runner may need for what it has read: raw, parsed, and merged, of a share of the flood.
MOST_GROWTH_BYTES = 150 * 1024 * 1024


def flooded(before: Gate, behind: Gate) -> tuple[object, ...]:
    """An upstream that writes as fast as it is read, and then waits."""
    head = [{"type": "chat.start", "model_instance_id": "test/model"}, {"type": "message.start"}]
    first = {"type": "message.delta", "content": "First. "}
    piece = {"type": "message.delta", "content": PIECE}
    return (
        *(lmstudio_event(event) for event in (*head, first)),
        before,
        Flood(base64=lmstudio_event(piece), times=PIECES),
        lmstudio_event({"type": "message.delta", "content": LAST}),
        behind,
    )


def sent(web: Web, path: str, *, in_page: bool, **fields: str) -> httpx.Response:
    """A form that Alice sends: by the page's script, or as a browser does it alone."""
    with web.browser("Alice") as browser:
        headers = {"HX-Request": "true"} if in_page else {}
        return browser.post(path, data=fields, headers=headers)


@pytest.mark.timeout(600)
def test_nothing_is_lost_and_everything_is_said(cluster: Cluster, postgres: PostgreSQL) -> None:
    down, full = cluster.gate(), cluster.gate()
    begun = begin(cluster, 3, down)
    cluster.fake.script(stream(*flooded(down, full)))  # type: ignore[arg-type]
    flood = cluster.web.send("And a flood")
    runner = cluster.executing(flood)
    soon(lambda: cluster.web.entries(flood))
    room = cluster.web.conversation_of(begun[0][0])
    draft = {
        "text": "Sent while it was away",
        "choice": f"{cluster.world.upstream}:test/model",
        "key": str(uuid.uuid4()),
    }

    with Audience(cluster, *(run for run, _ in begun)) as audience:
        audience.until_shown("-30 ")
        before_bytes = resident_bytes(runner)
        postgres.stop_at_once()
        stopped = time.monotonic()
        cluster.fake.release(down.name)
        # The answers are read to their end, although nothing can be written down.
        cluster.fake.wait_until(
            lambda fake: sum(one.outcome != "open" for one in list(fake.requests)) == 3,
            timeout=60,
        )
        with ThreadPoolExecutor(4) as pool:
            refusals = [
                pool.submit(sent, cluster.webs[0], f"/c/{room}/send/", in_page=True, **draft),
                pool.submit(sent, cluster.webs[1], f"/c/{room}/send/", in_page=False, **draft),
                pool.submit(sent, cluster.webs[1], "/c/", in_page=True, **draft),
                pool.submit(sent, cluster.webs[0], "/c/", in_page=False, **draft),
            ]
            answers = [refusal.result() for refusal in refusals]
        time.sleep(max(0.0, AWAY_SECONDS - (time.monotonic() - stopped)))
        # It goes on reading, up to a limit: the upstream waits, and the memory does not grow.
        assert cluster.fake.waiting == []
        assert resident_bytes(runner) - before_bytes < MOST_GROWTH_BYTES
        postgres.start()

        for run, story in begun:
            assert_whole(cluster, run, story)
        audience.assert_have_all()
    assert [answer.status_code for answer in answers] == [503] * 4
    assert all(AWAY in answer.text for answer in answers)
    assert_the_flood_is_whole(cluster, flood, full)
    assert_the_draft_can_be_sent(cluster, room, draft)
    assert not any("Traceback" in web.log for web in cluster.webs)


def still_there(cluster: Cluster, ended: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of these backends the ones that are still there."""
    numbers = ", ".join(str(int(row["pid"])) for row in ended) or "0"
    return cluster.rows(f"SELECT pid FROM pg_stat_activity WHERE pid IN ({numbers})")


def test_connections_that_the_database_has_ended_are_not_used_again(cluster: Cluster) -> None:
    """Each thread that reads keeps one. Whoever meets the last of them must not be the one who
    learns that it is dead, long after the database has come back."""
    begun = begin(cluster, 2, pause_seconds=0.02)
    runs = [run for run, _ in begun]
    warm = [*runs, *runs, *runs]
    logged = [len(web.log) for web in cluster.webs]

    with Audience(cluster, *warm) as audience:
        audience.until_shown("-10 ")
        ended = cluster.rows(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle' AND pid != pg_backend_pid()"
        )
        # One that has only been told to go still takes a statement, and ends in the middle of it.
        soon(lambda: not still_there(cluster, ended))
        # More at once than there are threads.
        with Audience(cluster, *warm) as newcomers:
            newcomers.until_shown("-10 ")
            assert [seat.tab.close_code for seat in newcomers.seats if seat.tab.has_ended] == []

            assert_nothing_lost(cluster, audience, begun)
            newcomers.assert_have_all()
    for web, before in zip(cluster.webs, logged, strict=True):
        assert "Traceback" not in web.log[before:]
        assert "viewer.put_off" not in web.log[before:]


def assert_the_flood_is_whole(cluster: Cluster, flood: UUID, full: Gate) -> None:
    """What waited in the sockets came, too; all of it, once."""
    # The kernel may have dropped pieces for a reader who stood still, and sends them again one by one,
    # some 30 in a second.
    cluster.fake.wait_until(lambda fake: fake.waiting == [full.name], timeout=400)
    soon(lambda: LAST.encode() in last_of(cluster, flood))
    cluster.web.stop_run(flood)
    assert_ended(cluster.web, flood, "stopped")
    assert text_of(cluster.web, flood) == "First. " + PIECE * PIECES + LAST


def last_of(cluster: Cluster, run: UUID) -> bytes:
    """The newest segment of a log."""
    statement = (
        "SELECT body FROM chat_runsegment s JOIN chat_run r ON r.id = s.run_id"
        " WHERE r.public_id = ? ORDER BY first_seq DESC LIMIT 1"
    )
    return bytes(cluster.value(statement, run.hex))


def assert_the_draft_can_be_sent(cluster: Cluster, room: UUID, draft: dict[str, str]) -> None:
    """The same draft, under the same key, twice: one message and one answer."""
    story = Story("again")
    posts = cluster.fake.posts
    cluster.fake.script(story.script())
    for web in cluster.webs:
        answer = sent(web, f"/c/{room}/send/", in_page=False, **draft)
        assert answer.status_code == 302, answer.text
    (run,) = cluster.rows(
        "SELECT public_id FROM chat_run WHERE idempotency_key = ?", UUID(draft["key"]).hex
    )
    assert_whole(cluster, UUID(run["public_id"]), story)
    assert cluster.fake.posts == posts + 1
