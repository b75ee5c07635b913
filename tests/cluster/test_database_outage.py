"""PostgreSQL stops at once and comes back after longer than a lease, while runs are answered."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx
import pytest

from chat.web.views import AWAY
from tests.support.cluster.answers import Words, assert_nothing_lost, assert_whole, begin
from tests.support.cluster.cluster import LEASE_SECONDS, Cluster, Web, resident_bytes
from tests.support.cluster.viewers import Viewers
from tests.support.processes.runs import assert_ended, text_of
from tests.support.processes.site import SOON_SECONDS, soon
from tests.support.servers import PostgreSQL
from tests.support.upstream.script import AnyStep, Flood, Gate, lmstudio_event, stream

# No runner can renew its lease meanwhile, and none of them is lost.
OUTAGE_SECONDS = LEASE_SECONDS + 1
# More than the sockets between upstream and runner hold, and what a run keeps during an outage; less
# than `ANSWERS_BYTES`.
PIECE = "flood " * 1000
PIECES = 2600
LAST = "The last word."
# What the runner may need for what it has read: raw, parsed, and merged, of a share of the flood.
MOST_GROWTH_BYTES = 150 * 1024 * 1024


def flood(start: Gate, end: Gate) -> list[bytes | AnyStep]:
    """An upstream that writes as fast as it is read, and then waits."""
    return [
        lmstudio_event({"type": "chat.start", "model_instance_id": "test/model"}),
        lmstudio_event({"type": "message.start"}),
        lmstudio_event({"type": "message.delta", "content": "First. "}),
        start,
        Flood(base64=lmstudio_event({"type": "message.delta", "content": PIECE}), times=PIECES),
        lmstudio_event({"type": "message.delta", "content": LAST}),
        end,
    ]


def send_form(web: Web, path: str, *, in_page: bool, **fields: str) -> httpx.Response:
    """A form that Alice sends: by the page's script, or as a browser without scripts."""
    with web.browser("Alice") as browser:
        headers = {"HX-Request": "true"} if in_page else {}
        return browser.post(path, data=fields, headers=headers)


@pytest.mark.timeout(600)
def test_outage_loses_nothing_and_is_reported(cluster: Cluster, postgres: PostgreSQL) -> None:
    start, end = cluster.gate(), cluster.gate()
    begun = begin(cluster, 3, start)
    cluster.fake.script(stream(*flood(start, end)))
    flooded = cluster.web.send("And a flood")
    runner = cluster.executing(flooded)
    soon(lambda: cluster.web.entries(flooded))
    room = cluster.web.conversation_of(begun[0][0])
    draft = {
        "text": "Sent during the outage",
        "choice": f"{cluster.world.upstream}:test/model",
        "key": str(uuid.uuid4()),
    }

    with Viewers(cluster, *(run for run, _ in begun)) as viewers:
        viewers.until_shown("-20 ")
        before_bytes = resident_bytes(runner)
        postgres.stop_at_once()
        stopped_at = time.monotonic()
        cluster.fake.release(start.name)
        # The answers are read to their end, although nothing can be committed.
        cluster.fake.wait_until(
            lambda fake: sum(one.outcome != "open" for one in list(fake.requests)) == len(begun),
            timeout=SOON_SECONDS,
        )
        with ThreadPoolExecutor(4) as pool:
            first, second = cluster.webs
            refusals = [
                pool.submit(send_form, first, f"/c/{room}/send/", in_page=True, **draft),
                pool.submit(send_form, second, f"/c/{room}/send/", in_page=False, **draft),
                pool.submit(send_form, second, "/c/", in_page=True, **draft),
                pool.submit(send_form, first, "/c/", in_page=False, **draft),
            ]
            answers = [refusal.result() for refusal in refusals]
        time.sleep(max(0.0, OUTAGE_SECONDS - (time.monotonic() - stopped_at)))
        # Reading has stopped at a limit: the upstream waits, and the memory does not grow.
        assert cluster.fake.waiting == []
        assert resident_bytes(runner) - before_bytes < MOST_GROWTH_BYTES
        postgres.start()

        for run, words in begun:
            assert_whole(cluster, run, words)
        viewers.assert_complete()
    assert [answer.status_code for answer in answers] == [503] * 4
    assert all(str(AWAY) in answer.text for answer in answers)
    assert_flood_is_whole(cluster, flooded, end)
    assert_draft_can_be_sent(cluster, room, draft)
    assert not any("Traceback" in web.log for web in cluster.webs)


def assert_flood_is_whole(cluster: Cluster, flooded: UUID, end: Gate) -> None:
    """What waited in the sockets came, too; all of it, once."""
    # The kernel may have dropped pieces for a reader that stood still. It sends them again one by
    # one, about 30 in a second.
    cluster.fake.wait_until(lambda fake: fake.waiting == [end.name], timeout=400)
    soon(lambda: LAST.encode() in last_segment(cluster, flooded))
    cluster.web.stop_run(flooded)
    assert_ended(cluster.web, flooded, "stopped")
    assert text_of(cluster.web, flooded) == "First. " + PIECE * PIECES + LAST


def last_segment(cluster: Cluster, run: UUID) -> bytes:
    statement = (
        "SELECT body FROM chat_runsegment s JOIN chat_run r ON r.id = s.run_id"
        " WHERE r.public_id = ? ORDER BY first_seq DESC LIMIT 1"
    )
    return bytes(cluster.value(statement, run.hex))


def assert_draft_can_be_sent(cluster: Cluster, room: UUID, draft: dict[str, str]) -> None:
    """The same draft, under the same key, twice: one message and one answer."""
    words = Words("again")
    posts = cluster.fake.posts
    cluster.fake.script(words.script())
    for web in cluster.webs:
        answer = send_form(web, f"/c/{room}/send/", in_page=False, **draft)
        assert answer.status_code == 302, answer.text
    (run,) = cluster.rows(
        "SELECT public_id FROM chat_run WHERE idempotency_key = ?", UUID(draft["key"]).hex
    )
    assert_whole(cluster, UUID(run["public_id"]), words)
    assert cluster.fake.posts == posts + 1


def alive_of(cluster: Cluster, ended: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the backends that still exist."""
    numbers = ", ".join(str(int(row["pid"])) for row in ended) or "0"
    return cluster.rows(f"SELECT pid FROM pg_stat_activity WHERE pid IN ({numbers})")


def test_ended_connections_are_not_used_again(cluster: Cluster) -> None:
    # Each reading thread keeps a connection. A request that meets the last of them, long after the
    # database has come back, must not be the one that finds out that it is dead.
    gate = cluster.gate()
    begun = begin(cluster, 2, gate)
    runs = [run for run, _ in begun] * 3
    logged = [len(web.log) for web in cluster.webs]

    with Viewers(cluster, *runs) as viewers:
        viewers.until_shown("-10 ")
        ended = cluster.rows(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle' AND pid != pg_backend_pid()"
        )
        # A backend that was only told to exit still takes a statement, and dies in the middle of it.
        soon(lambda: not alive_of(cluster, ended))
        cluster.fake.release(gate.name)
        # More viewers at once than there are threads.
        with Viewers(cluster, *runs) as newcomers:
            newcomers.until_shown("-10 ")
            assert {viewer.tab.close_code for viewer in newcomers.all} == {None}

            assert_nothing_lost(cluster, viewers, begun)
            newcomers.assert_complete()
    for web, before in zip(cluster.webs, logged, strict=True):
        assert "Traceback" not in web.log[before:]
        assert "viewer.put_off" not in web.log[before:]
