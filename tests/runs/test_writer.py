"""The group commit: a run's trouble is its own, and a database that is away costs only time."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection, connections, transaction
from django.utils import timezone

from chat import events as canonical
from chat.models import (
    AnswerFile,
    Run,
    Runner,
    RunSegment,
    RunStatus,
    SearchRow,
    file_content,
)
from chat.result import Fold, close_open, fold
from chat.runs import reaper, segments
from chat.runs import writer as log_writer
from chat.runs.ending import end_log
from chat.runs.event_buffer import LogEntry, MemoryEventBuffer
from chat.runs.log import RunLog
from chat.runs.outcomes import columns_of, prepare_outcome
from chat.runs.segments import (
    OwnershipLost,
    SegmentWrite,
    bodies_of,
    read_entries,
    read_events,
    read_raw,
)
from chat.runs.writer import SegmentWriter
from tests.runs.helpers import (
    PATIENCE_SECONDS,
    let_others_work,
    locked_database,
    row_of,
    runs_read,
    threads,
    until,
)
from tests.support.run_fixtures import Claim

both_databases = pytest.mark.databases
only_postgresql = pytest.mark.databases(only="postgresql")


def deltas(*texts: str, after: int = 0) -> list[LogEntry]:
    events = [canonical.MessageDelta(item=0, content=text) for text in texts]
    for seq, event in enumerate(events, start=after + 1):
        event.seq = seq
    return bodies_of(events)


def write(run: Run, entries: list[LogEntry], **options: object) -> SegmentWrite:
    return SegmentWrite(
        run_pk=run.pk,
        runner=run.runner_id,
        entries=entries,
        conversation_pk=run.conversation_id,
        **options,
    )


def ending(run: Run, *, after: int = 0) -> SegmentWrite:
    closing = close_open(Fold(), "stopped")
    for seq, event in enumerate(closing, start=after + 1):
        event.seq = seq
    return write(run, bodies_of(closing), columns=columns_of(closing[-1]), is_end=True)


async def append_together(writer: SegmentWriter, *writes: SegmentWrite) -> list[object]:
    """All in one commit: they wait while the first of them is committed."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await asyncio.gather(*map(writer.append, writes), return_exceptions=True)


@contextlib.contextmanager
def noted_statements() -> Iterator[list[tuple[str, Sequence[object]]]]:
    """The statements of this connection, each with its values."""
    noted: list[tuple[str, Sequence[object]]] = []

    def note(execute: Callable[..., object], text: str, values: Any, *rest: object) -> object:
        noted.append((text, list(values or ())))
        return execute(text, values, *rest)

    with connection.execute_wrapper(note):
        yield noted


def log_of(run: Run) -> list[LogEntry]:
    return read_entries(run.pk)


# --- whose run it is ------------------------------------------------------------------------


def reap(run: Run) -> None:
    assert reaper.end_lost(run, run.runner)


