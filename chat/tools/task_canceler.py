"""Tells servers which of their tasks nobody waits for any more."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from chat.core.threads import DatabaseThreads
from chat.tools import left_tasks
from chat.tools.kinds import CallFailed, Canceler, Cancellation, NeedsSignIn, canceler_of
from chat.tools.sign_in.accounts import bearer
from chat.tools.sign_in.refresh import AccountTokens
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

# Servers that are told at the same moment.
MOST_AT_ONCE = 8


class TaskCanceler:
    """Each cancellation is a task of its own, which ``close`` ends: it is a courtesy."""

    def __init__(self, client: Client, threads: DatabaseThreads, tokens: AccountTokens) -> None:
        self._client = client
        self._threads = threads
        self._tokens = tokens
        self._running: set[asyncio.Task[None]] = set()

    async def start_due(self) -> None:
        free = MOST_AT_ONCE - len(self._running)
        if free <= 0:
            return
        for each in await self._threads.call(left_tasks.take_cancellations, free):
            canceler = canceler_of(each.kind)
            if canceler is not None:
                task = asyncio.create_task(
                    self._cancel(canceler, each), name=f"tool-task-cancel-{each.call}"
                )
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def close(self) -> None:
        for task in self._running:
            task.cancel()

    async def _cancel(self, canceler: Canceler, cancellation: Cancellation) -> None:
        try:
            if cancellation.account is not None:
                credential = await self._tokens.usable(cancellation.account)
                address = replace(cancellation.address, headers=bearer(credential))
                cancellation = replace(cancellation, address=address)
            await canceler(self._client, cancellation)
        except (CallFailed, NeedsSignIn):
            logger.info("tool_task.unauthorized call=%d", cancellation.call)
        except Exception as error:
            logger.error(
                "tool_task.broken call=%d error=%s", cancellation.call, type(error).__name__
            )
