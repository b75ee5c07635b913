"""Stop, pressed anywhere, reaches the server that answers, whoever asked it."""

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from chat.demo.fake import FakeUpstream
from chat.demo.script import stream
from tests.processes.test_crashes import SEEN
from tests.support.cluster.ask import ask_many
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.stories import Story, assert_ended
from tests.support.servers import Redis

OTHERS = 20
STOPS = 40
WITHOUT_REDIS = 10
HANDS = 4


class Departures:
    """When the fake saw clients leave, in their order."""

    def __init__(self, fake: FakeUpstream) -> None:
        self._fake = fake
        self._before = fake.disconnects
        self._changed = threading.Condition()
        self.at: deque[float] = deque()

    def __call__(self) -> None:
        now = time.monotonic()
        with self._changed:
            self.at += [now] * (self._fake.disconnects - self._before - len(self.at))
            self._changed.notify_all()

    def until(self, count: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.at) >= count, timeout=60):
                raise TimeoutError(f"{len(self.at)} of {count} have left")


def test_every_stop_closes_its_connection_and_no_other_with_redis_and_without(
    cluster: Cluster, redis: Redis, record_property: Callable[[str, object], None]
) -> None:
    # They go on until the test is over: for a minute at least, and then they wait.
    story = Story("other", words=6000, pause_seconds=0.02)
    cluster.fake.script(*(story.script(cluster.gate()) for _ in range(OTHERS)))
    others = ask_many(cluster, other=OTHERS)["other"]
    cluster.fake.wait_until(lambda fake: fake.posts == OTHERS, timeout=60)
    gate = cluster.gate()
    cluster.fake.script(stream(SEEN, gate, times=STOPS + WITHOUT_REDIS))
    runs = ask_many(cluster, stop=STOPS + WITHOUT_REDIS)["stop"]
    cluster.fake.wait_until(lambda fake: fake.waiting.count(gate.name) == len(runs), timeout=60)

    with_redis = press_all(cluster, runs[:STOPS])
    redis.kill()
    without = press_all(cluster, runs[STOPS:])

    for run in runs:
        assert_ended(cluster.web, run, "stopped")
    assert cluster.fake.disconnects == len(runs)
    assert {cluster.web.run(run)["status"] for run in others} == {"running"}
    assert cluster.fake.posts == OTHERS + len(runs)
    for name, took in (("with Redis", with_redis), ("without", without)):
        figures = f"p50 {statistics.median(took):.3f} s, longest {max(took):.3f} s"
        record_property(f"stops {name}", figures)
        print(f"{len(took)} stops {name}: {figures}")


def press_all(cluster: Cluster, runs: Sequence[UUID]) -> list[float]:
    """Stops these runs, at both web processes; returns when their server has seen all of them
    leave, with the seconds that it took each from the answer to the form on. Not whose is whose:
    they leave in about the order in which they were asked to."""
    departures = Departures(cluster.fake)
    pressed: deque[float] = deque()

    def press(numbered: tuple[int, UUID]) -> None:
        number, run = numbered
        cluster.webs[number % 2].stop_run(run)
        pressed.append(time.monotonic())

    with cluster.fake.control.watched(departures), ThreadPoolExecutor(HANDS) as pool:
        list(pool.map(press, enumerate(runs)))
        departures.until(len(runs))
    return [max(0.0, left - asked) for asked, left in zip(pressed, departures.at, strict=True)]
