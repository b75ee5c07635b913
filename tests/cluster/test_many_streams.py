"""One runner carries more streams at a time than HTTP clients allow by default."""

from tests.support.cluster.answers import Words
from tests.support.cluster.bulk import send_many
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.viewers import Viewers
from tests.support.processes.runs import assert_ended, text_of
from tests.support.processes.site import SOON_SECONDS

# The pools of HTTP clients hold 100 connections unless told otherwise.
STREAMS = 120


def test_concurrent_streams_are_not_mixed_up(cluster: Cluster) -> None:
    cluster.runners[1].terminate()
    gate = cluster.gate()
    answers = [Words(f"s{number}", count=8) for number in range(STREAMS)]
    cluster.fake.script(*(words.script(gate) for words in answers))

    runs = send_many(cluster, "question", STREAMS)
    with Viewers(cluster, *runs[:3]) as viewers:
        # All of them are open at this moment.
        cluster.fake.wait_until(lambda fake: len(fake.waiting) == STREAMS, timeout=SOON_SECONDS)
        cluster.fake.release(gate.name)

        for run in runs:
            assert_ended(cluster.web, run, "completed")
        viewers.assert_complete()
    # Which run got which answer is left to chance; each answer is there, whole, and once.
    said = sorted(text_of(cluster.web, run) for run in runs)
    assert said == sorted(words.text.strip() for words in answers)
    assert cluster.fake.posts == STREAMS
