"""The part of a runner that runs the calls of tools, each in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext_noop

from chat.core.errors import StorageBusy, StorageFull, is_database_unavailable
from chat.core.threads import DatabaseThreads
from chat.runs.runner import PeriodicTask
from chat.runs.tool_calls import TOOL_CALLS
from chat.tools import claims, left_tasks, recordings, server_lists
from chat.tools.asked_people import AskedPeople
from chat.tools.claims import ClaimedCall
from chat.tools.execution import Execution
from chat.tools.kinds import (
    AskedInput,
    CallFailed,
    CallOutput,
    CallRequest,
    Executor,
    InputNeeded,
    InputReply,
    NeedsSignIn,
    executor_of,
)
from chat.tools.sign_in.accounts import Credential, bearer
from chat.tools.sign_in.refresh import AGAIN, NOT_ACCEPTED, AccountTokens
from chat.tools.task_canceler import TaskCanceler
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

# Queued calls are announced. The poll is for lost notifications, and for calls of lost runners.
POLL_SECONDS = 2.0
# How often a runner with calls looks whether they were stopped, and shows their progress.
WATCH_SECONDS = 0.5
# How long to wait before a result is stored again, if the database was unavailable.
AGAIN_SECONDS = 1.0
# How long the tasks of canceled calls may take to close their connections.
CANCEL_SECONDS = 5.0

# Sentences for people and for the model, stored in English; pages translate them.
TOO_SLOW = gettext_noop("The tool took longer than it may.")
BROKEN = gettext_noop("The call failed because of an error in Tributary. Ask an administrator.")
UNSTORABLE = gettext_noop("The tool ran, but its result can’t be stored.")
NO_EXECUTOR = gettext_noop("Tools of this kind can’t run here.")


class CallDropped(Exception):
    """The call must not be sent: somebody stopped it, or it may no longer be made."""


class ToolRunner:
    """Claims queued calls and runs them. A round never waits for a call."""

    def __init__(self, *, client: Client, threads: DatabaseThreads) -> None:
        self._client = client
        self._threads = threads
        self._tokens = AccountTokens(client=client, threads=threads)
        self._identity: Callable[[], UUID] | None = None
        self._wake: Callable[[], None] = lambda: None
        self._watch: asyncio.TimerHandle | None = None
        self._executions: dict[int, tuple[Execution, asyncio.Task[None]]] = {}
        self._canceler = TaskCanceler(client, threads, self._tokens)
        self._asked_people = AskedPeople(
            threads,
            executions=lambda: [each for each, _ in self._executions.values()],
            wake=lambda: self._wake(),
        )
        self._is_draining = False

    def attach(self, identity: Callable[[], UUID], wake: Callable[[], None]) -> None:
        self._identity, self._wake = identity, wake

    async def __call__(self) -> None:
        """One round: drops calls that were stopped, takes up those of lost runners, and starts new ones."""
        if self._identity is None:
            return
        if not self._executions and not await self._threads.call(claims.has_work):
            return
        await self._drop_stopped()
        await self._asked_people.bring_answers()
        await self._show_news()
        if not self._is_draining:
            await self._canceler.start_due()
        runner = self._identity()
        await self._threads.call(claims.settle_lost, runner, list(self._executions))
        free = settings.TOOL_CALLS_PER_RUNNER - len(self._executions)
        if free > 0 and not self._is_draining:
            # Claims that are cancelled here belong to nobody who executes them: the next round, or
            # another runner, takes them up.
            for call in await self._threads.call(claims.claim_due, runner, free):
                if self._is_draining:
                    await self._threads.call(claims.give_back, call.pk, call.claim)
                else:
                    self._start(call)
        self._watch_on()

    def _watch_on(self) -> None:
        """Brings the next round in time, as long as calls run."""
        if self._watch is not None:
            self._watch.cancel()
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(WATCH_SECONDS, self._wake) if self._executions else None

    async def drain(self, timeout_seconds: float) -> None:
        """Starts nothing more, lets calls go on for a while, and gives back the rest."""
        self._is_draining = True
        # Rounds go on, so that people can still stop its calls.
        tasks = [task for _, task in self._executions.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_seconds)
        left = list(self._executions.values())
        for _, task in left:
            task.cancel()
        if left:
            await asyncio.wait([task for _, task in left], timeout=CANCEL_SECONDS)
        self._canceler.close()
        await self._tokens.aclose()
        for execution, _ in left:
            await self._threads.call(claims.give_back, execution.call.pk, execution.call.claim)

    def _start(self, call: ClaimedCall) -> None:
        execution = Execution(call=call, is_sent=bool(call.continuation.task))
        task = asyncio.create_task(self._execute(execution), name=f"tool-call-{call.pk}")
        if call.pk in self._executions:
            # This runner was taken for lost, and has claimed its own call again: the first result would be refused.
            self._executions[call.pk][1].cancel()
        self._executions[call.pk] = execution, task
        task.add_done_callback(partial(self._forget, call.pk))

    def _forget(self, pk: int, done: asyncio.Task[None]) -> None:
        _, task = self._executions[pk]
        if task is done:
            del self._executions[pk]

    async def _drop_stopped(self) -> None:
        """Cancels the calls that are no longer this process's."""
        mine = {pk: execution.call.claim for pk, (execution, _) in self._executions.items()}
        if not mine:
            return
        held = await self._threads.call(claims.still_held, mine)
        for pk in mine.keys() - held:
            if pk in self._executions:
                # The next round does it again, should the task still be there.
                self._executions[pk][1].cancel()

    async def _show_news(self) -> None:
        for execution, _ in list(self._executions.values()):
            if execution.is_progress_new:
                execution.is_progress_new = False
                call = execution.call
                await self._threads.call(
                    claims.store_progress, call.pk, call.claim, execution.progress
                )
            await self._expire_list(execution)

    async def _expire_list(self, execution: Execution) -> None:
        """A server may tell it all the time: once in a round is enough. The list gets stale by itself, too."""
        if not execution.has_new_list:
            return
        execution.has_new_list = False
        call = execution.call.pk
        try:
            await self._threads.call(server_lists.expire_list, call)
        except Exception as error:
            logger.warning("tool_list.unexpired call=%d error=%s", call, type(error).__name__)

    async def _execute(self, execution: Execution) -> None:
        """If it is cancelled, the code that cancels it handles the call's row."""
        try:
            ending = await self._call(execution)
        except CallDropped:
            return
        await self._store(execution, ending)
        await self._expire_list(execution)

    async def _call(
        self, execution: Execution
    ) -> CallOutput | InputNeeded | CallFailed | NeedsSignIn:
        call = execution.call
        executor = executor_of(call.kind)
        if executor is None:
            return CallFailed(NO_EXECUTOR)
        request = self._request_for(execution)
        execution.limit = asyncio.timeout(call.seconds)
        try:
            async with execution.limit:
                if call.account is None:
                    return await executor(request)
                return await self._call_signed_in(execution, executor, request, call.account)
        except TimeoutError:
            return CallFailed(
                TOO_SLOW, may_have_run=execution.is_sent, leaves_task=execution.is_task_silent
            )
        except (CallFailed, NeedsSignIn) as ending:
            return ending
        except CallDropped:
            raise
        except Exception as error:
            # The text may have what the tool or its server sent.
            logger.error("tool_call.broken call=%d error=%s", call.pk, type(error).__name__)
            return CallFailed(BROKEN, may_have_run=execution.is_sent)

    def _request_for(self, execution: Execution) -> CallRequest:
        call = execution.call

        async def sent() -> None:
            # A library may send a request again that its server has refused unread.
            if execution.is_sent:
                return
            if not await self._threads.call(claims.mark_sent, call.pk, call.claim):
                raise CallDropped
            execution.is_sent = True

        async def store_task(task: str) -> bool:
            return await self._store_task(call, task)

        async def ask(asked: AskedInput) -> InputReply:
            return await self._asked_people.ask(execution, asked)

        return CallRequest(
            kind=call.kind,
            address=call.address,
            arguments=call.arguments,
            most_bytes=settings.TOOL_RESPONSE_BYTES,
            client=self._client,
            sent=sent,
            report=execution.report,
            store_task=store_task,
            ask=ask,
            continuation=call.continuation,
            heard=execution.heard,
            list_changed=execution.list_changed,
            traceparent=call.traceparent,
            record=execution.record,
        )

    async def _store_task(self, call: ClaimedCall, task: str) -> bool:
        """As soon as the database can: without its id, nobody could go on with the task."""
        while True:
            try:
                return await self._threads.call(left_tasks.store_task, call.pk, call.claim, task)
            except Exception as error:
                if not _may_work_later(error):
                    raise
                logger.warning("tool_task.unstored call=%d error=%s", call.pk, type(error).__name__)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _call_signed_in(
        self, execution: Execution, executor: Executor, request: CallRequest, account: int
    ) -> CallOutput | InputNeeded:
        """Calls with the executor's token. If the server refuses it unread, there is one new token and one more try; so it
        is with each question about the task of the call."""
        call = execution.call
        credential = await self._tokens.usable(account)

        async def renew() -> Mapping[str, str]:
            nonlocal credential
            credential = await self._tokens.after_refusal(credential)
            return bearer(credential)

        async def attempt() -> CallOutput | InputNeeded:
            try:
                return await executor(replace(_with_token(request, credential), renew=renew))
            except CallFailed as failed:
                _ask_for_scopes(call, failed)
                if not failed.is_unauthorized or not failed.leaves_task:
                    raise
            # A call that has become a task is not made again.
            await self._tokens.give_up(credential)
            raise CallFailed(NOT_ACCEPTED, may_have_run=True, leaves_task=True)

        try:
            return await attempt()
        except CallFailed as failed:
            if not failed.is_unauthorized:
                raise
        # The server has refused it unread: until it is sent again, it has not run, whatever becomes of the new token.
        if not await self._threads.call(claims.mark_refused, call.pk, call.claim):
            raise CallDropped
        # The rules are looked at again before it is sent.
        execution.is_sent = False
        await renew()
        try:
            return await attempt()
        except CallFailed as failed:
            if not failed.is_unauthorized:
                raise
        await self._tokens.give_up(credential)
        raise NeedsSignIn(AGAIN)

    async def _store(
        self,
        execution: Execution,
        ending: CallOutput | InputNeeded | CallFailed | NeedsSignIn,
    ) -> None:
        """Stores the result, as soon as the database can. A call whose result it refuses fails: it has run, and must not
        be repeated."""
        call = execution.call
        while True:
            try:
                await self._threads.call(
                    recordings.end_recorded, call.pk, call.claim, ending, execution.recordings
                )
                return
            except Exception as error:
                logger.warning("tool_call.unstored call=%d error=%s", call.pk, type(error).__name__)
                if not _may_work_later(error):
                    if isinstance(ending, CallFailed | NeedsSignIn):
                        # The next round finds a call that nobody executes.
                        return
                    ending = CallFailed(UNSTORABLE)
                    continue
            await asyncio.sleep(AGAIN_SECONDS)


def _may_work_later(error: Exception) -> bool:
    return isinstance(error, StorageFull | StorageBusy) or is_database_unavailable(error)


def _ask_for_scopes(call: ClaimedCall, failed: CallFailed) -> None:
    """Raises ``NeedsSignIn`` if the server wants more rights, unless the executor was asked for them before."""
    if failed.missing_scopes and not call.has_asked_for_scope:
        raise NeedsSignIn(str(failed), scopes=failed.missing_scopes) from None


def _with_token(request: CallRequest, credential: Credential) -> CallRequest:
    return replace(request, address=replace(request.address, headers=bearer(credential)))


RUN_CALLS = PeriodicTask(
    topic=TOOL_CALLS,
    seconds=POLL_SECONDS,
    make=lambda client, threads: ToolRunner(client=client, threads=threads),
)
