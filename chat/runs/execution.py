"""One run, from the request to its one ending."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ParamSpec
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from chat import events as canonical
from chat.core import metrics
from chat.core.threads import DatabaseThreads
from chat.dialects.base import Parser
from chat.dialects.event_counts import EventCounter, cleaned_kind
from chat.events import Cause, Ending
from chat.models import Run, RunStatus
from chat.runs.answer_memory import AnswerMemory
from chat.runs.attempts import AttemptOutcome, begin_attempt, record_outcome_of
from chat.runs.budget import Budget
from chat.runs.ending import end_log
from chat.runs.event_buffer import EventBuffer
from chat.runs.file_parts import DocumentUnread
from chat.runs.log import RunLog
from chat.runs.outcomes import stopper_of
from chat.runs.prompt import Assignment, NotReady, StorageNeeded, prepare, read_beginning
from chat.runs.queue import await_document
from chat.runs.reader import AnswerReader, Outcome, failed
from chat.runs.reaper import end_broken, requeue_unaccepted
from chat.runs.resume import Beginning, ContinuingParser
from chat.runs.run_metrics import Measure
from chat.runs.seen_events import SeenEvents
from chat.runs.segments import OwnershipLost
from chat.runs.writer import SegmentWriter
from chat.upstreams.client import Client, UpstreamLimits, stream
from chat.upstreams.failures import UpstreamRefused
from chat.upstreams.redaction import Redactor, credentials_of

logger = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")

# The first attempt and two more, only if the server cannot have accepted an earlier one.
ATTEMPTS = 3
BACKOFF_SECONDS = (1.0, 4.0)
# A longer Retry-After is not waited for: the refusal is shown.
LONGEST_RETRY_AFTER_SECONDS = 30.0


class _RunRequeued(Exception):
    """The run is queued again: its request was not accepted, or it waits for a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Services that the executions of one process share."""

    runner: UUID
    client: Client
    writer: SegmentWriter
    buffer: EventBuffer
    threads: DatabaseThreads
    budget: Budget
    memory: AnswerMemory
    seen: SeenEvents


# The input of a run's execution, or the reason why it can't start.
Ready = Assignment | Exception


# Runs whose attachments may be in the storage for files are prepared here: all runs of a process share the
# other threads, and would wait for a slow storage.
_storage_threads = DatabaseThreads("storage", size=2)


def prepared(run_pk: int, claimed: Run | None = None, *, may_read_storage: bool = False) -> Ready:
    """The result of `prepare`, or its error: the claim prepares a run in the same turn of its thread,
    and the run's own execution handles the error."""
    try:
        return prepare(run_pk, claimed, may_read_storage=may_read_storage)
    except Exception as error:
        return error


