"""Runs of lost runners are ended or queued again."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import pytest
from django.utils import timezone

from chat import events as canonical
from chat.models import Run, Runner, RunSegment, User
from chat.result import fold
from chat.runs import reaper
from chat.runs.segments import read_events
from tests.support.run_fixtures import MakeRun

pytestmark = [pytest.mark.databases(slow=True), pytest.mark.usefixtures("transactional_db")]


@pytest.fixture
def dead() -> Runner:
    long_ago = timezone.now() - timedelta(minutes=5)
    return Runner.objects.create(host="another", pid=1, heartbeat_at=long_ago)


def begin(run: Run, runner: Runner, *, is_sent: bool = True) -> Run:
    Run.objects.filter(pk=run.pk).update(
        status="running", runner=runner, request_sent_at=timezone.now() if is_sent else None
    )
    return run


def write(run: Run, *events: canonical.Event, after: int = 0) -> None:
    for seq, event in enumerate(events, start=after + 1):
        event.seq = seq
    RunSegment.objects.create(
        run=run,
        first_seq=after + 1,
        last_seq=after + len(events),
        body=canonical.join_bodies(canonical.encode(event) for event in events),
    )


def begun() -> list[canonical.Event]:
    return [
        canonical.ChatStart(model_instance_id="m"),
        canonical.MessageStart(item=0),
        canonical.MessageDelta(item=0, content="What was seen"),
    ]


@pytest.mark.databases
def test_lost_run_is_interrupted_and_keeps_its_log(make_run: MakeRun, dead: Runner) -> None:
    run = begin(make_run(), dead)
    write(run, *begun())

    reaper.reap()

    run.refresh_from_db()
    events = read_events(run)
    assert run.status == "interrupted"
    assert [type(event).__name__ for event in events[3:]] == ["MessageEnd", "ChatEnd"]
    assert canonical.encode(fold(events)).decode() == run.result
    assert "What was seen" in run.result
    assert not Runner.objects.filter(pk=dead.pk).exists()


@pytest.mark.databases
def test_lost_run_that_was_never_sent_is_queued_again(make_run: MakeRun, dead: Runner) -> None:
    run = begin(make_run(), dead, is_sent=False)

    reaper.reap()

    run.refresh_from_db()
    assert (run.status, run.runner_id) == ("queued", None)


def test_lost_run_with_a_stop_request_is_stopped(
    make_run: MakeRun, dead: Runner, bob: User
) -> None:
    run = begin(make_run(), dead)
    Run.objects.filter(pk=run.pk).update(stop_requested_at=timezone.now(), stop_requested_by=bob)

    reaper.reap()

    run.refresh_from_db()
    assert run.status == "stopped"
    assert canonical.decode_result(run.result).ext.stop.by == "Bob"


def test_run_that_cannot_be_settled_blocks_no_other(
    make_run: MakeRun, dead: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned, other = make_run(), make_run()
    for run in (poisoned, other):
        begin(run, dead)
    end_lost = reaper.end_lost

    def broken(run: Run, runner: Runner | None) -> bool:
        if run.pk == poisoned.pk:
            raise ValueError("a surprise")
        return end_lost(run, runner)

    with monkeypatch.context() as patch:
        patch.setattr(reaper, "end_lost", broken)
        assert reaper.reap() == [other]

    assert reaper.reap() == [poisoned]


def test_reaping_twice_changes_nothing_more(make_run: MakeRun, dead: Runner) -> None:
    run = begin(make_run(), dead)
    reaper.reap()
    before = read_events(run)

    again = reaper.reap()

    assert again == []
    assert read_events(run) == before


def test_runner_that_beats_is_left_alone(make_run: MakeRun) -> None:
    alive = Runner.objects.create(host="another", pid=1)
    begin(make_run(), alive)

    assert reaper.reap() == []


def test_dead_process_of_this_host_is_reaped_at_once(make_run: MakeRun) -> None:
    boot = f"{reaper.place()}:1"
    gone = Runner.objects.create(host=socket.gethostname(), pid=2**22 - 1, boot=boot)
    run = begin(make_run(), gone)

    assert [settled.pk for settled in reaper.reap()] == [run.pk]


@pytest.mark.parametrize("boot", ["another machine:pid:[4026532000]:1", ""])
def test_runner_on_a_host_of_the_same_name_is_left_alone(make_run: MakeRun, boot: str) -> None:
    other = Runner.objects.create(host=socket.gethostname(), pid=2**22 - 1, boot=boot)
    begin(make_run(), other)

    assert reaper.reap() == []


@pytest.mark.databases
def test_host_with_a_fast_clock_reaps_nobody(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = Runner.objects.create(host="another", pid=1)
    begin(make_run(), alive)
    ahead = timezone.now() + timedelta(minutes=10)

    monkeypatch.setattr(timezone, "now", lambda: ahead)

    assert reaper.reap() == []


@pytest.mark.databases
def test_run_stopped_while_being_reaped_is_stopped(make_run: MakeRun, dead: Runner) -> None:
    run = begin(make_run(), dead, is_sent=False)
    seen = Run.objects.get(pk=run.pk)
    Run.objects.filter(pk=run.pk).update(stop_requested_at=timezone.now())

    assert not reaper._settle(seen, dead)
    reaper.reap()

    run.refresh_from_db()
    assert run.status == "stopped"


def test_process_does_not_reap_itself(make_run: MakeRun) -> None:
    pid = os.getpid()
    me = Runner.objects.create(host=socket.gethostname(), pid=pid, boot=reaper.boot_of(pid))
    begin(make_run(), me)

    assert reaper.reap() == []


def test_hidden_process_is_left_alone(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    # As /proc tells of another user's processes where it is mounted with hidepid.
    monkeypatch.setattr(reaper, "boot_of", lambda pid: "")
    hidden = Runner.objects.create(
        host=socket.gethostname(), pid=os.getpid(), boot=f"{reaper.place()}:1"
    )
    begin(make_run(), hidden)

    assert reaper.reap() == []
