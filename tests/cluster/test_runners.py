"""Runners that are killed, frozen or told to stop, while others go on."""

import signal
from typing import NamedTuple
from uuid import UUID

import pytest

from tests.support.cluster.cluster import Cluster, RunnerProcess
from tests.support.cluster.viewers import Viewers
from tests.support.processes.runs import (
    ANSWER,
    ANSWER_TEXT,
    SEEN,
    SEEN_END,
    SEEN_TEXT,
    UNSEEN,
    assert_can_retry,
    assert_ended,
    text_of,
)
from tests.support.processes.site import SOON_SECONDS, soon
from tests.support.upstream.script import Gate, stream

QUESTION = "Where does the river run?"


class HalfAnswered(NamedTuple):
    """A run that waits at a gate in the middle of its answer, and its runner."""

    run: UUID
    gate: Gate
    runner: RunnerProcess


@pytest.fixture
def half(cluster: Cluster) -> HalfAnswered:
    gate = cluster.gate()
    cluster.fake.script(stream(SEEN, gate, UNSEEN))
    run = cluster.web.send(QUESTION)
    return HalfAnswered(run, gate, cluster.executing(run))


def test_run_of_a_killed_runner_is_ended_by_another(cluster: Cluster, half: HalfAnswered) -> None:
    run, _, killed = half

    with Viewers(cluster, run) as viewers:
        viewers.until_shown(SEEN_END)
        killed.kill9()

        assert_ended(cluster.web, run, "interrupted")
        viewers.assert_complete()
    assert text_of(cluster.web, run) == SEEN_TEXT
    assert cluster.fake.posts == 1
    cluster.fake.wait_until(lambda fake: fake.disconnects == 1)
    assert_can_retry(cluster.webs[1], run)
    pids = [row["pid"] for row in cluster.rows("SELECT pid FROM chat_runner")]
    assert pids == [cluster.other(killed).pid]


# How a run ends whose runner was killed there.
PLACES = {
    "before_request": "completed",
    "before_last_commit": "interrupted",
    "inside_last_commit": "interrupted",
    "after_last_commit": "completed",
}


def run_of(cluster: Cluster, runner: RunnerProcess) -> UUID:
    """The run that this runner has claimed, while its row exists."""
    return UUID(
        cluster.value(
            "SELECT r.public_id FROM chat_run r JOIN chat_runner n ON n.uuid = r.runner_id"
            " WHERE n.pid = ?",
            runner.pid,
        )
    )


def test_run_killed_anywhere_ends_once_and_is_asked_once(cluster: Cluster) -> None:
    # Each runner takes one run and stops at a place of its own.
    # One that stops with its whole loop sends no heartbeats; those that wait with it must not take it for lost
    # before the last of them has got to its place.
    patient = {"RUNNER_CAPACITY": "1", "LEASE_SECONDS": "300"}
    doomed = {place: cluster.extra_runner(**patient) for place in PLACES}
    for place, runner in doomed.items():
        runner.launch(change=place)
    cluster.terminate(cluster.runners)
    for runner in doomed.values():
        runner.until_ready()
    cluster.fake.script(stream(ANSWER, times=len(PLACES)))
    runs = [cluster.webs[number % 2].send(f"Question {number}") for number in range(len(PLACES))]

    with Viewers(cluster, *runs) as viewers:
        for runner in doomed.values():
            runner.until_stopped_at_place()
        of_place = {place: run_of(cluster, runner) for place, runner in doomed.items()}
        for runner in doomed.values():
            runner.kill9()
        assert cluster.fake.posts == 3
        cluster.runners[0].start()

        for place, status in PLACES.items():
            assert_ended(cluster.web, of_place[place], status)
        viewers.assert_complete()
    assert cluster.fake.posts == 4
    assert {text_of(cluster.web, run) for run in runs} == {ANSWER_TEXT}


def test_frozen_runner_writes_nothing_after_its_lease(cluster: Cluster, half: HalfAnswered) -> None:
    run, gate, frozen = half

    with Viewers(cluster, run) as viewers:
        viewers.until_shown(SEEN_END)
        frozen.freeze()
        entries = assert_ended(cluster.web, run, "interrupted")
        # The rest, which it reads as soon as it is thawed.
        cluster.fake.release(gate.name)
        frozen.thaw()

        # It registers again, notices that the run is no longer its own, and closes the connection.
        soon(lambda: cluster.rows("SELECT 1 FROM chat_runner WHERE pid = ?", frozen.pid))
        soon(lambda: "run.lost" in frozen.log)
        soon(lambda: all(one.outcome != "open" for one in list(cluster.fake.requests)))
        assert assert_ended(cluster.web, run, "interrupted") == entries
        viewers.assert_complete()
    assert text_of(cluster.web, run) == SEEN_TEXT
    assert cluster.fake.posts == 1

    # It claims runs again.
    cluster.other(frozen).terminate()
    cluster.fake.script(stream(ANSWER))
    assert_ended(cluster.web, cluster.web.send("Still there?"), "completed")
    assert cluster.fake.posts == 2


def test_sigterm_lets_runs_finish_and_claims_no_more(cluster: Cluster, half: HalfAnswered) -> None:
    run, gate, stopping = half

    with Viewers(cluster, run) as viewers:
        viewers.until_shown(SEEN_END)
        stopping.process.send_signal(signal.SIGTERM)
        is_draining = "SELECT 1 FROM chat_runner WHERE pid = ? AND is_draining"
        soon(lambda: cluster.rows(is_draining, stopping.pid))
        # Until it has exited, everything new goes to the other.
        later = []
        for number in range(3):
            cluster.fake.script(stream(ANSWER))
            later.append(cluster.webs[number % 2].send(f"And question {number}?"))
            assert_ended(cluster.web, later[-1], "completed")
        assert stopping.is_alive
        cluster.fake.release(gate.name)

        assert_ended(cluster.web, run, "completed")
        viewers.assert_complete()
    assert stopping.process.wait(SOON_SECONDS) == 0
    claimed_by = {cluster.web.run(one)["runner_id"] for one in later}
    assert claimed_by == {cluster.value("SELECT uuid FROM chat_runner")}
    assert cluster.fake.posts == 4


def test_sigterm_interrupts_unfinished_runs(cluster: Cluster) -> None:
    stopping = cluster.only_runner(DRAIN_SECONDS="0.2")
    cluster.rows("UPDATE chat_upstream SET concurrency_limit = 1")
    cluster.fake.script(stream(SEEN, cluster.gate(), UNSEEN), stream(ANSWER))
    run = cluster.webs[0].send(QUESTION)
    # Of two queued runs, the one whose person has waited longer since their last turn goes first.
    assert cluster.executing(run) is stopping
    queued = cluster.webs[1].send("And the other one?", by="Bob")

    with Viewers(cluster, run, queued) as viewers:
        viewers.all[0].until_shown(SEEN_END)
        exit_code = stopping.terminate()
        assert_ended(cluster.web, run, "interrupted")
        assert cluster.web.run(queued)["status"] == "queued"
        cluster.runners[0].start()

        assert_ended(cluster.web, queued, "completed")
        viewers.assert_complete()
    assert exit_code == 0
    assert text_of(cluster.web, run) == SEEN_TEXT
    assert cluster.fake.posts == 2
