"""Redis is restarted, emptied, frozen, killed while runs are answered: it costs time, nothing else."""

import time
from collections.abc import Callable

import pytest

from chat.demo.script import stream
from tests.processes.test_crashes import SEEN
from tests.support.cluster.audience import Audience
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.stories import assert_nothing_lost, begin
from tests.support.servers import Redis

FROZEN_SECONDS = 3


def freeze_for_a_while(redis: Redis) -> None:
    redis.freeze()
    time.sleep(FROZEN_SECONDS)
    redis.thaw()


FAULTS: dict[str, Callable[[Redis], object]] = {
    "restarted": Redis.restart,
    "emptied": lambda redis: redis.tell("FLUSHALL"),
    "frozen": freeze_for_a_while,
    "killed": Redis.kill,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_when_redis_is(cluster: Cluster, redis: Redis, fault: str) -> None:
    begun = begin(cluster, 3, pause_seconds=0.02)
    runs = [run for run, _ in begun]

    with Audience(cluster, *runs) as audience:
        audience.until_shown("-10 ")
        FAULTS[fault](redis)

        assert_nothing_lost(cluster, audience, begun)


def test_what_begins_without_redis_is_claimed_shown_and_stopped(
    cluster: Cluster, redis: Redis
) -> None:
    redis.kill()
    gate = cluster.gate()
    cluster.fake.script(stream(SEEN, gate))

    run = cluster.webs[0].send("Where does the river run?")
    with Audience(cluster, run) as audience:
        audience.until_shown("runs down")
        cluster.webs[1].stop_run(run)
        cluster.fake.wait_until(lambda fake: fake.disconnects == 1, timeout=60)

        assert cluster.web.until_ended(run)["status"] == "stopped"
        audience.assert_have_all()
    assert cluster.fake.posts == 1
