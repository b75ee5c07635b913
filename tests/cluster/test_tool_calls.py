"""A runner is killed around each step of a round with three parallel calls, and another one takes over."""

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.processes.runs import assert_ended
from tests.support.processes.tools import (
    CALLS,
    PLACES,
    assert_goes_on_once,
    make_tool,
    script_calls,
    times_called,
    until_settled,
)

QUESTION = "How is the weather?"


@pytest.fixture
def cluster(own_cluster: Cluster) -> Cluster:
    own_cluster.web.start()
    return own_cluster


@pytest.mark.parametrize(("place", "unknown"), PLACES.items())
def test_kill_doubles_no_call_and_loses_no_answer(
    cluster: Cluster, place: str, unknown: int
) -> None:
    tool = make_tool(cluster.records, cluster.fake)
    script_calls(cluster.fake, gate="tool")
    killed, other = cluster.extra_runner(), cluster.extra_runner()
    killed.start(change=place)
    run = cluster.web.send(QUESTION, tools=[tool])
    assert_ended(cluster.web, run, "waiting")

    if unknown:
        cluster.fake.wait_until(lambda fake: fake.waiting == ["tool"] * CALLS)
    cluster.fake.release("tool")
    killed.until_stopped_at_place()
    killed.kill9()
    other.start()

    assert until_settled(cluster.web).count("unknown") == unknown
    assert_goes_on_once(cluster.web, run)
    assert times_called(cluster.fake) == {f"City {number}": 1 for number in range(CALLS)}


def test_frozen_runner_stores_nothing_after_its_lease(cluster: Cluster) -> None:
    tool = make_tool(cluster.records, cluster.fake)
    script_calls(cluster.fake, gate="tool")
    frozen, other = cluster.extra_runner(), cluster.extra_runner()
    frozen.start()
    run = cluster.web.send(QUESTION, tools=[tool])
    cluster.fake.wait_until(lambda fake: fake.waiting == ["tool"] * CALLS)

    frozen.freeze()
    other.start()

    assert until_settled(cluster.web) == ["unknown"] * CALLS
    # It reads the results as soon as it is thawed, and they are no longer its own.
    cluster.fake.release("tool")
    frozen.thaw()
    assert_goes_on_once(cluster.web, run)
    assert times_called(cluster.fake) == {f"City {number}": 1 for number in range(CALLS)}
