"""Commits from the event loop are in the log once, whatever becomes of their connection."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from chat import events as canonical
from chat.models import Attempt, Run
from chat.runs import pg_writer, segments
from chat.runs import writer as log_writer
from chat.runs.attempts import AttemptOutcome
from chat.runs.pg_writer import AsyncSegmentWriter
from chat.runs.segments import OwnershipLost, SegmentWrite, read_raw
from chat.runs.writer import SegmentWriter
from tests.runs.helpers import PATIENCE_SECONDS, row_of, threads, until
from tests.runs.test_writer import append_together, deltas, ending, log_of, reap, write
from tests.support.run_fixtures import Claim

# Commits from the event loop are for PostgreSQL.
pytestmark = pytest.mark.databases(only="postgresql")

# More than the kernel takes at once.
LARGE_BYTES = 12 * 1024 * 1024


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is tried again right after a failure."""
    monkeypatch.setattr(pg_writer, "REST_SECONDS", 0.0)


@pytest.fixture
def by_thread_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each commit of the thread had."""
    counts: list[int] = []
    commit = segments.commit

    def counting(writes: list[SegmentWrite]) -> list[Exception | None]:
        counts.append(len(writes))
        return commit(writes)

    monkeypatch.setattr(segments, "commit", counting)
    return counts


def backend_of(writer: SegmentWriter) -> int:
    assert writer._async_writer is not None
    assert writer._async_writer._link is not None
    return writer._async_writer._link._pgconn.backend_pid


def end_backend(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])


async def test_plain_commits_need_no_thread(
    writer: SegmentWriter, claim: Claim, by_thread_counts: list[int]
) -> None:
    runs = [await threads.call(claim) for _ in range(3)]
    now = timezone.now()

    await writer.append(write(runs[0], deltas("one"), raw=b"x"))
    await append_together(
        writer,
        *(write(run, deltas("two"), columns={"first_token_at": now}) for run in runs[1:]),
    )
    await append_together(
        writer, *(write(run, deltas("and on", after=1), raw=b"y") for run in runs)
    )

    assert by_thread_counts == []
    for run, first in zip(runs, ("one", "two", "two"), strict=True):
        assert await threads.call(log_of, run) == deltas(first, "and on")
    assert [await threads.call(read_raw, run) for run in runs] == [b"xy", b"y", b"y"]
    assert (await row_of(runs[1])).first_token_at == now


async def test_plain_ends_need_no_thread(
    writer: SegmentWriter, claim: Claim, by_thread_counts: list[int]
) -> None:
    alive, *runs = [await threads.call(claim) for _ in range(4)]
    attempts = [await threads.call(Attempt.objects.create, run=run, number=1) for run in runs]
    refusal = canonical.ErrorInfo(message="busy", kind="rate_limit", retry_after_seconds=2.5)
    outcomes = [
        AttemptOutcome.of(1, "eof", None),
        AttemptOutcome.of(1, "refused", refusal),
        None,
    ]

    ended = await append_together(
        writer,
        write(alive, deltas("and on")),
        *(replace(ending(run), attempt=each) for run, each in zip(runs, outcomes, strict=True)),
    )

    assert ended == [None] * 4
    assert by_thread_counts == []
    assert await threads.call(log_of, alive) == deltas("and on")
    assert {(await row_of(run)).status for run in runs} == {"stopped"}
    for attempt in attempts:
        await threads.call(attempt.refresh_from_db)
    assert [(each.outcome, each.error_kind) for each in attempts] == [
        ("eof", ""),
        ("refused", "rate_limit"),
        ("", ""),
    ]
    assert attempts[1].retry_after_seconds == 2.5


async def test_end_with_a_lost_reply_is_found_in_the_log(
    writer: SegmentWriter, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await threads.call(claim)
    first_column = AsyncSegmentWriter.first_column

    async def lose(line: AsyncSegmentWriter, text: str, values: list[object]) -> list[int]:
        await first_column(line, text, values)
        raise OSError("the reply is lost")

    monkeypatch.setattr(AsyncSegmentWriter, "first_column", lose)
    (ended,) = await append_together(writer, ending(run))

    assert ended is None
    assert (await row_of(run)).status == "stopped"


async def test_commit_larger_than_the_socket_buffer_arrives(
    writer: SegmentWriter,
    claim: Claim,
    by_thread_counts: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_writer, "ASYNC_WRITER_BYTES", 2 * LARGE_BYTES)
    run = await threads.call(claim)
    raw = bytes(range(256)) * (LARGE_BYTES // 256)

    await writer.append(write(run, deltas("x"), raw=raw))

    assert await threads.call(read_raw, run) == raw
    assert by_thread_counts == []


async def test_write_to_a_lost_run_is_refused_alone(writer: SegmentWriter, claim: Claim) -> None:
    zombie, alive = [await threads.call(claim) for _ in range(2)]
    await threads.call(reap, zombie)
    before = await threads.call(log_of, zombie)

    late = write(zombie, deltas("too late", after=len(before)))
    outcomes = await append_together(writer, late, write(alive, deltas("in time")))

    assert isinstance(outcomes[0], OwnershipLost)
    assert outcomes[1] is None
    assert await threads.call(log_of, zombie) == before
    assert await threads.call(log_of, alive) == deltas("in time")


async def test_connection_that_ended_while_idle_is_replaced(
    writer: SegmentWriter, claim: Claim, by_thread_counts: list[int]
) -> None:
    run = await threads.call(claim)
    await writer.append(write(run, deltas("one")))
    first = backend_of(writer)
    await threads.call(end_backend, first)
    await until(lambda: writer._async_writer._link.has_ended)  # type: ignore[union-attr]

    await writer.append(write(run, deltas("two", after=1)))

    assert by_thread_counts == []
    assert backend_of(writer) != first
    assert await threads.call(log_of, run) == deltas("one", "two")


async def test_connection_that_ends_in_a_commit_costs_nothing(
    writer: SegmentWriter, claim: Claim, by_thread_counts: list[int]
) -> None:
    run, other = [await threads.call(claim) for _ in range(2)]
    await writer.append(write(run, deltas("one")))
    pid = backend_of(writer)
    held, released = threading.Event(), threading.Event()

    def hold_the_run() -> None:
        try:
            with transaction.atomic():
                # Its key too: the check that the run of a segment exists waits.
                Run.objects.select_for_update().get(pk=run.pk)
                held.set()
                assert released.wait(PATIENCE_SECONDS)
        finally:
            connection.close()

    holding = asyncio.create_task(asyncio.to_thread(hold_the_run))
    await until(held.is_set)
    waiting = asyncio.create_task(writer.append(write(run, deltas("two", after=1))))
    await until(lambda: waits_for_a_lock(pid))
    await threads.call(end_backend, pid)
    await until(lambda: by_thread_counts)
    released.set()
    await holding
    await waiting
    await writer.append(write(other, deltas("also")))

    assert by_thread_counts == [1]
    assert await threads.call(log_of, run) == deltas("one", "two")
    assert await threads.call(log_of, other) == deltas("also")


def waits_for_a_lock(pid: int) -> bool:
    text = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
    return bool(segments.fetch(text, [pid])[0][0])


async def test_commit_with_a_lost_reply_is_found_in_the_log(
    writer: SegmentWriter,
    claim: Claim,
    by_thread_counts: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = await threads.call(claim)
    first_column = AsyncSegmentWriter.first_column

    async def lose(line: AsyncSegmentWriter, text: str, values: list[object]) -> list[int]:
        await first_column(line, text, values)
        raise OperationalError("the connection is gone, and nobody knows what was committed")

    monkeypatch.setattr(AsyncSegmentWriter, "first_column", lose)
    await writer.append(write(run, deltas("once")))

    assert by_thread_counts == [1]
    assert await threads.call(log_of, run) == deltas("once")


async def test_thread_commits_for_a_while_after_a_failure(
    writer: SegmentWriter,
    claim: Claim,
    by_thread_counts: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = await threads.call(claim)
    tries: list[str] = []

    async def none() -> pg_writer._Link:
        tries.append("connect")
        raise OSError("no such host")

    monkeypatch.setattr(pg_writer, "REST_SECONDS", 3600.0)
    with monkeypatch.context() as patch:
        patch.setattr(pg_writer, "_connect", none)
        for number, text in enumerate(("one", "two", "three")):
            await writer.append(write(run, deltas(text, after=number)))
    assert (tries, by_thread_counts) == (["connect"], [1, 1, 1])

    monkeypatch.setattr(pg_writer, "REST_SECONDS", 0.0)
    await writer.append(write(run, deltas("four", after=3)))
    assert by_thread_counts == [1, 1, 1]
    assert await threads.call(log_of, run) == deltas("one", "two", "three", "four")


async def test_plan_for_a_small_table_does_not_scan_it(writer: SegmentWriter, claim: Claim) -> None:
    run = await threads.call(claim)
    await writer.append(write(run, deltas("one")))
    text, values = segments.statement([write(run, deltas("two", after=1))])

    def usual_plan() -> str:
        with connection.cursor() as cursor:
            # Also smaller than earlier tests have left it.
            cursor.execute("VACUUM (FULL, ANALYZE) chat_run, chat_runsegment")
            cursor.execute(f"EXPLAIN {text}", values)
            return str(cursor.fetchall())

    usual = await threads.call(usual_plan)
    link = await pg_writer._connect()
    link._mark_ended()
    ours = str(await (await link._connection.execute(f"EXPLAIN {text}", values)).fetchall())
    await link.close()

    assert "Seq Scan" in usual
    assert "Seq Scan" not in ours


async def test_closing_ends_the_connection(writer: SegmentWriter, claim: Claim) -> None:
    run = await threads.call(claim)
    await writer.append(write(run, deltas("one")))
    pid = backend_of(writer)

    await writer.close()

    text = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %s"
    await until(lambda: not segments.fetch(text, [pid])[0][0])
