"""Runners that are killed, frozen, or told to stop, while others go on."""

import signal
from uuid import UUID

from chat.demo.script import stream
from tests.processes.test_crashes import ANSWER, SEEN, UNSEEN
from tests.support.cluster.audience import Audience
from tests.support.cluster.cluster import Cluster, RunnerProcess
from tests.support.cluster.stories import assert_ended, text_of
from tests.support.processes.site import SOON_SECONDS, soon

SEEN_TEXT = "The river runs **down**"


def tried_again(cluster: Cluster, run: UUID) -> UUID:
    """A sibling of the answer, with a request of its own."""
    posts = cluster.fake.posts
    cluster.fake.script(stream(ANSWER))
    second = cluster.webs[1].retry(run)
    assert_ended(cluster.web, second, "completed")
    assert cluster.fake.posts == posts + 1
    return second


def test_killed_in_mid_stream_the_other_runner_ends_it_and_takes_over(cluster: Cluster) -> None:
    gate = cluster.gate()
    cluster.fake.script(stream(SEEN, gate, UNSEEN))
    run = cluster.webs[0].send("Where does the river run?")
    killed = cluster.executing(run)

    with Audience(cluster, run) as audience:
        audience.until_shown("runs down")
        killed.kill9()

        assert_ended(cluster.web, run, "interrupted")
        audience.assert_have_all()
    assert text_of(cluster.web, run) == SEEN_TEXT
    assert cluster.fake.posts == 1
    cluster.fake.wait_until(lambda fake: fake.disconnects == 1)
    second = tried_again(cluster, run)
    pids = [row["pid"] for row in cluster.rows("SELECT pid FROM chat_runner")]
    assert pids == [cluster.other(killed).pid]
    assert cluster.web.run(second)["status"] == "completed"


# How a run ends that was left there.
PLACES = {
    "before_request": "completed",
    "before_last_commit": "interrupted",
    "inside_last_commit": "interrupted",
    "after_last_commit": "completed",
}


def run_of(cluster: Cluster, runner: RunnerProcess) -> UUID:
    """The run that this runner took, while its row is there."""
    return UUID(
        cluster.value(
            "SELECT r.public_id FROM chat_run r JOIN chat_runner n ON n.uuid = r.runner_id"
            " WHERE n.pid = ?",
            runner.pid,
        )
    )


def test_killed_anywhere_each_run_ends_once_and_is_asked_for_once(cluster: Cluster) -> None:
    # Each of them takes one run and stands still at a place of its own.
    doomed = {place: cluster.further_runner(RUNNER_CAPACITY="1") for place in PLACES}
    for runner in cluster.runners:
        runner.terminate()
    for place, runner in doomed.items():
        runner.launch(stops_at=place)
    for runner in doomed.values():
        runner.until_ready()
    cluster.fake.script(stream(ANSWER), stream(ANSWER), stream(ANSWER), stream(ANSWER))
    runs = [cluster.webs[number % 2].send(f"Question {number}") for number in range(4)]

    with Audience(cluster, *runs) as audience:
        for runner in doomed.values():
            runner.until_it_stands_still()
        of_place = {place: run_of(cluster, runner) for place, runner in doomed.items()}
        for runner in doomed.values():
            runner.kill9()
        assert cluster.fake.posts == 3
        cluster.runners[0].start()

        for place, status in PLACES.items():
            assert_ended(cluster.web, of_place[place], status)
        audience.assert_have_all()
    assert cluster.fake.posts == 4
    assert {text_of(cluster.web, run) for run in runs} == {"The river runs **down** to the sea."}


