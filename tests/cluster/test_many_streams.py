"""150 streams at a time in one runner, on each of the two ways to talk to a server."""

import pytest

from chat.events import decode_result
from chat.result import plain_text
from tests.support.cluster.ask import ask_many
from tests.support.cluster.audience import Audience
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.stories import Story, assert_ended

STREAMS = 150


@pytest.mark.parametrize("transport", ["wire", "stock"])
def test_many_at_once_each_log_is_what_its_server_wrote(cluster: Cluster, transport: str) -> None:
    alone = next(
        runner for runner in cluster.runners if runner.settings["UPSTREAM_TRANSPORT"] == transport
    )
    cluster.other(alone).terminate()
    gate = cluster.gate()
    stories = [Story(f"s{number}", words=24) for number in range(STREAMS)]
    cluster.fake.script(*(story.script(gate) for story in stories))

    runs = ask_many(cluster, question=STREAMS)["question"]
    with Audience(cluster, *runs[:3]) as audience:
        # All of them are open at this moment.
        cluster.fake.wait_until(lambda fake: len(fake.waiting) == STREAMS, timeout=100)
        cluster.fake.release(gate.name)

        for run in runs:
            assert_ended(cluster.web, run, "completed")
        audience.assert_have_all()
    said = [plain_text(decode_result(cluster.web.run(run)["result"])) for run in runs]
    # Which server's answer is whose is left to chance; each is there, whole, and once.
    assert sorted(said) == sorted(story.text.strip() for story in stories)
    assert cluster.fake.posts == STREAMS
