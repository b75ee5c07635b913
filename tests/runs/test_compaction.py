"""Logs of ended runs are compacted, whole, and as fast as runs end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from chat import events as canonical
from chat.models import RawSegment, Run, RunSegment
from chat.runs import compaction, log_compaction, queries, reaper
from chat.runs.compaction import Compactor
from chat.runs.log_compaction import compact
from chat.runs.segments import read_entries, read_raw
from tests.runs.helpers import threads, until
from tests.support.run_fixtures import MakeRun, StartRunner

pytestmark = [pytest.mark.databases(slow=True), pytest.mark.usefixtures("transactional_db")]

RAW = b"data: 1\n\n"


class Clock:
    """Stands still but for sleep and for the runs that are compacted."""

    def __init__(self) -> None:
        self.now = 0.0
        self.busy_seconds = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.busy_seconds += seconds


def end(run: Run, *, ago: timedelta = timedelta(hours=1)) -> Run:
    """With a log of three segments, the first of them with raw frames."""
    log = (
        canonical.ChatStart(model_instance_id="m"),
        canonical.MessageStart(item=0),
        canonical.MessageDelta(item=0, content="What was seen"),
    )
    for seq, event in enumerate(log, start=1):
        event.seq = seq
        body = canonical.join_bodies([canonical.encode(event)])
        raw = RAW if seq == 1 else None
        RunSegment.objects.create(run=run, first_seq=seq, last_seq=seq, body=body, raw=raw)
    Run.objects.filter(pk=run.pk).update(
        status="completed", last_seq=len(log), finished_at=timezone.now() - ago
    )
    run.refresh_from_db()
    return run


def scattered() -> int:
    return RunSegment.objects.filter(first_seq=1, is_compressed=False).count()


def slices(compactor: Compactor, most: int = 100) -> int:
    """Works until nothing is due; returns how many slices that took."""
    done = 0
    while compactor._slice() is not None:
        done += 1
        assert done < most
    return done


@pytest.mark.databases
async def test_runners_take_what_is_due_in_different_orders(make_run: MakeRun) -> None:
    due = [(await threads.call(lambda: end(make_run()))).pk for _ in range(12)]

    orders = [[run.pk for run in await threads.call(Compactor(threads)._due)] for _ in range(3)]

    assert all(sorted(order) == sorted(due) for order in orders)
    assert orders != [sorted(due)] * 3


async def test_burst_is_compacted_within_a_minute_of_its_end(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()

    def slow(run: Run) -> int:
        clock.work(0.25)
        return compact(run)

    def burst() -> None:
        for _ in range(40):
            end(make_run(), ago=timedelta(seconds=compaction.COMPACT_AFTER_SECONDS + 1))

    monkeypatch.setattr(compaction, "compact", slow)
    await threads.call(burst)

    await Compactor(threads, clock=clock, sleep=clock.sleep).compact_due()

    assert await threads.call(scattered) == 0
    # 10 s of work, of which a quarter at most is done at a time: late is who waits for 40 s.
    assert clock.busy_seconds == 10
    assert clock.now == pytest.approx(clock.busy_seconds / compaction.SHARE)
    await threads.close()


def test_what_is_late_has_more_time_and_much_to_write_has_less() -> None:
    quick = compaction.Slice(spent_seconds=0.1, size_bytes=0, is_late=False)
    late = compaction.Slice(spent_seconds=0.1, size_bytes=0, is_late=True)
    large = compaction.Slice(spent_seconds=0.1, size_bytes=160_000_000, is_late=True)

    assert quick.rest_seconds == pytest.approx(0.3)
    assert late.rest_seconds == pytest.approx(0.1)
    assert large.rest_seconds == pytest.approx(9.9)


def test_slice_ends_in_time(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        end(make_run())
    monkeypatch.setattr(compaction, "SLICE_BYTES", 1)

    assert slices(Compactor(threads)) == 4


@pytest.mark.databases
def test_search_reads_nothing_that_is_compacted(make_run: MakeRun) -> None:
    is_postgres = connection.vendor == "postgresql"
    values = [timezone.now().isoformat(), 10]

    with transaction.atomic(), connection.cursor() as cursor:
        if is_postgres:
            # Otherwise it reads the whole of a table that is this small.
            cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            f"EXPLAIN {'' if is_postgres else 'QUERY PLAN'} {queries.DUE_FOR_COMPACTION}", values
        )
        plan = " ".join(str(row[-1]) for row in cursor.fetchall())

    assert "segment_uncompacted" in plan


async def test_runner_compacts_all_that_is_due(
    make_run: MakeRun, start_runner: StartRunner
) -> None:
    def burst() -> None:
        for _ in range(12):
            end(make_run())

    await threads.call(burst)

    await start_runner()

    await until(lambda: scattered() == 0)


def test_run_that_has_just_ended_is_left_to_its_followers(make_run: MakeRun) -> None:
    end(make_run(), ago=timedelta(seconds=1))

    assert slices(Compactor(threads)) == 0


def test_log_that_cannot_be_compacted_blocks_no_other(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MOST_DUE", 1)
    broken, shorter, whole = [end(make_run()) for _ in range(3)]
    RunSegment.objects.filter(run=broken).update(body=b"no list")
    RunSegment.objects.filter(run=shorter, first_seq=3).delete()
    compactor = Compactor(threads)

    slices(compactor)

    assert compactor.unreadable == {broken.pk, shorter.pk}
    assert RunSegment.objects.get(run=whole).is_compressed


@pytest.mark.databases
def test_compaction_keeps_every_event_and_its_number(make_run: MakeRun) -> None:
    run = end(make_run())
    before = read_entries(run.pk)

    compact(run)

    assert read_entries(run.pk) == before
    assert RunSegment.objects.filter(run=run).count() == 1


def test_long_log_is_compacted_to_the_same_bytes(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = end(make_run()), end(make_run())
    RunSegment.objects.filter(first_seq=2).update(raw=b"data: \xff\n\n")
    before = read_entries(run.pk)

    size_bytes = compact(run)
    monkeypatch.setattr(log_compaction, "LARGE_BYTES", 1)

    # Twice: also what is compacted already.
    assert [compact(other), compact(other)] == [size_bytes] * 2
    assert read_entries(other.pk) == before
    assert read_raw(other) == read_raw(run) == RAW + b"data: \xff\n\n"
    assert RunSegment.objects.filter(run=other).count() == 1


def test_compaction_joins_raw_frames(make_run: MakeRun) -> None:
    run = end(make_run())
    # As an earlier version kept the first of them.
    RawSegment.objects.create(run=run, position=0, body=RAW)
    RunSegment.objects.filter(run=run, first_seq=1).update(raw=b"data: \xff\n\n")
    assert read_raw(run, limit_bytes=12) == RAW + b"dat"

    for _ in range(2):
        compact(run)

    assert read_raw(run) == RAW + b"data: \xff\n\n"
    assert read_raw(run, limit_bytes=9) == RAW
    assert RawSegment.objects.get(run=run).is_compressed
    assert not RunSegment.objects.filter(raw__isnull=False).exists()


def test_raw_frames_of_an_unreadable_log_expire(make_run: MakeRun) -> None:
    run = end(make_run(), ago=timedelta(days=400))
    RunSegment.objects.filter(run=run, first_seq=1).update(body=b"no list")

    slices(Compactor(threads))
    kept = read_raw(run)
    reaper.purge_raw()

    assert (kept, read_raw(run)) == (RAW, b"")
