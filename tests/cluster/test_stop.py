"""Stop, pressed at any web process, closes the run's connection to its upstream and no other."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from tests.support.cluster.answers import Words
from tests.support.cluster.bulk import send_many
from tests.support.cluster.cluster import Cluster
from tests.support.processes.runs import SEEN, assert_ended
from tests.support.processes.site import SOON_SECONDS
from tests.support.servers import Redis
from tests.support.upstream.script import stream

OTHERS = 20
STOPS = 20
WITHOUT_REDIS = 10
AT_ONCE = 4


@pytest.mark.timeout(300)
def test_stops_close_their_own_connections(cluster: Cluster, redis: Redis) -> None:
    # They go on until the test is over: for a minute at least, and then they wait.
    words = Words("other", count=1200, pause_seconds=0.1)
    cluster.fake.script(*(words.script(cluster.gate()) for _ in range(OTHERS)))
    others = send_many(cluster, "other", OTHERS)
    cluster.fake.wait_until(lambda fake: fake.posts == OTHERS, timeout=SOON_SECONDS)
    gate = cluster.gate()
    cluster.fake.script(stream(SEEN, gate, times=STOPS + WITHOUT_REDIS))
    runs = send_many(cluster, "stop", STOPS + WITHOUT_REDIS)
    cluster.fake.wait_until(
        lambda fake: fake.waiting.count(gate.name) == len(runs), timeout=SOON_SECONDS
    )

    stop_all(cluster, runs[:STOPS])
    cluster.fake.wait_until(lambda fake: fake.disconnects == STOPS, timeout=SOON_SECONDS)
    redis.kill()
    stop_all(cluster, runs[STOPS:])
    cluster.fake.wait_until(lambda fake: fake.disconnects == len(runs), timeout=SOON_SECONDS)

    for run in runs:
        assert_ended(cluster.web, run, "stopped")
    assert cluster.fake.disconnects == len(runs)
    assert {cluster.web.run(run)["status"] for run in others} == {"running"}
    assert cluster.fake.posts == OTHERS + len(runs)


def stop_all(cluster: Cluster, runs: Sequence[UUID]) -> None:
    """At both web processes, several at the same time."""

    def stop(numbered: tuple[int, UUID]) -> None:
        number, run = numbered
        cluster.webs[number % 2].stop_run(run)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(stop, enumerate(runs)))
