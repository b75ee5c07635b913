"""Answers of people to what open calls ask: waited for by the call, and brought from the database to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from chat.core.threads import DatabaseThreads
from chat.tools import inputs, open_replies
from chat.tools.execution import Execution
from chat.tools.kinds import AskedInput, InputReply


class AskedPeople:
    """Requests of the open calls of one runner to people. ``executions`` returns its calls; ``wake`` starts its next round, which
    calls `bring_answers`."""

    def __init__(
        self,
        threads: DatabaseThreads,
        *,
        executions: Callable[[], Sequence[Execution]],
        wake: Callable[[], None],
    ) -> None:
        self._threads = threads
        self._executions = executions
        self._wake = wake

    async def ask(self, execution: Execution, asked: AskedInput) -> InputReply:
        """Waits for the answer of a person, while the call is open. Nobody answers in time: that is a dismissal, and
        so is a request too many, by this call or by all that wait."""
        call, seconds = execution.call, execution.input_seconds_left()
        execution.asked += 1
        if execution.asked > inputs.MOST_ROUNDS or seconds <= 0 or not self._may_wait(execution):
            return InputReply(action="cancel")
        expires_at = timezone.now() + timedelta(seconds=seconds)
        execution.pause()
        row: int | None = None
        try:
            row = await self._threads.call(
                inputs.open_input, call.pk, call.claim, asked, expires_at
            )
            if row is None:
                return InputReply(action="cancel")
            reply = execution.waiting[row] = asyncio.get_running_loop().create_future()
            self._wake()
            await asyncio.wait([reply], timeout=seconds)
            if not reply.done():
                await self._threads.call(inputs.expire_input, call.pk, call.claim, row)
                # Somebody may have answered at the last moment.
                found = await self._threads.call(open_replies.replies_to, [row])
                return found.get(row, InputReply(action="cancel"))
            return reply.result()
        finally:
            if row is not None:
                execution.waiting.pop(row, None)
            execution.resume()

    async def bring_answers(self) -> None:
        """Gives open calls what people have answered."""
        waiting = {row: reply for each in self._executions() for row, reply in each.waiting.items()}
        if not waiting:
            return
        for row, reply in (
            await self._threads.call(open_replies.replies_to, list(waiting))
        ).items():
            if not waiting[row].done():
                waiting[row].set_result(reply)

    def _may_wait(self, execution: Execution) -> bool:
        """Returns whether one more call may wait for people: it keeps its place from calls that could run."""
        waiting = [each for each in self._executions() if each.waits]
        if execution in waiting:
            return True
        person = execution.call.person
        of_person = [each for each in waiting if person and each.call.person == person]
        most = max(1, int(settings.TOOL_CALLS_PER_RUNNER) // 2)
        return len(waiting) < most and len(of_person) < max(1, most // 4)
