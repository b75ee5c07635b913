"""The group commit: one run's trouble is its own, and a database that is away costs only time."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection, connections, transaction
from django.utils import timezone

from chat import events as canonical
from chat.actions import files
from chat.actions.endings import columns_of
from chat.models import AnswerFile, Run, Runner, RunSegment, RunStatus
from chat.result import Fold, close_open, fold
from chat.runs import reaper, segments
from chat.runs import writer as log_writer
from chat.runs.log import RunLog
from chat.runs.segments import (
    OwnershipLost,
    Write,
    bodies_of,
    read_entries,
    read_events,
    read_raw,
)
from chat.runs.tail import Entry, MemoryTail
from chat.runs.writer import SegmentWriter
from tests.runs.conftest import MakeRun, threads

both_databases = pytest.mark.databases
only_postgresql = pytest.mark.databases(only="postgresql")

Claim = Callable[[], Run]


@pytest.fixture
async def writer(transactional_db: None) -> AsyncIterator[SegmentWriter]:
    writer = SegmentWriter()
    writer.start()
    yield writer
    await writer.close()
    await threads.close()


@pytest.fixture
def claim(make_run: MakeRun) -> Claim:
    def claim() -> Run:
        run = make_run()
        run.runner = Runner.objects.create(host="here", pid=1)
        run.status = RunStatus.RUNNING
        run.save()
        return run

    return claim


def deltas(*texts: str, after: int = 0) -> list[Entry]:
    events = [canonical.MessageDelta(item=0, content=text) for text in texts]
    for seq, event in enumerate(events, start=after + 1):
        event.seq = seq
    return bodies_of(events)


def write(run: Run, entries: list[Entry], **options: object) -> Write:
    return Write(
        run_pk=run.pk,
        runner=run.runner_id,
        entries=entries,
        conversation_pk=run.conversation_id,
        **options,
    )


def ending(run: Run, *, after: int = 0) -> Write:
    closing = close_open(Fold(), "stopped")
    for seq, event in enumerate(closing, start=after + 1):
        event.seq = seq
    return write(run, bodies_of(closing), columns=columns_of(closing[-1]), is_end=True)


async def append_together(writer: SegmentWriter, *writes: Write) -> list[object]:
    """All in one commit: they wait while the first of them is committed."""
    async with asyncio.timeout(10):
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


def log_of(run: Run) -> list[Entry]:
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


LOSSES = pytest.mark.parametrize("lose", [reap, take_over, requeue, erase])


@both_databases
@LOSSES
async def test_a_zombie_s_write_is_refused_and_aborts_nobody_else_s(
    writer: SegmentWriter, claim: Claim, lose: Callable[[Run], None]
) -> None:
    zombie, alive = [await threads.call(claim) for _ in range(2)]
    await threads.call(lose, zombie)
    before = await threads.call(log_of, zombie)

    raw = {"raw": b"data: x\n\n"}
    outcomes = await append_together(
        writer,
        write(zombie, deltas("too late"), **raw, columns={"response_id": "zombie"}),
        write(alive, deltas("in time"), **raw, columns={"response_id": "alive"}),
    )

    assert isinstance(outcomes[0], OwnershipLost)
    assert outcomes[1] is None
    assert await threads.call(log_of, zombie) == before
    assert await threads.call(log_of, alive) == deltas("in time")
    assert (await threads.call(read_raw, zombie), await threads.call(read_raw, alive)) == (
        b"",
        b"data: x\n\n",
    )
    assert not await threads.call(Run.objects.filter(response_id="zombie").exists)
    assert await threads.call(Run.objects.filter(pk=alive.pk, response_id="alive").exists)


@both_databases
@LOSSES
async def test_a_zombie_cannot_end_the_run_and_aborts_nobody_else_s_end(
    writer: SegmentWriter, claim: Claim, lose: Callable[[Run], None]
) -> None:
    zombie, alive = [await threads.call(claim) for _ in range(2)]
    await threads.call(lose, zombie)
    before = await threads.call(log_of, zombie)

    outcomes = await append_together(writer, ending(zombie), ending(alive))

    assert isinstance(outcomes[0], OwnershipLost)
    assert outcomes[1] is None
    assert await threads.call(log_of, zombie) == before
    assert (await threads.call(Run.objects.get, pk=alive.pk)).status == RunStatus.STOPPED


@both_databases
async def test_a_number_that_is_taken_is_refused_and_aborts_nobody_else_s(
    writer: SegmentWriter, claim: Claim
) -> None:
    late, other = [await threads.call(claim) for _ in range(2)]
    await writer.append(write(late, deltas("first")))

    outcomes = await append_together(
        writer, write(late, deltas("again")), write(other, deltas("mine")), ending(late)
    )

    assert [type(outcome) for outcome in outcomes] == [OwnershipLost, type(None), OwnershipLost]
    assert await threads.call(log_of, late) == deltas("first")
    assert (await threads.call(Run.objects.get, pk=late.pk)).status == RunStatus.RUNNING


async def test_a_log_of_which_a_restored_backup_has_less_gets_no_gap(
    writer: SegmentWriter, claim: Claim
) -> None:
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
        assert (await threads.call(Run.objects.get, pk=run.pk)).status == RunStatus.RUNNING


@both_databases
async def test_reaping_against_a_writer_that_goes_on_ends_once_with_all_that_was_committed(
    writer: SegmentWriter, claim: Claim
) -> None:
    run = await threads.call(claim)
    kept: list[Entry] = []

    async def go_on() -> None:
        with contextlib.suppress(OwnershipLost):
            for number in range(200):
                entries = deltas(f"{number} ", after=len(kept))
                await writer.append(write(run, entries))
                kept.extend(entries)

    writing = asyncio.create_task(go_on())
    while len(kept) < 5:
        await asyncio.sleep(0.005)
    won = [await threads.call(reaper.end_lost, run, run.runner) for _ in range(2)]
    await writing

    events = await threads.call(read_events, run)
    row = await threads.call(Run.objects.get, pk=run.pk)
    assert won == [True, False]
    assert (await threads.call(log_of, run))[: len(kept)] == kept
    assert sum(isinstance(event, canonical.ChatEnd) for event in events) == 1
    assert canonical.encode(fold(events)).decode() == row.result


# --- what the database refuses -------------------------------------------------------------


@both_databases
@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"upstream_id": 10**9}, id="a server that is not there"),
        pytest.param({"status": None}, id="null"),
        pytest.param({"input_tokens": 10**30}, id="a number that is too large"),
        pytest.param({"response_id": "\ud800"}, id="a lone surrogate"),
        pytest.param({"notes": object()}, id="no JSON"),
    ],
)
async def test_a_write_that_the_database_refuses_takes_no_other_with_it(
    writer: SegmentWriter, claim: Claim, columns: dict[str, object]
) -> None:
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


@pytest.mark.usefixtures("by_thread")
async def test_what_was_held_back_is_not_written_in_one_transaction(
    writer: SegmentWriter, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, batches = segments.commit, []

    def noted(writes: Sequence[Write]) -> list[Exception | None]:
        batches.append([write.run_pk for write in writes])
        return commit(writes)

    monkeypatch.setattr(segments, "commit", noted)
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


# --- away -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("by_thread")
async def test_a_machine_that_has_no_thread_left_delays_and_loses_nothing(
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
        await until_logged(caplog, "log.unavailable")

    async with asyncio.timeout(10):
        await waiting
    assert await threads.call(log_of, run) == deltas("one")
    await writer.close()
    await threads.close()


@contextlib.contextmanager
def locked_database() -> Iterator[None]:
    """Another process writes, and does not come to an end."""
    with contextlib.closing(sqlite3.connect(connection.settings_dict["NAME"])) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.rollback()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy database counts as away at once, and is asked again soon."""
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "timeout", 0.01)
    monkeypatch.setattr(log_writer, "RETRY_SECONDS", (0.01, 0.02))


