"""When commits come and how many runs each takes, with a clock of its own."""

from __future__ import annotations

from collections import Counter, deque
from itertools import pairwise

import pytest

from chat.runs.writer import (
    COMMIT_SHARE,
    FLUSH_SECONDS,
    RUN_SECONDS,
    TURN_RUNS,
    TURNS,
    CommitScheduler,
)

COMMIT_SECONDS = 0.004


def commits(
    runs: int, seconds: float, spent: float = COMMIT_SECONDS
) -> list[tuple[float, list[int]]]:
    """When each commit began and which runs it took, of runs that always have something new."""
    pace, now = CommitScheduler(), 0.0
    waiting = deque(range(runs))
    made = []
    while now < seconds:
        share = pace.share(waiting, now)
        batch = [waiting.popleft() for _ in range(min(share, len(waiting)))]
        made.append((now, batch))
        waiting.extend(batch)
        now += spent + pace.pause(batch, now, spent)
    return made


def test_few_runs_are_committed_together() -> None:
    for runs in (1, 10, 2 * TURN_RUNS - 1):
        assert all(len(batch) == runs for _, batch in commits(runs, 1.0))


@pytest.mark.parametrize("runs", [2 * TURN_RUNS, 100, 200, 1000])
def test_many_runs_take_turns_once_in_each_pause(runs: int) -> None:
    made = [(at, batch) for at, batch in commits(runs, 2.0) if at >= 1.0]

    turns = min(TURNS, runs // TURN_RUNS)
    assert max(len(batch) for _, batch in made) <= -(-runs // turns) + 1
    times = Counter(run for _, batch in made for run in batch)
    assert len(times) == runs
    expected = 1.0 / FLUSH_SECONDS
    assert all(0.85 * expected <= count <= 1.15 * expected for count in times.values())


def test_new_run_among_many_waits_for_one_turn() -> None:
    gaps = [later - at for (at, _), (later, _) in pairwise(commits(200, 2.0))]

    assert max(gaps) <= FLUSH_SECONDS / TURNS + COMMIT_SECONDS


def test_single_run_commits_as_often_as_it_costs_a_tenth() -> None:
    cheap = 0.0005
    [(first, _), (second, _), *_] = commits(1, 0.1, spent=cheap)

    assert second - first == pytest.approx(COMMIT_SHARE * (cheap + RUN_SECONDS))


def test_slow_database_adds_no_pause() -> None:
    pace = CommitScheduler()
    pace.share(range(10), 0.0)

    assert pace.pause(range(10), 0.0, 2 * FLUSH_SECONDS) == 0.0
