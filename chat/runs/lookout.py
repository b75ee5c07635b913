"""Looks into the database for all followers of this process at once."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from django.db import connection

from chat.models.prepared import fetch
from chat.models.run import LIVE_STATUSES
from chat.runs.database import DatabaseThreads, readers
from chat.runs.segments import entries_of
from chat.runs.tail import Entry

logger = logging.getLogger(__name__)

# Who asks within this time shares one query. Followers come as often as the log moves, so that at
# 500 runs a look each would be 5,000 queries a second.
GATHER_SECONDS = 0.02
# Of one look, over all its followers; the rest is there at their next one.
LOOK_BYTES = 4 * 1024 * 1024
# Places for values in one statement: three for each follower, and SQLite's oldest limit is 999.
FOLLOWERS_AT_ONCE = 300


class RunGone(Exception):
    """The run's row does not exist (any more)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What there is behind a follower's number. ``is_over``: nothing, and nothing will come."""

    entries: list[Entry] = field(default_factory=list)
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class _Question:
    run_pk: int
    after: int
    answer: asyncio.Future[Found]


class Lookout:
    """One per process. `look` is for followers, on the event loop."""

    def __init__(self, threads: DatabaseThreads = readers) -> None:
        self._threads = threads
        self._asked: list[_Question] = []
        self._task: asyncio.Task[None] | None = None

    async def look(self, run_pk: int, after: int) -> Found:
        """What is committed behind ``after``. Raises ``RunGone``; a database that is away is waited
        for. Cancellation is safe."""
        question = _Question(run_pk, after, asyncio.get_running_loop().create_future())
        self._asked.append(question)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._answer(), name="lookout")
        return await question.answer

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _answer(self) -> None:
        """Until nobody asks any more."""
        questions: list[_Question] = []
        try:
            while self._asked:
                await asyncio.sleep(GATHER_SECONDS)
                questions, self._asked = self._asked, []
                questions = [each for each in questions if not each.answer.done()]
                for start in range(0, len(questions), FOLLOWERS_AT_ONCE):
                    await self._answer_together(questions[start : start + FOLLOWERS_AT_ONCE])
        finally:
            for each in (*questions, *self._asked):
                each.answer.cancel()
            self._asked = []

    async def _answer_together(self, questions: Sequence[_Question]) -> None:
        wanted = [(each.run_pk, each.after) for each in questions]
        for question, answer in zip(questions, await self._find(wanted), strict=True):
            if question.answer.done():
                continue
            if isinstance(answer, Exception):
                question.answer.set_exception(answer)
            else:
                question.answer.set_result(answer)

    async def _find(self, wanted: Sequence[tuple[int, int]]) -> Sequence[Found | Exception]:
        """What the database refuses to be asked costs its follower alone the answer."""
        try:
            return await self._threads.call_until_there(look_for, wanted)
        except Exception as error:
            if len(wanted) == 1:
                return [error]
            return [answer for one in wanted for answer in await self._find([one])]


lookout = Lookout()


# --- in a database thread ---------------------------------------------------------------------


def look_for(wanted: Sequence[tuple[int, int]]) -> list[Found | Exception]:
    """For each (run, number) what is behind it. A log that cannot be read is its follower's trouble
    and nobody else's."""
    rows = _read(wanted)
    return [
        _found(rows[at], after) if at in rows else RunGone(run_pk)
        for at, (run_pk, after) in enumerate(wanted)
    ]


# A run's status, its last number, and a segment, or nothing in place of one.
_Row = tuple[str, int, int | None, bool | None, bytes | None]


def _found(rows: list[_Row], after: int) -> Found | Exception:
    segments = [
        (first_seq, bool(is_compressed), body)
        for _, _, first_seq, is_compressed, body in rows
        if first_seq is not None and body is not None
    ]
    if not segments:
        status, last_seq, *_ = rows[0]
        return Found(is_over=status not in LIVE_STATUSES and after >= last_seq)
    try:
        return Found(entries=entries_of(segments, after))
    except Exception as error:
        return error


# Of the segments behind each number, by its place, those nearest to their follower first, as far as
# the bytes go. The segment with the next number is the last one that begins at or before it: found
# in the index, however long the log is. All is of one moment: a run that has ended there has its
# last segment there, too.
_ROWS = """
    WITH wanted (place, run_id, after) AS ({wanted}),
    begun AS (
        SELECT place, run_id, after, COALESCE((
            SELECT MAX(earlier.first_seq) FROM chat_runsegment earlier
            WHERE earlier.run_id = wanted.run_id AND earlier.first_seq <= wanted.after + 1
        ), 0) AS start
        FROM wanted
    ),
    found AS (
        SELECT begun.place, segment.first_seq, segment.is_compressed, segment.body,
            SUM(LENGTH(segment.body)) OVER (ORDER BY segment.first_seq - begun.after, begun.place)
                - LENGTH(segment.body) AS ahead_bytes
        FROM begun JOIN chat_runsegment segment
            ON segment.run_id = begun.run_id
            AND segment.first_seq >= begun.start
            AND segment.last_seq > begun.after
    )
    SELECT wanted.place, run.status, run.last_seq, found.first_seq, found.is_compressed, found.body
    FROM wanted
    JOIN chat_run run ON run.id = wanted.run_id
    LEFT JOIN found ON found.place = wanted.place AND found.ahead_bytes < %s
    ORDER BY wanted.place, found.first_seq
"""
_ROWS_IN_POSTGRES = _ROWS.format(
    wanted="SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bigint[])"
)


def _read(wanted: Sequence[tuple[int, int]]) -> dict[int, list[_Row]]:
    """By place in ``wanted``; without those whose run is not there."""
    if connection.vendor == "postgresql":
        runs, numbers = [run_pk for run_pk, _ in wanted], [after for _, after in wanted]
        rows = fetch(_ROWS_IN_POSTGRES, [list(range(len(wanted))), runs, numbers, LOOK_BYTES])
    else:
        places = "VALUES " + ", ".join(["(%s,%s,%s)"] * len(wanted))
        values = [value for at, question in enumerate(wanted) for value in (at, *question)]
        rows = fetch(_ROWS.format(wanted=places), [*values, LOOK_BYTES])
    found: defaultdict[int, list[_Row]] = defaultdict(list)
    for place, *row in rows:
        found[place].append(tuple(row))
    return dict(found)