async def until_logged(caplog: pytest.LogCaptureFixture, text: str, *, times: int = 1) -> None:
    async with asyncio.timeout(10):
        while caplog.text.count(text) < times:
            await asyncio.sleep(0.01)


async def test_a_database_that_is_away_delays_and_loses_nothing(
    impatient: None, writer: SegmentWriter, claim: Claim, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [await threads.call(claim) for _ in range(3)]

    with locked_database():
        waiting = asyncio.gather(
            *(writer.append(write(run, deltas("one"), raw=b"1")) for run in runs)
        )
        await until_logged(caplog, "log.unavailable", times=3)
        assert not waiting.done()
    async with asyncio.timeout(10):
        await waiting
    await asyncio.gather(*(writer.append(write(run, deltas("two", after=1))) for run in runs))

    for run in runs:
        assert await threads.call(log_of, run) == deltas("one", "two")
        assert await threads.call(read_raw, run) == b"1"


@both_databases
@pytest.mark.usefixtures("by_thread")
async def test_an_answer_that_was_lost_after_the_commit_costs_nobody_their_run(
    writer: SegmentWriter, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, lost = segments.commit, []

    def lose_the_answer(writes: list[Write]) -> list[Exception | None]:
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


async def test_a_writer_that_closes_does_not_wait_for_ever(
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
        await until_logged(caplog, "log.unavailable")
        async with asyncio.timeout(10):
            await writer.close()
    waiting.cancel()

    assert await threads.call(log_of, run) == []


async def test_what_was_handed_in_before_closing_is_committed(claim: Claim) -> None:
    writer = SegmentWriter()
    writer.start()
    runs = [await threads.call(claim) for _ in range(5)]

    waiting = [asyncio.create_task(writer.append(write(run, deltas("said")))) for run in runs]
    await asyncio.sleep(0)
    await writer.close()
    await asyncio.gather(*waiting)

    assert [await threads.call(log_of, run) for run in runs] == [deltas("said")] * 5
    await threads.close()


async def test_whoever_gives_up_waiting_holds_nobody_up(
    writer: SegmentWriter, claim: Claim
) -> None:
    leaving, staying = [await threads.call(claim) for _ in range(2)]

    waiting = asyncio.create_task(writer.append(write(leaving, deltas("gone"))))
    await asyncio.sleep(0)
    waiting.cancel()
    await writer.append(write(staying, deltas("here")))

    assert await threads.call(log_of, staying) == deltas("here")


@pytest.mark.usefixtures("by_thread")
async def test_all_that_waits_is_committed_in_one_transaction(
    writer: SegmentWriter, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    commit = segments.commit

    def counting(writes: list[Write]) -> list[Exception | None]:
        sizes.append(len(writes))
        return commit(writes)

    monkeypatch.setattr(segments, "commit", counting)
    runs = [await threads.call(claim) for _ in range(6)]

    await append_together(writer, *(write(run, deltas("x")) for run in runs))

    assert sum(sizes) == 6
    assert len(sizes) <= 2


async def test_bytes_of_an_answer_are_decoded_and_hashed_before_the_transaction_that_ends_it(
    writer: SegmentWriter, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await threads.call(claim)
    log = RunLog(
        run_pk=run.pk,
        run_id=run.public_id,
        conversation_pk=run.conversation_id,
        runner=run.runner_id,
        writer=writer,
        tail=MemoryTail(),
        threads=threads,
    )
    picture = canonical.MediaUpdate(
        item=0, media_type="image/png", media_id="m", state="final", data="aGFsZg=="
    )
    in_transaction: list[bool] = []

    def noted(body: bytes) -> object:
        in_transaction.append(connection.in_atomic_block)
        return hashlib.sha256(body)

    monkeypatch.setattr(files, "hashlib", SimpleNamespace(sha256=noted))
    log.add([canonical.ChatStart(model_instance_id="m")])
    ending = canonical.Ending(status="completed", stop=canonical.Stop(reason="end_turn"))
    await log.finish([picture], ending, t=0)

    stored = await threads.call(lambda: AnswerFile.objects.select_related("file").get(run=run))
    assert (await threads.call(lambda: bytes(stored.file.body))) == b"half"
    assert stored.file.sha256 == hashlib.sha256(b"half").hexdigest()
    assert in_transaction == [False]


@both_databases
def test_runs_that_end_together_lock_their_rooms_in_one_order(claim: Claim) -> None:
    runs = [claim() for _ in range(3)]

    with noted_statements() as noted:
        assert segments.commit([ending(run) for run in reversed(runs)]) == [None] * 3

    locked = [values[-1] for text, values in noted if 'UPDATE "chat_conversation"' in text]
    assert locked == [run.conversation_id for run in runs]


@both_databases
def test_a_plain_answer_ends_with_no_savepoint_and_nothing_read_again(claim: Claim) -> None:
    run = claim()
    closing = [canonical.ChatStart(model_instance_id="m"), *close_open(Fold(), "stopped")]
    end = closing[-1]
    assert isinstance(end, canonical.ChatEnd)
    last = replace(ending(run), result=end.result, raw=b"data: x\n\n")
    segments.commit([ending(claim())])

    with noted_statements() as noted:
        assert segments.commit([last]) == [None]

    run.refresh_from_db()
    assert (run.status, run.last_seq) == (RunStatus.STOPPED, last.entries[-1].seq)
    assert read_raw(run) == b"data: x\n\n"
    # In PostgreSQL one statement; else a transaction of the run, its segment and the room.
    assert len(noted) == (4 if settings.IS_SQLITE else 1)


@only_postgresql
def test_what_many_runs_write_is_one_statement_that_is_always_the_same(claim: Claim) -> None:
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
@pytest.mark.parametrize("columns", [{}, {"first_token_at": timezone.now()}], ids=["", "times"])
@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "with others"])
def test_only_the_next_number_of_a_run_that_is_its_writer_s_is_inserted(
    claim: Claim, beside: int, columns: dict[str, object]
) -> None:
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
def test_a_commit_reads_no_run_but_those_that_write(claim: Claim) -> None:
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


def runs_read() -> int:
    """Rows of runs that the transaction has read so far."""
    text = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = %s"
    ((count,),) = segments.fetch(text, ["chat_run"])
    return int(count)


def test_an_entry_is_written_as_it_was_given(claim: Claim) -> None:
    run = claim()
    entries = deltas("Fluß", "\U0001f30a\u2028", '"quoted"\\', "\x00")

    assert segments.commit([write(run, entries)]) == [None]

    assert read_entries(run.pk) == entries
    assert RunSegment.objects.get(run=run).last_seq == 4
