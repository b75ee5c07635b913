"""The periodic tasks of runners that send queued messages.

What people do in a web process is sent there. The runners send when an answer has ended; each process
knows whether anything is queued, and while nothing is, the end of an answer costs no statement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from chat.core.threads import DatabaseThreads
from chat.message_queue.actions import MESSAGES
from chat.message_queue.sending import has_queued, read_due, send_due_in
from chat.runs.runner import ENDED, PeriodicTask
from chat.upstreams.client import Client

# A message may have been queued by another process, whose notification was lost. So the end of an
# answer is followed by a look within this time. While anything is queued, there is such a look anyway:
# another process may end the answer and not send, because it was killed or is of an earlier version.
AFTER_END_SECONDS = 5.0
# For what a killed process has left. An idle runner makes six statements in a second.
LOOK_SECONDS = 120.0
# The task that only the end of an answer wakes.
LONG_SECONDS = 3600.0

_has_queued = False
# True if an answer has ended in this process since the last look.
_has_ended = False


def look() -> Sequence[int]:
    """The conversations in which a message may be due, for a database thread."""
    global _has_queued
    _has_queued = has_queued()
    return read_due() if _has_queued else ()


async def send_due(threads: DatabaseThreads) -> None:
    while rooms := await threads.call(look):
        if not await threads.call(send_due_in, rooms):
            break


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def send_queued() -> None:
        await send_due(threads)

    return send_queued


def _make_woken(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def send_after_answer() -> None:
        global _has_ended
        _has_ended = True
        if _has_queued:
            await send_due(threads)

    return send_after_answer


def _make_late(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def send_late() -> None:
        global _has_ended
        if _has_ended or _has_queued:
            _has_ended = False
            await send_due(threads)

    return send_late


SEND_QUEUED = PeriodicTask(topic=MESSAGES, seconds=LOOK_SECONDS, make=_make)
SEND_AFTER_ANSWER = PeriodicTask(
    topic=ENDED, name="messages.after_answer", seconds=LONG_SECONDS, make=_make_woken
)
SEND_LATE = PeriodicTask(topic="messages.late", seconds=AFTER_END_SECONDS, make=_make_late)