def take_over(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(runner=Runner.objects.create(host="there", pid=2))


def requeue(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(status=RunStatus.QUEUED, runner=None)


def erase(run: Run) -> None:
    Run.objects.filter(pk=run.pk).delete()


LOSSES = (reap, take_over, requeue, erase)


@both_databases
async def test_write_to_a_lost_run_is_refused_alone(
    writer: SegmentWriter, claim: Claim, subtests: pytest.Subtests
) -> None:
    for lose in LOSSES:
        with subtests.test(msg=lose.__name__):
            zombie, alive = [await threads.call(claim) for _ in range(2)]
            await threads.call(lose, zombie)
            before = await threads.call(log_of, zombie)

            raw = {"raw": b"data: x\n\n"}
            refused, kept = await append_together(
                writer,
                write(zombie, deltas("too late"), **raw, columns={"response_id": "zombie"}),
                write(alive, deltas("in time"), **raw, columns={"response_id": "alive"}),
            )

            assert isinstance(refused, OwnershipLost)
            assert kept is None
            assert await threads.call(log_of, zombie) == before
            assert await threads.call(log_of, alive) == deltas("in time")
            assert await threads.call(read_raw, zombie) == b""
            assert await threads.call(read_raw, alive) == b"data: x\n\n"
            assert not await threads.call(Run.objects.filter(response_id="zombie").exists)
            assert (await row_of(alive)).response_id == "alive"


@both_databases
async def test_ending_of_a_lost_run_is_refused_alone(
    writer: SegmentWriter, claim: Claim, subtests: pytest.Subtests
) -> None:
    for lose in LOSSES:
        with subtests.test(msg=lose.__name__):
            zombie, alive = [await threads.call(claim) for _ in range(2)]
            await threads.call(lose, zombie)
            before = await threads.call(log_of, zombie)

            refused, kept = await append_together(writer, ending(zombie), ending(alive))

            assert isinstance(refused, OwnershipLost)
            assert kept is None
            assert await threads.call(log_of, zombie) == before
            assert (await row_of(alive)).status == RunStatus.STOPPED


@both_databases
async def test_taken_number_is_refused_alone(writer: SegmentWriter, claim: Claim) -> None:
    late, other = [await threads.call(claim) for _ in range(2)]
    await writer.append(write(late, deltas("first")))

    outcomes = await append_together(
        writer, write(late, deltas("again")), write(other, deltas("mine")), ending(late)
    )

    assert [type(outcome) for outcome in outcomes] == [OwnershipLost, type(None), OwnershipLost]
    assert await threads.call(log_of, late) == deltas("first")
    assert (await row_of(late)).status == RunStatus.RUNNING


async def test_log_shortened_by_a_restore_gets_no_gap(writer: SegmentWriter, claim: Claim) -> None:
    ahead, ended, other = [await threads.call(claim) for _ in range(3)]
    for run in (ahead, ended):
        await writer.append(write(run, deltas("kept")))

    outcomes = await append_together(
        writer,
        write(ahead, deltas("of a lost future", after=7)),
        ending(ended, after=7),
        write(other, deltas("mine")),
    )

    assert [type(outcome) for outcome in outcomes] == [OwnershipLost, OwnershipLost, type(None)]
    for run in (ahead, ended):
        assert await threads.call(log_of, run) == deltas("kept")
        assert (await row_of(run)).status == RunStatus.RUNNING


@both_databases
async def test_reaping_during_writes_ends_once_and_keeps_all(
    writer: SegmentWriter, claim: Claim
) -> None:
    run = await threads.call(claim)
    kept: list[LogEntry] = []

    async def go_on() -> None:
        with contextlib.suppress(OwnershipLost):
            for number in range(200):
                entries = deltas(f"{number} ", after=len(kept))
                await writer.append(write(run, entries))
                kept.extend(entries)

    writing = asyncio.create_task(go_on())
    await until(lambda: len(kept) >= 5)
    won = [await threads.call(reaper.end_lost, run, run.runner) for _ in range(2)]
    await writing

    events = await threads.call(read_events, run)
    row = await row_of(run)
    assert won == [True, False]
    assert (await threads.call(log_of, run))[: len(kept)] == kept
    assert sum(isinstance(event, canonical.ChatEnd) for event in events) == 1
    assert canonical.encode(fold(events)).decode() == row.result


# --- what the database refuses -------------------------------------------------------------


REFUSED_COLUMNS: dict[str, dict[str, object]] = {
    "a server that is not there": {"upstream_id": 10**9},
    "null": {"status": None},
    "a number that is too large": {"input_tokens": 10**30},
    "a lone surrogate": {"response_id": "\ud800"},
    "no JSON": {"notes": object()},
}


@both_databases
async def test_write_the_database_refuses_fails_alone(
    writer: SegmentWriter, claim: Claim, subtests: pytest.Subtests
) -> None:
    for label, columns in REFUSED_COLUMNS.items():
        with subtests.test(msg=label):
            poisoned, healthy = [await threads.call(claim) for _ in range(2)]

            outcomes = await append_together(
                writer,
                write(poisoned, deltas("poison"), columns=columns),
                write(healthy, deltas("healthy")),
            )
            await writer.append(write(healthy, deltas("and on", after=1)))

            assert isinstance(outcomes[0], Exception)
            assert outcomes[1] is None
            assert await threads.call(log_of, poisoned) == []
            assert await threads.call(log_of, healthy) == deltas("healthy", "and on")


# --- how much at once -------------------------------------------------------------------------


@pytest.fixture
def batches(by_thread: None, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The runs of each transaction, by their keys."""
    commit, batches = segments.commit, []

    def noted(writes: Sequence[SegmentWrite]) -> list[Exception | None]:
        batches.append([write.run_pk for write in writes])
        return commit(writes)

    monkeypatch.setattr(segments, "commit", noted)
    return batches


async def test_transactions_are_limited_in_size(
    batches: list[list[int]],
    writer: SegmentWriter,
    claim: Claim,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_writer, "COMMIT_BYTES", 2500)
    runs = [await threads.call(claim) for _ in range(5)]
    sizes = [1000, 1000, 9000, 100, 100]

    outcomes = await append_together(
        writer,
        *(write(run, deltas("x"), raw=b"x" * size) for run, size in zip(runs, sizes, strict=True)),
    )

    keys = [run.pk for run in runs]
    assert outcomes == [None] * 5
    assert batches == [keys[:2], keys[2:3], keys[3:]]
    for run in runs:
        assert await threads.call(log_of, run) == deltas("x")


async def test_waiting_writes_share_a_transaction(
    batches: list[list[int]], writer: SegmentWriter, claim: Claim
) -> None:
    runs = [await threads.call(claim) for _ in range(6)]

    await append_together(writer, *(write(run, deltas("x")) for run in runs))

    assert sum(map(len, batches)) == 6
    assert len(batches) <= 2


# --- away -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("by_thread")
async def test_missing_thread_delays_and_loses_nothing(
    transactional_db: None,
    claim: Claim,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(log_writer, "RETRY_SECONDS", (0.01, 0.02))
    run = await threads.call(claim)
    writer = SegmentWriter()
    writer.start()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        waiting = asyncio.create_task(writer.append(write(run, deltas("one"))))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "log.unavailable" not in caplog.text:
                await asyncio.sleep(0.01)

    await waiting
    assert await threads.call(log_of, run) == deltas("one")
    await writer.close()
    await threads.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy database counts as away at once, and is asked again soon."""
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "timeout", 0.01)
    monkeypatch.setattr(log_writer, "RETRY_SECONDS", (0.01, 0.02))


async def test_outage_delays_and_loses_nothing(
    impatient: None, writer: SegmentWriter, claim: Claim, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [await threads.call(claim) for _ in range(3)]

    with locked_database():
        waiting = asyncio.gather(
            *(writer.append(write(run, deltas("one"), raw=b"1")) for run in runs)
        )
        await until(lambda: caplog.text.count("log.unavailable") >= 3)
        assert not waiting.done()
    await waiting
    await asyncio.gather(*(writer.append(write(run, deltas("two", after=1))) for run in runs))

    for run in runs:
        assert await threads.call(log_of, run) == deltas("one", "two")
        assert await threads.call(read_raw, run) == b"1"


@both_databases
@pytest.mark.usefixtures("by_thread")
async def test_lost_reply_to_a_commit_costs_no_run(
    writer: SegmentWriter, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, lost = segments.commit, []

    def lose_the_answer(writes: list[SegmentWrite]) -> list[Exception | None]:
        outcomes = commit(writes)
        if not lost:
            lost.append(writes)
            raise OperationalError("connection lost")
        return outcomes

    monkeypatch.setattr(segments, "commit", lose_the_answer)
    monkeypatch.setattr(log_writer, "RETRY_SECONDS", (0.0, 0.0))
    writing, ending_, reaped = [await threads.call(claim) for _ in range(3)]
    await threads.call(reap, reaped)

    outcomes = await append_together(
        writer, write(writing, deltas("one"), raw=b"1"), ending(ending_), ending(reaped)
    )
    await writer.append(write(writing, deltas("two", after=1)))

    assert lost
    assert outcomes[:2] == [None, None]
    assert await threads.call(log_of, writing) == deltas("one", "two")
    assert len(await threads.call(log_of, ending_)) == 2
    assert await threads.call(read_raw, writing) == b"1"


async def test_closing_gives_up_on_an_absent_database(
    impatient: None,
    writer: SegmentWriter,
    claim: Claim,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_writer, "CLOSE_SECONDS", 0.1)
    run = await threads.call(claim)

    with locked_database():
        waiting = asyncio.create_task(writer.append(write(run, deltas("never"))))
        await until(lambda: "log.unavailable" in caplog.text)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await writer.close()
    waiting.cancel()

    assert await threads.call(log_of, run) == []


async def test_closing_commits_what_was_handed_in(claim: Claim) -> None:
    writer = SegmentWriter()
    writer.start()
    runs = [await threads.call(claim) for _ in range(5)]

    waiting = [asyncio.create_task(writer.append(write(run, deltas("said")))) for run in runs]
    await asyncio.sleep(0)
    await writer.close()
    await asyncio.gather(*waiting)

    assert [await threads.call(log_of, run) for run in runs] == [deltas("said")] * 5
    await threads.close()


async def test_cancelled_append_blocks_nobody(writer: SegmentWriter, claim: Claim) -> None:
    leaving, staying = [await threads.call(claim) for _ in range(2)]

    waiting = asyncio.create_task(writer.append(write(leaving, deltas("gone"))))
    await asyncio.sleep(0)
    waiting.cancel()
    await writer.append(write(staying, deltas("here")))

    assert await threads.call(log_of, staying) == deltas("here")


def log_for(run: Run, writer: SegmentWriter) -> RunLog:
    assert run.runner_id is not None
    return RunLog(run, runner=run.runner_id, writer=writer, buffer=MemoryEventBuffer())


async def test_start_is_committed_with_the_first_text(
    writer: SegmentWriter, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.runs.log.START_SECONDS", PATIENCE_SECONDS)
    run = await threads.call(claim)
    log = log_for(run, writer)

    log.add([canonical.ChatStart(model_instance_id="m")])
    await let_others_work()
    log.add([canonical.MessageStart(item=0), canonical.MessageDelta(item=0, content="Hi")])
    await log.flushed(PATIENCE_SECONDS)

    segment = await threads.call(RunSegment.objects.get, run=run)
    assert (segment.first_seq, segment.last_seq) == (1, 3)
    await log.abandon()


async def test_start_alone_is_committed_in_time(
    writer: SegmentWriter, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.runs.log.START_SECONDS", 0.01)
    run = await threads.call(claim)
    log = log_for(run, writer)

    log.add([canonical.ChatStart(model_instance_id="m")])
    await log.flushed(PATIENCE_SECONDS)

    assert await threads.call(RunSegment.objects.filter(run=run).exists)
    await log.abandon()


@pytest.mark.usefixtures("file_place")
async def test_files_are_hashed_outside_the_transaction(
    writer: SegmentWriter, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await threads.call(claim)
    log = log_for(run, writer)
    picture = canonical.MediaUpdate(
        item=0, media_type="image/png", media_id="m", state="final", data="aGFsZg=="
    )
    in_transaction: list[bool] = []

    def noted(body: bytes) -> object:
        in_transaction.append(connection.in_atomic_block)
        return hashlib.sha256(body)

    monkeypatch.setattr(file_content, "hashlib", SimpleNamespace(sha256=noted))
    log.add([canonical.ChatStart(model_instance_id="m")])
    ending = canonical.Ending(status="completed", stop=canonical.Stop(reason="end_turn"))
    await end_log(log, [picture], ending, t=0, threads=threads)

    stored = await threads.call(lambda: AnswerFile.objects.select_related("file").get(run=run))
    assert (await threads.call(lambda: bytes(stored.file.body))) == b"half"
    assert stored.file.sha256 == hashlib.sha256(b"half").hexdigest()
    assert in_transaction == [False]


@both_databases
def test_rooms_are_locked_in_one_order(claim: Claim) -> None:
    runs = [claim() for _ in range(3)]

    with noted_statements() as noted:
        assert segments.commit([ending(run) for run in reversed(runs)]) == [None] * 3

    locked = [values[-1] for text, values in noted if 'UPDATE "chat_conversation"' in text]
    assert locked == [run.conversation_id for run in runs]


@both_databases
def test_plain_ending_has_no_savepoint_or_reads(claim: Claim) -> None:
    run = claim()
    closing = [canonical.ChatStart(model_instance_id="m"), *close_open(Fold(), "stopped")]
    end = closing[-1]
    assert isinstance(end, canonical.ChatEnd)
    prepared = prepare_outcome(run.pk, end.result)
    last = replace(ending(run), result=end.result, prepared=prepared, raw=b"data: x\n\n")
    segments.commit([ending(claim())])

    with noted_statements() as noted:
        assert segments.commit([last]) == [None]

    run.refresh_from_db()
    assert (run.status, run.last_seq) == (RunStatus.STOPPED, last.entries[-1].seq)
    assert read_raw(run) == b"data: x\n\n"
    # In PostgreSQL one statement; else a transaction of the run, its segment and the room, and of the
    # two rows of the search index with their words.
    assert len(noted) == (6 if settings.IS_SQLITE else 1)
    assert not any("SAVEPOINT" in text for text, _ in noted)
    assert SearchRow.objects.filter(source=run.pk, kind__in=["answer", "reasoning"]).count() == 2


@only_postgresql
def test_writes_of_many_runs_are_one_constant_statement(claim: Claim) -> None:
    runs = [claim() for _ in range(3)]
    now = timezone.now()
    texts: list[str] = []

    first_event, first_token = {"first_event_at": now}, {"first_token_at": now}
    for several, columns, raw in (
        (runs[:1], first_event, b"x"),
        (runs[1:], first_token, b""),
        (runs, first_token, b""),
        (runs[:2], {}, b"y"),
        (runs, {}, b""),
        (runs[2:], {}, b"z"),
        (runs[:1], {}, b""),
    ):
        writes = [
            write(
                run,
                deltas("x", after=RunSegment.objects.filter(run=run).count()),
                columns=columns,
                raw=raw,
            )
            for run in several
        ]
        with noted_statements() as noted:
            assert segments.commit(writes) == [None] * len(several)
        ((text, _),) = noted
        texts.append(text)

    first = Run.objects.get(pk=runs[0].pk)
    # One with times, one of many runs without, one of a run alone.
    assert len(set(texts[:3])) == len(set(texts[3:5])) == len(set(texts[5:])) == 1
    assert (first.first_event_at, first.first_token_at) == (now, now)
    assert [read_raw(run) for run in runs] == [b"xy", b"y", b"z"]


@both_databases
@pytest.mark.parametrize("has_times", [False, True], ids=["", "times"])
@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "with others"])
def test_only_the_owner_s_next_number_is_inserted(
    claim: Claim, *, beside: int, has_times: bool
) -> None:
    columns = {"first_token_at": timezone.now()} if has_times else {}
    run, zombie, *others = (claim() for _ in range(2 + beside))
    assert segments.commit([write(run, deltas("x"))]) == [None]
    reap(zombie)
    before = log_of(zombie)

    for wrong in (
        write(run, deltas("taken"), columns=columns),
        write(run, deltas("behind a gap", after=2), columns=columns),
        write(zombie, deltas("too late", after=len(before)), columns=columns),
    ):
        last = len(log_of(others[0])) if others else 0
        right = [write(one, deltas("in time", after=last)) for one in others]
        refused, *kept = segments.commit([wrong, *right])
        assert isinstance(refused, OwnershipLost)
        assert kept == [None] * beside

    assert log_of(run) == deltas("x")
    assert log_of(zombie) == before
    assert Run.objects.get(pk=run.pk).first_token_at is None
    assert segments.commit([write(run, deltas("next", after=1), columns=columns)]) == [None]
    assert log_of(run) == deltas("x", "next")


@only_postgresql
def test_commit_reads_only_runs_that_write(claim: Claim) -> None:
    runs = [claim() for _ in range(5)]
    # As many as its runner has had since it began, and some.
    for _ in range(3):
        for run in runs:
            last = RunSegment.objects.filter(run=run).count()
            assert segments.commit([write(run, deltas("x", after=last))]) == [None]
    last = RunSegment.objects.filter(run=runs[0]).count()

    with transaction.atomic(), connection.cursor() as cursor:
        # Of a table of one page the server may as well read all: whether it does depends on whether
        # it has counted its rows by now. What is asked here is whether the statement needs to.
        cursor.execute("ANALYZE chat_run; SET LOCAL enable_seqscan = off; DISCARD PLANS")
        before = runs_read()
        writes = [write(run, deltas("x", after=last)) for run in runs]
        assert segments.commit(writes) == [None] * len(runs)
        read = runs_read() - before

    assert read == len(runs)


def test_entries_are_written_unchanged(claim: Claim) -> None:
    run = claim()
    entries = deltas("Fluß", "\U0001f30a\u2028", '"quoted"\\', "\x00")

    assert segments.commit([write(run, entries)]) == [None]

    assert read_entries(run.pk) == entries
    assert RunSegment.objects.get(run=run).last_seq == 4
