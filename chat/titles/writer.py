"""The periodic task of runners that sends the requests for titles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from django.conf import settings

from chat.core.threads import DatabaseThreads
from chat.dialects.base import Parser, Prompt
from chat.events import Result
from chat.result import Fold
from chat.runs.runner import PeriodicTask
from chat.titles.queueing import TITLES, look
from chat.titles.requests import (
    REQUEST_SECONDS,
    TitleJob,
    claim_due,
    give_up,
    give_up_lost,
    store_error,
    store_result,
)
from chat.upstreams.client import Client, UpstreamAnswer, UpstreamLimits, stream
from chat.upstreams.failures import UpstreamBroken, UpstreamError, UpstreamRefused, failure
from chat.upstreams.redaction import Redactor, credentials_of
from chat.wire.sse import Decoder, EventTooLarge, Frame

logger = logging.getLogger(__name__)

# The runner looks for requests this often in any case. A request wakes the task of the process that queued
# it, and a change of the setting that of every process; the rest was lost, or left by a process that is gone.
LOOK_SECONDS = 30.0
# A server without a place to spare is looked at again after this time.
AGAIN_SECONDS = 2.0
# Requests that one runner sends at the same time.
AT_ONCE = 2
# A title is a line, but some servers send kilobytes beside it.
MOST_BYTES = 1024 * 1024
# Attempts after the first follow only where the server refused something optional.
ATTEMPTS = 3


class TitleWriter:
    """The part of a runner that sends what is queued, behind all answers of the same server."""

    def __init__(self, *, client: Client, threads: DatabaseThreads) -> None:
        self._client = client
        self._threads = threads
        self._has_begun = False

    async def write_due(self) -> None:
        """Writes titles until no request is left. If it is cancelled, sent requests are given up."""
        if not self._has_begun and settings.IS_SQLITE:
            # Only one process at a time has runners, and the one before may have been killed.
            await self._threads.call(give_up_lost, all_are_lost=True)
        self._has_begun = True
        while await self._threads.call(look):
            jobs = await self._threads.call(claim_due, AT_ONCE)
            if not jobs:
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(self._write(job))

    async def _write(self, job: TitleJob) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                result = await self._result(job)
        except UpstreamError as error:
            await self._threads.call(store_error, job, error.info)
        except TimeoutError:
            await self._threads.call(store_error, job, failure("head_timeout"))
        except EventTooLarge:
            await self._threads.call(store_error, job, failure("too_large"))
        except asyncio.CancelledError:
            # Frees the request's place at its server.
            await self._threads.call(give_up, job)
            raise
        except Exception:
            # The boundary of the task: another request must not be lost with this one.
            logger.exception("title.failed_unexpectedly request=%d", job.request_pk)
            await self._threads.call(store_error, job, failure("unknown"))
        else:
            if result.ext.error is not None:
                await self._threads.call(store_error, job, result.ext.error, result)
            else:
                await self._threads.call(store_result, job, result)

    async def _result(self, job: TitleJob) -> Result:
        """Raises ``UpstreamError`` and ``EventTooLarge``. A request is sent again only if the server refused
        something that can be left out."""
        prompt, attempts = job.prompt, 1
        while True:
            try:
                return await self._send(job, prompt)
            except UpstreamRefused as refusal:
                mended = job.dialect.after_refusal(prompt, refusal.info)
                if mended is None or attempts == ATTEMPTS:
                    raise
                prompt, attempts = mended, attempts + 1

    async def _send(self, job: TitleJob, prompt: Prompt) -> Result:
        parser = job.dialect.parser(
            model=prompt.model,
            endpoint=job.upstream.name,
            options={
                **job.upstream.options,
                **prompt.parameters,
                "run_id": f"title{job.request_pk}",
            },
        )
        async with stream(
            self._client,
            base_url=job.upstream.base_url,
            request=job.dialect.request(prompt),
            headers=job.dialect.headers(job.key, prompt.options),
            limits=UpstreamLimits(
                connect_seconds=settings.UPSTREAM_CONNECT_SECONDS,
                head_seconds=REQUEST_SECONDS,
                idle_seconds=REQUEST_SECONDS,
            ),
            redactor=Redactor(credentials_of(job.dialect, job.key, prompt.options)),
        ) as answer:
            return await _read(answer, parser)


async def _read(answer: UpstreamAnswer, parser: Parser) -> Result:
    """The whole answer, folded. Raises ``UpstreamError`` and ``EventTooLarge``."""
    fold = Fold()
    if answer.is_event_stream:
        await _read_stream(answer, parser, fold)
    else:
        fold.extend(parser.feed_body(await answer.body(MOST_BYTES)))
    fold.extend(parser.close())
    return fold.result(parser.ending)


async def _read_stream(answer: UpstreamAnswer, parser: Parser, fold: Fold) -> None:
    decoder = Decoder(MOST_BYTES)
    size = 0
    async with aclosing(answer.chunks()) as chunks:
        async for data in chunks:
            size += len(data)
            if size > MOST_BYTES:
                raise UpstreamBroken(failure("too_large"))
            _feed(decoder.feed(data), parser, fold)
            if parser.is_done:
                break
        # The answer is complete; some servers send its token counts in a later read.
        with suppress(StopAsyncIteration, TimeoutError, UpstreamError):
            async with asyncio.timeout(parser.wait_seconds()):
                while parser.is_done and parser.wait_seconds():
                    _feed(decoder.feed(await anext(chunks)), parser, fold)
    if not parser.is_done:
        _feed(decoder.close(), parser, fold)


def _feed(frames: list[Frame], parser: Parser, fold: Fold) -> None:
    for frame in frames:
        fold.extend(parser.feed(frame))


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    return TitleWriter(client=client, threads=threads).write_due


WRITE_TITLES = PeriodicTask(topic=TITLES, seconds=LOOK_SECONDS, make=_make)
