"""Redis is restarted, emptied, frozen or killed while runs are answered: nothing is lost."""

import time
from collections.abc import Callable

from tests.support.cluster.answers import assert_nothing_lost, begin
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.viewers import Viewers
from tests.support.processes.runs import SEEN, SEEN_END
from tests.support.processes.site import SOON_SECONDS
from tests.support.servers import Redis
from tests.support.upstream.script import stream

# Longer than a process waits for an answer of Redis.
FROZEN_SECONDS = 2.5


def freeze_for_a_while(redis: Redis) -> None:
    redis.freeze()
    time.sleep(FROZEN_SECONDS)
    redis.thaw()


# The last one leaves no Redis behind.
FAULTS: tuple[Callable[[Redis], object], ...] = (
    Redis.restart,
    lambda redis: redis.tell("FLUSHALL"),
    freeze_for_a_while,
    Redis.kill,
)
RUNS = 3


def test_redis_faults_lose_nothing(cluster: Cluster, redis: Redis) -> None:
    gates = [cluster.gate() for _ in FAULTS]
    begun = begin(cluster, RUNS, *gates, pause_seconds=0.02)

    with Viewers(cluster, *(run for run, _ in begun)) as viewers:
        viewers.until_shown("-10 ")
        for gate, fault in zip(gates, FAULTS, strict=True):
            cluster.fake.wait_until(
                lambda fake, name=gate.name: fake.waiting.count(name) == RUNS,
                timeout=SOON_SECONDS,
            )
            # The next part of each answer arrives meanwhile.
            cluster.fake.release(gate.name)
            fault(redis)

        assert_nothing_lost(cluster, viewers, begun)


def test_run_without_redis_is_claimed_shown_and_stopped(cluster: Cluster, redis: Redis) -> None:
    redis.kill()
    gate = cluster.gate()
    cluster.fake.script(stream(SEEN, gate))

    run = cluster.webs[0].send("Where does the river run?")
    with Viewers(cluster, run) as viewers:
        viewers.until_shown(SEEN_END)
        cluster.webs[1].stop_run(run)
        cluster.fake.wait_until(lambda fake: fake.disconnects == 1, timeout=SOON_SECONDS)

        assert cluster.web.until_ended(run)["status"] == "stopped"
        viewers.assert_complete()
    assert cluster.fake.posts == 1
