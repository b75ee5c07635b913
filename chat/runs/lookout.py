"""Looks into the database for all followers of this process at once."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from django.db import connection

from chat.models import Run
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
    rows = _segments(wanted)
    states = _states([run_pk for at, (run_pk, _) in enumerate(wanted) if at not in rows])
    answers: list[Found | Exception] = []
    for at, (run_pk, after) in enumerate(wanted):
        if at in rows:
            answers.append(_read(rows[at], after))
        elif run_pk not in states:
            answers.append(RunGone(run_pk))
        else:
            status, last_seq = states[run_pk]
            is_over = status not in LIVE_STATUSES and after >= last_seq
            answers.append(Found(is_over=is_over))
    return answers


def _read(rows: list[tuple[int, bool, bytes]], after: int) -> Found | Exception:
    try:
        return Found(entries=entries_of(rows, after))
    except Exception as error:
        return error


def _states(run_pks: Sequence[int]) -> dict[int, tuple[str, int]]:
    if not run_pks:
        return {}
    rows = Run.objects.filter(pk__in=run_pks).values_list("pk", "status", "last_seq")
    return {pk: (status, last_seq) for pk, status, last_seq in rows}


def _segments(
    wanted: Sequence[tuple[int, int]],
) -> dict[int, list[tuple[int, bool, bytes]]]:
    """The segments behind each number, by its place in ``wanted``; those nearest to their follower
    first, as far as ``LOOK_BYTES`` go."""
    is_postgres = connection.vendor == "postgresql"
    row = "(%s::int, %s::bigint, %s::bigint)" if is_postgres else "(%s,%s,%s)"
    values: list[int] = []
    for at, (run_pk, after) in enumerate(wanted):
        values += [at, run_pk, after]
    # The segment with the next number is the last one that begins at or before it: found in the
    # index, however long the log is.
    statement = f"""
        WITH wanted (place, run_id, after) AS (VALUES {", ".join([row] * len(wanted))}),
        begun AS (
            SELECT place, run_id, after, COALESCE((
                SELECT MAX(earlier.first_seq) FROM chat_runsegment earlier
                WHERE earlier.run_id = wanted.run_id AND earlier.first_seq <= wanted.after + 1
            ), 0) AS start
            FROM wanted
        )
        SELECT place, first_seq, is_compressed, body FROM (
            SELECT begun.place, segment.first_seq, segment.is_compressed, segment.body,
                SUM(LENGTH(segment.body)) OVER (ORDER BY segment.first_seq - begun.after, begun.place)
                    - LENGTH(segment.body) AS ahead_bytes
            FROM begun JOIN chat_runsegment segment
                ON segment.run_id = begun.run_id
                AND segment.first_seq >= begun.start
                AND segment.last_seq > begun.after
        ) AS found
        WHERE ahead_bytes < %s
        ORDER BY place, first_seq
    """  # noqa: S608 - only placeholders are joined in
    found: defaultdict[int, list[tuple[int, bool, bytes]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(statement, [*values, LOOK_BYTES])
        for place, first_seq, is_compressed, body in cursor.fetchall():
            found[place].append((first_seq, bool(is_compressed), bytes(body)))
    return dict(found)