class Execution:
    """Executes one claimed run. `stop` and `interrupt` may be called at any time, from the loop.

    ``claimed`` is the run as the claim has read it, and ``ready`` what it has prepared.
    """

    def __init__(
        self,
        run_pk: int,
        services: Services,
        *,
        claimed: Run | None = None,
        ready: Ready | None = None,
    ) -> None:
        self.run_pk = run_pk
        self.run_id: UUID | None = None
        # Topics of the periodic tasks for which the end of the answer is work.
        self.topics: tuple[str, ...] = ()
        self._claimed = claimed
        self._ready = ready
        self._attempt: AttemptOutcome | None = None
        self._services = services
        self._reading: asyncio.Task[Outcome] | None = None
        self._wanted_end: Cause | None = None
        self._is_lost = False
        self._sent_at = 0.0
        # True if the upstream may be working on the request. False again after a refusal.
        self._may_be_accepted = False
        # When the connection to the upstream was closed because somebody stopped the run.
        self._stopped_at: datetime | None = None
        # Facts from the headers of the last response.
        self._facts: canonical.JsonObject = {}
        self._seen = EventCounter()

    def stop(self) -> None:
        """Stops for a person. Closes the upstream connection at once, also before the first
        byte."""
        self._end("stopped")

    def interrupt(self) -> None:
        """Ends the run, because the runner is shutting down."""
        self._end("interrupted")

    def drop(self) -> None:
        """Closes the connection and writes nothing more, because another process owns the run."""
        self._is_lost = True
        self._end("interrupted")

    def _end(self, cause: Cause) -> None:
        if self._wanted_end is None:
            self._wanted_end = cause
            if self._reading is not None:
                self._reading.cancel()

    async def run(self) -> None:
        """Executes to the end. Never raises. A run that another process has taken over is dropped."""
        try:
            await self._execute()
        except OwnershipLost:
            metrics.OWNERSHIP_LOST.inc()
            logger.warning("run.lost run=%s", self.run_id or self.run_pk)
        except _RunRequeued:
            logger.info("run.requeued run=%s", self.run_id or self.run_pk)
        except (OperationalError, InterfaceError) as error:
            # The database is unavailable. Later the runner finds the run among its own: it starts
            # runs that were not sent again, and ends the others with their committed events.
            logger.warning(
                "run.abandoned run=%s error=%s", self.run_id or self.run_pk, type(error).__name__
            )
        except Exception:
            # The task boundary: an error of one run must not affect the others, repeat forever, or
            # leave the run "running".
            logger.exception("run.failed_unexpectedly run=%s", self.run_id or self.run_pk)
            with suppress(Exception):
                await self._services.threads.call(end_broken, self.run_pk, self._services.runner)

    async def _execute(self) -> None:
        began_at = time.monotonic()
        ready = await self._prepared()
        run = ready.run
        self.run_id = run.public_id
        self._measure = Measure(run, began_at=began_at)
        log = RunLog(
            run,
            runner=self._services.runner,
            writer=self._services.writer,
            buffer=self._services.buffer,
            budget=self._services.budget,
            memory=self._services.memory,
            on_first_event=self._measure.first_event,
        )
        try:
            beginning = await self._begin(run, log)
            if isinstance(ready, NotReady):
                await self._finish_unsent(run, log, ready.info)
            else:
                await self._execute_logged(ready, log, beginning)
        finally:
            await log.abandon()

    async def _prepared(self) -> Assignment | NotReady:
        ready, claimed = self._ready, self._claimed
        self._ready = self._claimed = None
        if ready is None:
            ready = await self._services.threads.call(prepared, self.run_pk, claimed)
        if isinstance(ready, StorageNeeded):
            ready = await _storage_threads.call(
                prepared, self.run_pk, claimed, may_read_storage=True
            )
        if isinstance(ready, DocumentUnread):
            await self._services.threads.call(
                await_document, self._services.runner, self.run_pk, ready
            )
            raise _RunRequeued
        if isinstance(ready, Assignment | NotReady):
            return ready
        raise ready

    async def _execute_logged(
        self, assignment: Assignment, log: RunLog, beginning: Beginning
    ) -> None:
        run = assignment.run
        parser = assignment.dialect.parser(
            model=run.model,
            endpoint=assignment.upstream.name,
            # The parser needs parameters of the request, such as a length limit. The run's id is part
            # of generated ids for tool calls that have none.
            options={
                **assignment.upstream.options,
                **run.parameters,
                "run_id": run.public_id.hex,
            },
        )
        if log.fold.start is not None:
            model = log.fold.start.model_instance_id
            parser = ContinuingParser(
                parser,
                first_item=beginning.item_count,
                model=model,
                sources=beginning.sources,
            )
        outcome = await self._outcome(assignment, parser, log)
        closing = parser.close(outcome.cause, error=outcome.error)
        assert parser.ending is not None
        if self._facts:
            closing.append(canonical.MetaUpdate(values=self._facts))
        # False if the answer had already ended before the connection was closed.
        if outcome.cause == "stopped" and parser.ending.status == "stopped":
            name = await self._services.threads.call_until_there(stopper_of, self.run_pk)
            parser.ending.stop.by = name
        await self._finish(log, closing, parser.ending)
        if self._stopped_at is not None:
            await self._record(self._measure_stop, self._stopped_at)
        self._count_seen(assignment, parser)

    async def _begin(self, run: Run, log: RunLog) -> Beginning:
        """Commits the beginning of the log of a run that continues an answer, before the request is sent."""
        if run.position == 0:
            return Beginning(committed=(), opening=())
        beginning = await self._services.threads.call(read_beginning, run)
        await log.commit_opening(beginning.committed, beginning.opening)
        return beginning

    def _count_seen(self, assignment: Assignment, parser: Parser) -> None:
        """Adds the event counts of the run to those of the server."""
        if kinds := self._seen.result(parser):
            options = assignment.prompt.options
            redactor = Redactor(credentials_of(assignment.dialect, assignment.key, options))
            cleaned = [cleaned_kind(kind, redactor.text) for kind in kinds]
            unknown = sum(kind.count for kind in kinds if not kind.is_known)
            if unknown:
                metrics.UNKNOWN_EVENTS.labels(assignment.dialect.name).inc(unknown)
            self._services.seen.add(assignment.upstream.pk, cleaned)

    async def _outcome(self, assignment: Assignment, parser: Parser, log: RunLog) -> Outcome:
        """Reads until the input ends, is ended, or fails. Raises ``OwnershipLost``."""
        self._reading = asyncio.create_task(self._read(assignment, parser, log))
        if self._wanted_end is not None:
            self._reading.cancel()
        await asyncio.wait({self._reading, log.ended}, return_when=asyncio.FIRST_COMPLETED)
        if not self._reading.done():
            # The log failed first: nothing more can be stored, so nothing more is read.
            self._reading.cancel()
            await asyncio.wait({self._reading})
            log.ended.result()
        if self._reading.cancelled():
            cause = await self._why_broken_off()
            self._stopped_at = timezone.now() if cause == "stopped" else None
            self._measure.broken_off(cause)
            return Outcome(cause=cause)
        return self._reading.result()

    async def _why_broken_off(self) -> Cause:
        """The reason of the cancellation. Raises ``OwnershipLost`` if another process owns the run, and
        ``_RunRequeued`` if the request was not accepted, as in the pause after a refusal."""
        if self._is_lost:
            raise OwnershipLost(self.run_pk)
        cause = self._wanted_end or "interrupted"
        if self._may_be_accepted or cause != "interrupted":
            return cause
        if await self._services.threads.call(
            requeue_unaccepted, self._services.runner, self.run_pk
        ):
            raise _RunRequeued
        run = await self._services.threads.call(Run.objects.get, pk=self.run_pk)
        return "interrupted" if run.stop_requested_at is None else "stopped"

    async def _finish_unsent(self, run: Run, log: RunLog, info: canonical.ErrorInfo) -> None:
        """Ends a run whose request could not be built; the answer says why."""
        closing: list[canonical.Event] = [canonical.Error(error=info)]
        if log.fold.start is None:
            start = canonical.ChatStart(model_instance_id=run.model, requested_model=run.model)
            closing.insert(0, start)
        ending = Ending(status="failed", stop=canonical.Stop(reason="error"))
        await self._finish(log, closing, ending)

    async def _finish(self, log: RunLog, closing: list[canonical.Event], ending: Ending) -> None:
        t = self._elapsed()
        for event in closing:
            event.t = t
        ended = await end_log(
            log, closing, ending, t=t, threads=self._services.threads, attempt=self._attempt
        )
        self.topics = ended.topics
        self._measure.ended(
            ended.result.ext.status,
            events=log.seq,
            deltas=log.received_deltas,
            size_bytes=log.received_bytes,
        )

    def _elapsed(self) -> int:
        """Milliseconds since the request was sent; 0 if it never was."""
        if not self._sent_at:
            return 0
        return int((asyncio.get_running_loop().time() - self._sent_at) * 1000)

    # --- the upstream ------------------------------------------------------------------

    async def _read(self, assignment: Assignment, parser: Parser, log: RunLog) -> Outcome:
        try:
            async with asyncio.timeout(settings.RUN_SECONDS):
                return await self._attempt_until_accepted(assignment, parser, log)
        except TimeoutError:
            return failed(
                "timeout", gettext("The answer exceeded the time limit, so it was ended.")
            )

    async def _attempt_until_accepted(
        self, assignment: Assignment, parser: Parser, log: RunLog
    ) -> Outcome:
        while number := await self._begin_attempt(assignment):
            self._may_be_accepted = True
            self._sent_at = asyncio.get_running_loop().time()
            self._measure.sends(
                assignment.upstream, attempt=number, dialect=assignment.dialect.name
            )
            try:
                outcome = await self._stream(assignment, parser, log)
            except UpstreamRefused as refusal:
                self._facts = refusal.facts
                self._measure.attempt_over("refused", refusal.info)
                again = _next_attempt(assignment, refusal, number)
                if again is None:
                    self._attempt = AttemptOutcome.of(number, "refused", refusal.info)
                    return Outcome(cause="failed", error=refusal.info)
                self._may_be_accepted = False
                await self._services.threads.call_until_there(self._take_back, number, refusal.info)
                assignment = again.assignment
                await asyncio.sleep(again.pause_seconds)
                continue
            self._measure.attempt_over(outcome.cause, outcome.error)
            self._attempt = AttemptOutcome.of(number, outcome.cause, outcome.error)
            return outcome
        return await self._why_not_sent()

    async def _begin_attempt(self, assignment: Assignment) -> int:
        """The number of the attempt that is recorded as begun; 0 if the run must not be sent."""
        if assignment.attempt is not None:
            return assignment.attempt
        return await self._services.threads.call(
            begin_attempt, self.run_pk, self._services.runner, assignment.dialect.name
        )

    async def _why_not_sent(self) -> Outcome:
        run = await self._services.threads.call(Run.objects.get, pk=self.run_pk)
        if run.status == RunStatus.RUNNING and run.stop_requested_at is not None:
            return Outcome(cause="stopped")
        raise OwnershipLost(self.run_pk)

    async def _stream(self, assignment: Assignment, parser: Parser, log: RunLog) -> Outcome:
        """Sends one request. Raises ``UpstreamRefused`` for an end before any output."""
        dialect = assignment.dialect
        request = assignment.request
        if request is None:
            # A thread, because a long conversation with pictures is tens of megabytes of JSON.
            request = await asyncio.to_thread(dialect.request, assignment.prompt)
        if request.notes:
            await self._record(self._record_notes, list(request.notes))
        async with stream(
            self._services.client,
            base_url=assignment.upstream.base_url,
            request=request,
            headers=dialect.headers(assignment.key, assignment.prompt.options),
            limits=_limits(),
            redactor=Redactor(credentials_of(dialect, assignment.key, assignment.prompt.options)),
        ) as answer:
            del request
            assignment.forget_conversation()
            self._facts = answer.facts
            reader = AnswerReader(parser, log, elapsed=self._elapsed, seen=self._seen)
            return await reader.read(answer)

    async def _record(
        self, write: Callable[Parameters, None], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> None:
        """Writes a record besides the log. If the database is unavailable, the record is lost, not the
        answer."""
        try:
            await self._services.threads.call(write, *args, **kwargs)
        except (DatabaseError, InterfaceError) as error:
            logger.warning(
                "run.unrecorded run=%s what=%s error=%s",
                self.run_id,
                write.__name__,
                type(error).__name__,
            )

    # --- what is recorded, in a database thread ------------------------------------------

    def _take_back(self, number: int, info: canonical.ErrorInfo) -> None:
        """Records that the request was not accepted, so that the reaper requeues the run if this runner dies
        before the next attempt. Does nothing if another process owns the run."""
        with transaction.atomic():
            mine = Run.objects.filter(
                pk=self.run_pk, runner_id=self._services.runner, status=RunStatus.RUNNING
            )
            if mine.update(request_sent_at=None):
                record_outcome_of(self.run_pk, AttemptOutcome.of(number, "refused", info))

    def _measure_stop(self, closed_at: datetime) -> None:
        asked_at = Run.objects.values_list("stop_requested_at", flat=True).get(pk=self.run_pk)
        if asked_at is not None:
            metrics.STOP_SECONDS.observe(max(0.0, (closed_at - asked_at).total_seconds()))

    def _record_notes(self, notes: list[str]) -> None:
        """Adds notes to those of the run. Further attempts may repeat notes, which are kept once."""
        known = Run.objects.values_list("notes", flat=True).get(pk=self.run_pk)
        Run.objects.filter(pk=self.run_pk).update(notes=list(dict.fromkeys([*known, *notes])))


def _limits() -> UpstreamLimits:
    return UpstreamLimits(
        connect_seconds=settings.UPSTREAM_CONNECT_SECONDS,
        head_seconds=settings.UPSTREAM_HEAD_SECONDS,
        idle_seconds=settings.UPSTREAM_IDLE_SECONDS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """Another attempt, after a pause, perhaps with a changed prompt."""

    assignment: Assignment
    pause_seconds: float


def _next_attempt(assignment: Assignment, refusal: UpstreamRefused, number: int) -> _Again | None:
    """The next attempt after a refusal, or None.

    Only a request that cannot have been accepted is sent again: there was no connection, the server
    said that it has not started, or it refused a field of the request that can be left out.
    """
    if number >= ATTEMPTS:
        return None
    mended = assignment.dialect.after_refusal(assignment.prompt, refusal.info)
    if mended is not None:
        changed = replace(assignment, prompt=mended, request=None, attempt=None)
        return _Again(assignment=changed, pause_seconds=0)
    pause = _pause_before_next(refusal, number)
    if pause is None:
        return None
    return _Again(assignment=replace(assignment, attempt=None), pause_seconds=pause)


def _pause_before_next(refusal: UpstreamRefused, number: int) -> float | None:
    if not refusal.never_accepted or not refusal.info.retryable:
        return None
    asked = refusal.info.retry_after_seconds
    if asked is None:
        return BACKOFF_SECONDS[number - 1]
    return asked if asked <= LONGEST_RETRY_AFTER_SECONDS else None
