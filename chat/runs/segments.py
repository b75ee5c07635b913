"""The log of runs in the database: group-commit writer, reader, compaction."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from django.db import (
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from django.db.models import Subquery
from django.db.models.functions import Coalesce

from chat import events as canonical
from chat import metrics
from chat.actions.endings import touch_room
from chat.actions.files import Brought
from chat.actions.outcomes import record_outcome
from chat.models import RawSegment, Run, RunSegment, RunStatus
from chat.runs.database import DatabaseThreads
from chat.runs.tail import Entry

logger = logging.getLogger(__name__)

# 50 ms: below what a reader notices. Under light load the pause is shorter, ten times the last
# commit, so that committing takes a tenth of the time at most.
FLUSH_SECONDS = 0.05
COMMIT_SHARE = 10
# The database is away: tried again after 0.1 s, doubling to 2 s, for as long as it takes.
RETRY_SECONDS = (0.1, 2.0)
CLOSE_SECONDS = 10.0
# In one transaction, which takes several times as much memory here and in the database. Only what
# was held back while the database was away is larger.
COMMIT_BYTES = 16 * 1024 * 1024
# Rows of a log that a follower gets at once; it comes back for the next ones.
CHUNK_SEGMENTS = 200


class OwnershipLost(Exception):
    """Another process ended this run, or reaped this runner: nothing may be written any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What one run adds to the log at once. ``columns`` are set on its row; with
    ``is_end`` they end it."""

    run_pk: int
    runner: UUID
    entries: Sequence[Entry]
    raw: bytes = b""
    raw_position: int = 0
    columns: dict[str, object] = field(default_factory=dict)
    is_end: bool = False
    # With `is_end`: what the run folds to, and the files in it.
    result: canonical.Result | None = None
    brought: Sequence[Brought] = ()
    conversation_pk: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.raw) + sum(len(entry.body) for entry in self.entries)


class SegmentWriter:
    """Commits what all runs of this process have ready in one transaction.

    At once when nothing was committed for a moment, else when the pause is over.
    """

    def __init__(self) -> None:
        self._threads = DatabaseThreads("write", size=1)
        self._waiting: list[tuple[Write, asyncio.Future[None]]] = []
        self._wanted = asyncio.Event()
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name="segment-writer")

    async def close(self) -> None:
        """Commits what is waiting, then ends; a database that stays away is given up on."""
        self._is_closing = True
        self._wanted.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._threads.close()

    async def append(self, write: Write) -> None:
        """Returns when ``write`` is committed. Raises ``OwnershipLost``, or what the database says
        of this write alone. A caller that is cancelled does not know whether it was committed."""
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((write, committed))
        self._wanted.set()
        await committed

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        while not (self._is_closing and not self._waiting):
            await self._wanted.wait()
            self._wanted.clear()
            batch = self._take()
            if not batch:
                continue
            started = loop.time()
            await self._commit(batch)
            spent = loop.time() - started
            metrics.COMMIT_SECONDS.observe(spent)
            metrics.COMMIT_RUNS.observe(len(batch))
            await asyncio.sleep(max(0.0, min(FLUSH_SECONDS, spent * COMMIT_SHARE) - spent))

    def _take(self) -> list[tuple[Write, asyncio.Future[None]]]:
        """The writes that wait longest, as many as one transaction should carry."""
        size = count = 0
        for write, _ in self._waiting:
            if count and size + write.size_bytes > COMMIT_BYTES:
                self._wanted.set()
                break
            size += write.size_bytes
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _commit(self, batch: list[tuple[Write, asyncio.Future[None]]]) -> None:
        writes = [write for write, _ in batch]
        outcomes = await self._until_committed(writes)
        for (_, committed), outcome in zip(batch, outcomes, strict=True):
            if committed.done():
                continue
            if outcome is None:
                committed.set_result(None)
            else:
                committed.set_exception(outcome)

    async def _until_committed(self, writes: list[Write]) -> list[Exception | None]:
        pause, longest = RETRY_SECONDS
        while True:
            try:
                return await self._threads.call(commit, writes)
            except Exception as error:
                # The database is away, or the machine has no thread for us. Whatever it is: what
                # was read is kept until it can be written, or nobody's runs would ever end.
                metrics.COMMIT_FAILURES.inc()
                logger.warning(
                    "log.unavailable runs=%d error=%s", len(writes), type(error).__name__
                )
                await asyncio.sleep(pause)
                pause = min(longest, pause * 2)


# --- what happens in the writer's thread -------------------------------------------


def commit(writes: Sequence[Write]) -> list[Exception | None]:
    """Commits all writes together; tells for each whether it was kept.

    A write that alone breaks the transaction (a value that the database or its driver refuses)
    must not take the others with it: then each is tried by itself.
    """
    try:
        return _commit_together(writes)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        if len(writes) == 1:
            return [error]
        return [outcome for write in writes for outcome in commit([write])]


def _commit_together(writes: Sequence[Write]) -> list[Exception | None]:
    with transaction.atomic():
        kept = _insert_segments([write for write in writes if not write.is_end])
        # Rooms are locked in one order by everybody, or two runners could wait for each other.
        for write in sorted(writes, key=lambda write: write.conversation_pk):
            if write.is_end and _end(write):
                kept.add(write.run_pk)
            elif write.run_pk in kept and write.columns:
                Run.objects.filter(pk=write.run_pk).update(**write.columns)
        _insert_raw([write for write in writes if write.run_pk in kept and write.raw])
        kept |= _kept_earlier([write for write in writes if write.run_pk not in kept])
    return [None if write.run_pk in kept else OwnershipLost(write.run_pk) for write in writes]


def _insert_segments(writes: Sequence[Write]) -> set[int]:
    """Inserts the segments of the runs that still are their writer's; returns those runs.

    One statement for all: who was reaped meanwhile, or collides with what the reaper wrote,
    is left out and touches nobody else. So is who would leave a gap: a backup was restored under
    a runner that goes on.
    """
    if not writes:
        return set()
    is_postgres = connection.vendor == "postgresql"
    row = (
        "(%s::bigint, %s::uuid, %s::bigint, %s::bigint, %s::bytea)"
        if is_postgres
        else "(%s,%s,%s,%s,%s)"
    )
    values: list[int | str | bytes | UUID] = []
    for write in writes:
        runner = write.runner if is_postgres else write.runner.hex
        first, last = write.entries[0].seq, write.entries[-1].seq
        values += [write.run_pk, runner, first, last, _body(write.entries)]
    statement = f"""
        WITH wanted (run_id, runner_id, first_seq, last_seq, body) AS (VALUES {", ".join([row] * len(writes))})
        INSERT INTO chat_runsegment (run_id, first_seq, last_seq, is_compressed, body)
        SELECT wanted.run_id, wanted.first_seq, wanted.last_seq, %s, wanted.body
        FROM wanted
        JOIN chat_run ON chat_run.id = wanted.run_id AND chat_run.runner_id = wanted.runner_id
        WHERE chat_run.status = %s AND wanted.first_seq = 1 + COALESCE((
            SELECT last.last_seq FROM chat_runsegment AS last
            WHERE last.run_id = wanted.run_id ORDER BY last.first_seq DESC LIMIT 1
        ), 0)
        ON CONFLICT (run_id, first_seq) DO NOTHING
        RETURNING run_id
    """  # noqa: S608 - only placeholders are joined in
    with connection.cursor() as cursor:
        cursor.execute(statement, [*values, False, RunStatus.RUNNING.value])
        return {run_id for (run_id,) in cursor.fetchall()}


def _kept_earlier(writes: Sequence[Write]) -> set[int]:
    """The runs whose very same segment is there: a try before this one had committed it, and its
    answer was lost with the connection."""
    rows = RunSegment.objects.filter(
        run_id__in=[write.run_pk for write in writes],
        first_seq__in=[write.entries[0].seq for write in writes],
    )
    there = {(row.run_id, row.first_seq): bytes(row.body) for row in rows} if writes else {}
    return {
        write.run_pk
        for write in writes
        if there.get((write.run_pk, write.entries[0].seq)) == _body(write.entries)
    }


def _end(write: Write) -> bool:
    """The terminal change of a run: its status, result and last segment, or nothing at all."""
    try:
        with transaction.atomic():
            ended = Run.objects.filter(
                pk=write.run_pk, runner_id=write.runner, status=RunStatus.RUNNING
            ).update(**write.columns)
            if not ended:
                return False
            if _last_seq(write.run_pk) != write.entries[0].seq - 1:
                raise IntegrityError("the end of a log that is not there")
            RunSegment.objects.create(
                run_id=write.run_pk,
                first_seq=write.entries[0].seq,
                last_seq=write.entries[-1].seq,
                body=_body(write.entries),
            )
            touch_room(Run(pk=write.run_pk, conversation_id=write.conversation_pk))
            if write.result is not None:
                run = Run.objects.defer("result").get(pk=write.run_pk)
                record_outcome(run, write.result, write.brought)
    except IntegrityError:
        return False
    return True


def _last_seq(run_pk: int) -> int:
    segments = RunSegment.objects.filter(run_id=run_pk).order_by("-first_seq")
    return segments.values_list("last_seq", flat=True).first() or 0


def _insert_raw(writes: Sequence[Write]) -> None:
    RawSegment.objects.bulk_create(
        [
            RawSegment(run_id=write.run_pk, position=write.raw_position, body=write.raw)
            for write in writes
        ],
        ignore_conflicts=True,
    )


def _body(entries: Sequence[Entry]) -> bytes:
    return canonical.join_bodies(entry.body for entry in entries)


# --- reading --------------------------------------------------------------------------


def read_entries(run_pk: int, after: int = 0, *, limit_bytes: int = 0) -> list[Entry]:
    """Committed events behind ``after``, in order and without a gap.

    With ``limit_bytes`` the list ends after the segment that passes the limit, or after some
    segments. It also ends at a gap, should there ever be one: a number is never skipped.
    """
    found = RunSegment.objects.filter(run_id=run_pk, last_seq__gt=after)
    if after:
        # The segment with the next number is the last one that begins at or before it: found in
        # the index, however long the log is.
        earlier = RunSegment.objects.filter(run_id=run_pk, first_seq__lte=after + 1)
        start = earlier.order_by("-first_seq").values("first_seq")[:1]
        found = found.filter(first_seq__gte=Coalesce(Subquery(start), 0))
    rows = found.order_by("first_seq").values_list("first_seq", "is_compressed", "body")
    # Plain statements: for an iterator PostgreSQL makes a cursor, which is three times the way.
    return entries_of(rows[:CHUNK_SEGMENTS] if limit_bytes else rows, after, limit_bytes)


def read_logs(run_pks: Sequence[int]) -> dict[int, list[Entry]]:
    """The whole committed logs of several runs, in one query."""
    rows: dict[int, list[tuple[int, bool, bytes]]] = {run_pk: [] for run_pk in run_pks}
    if run_pks:
        found = RunSegment.objects.filter(run_id__in=run_pks).order_by("first_seq")
        columns = found.values_list("run_id", "first_seq", "is_compressed", "body")
        for run_pk, first_seq, is_compressed, body in columns:
            rows[run_pk].append((first_seq, is_compressed, bytes(body)))
    return {run_pk: entries_of(segments) for run_pk, segments in rows.items()}


def entries_of(
    rows: Iterable[tuple[int, bool, bytes | memoryview]], after: int = 0, limit_bytes: int = 0
) -> list[Entry]:
    """The events behind ``after`` in these segments, up to the first gap. Raises whatever a body
    that is none of ours makes of itself."""
    entries: list[Entry] = []
    size = 0
    for first_seq, is_compressed, body in rows:
        if first_seq > (entries[-1].seq if entries else after) + 1:
            break
        plain = zlib.decompress(body) if is_compressed else bytes(body)
        numbered = enumerate(canonical.split_bodies(plain), start=first_seq)
        entries += [Entry(seq, text) for seq, text in numbered if seq > after]
        size += len(plain)
        if limit_bytes and size >= limit_bytes:
            break
    return entries


def read_events(run: Run, after: int = 0) -> list[canonical.Event]:
    """The committed events of a run behind ``after``."""
    return [canonical.decode(entry.body) for entry in read_entries(run.pk, after)]


def read_raw(run: Run, *, limit_bytes: int = 0) -> bytes:
    """What the upstream sent, as far as it is still kept; its first ``limit_bytes``, or all."""
    rows = RawSegment.objects.filter(run=run).order_by("position")
    pieces: list[bytes] = []
    size = 0
    for row in rows.iterator(chunk_size=50):
        left = limit_bytes - size if limit_bytes else 0
        body = bytes(row.body)
        pieces.append(zlib.decompressobj().decompress(body, left) if row.is_compressed else body)
        size += len(pieces[-1])
        if limit_bytes and size >= limit_bytes:
            return b"".join(pieces)[:limit_bytes]
    return b"".join(pieces)


# --- compaction ------------------------------------------------------------------------


def compact(run: Run) -> bool:
    """Joins the segments of an ended run into one compressed row; false if there is nothing to do."""
    entries = read_entries(run.pk)
    if not entries or entries[-1].seq != run.last_seq:
        return False
    body = zlib.compress(_body(entries), level=6)
    with transaction.atomic():
        # Replaces the first row and removes the others: followers never see a gap.
        RunSegment.objects.filter(run=run, first_seq__gt=1).delete()
        RunSegment.objects.filter(run=run, first_seq=1).update(
            last_seq=run.last_seq, is_compressed=True, body=body
        )
    _compact_raw(run)
    return True


def _compact_raw(run: Run) -> None:
    raw = read_raw(run)
    if not raw:
        return
    with transaction.atomic():
        RawSegment.objects.filter(run=run).delete()
        RawSegment.objects.create(
            run=run, position=0, is_compressed=True, body=zlib.compress(raw, level=6)
        )


def bodies_of(events: Iterable[canonical.Event]) -> list[Entry]:
    """Entries of numbered events."""
    return [Entry(event.seq, canonical.encode(event)) for event in events]
