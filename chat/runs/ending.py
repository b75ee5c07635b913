"""Ends the log of a run: closing events, result and final status in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from chat import events as canonical
from chat.core.threads import DatabaseThreads
from chat.events import Ending
from chat.result import Fold
from chat.runs.answer_memory import LARGE_BYTES, LARGE_TEXT_BYTES, return_memory
from chat.runs.attempts import AttemptOutcome
from chat.runs.event_buffer import LogEntry
from chat.runs.log import RunLog
from chat.runs.outcomes import columns_of, is_short, prepare_outcome, topics_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedLog:
    """The result, and the topics of the periodic tasks for which the end is work."""

    result: canonical.Result
    topics: tuple[str, ...]


async def end_log(
    log: RunLog,
    closing: Iterable[canonical.Event],
    ending: Ending,
    *,
    t: int,
    threads: DatabaseThreads,
    attempt: AttemptOutcome | None = None,
) -> EndedLog:
    """Commits what is pending, then the closing events with the one ``chat.end``, the result,
    the terminal status and the outcome of the last attempt. Raises ``OwnershipLost``."""
    await log.close()
    text_bytes = log.memory.held(log.run_pk)
    is_large = text_bytes >= LARGE_TEXT_BYTES or log.received_bytes >= LARGE_BYTES
    async with log.memory.turn(is_large=is_large):
        if is_large:
            # A thread, because the event loop would be blocked for too long.
            entries, end = await asyncio.to_thread(_conclude, log, closing, ending, t)
            if text_bytes >= LARGE_BYTES:
                await asyncio.to_thread(return_memory)
        else:
            entries, end = _conclude(log, closing, ending, t)
        bodies = [entry.body for entry in entries]
        if is_short(end.result):
            prepared = prepare_outcome(log.run_pk, end.result, bodies)
        else:
            prepared = await threads.call_until_there(
                prepare_outcome, log.run_pk, end.result, bodies
            )
        write = log.new_write(entries)
        write = replace(
            write,
            columns={**write.columns, **columns_of(end)},
            is_end=True,
            result=end.result,
            prepared=prepared,
            attempt=attempt,
        )
        await log.commit(write)
    return EndedLog(result=end.result, topics=topics_of(prepared))


def _conclude(
    log: RunLog, closing: Iterable[canonical.Event], ending: Ending, t: int
) -> tuple[list[LogEntry], canonical.ChatEnd]:
    entries = log.number(closing)
    end = canonical.ChatEnd(result=log.fold.result(ending), t=t)
    # The result has the text as a whole; the pieces would be in memory beside it.
    log.fold = Fold()
    return entries + log.number([end]), end
