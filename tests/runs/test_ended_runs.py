"""Followers get every ended run at least once, however late its end is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier, Event

import pytest
from django.db import connections, transaction
from django.utils import timezone
from pytest_django import Settings

from chat.conversations.actions import conversation as actions
from chat.models import EndedRun, Run, Runner, User
from chat.runs import ended_runs, reaper
from chat.runs.ended_runs import EndingFollower, hand_over
from tests.runs.helpers import HALF_AN_ANSWER, TEXT, has_logged, threads, until, until_ended
from tests.runs.waiting import ended, result_of
from tests.support.run_fixtures import Execute, MakeRun
from tests.support.selection import EXHAUSTIVE
from tests.support.upstream.script import Script, answer, stream

pytestmark = [pytest.mark.databases, pytest.mark.usefixtures("transactional_db")]

Use = Callable[..., list[EndingFollower]]
A_WHILE_AGO = datetime(2026, 11, 1, tzinfo=UTC)
EndOne = Callable[..., Run]


class Seen(list[int]):
    """The keys of the runs that a follower got, in the order in which it got them."""

    def __call__(self, runs: Sequence[Run]) -> None:
        self.extend(run.pk for run in runs)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Registers followers by name."""

    def use(**follows: Callable[[Sequence[Run]], None]) -> list[EndingFollower]:
        followers = [EndingFollower(name=name, follow=each) for name, each in follows.items()]
        monkeypatch.setattr(ended_runs, "_followers", tuple(followers))
        return followers

    return use


@pytest.fixture
def end_one(make_run: MakeRun) -> EndOne:
    """Ends a run, by default a new one."""

    def end(run: Run | None = None) -> Run:
        return ended(run or make_run(), result_of(status="completed"))

    return end


@pytest.mark.parametrize(
    "script",
    [stream(TEXT), answer({}, status=500), HALF_AN_ANSWER],
    ids=["whole", "failed", "stopped"],
)
async def test_runner_tells_of_the_runs_that_it_ends(
    begin: Execute, use: Use, alice: User, *, script: Script
) -> None:
    told: list[tuple[str, int]] = []
    use(
        usage=lambda runs: told.extend([("usage", run.pk) for run in runs]),
        webhooks=lambda runs: told.extend([("webhooks", run.pk) for run in runs]),
    )

    run = await begin(script)
    if script is HALF_AN_ANSWER:
        await until(lambda: has_logged(run, b"from"))
        await threads.call(actions.stop_run, alice, run)
    await until_ended(run)
    await until(lambda: len(told) >= 2 and not EndedRun.objects.exists())

    assert sorted(told) == [("usage", run.pk), ("webhooks", run.pk)]


def test_ends_without_a_runner_are_told(use: Use, make_run: MakeRun, alice: User) -> None:
    seen = Seen()
    (usage,) = use(usage=seen)
    lost, stopped = make_run(), make_run()
    dead = Runner.objects.create(
        host="another", pid=1, heartbeat_at=timezone.now() - timedelta(minutes=5)
    )
    Run.objects.filter(pk=lost.pk).update(
        status="running", runner=dead, claimed_at=timezone.now(), request_sent_at=timezone.now()
    )

    reaper.reap()
    actions.stop_run(alice, stopped)
    hand_over(usage)

    assert {Run.objects.get(pk=key).status for key in seen} == {"interrupted", "stopped"}
    assert set(seen) == {lost.pk, stopped.pk}


def test_nothing_is_stored_for_nobody(end_one: EndOne, monkeypatch: pytest.MonkeyPatch) -> None:
    end_one()
    uninterested = EndingFollower(name="costs", follow=Seen(), applies=lambda result: False)
    monkeypatch.setattr(ended_runs, "_followers", (uninterested,))

    end_one()

    assert not EndedRun.objects.exists()


@pytest.mark.databases(only="postgresql")
def test_end_that_commits_late_is_not_skipped(
    use: Use, end_one: EndOne, make_run: MakeRun, settings: Settings
) -> None:
    settings.RUNS_PER_PERSON = 1000
    seen = Seen()
    (usage,) = use(usage=seen)
    late, *others = (make_run() for _ in range(101 if EXHAUSTIVE else 11))
    has_ended, may_commit = Event(), Event()

    def end_slowly() -> None:
        try:
            with transaction.atomic():
                end_one(late)
                has_ended.set()
                assert may_commit.wait(60)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(end_slowly)
        assert has_ended.wait(60)
        for run in others:
            end_one(run)
        while hand_over(usage):
            pass
        before = list(seen)
        may_commit.set()
        slow.result()
    hand_over(usage)

    assert before == [run.pk for run in others]
    assert seen == [*before, late.pk]


def test_run_that_a_follower_fails_on_holds_up_no_other(
    use: Use, end_one: EndOne, alice: User
) -> None:
    def follow(runs: Sequence[Run]) -> None:
        for run in runs:
            User.objects.filter(pk=alice.pk).update(name=f"{User.objects.get(pk=alice.pk).name}.")
            if run.pk == poisoned.pk and not is_mended:
                raise ValueError("a figure that no column holds")
            seen.append(run.pk)

    is_mended = False
    seen = Seen()
    first, poisoned, last = (end_one() for _ in range(3))
    (usage,) = use(usage=follow)
    for run in (first, poisoned, last):
        EndedRun.objects.create(run=run, follower="usage", due_at=A_WHILE_AGO)

    hand_over(usage)
    hand_over(usage)

    waiting = EndedRun.objects.get()
    assert seen[-2:] == [first.pk, last.pk]
    assert (waiting.run_id, waiting.failures) == (poisoned.pk, 1)
    assert waiting.due_at > timezone.now()
    # What it wrote in failed transactions is undone.
    assert User.objects.get(pk=alice.pk).name == "Alice.."

    is_mended = True
    EndedRun.objects.update(due_at=A_WHILE_AGO)
    hand_over(usage)

    assert seen[-1] == poisoned.pk
    assert not EndedRun.objects.exists()


def test_two_runners_hand_each_run_over_once(use: Use, end_one: EndOne) -> None:
    both = Barrier(2)
    seen = Seen()
    (usage,) = use(usage=seen)
    keys = {end_one().pk for _ in range(20)}

    def hand_over_at_once(_: int) -> None:
        try:
            both.wait(60)
            hand_over(usage)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(hand_over_at_once, range(2)))

    assert sorted(seen) == sorted(keys)
    assert not EndedRun.objects.exists()