def test_frozen_past_its_lease_and_thawed_it_writes_nothing_more(cluster: Cluster) -> None:
    gate = cluster.gate()
    cluster.fake.script(stream(SEEN, gate, UNSEEN))
    run = cluster.webs[0].send("Where does the river run?")
    frozen = cluster.executing(run)

    with Audience(cluster, run) as audience:
        audience.until_shown("runs down")
        frozen.freeze()
        entries = assert_ended(cluster.web, run, "interrupted")
        # What it will read as soon as it is thawed.
        cluster.fake.release(gate.name)
        frozen.thaw()

        # Another run shows that it is a runner again, under a row of its own.
        pid = frozen.pid
        soon(lambda: pid in [row["pid"] for row in cluster.rows("SELECT pid FROM chat_runner")])
        until_it_has_let_go(cluster, frozen)
        assert assert_ended(cluster.web, run, "interrupted") == entries
        audience.assert_have_all()
    assert text_of(cluster.web, run) == SEEN_TEXT
    assert cluster.fake.posts == 1
    assert_claims_again(cluster, frozen)


def until_it_has_let_go(cluster: Cluster, runner: RunnerProcess) -> None:
    """It has noticed that the run is not its own any more, and its connection is closed."""
    soon(lambda: "run.lost" in runner.log)
    soon(lambda: all(one.outcome != "open" for one in list(cluster.fake.requests)))


def assert_claims_again(cluster: Cluster, runner: RunnerProcess) -> None:
    cluster.other(runner).terminate()
    cluster.fake.script(stream(ANSWER))
    run = cluster.web.send("Still there?")
    assert_ended(cluster.web, run, "completed")
    assert cluster.fake.posts == 2


def test_told_to_stop_it_ends_what_ends_in_time_and_claims_nothing_more(cluster: Cluster) -> None:
    gate = cluster.gate()
    cluster.fake.script(stream(SEEN, gate, UNSEEN))
    run = cluster.webs[0].send("Where does the river run?")
    stopping = cluster.executing(run)

    with Audience(cluster, run) as audience:
        audience.until_shown("runs down")
        stopping.process.send_signal(signal.SIGTERM)
        soon(
            lambda: cluster.value(f"SELECT is_draining FROM chat_runner WHERE pid = {stopping.pid}")
        )
        # Until it has ended, everything new goes to the other.
        later = []
        for number in range(3):
            cluster.fake.script(stream(ANSWER))
            later.append(cluster.webs[number % 2].send(f"And question {number}?"))
            assert_ended(cluster.web, later[-1], "completed")
        assert stopping.is_alive
        cluster.fake.release(gate.name)

        assert_ended(cluster.web, run, "completed")
        audience.assert_have_all()
    assert stopping.process.wait(SOON_SECONDS) == 0
    claimed_by = {cluster.web.run(one)["runner_id"] for one in later}
    assert claimed_by == {cluster.value("SELECT uuid FROM chat_runner")}
    assert cluster.fake.posts == 4


def test_told_to_stop_it_interrupts_what_does_not_end_and_keeps_its_text(cluster: Cluster) -> None:
    gate = cluster.gate()
    stopping = cluster.further_runner(DRAIN_SECONDS="0.2")
    stopping.launch()
    for runner in cluster.runners:
        runner.terminate()
    stopping.until_ready()
    cluster.rows("UPDATE chat_upstream SET concurrency_limit = 1")
    cluster.fake.script(stream(SEEN, gate, UNSEEN), stream(ANSWER))
    run = cluster.webs[0].send("Where does the river run?")
    waiting = cluster.webs[1].send("And the other one?", by="Bob")

    with Audience(cluster, run, waiting) as audience:
        audience.seats[0].until_shown("runs down")
        assert cluster.web.run(waiting)["status"] == "queued"
        exit_code = stopping.terminate()
        assert_ended(cluster.web, run, "interrupted")
        assert cluster.web.run(waiting)["status"] == "queued"
        cluster.runners[0].start()

        assert_ended(cluster.web, waiting, "completed")
        audience.assert_have_all()
    assert exit_code == 0
    assert text_of(cluster.web, run) == SEEN_TEXT
    assert cluster.fake.posts == 2
