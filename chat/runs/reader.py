"""Reads an upstream's answer into a run's log: bytes to frames to events, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial

from django.conf import settings
from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_lazy

from chat import events as canonical
from chat.dialects.base import Parser
from chat.dialects.errors import error_of
from chat.dialects.event_counts import WHOLE_BODY, EventCounter
from chat.events import Cause
from chat.runs.log import RunLog, nothing
from chat.upstreams.client import UpstreamAnswer
from chat.upstreams.failures import UpstreamError
from chat.wire.sse import Decoder, EventTooLarge, Frame

# How long an upstream is kept waiting while its data cannot be stored. Waiting loses nothing, but
# an answer that stands still for this long should be tried again.
LONGEST_PAUSE_SECONDS = 300.0
# A whole answer in one JSON body is parsed at once, on the event loop.
BODY_BYTES = 8 * 1024 * 1024
# Received data is parsed when the next commit is made, or after this time. Nobody could see it earlier,
# and parsing three deltas at once costs a third of parsing them one by one.
PAUSE_SECONDS = 0.1
# After a read of this size the next one follows at once: the data does not come in small pieces.
LARGE_READ_BYTES = 16 * 1024
# Bytes parsed without yielding to other tasks. Events can be as short as fifty bytes, and each takes
# as long as one of a thousand.
TURN_BYTES = 32 * 1024
# The silence timeout is set longer by this, and is moved only when this much of it has passed, not
# with each event.
QUIET_SLACK = 0.1

UNSTORED = gettext_lazy(
    "The answer was ended because it couldn’t be saved for several minutes. Try again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Why reading ended, and the error to show if our side or the connection failed."""

    cause: Cause
    error: canonical.ErrorInfo | None = None


def failed(kind: canonical.ErrorKind, message: str) -> Outcome:
    return Outcome(cause="failed", error=error_of(kind, message))


def _limited(limit_bytes: int) -> Outcome:
    words = gettext("The answer was stopped because it reached the limit of %(limit)s MB.")
    megabytes = number_format(f"{limit_bytes / 1024**2:.3g}", use_l10n=True)
    return failed("answer_limit", words % {"limit": megabytes})


class AnswerReader:
    """Reads one answer, once. ``elapsed`` returns milliseconds since the request was sent; kinds of
    events are counted in ``seen``."""

    def __init__(
        self,
        parser: Parser,
        log: RunLog,
        *,
        elapsed: Callable[[], int],
        seen: EventCounter | None = None,
    ) -> None:
        self._parser = parser
        self._log = log
        self._elapsed = elapsed
        self._seen = seen or EventCounter()
        self._decoder = Decoder(may_repeat=True)
        self._received_bytes = 0
        # Bytes that were read and not parsed yet, and when they arrived; and whether the log may
        # take them, with what has arrived since, although no read is running.
        self._held = b""
        self._held_at = 0
        self._is_waiting = False
        self._failure: Exception | None = None
        self._quiet_seconds = float(settings.UPSTREAM_QUIET_SECONDS)
        # Django looks for a setting each time it is read, and this one is needed with each read.
        self._limit_bytes: int = settings.RUN_BYTES

    async def read(self, answer: UpstreamAnswer) -> Outcome:
        """Reads to the terminator, the end of input or a limit. If it is cancelled, the log has
        everything that was parsed until then."""
        try:
            async with asyncio.timeout(self._quiet_seconds * (1 + QUIET_SLACK)) as quiet:
                if answer.is_event_stream:
                    return await self._read_stream(answer, quiet)
                return await self._read_body(answer)
        except UpstreamError as error:
            return Outcome(cause="failed", error=error.info)
        except TimeoutError:
            return failed(
                "idle_timeout",
                gettext("The server kept the connection open but sent nothing. Try again."),
            )

    async def _read_stream(self, answer: UpstreamAnswer, quiet: asyncio.Timeout) -> Outcome:
        self._log.drain_source = partial(self._drain_source, answer, quiet)
        try:
            return await self._read_frames(answer, quiet)
        except EventTooLarge:
            return failed(
                "answer_limit",
                gettext("The answer was stopped because an event of the server was too large."),
            )
        except asyncio.CancelledError:
            # An answer that is broken off includes what had arrived and was not read yet.
            self._take_arrived(answer, quiet)
            raise
        finally:
            self._log.drain_source = nothing
            # Whatever ended it, bytes that belong to no event are kept too.
            self._log.add([], raw=self._decoder.unread() + self._held)

    async def _read_frames(self, answer: UpstreamAnswer, quiet: asyncio.Timeout) -> Outcome:
        async with aclosing(answer.chunks()) as chunks:
            async for data in chunks:
                self._held, self._held_at = data, self._elapsed()
                await self._take_at_its_moment(answer, quiet)
                if self._parser.is_done:
                    await self._wait_for_figures(chunks, quiet)
                    return Outcome(cause="eof")
                if self._received_bytes > self._limit_bytes:
                    return _limited(self._limit_bytes)
                if limit_bytes := self._log.limit_reached:
                    return _limited(limit_bytes)
                if not await self._until_there_is_room(quiet):
                    return failed("timeout", str(UNSTORED))
        self._take(self._decoder.close(), self._elapsed())
        return Outcome(cause="eof")

    async def _wait_for_figures(
        self, chunks: AsyncGenerator[bytes], quiet: asyncio.Timeout
    ) -> None:
        """The answer is complete; some servers send its token counts in a later read."""
        seconds = self._parser.wait_seconds()
        if not seconds:
            return
        self._log.request_commit()
        with suppress(TimeoutError, StopAsyncIteration, UpstreamError, EventTooLarge):
            async with asyncio.timeout(seconds):
                while self._parser.wait_seconds():
                    self._held, self._held_at = await anext(chunks), self._elapsed()
                    self._feed(quiet)

    async def _take_at_its_moment(self, answer: UpstreamAnswer, quiet: asyncio.Timeout) -> None:
        """Parses the held bytes when the log is about to commit, with what has arrived until then.
        Raises what the parser or the decoder raises."""
        is_large = len(self._held) >= LARGE_READ_BYTES
        if is_large or not self._log.has_begun:
            # The first text is parsed at once: the time of the first token is shown to people.
            await self._feed_in_turns(quiet)
        # Until then the log may wait for more, so nobody waits for the log.
        if is_large or self._parser.is_done or not self._log.has_begun:
            return
        if self._held:
            self._log.request_commit()
        self._is_waiting = True
        try:
            await self._log.flushed(PAUSE_SECONDS)
        finally:
            self._is_waiting = False
        if self._failure is not None:
            raise self._failure
        # The database is late, or much has arrived.
        await self._feed_in_turns(quiet)

    async def _feed_in_turns(self, quiet: asyncio.Timeout) -> None:
        is_large = len(self._held) >= LARGE_READ_BYTES
        while self._held:
            self._feed(quiet, TURN_BYTES)
            if is_large:
                # Yields after the last one, too: the next read may be there already.
                await asyncio.sleep(0)

    def _drain_source(self, answer: UpstreamAnswer, quiet: asyncio.Timeout) -> None:
        if self._is_waiting and self._failure is None:
            self._take_arrived(answer, quiet, TURN_BYTES)

    def _take_arrived(
        self, answer: UpstreamAnswer, quiet: asyncio.Timeout, most: int | None = None
    ) -> None:
        if not self._held:
            self._held_at = self._elapsed()
        self._held += answer.arrived()
        try:
            self._feed(quiet, most)
        except Exception as error:
            # The reading task handles this.
            self._failure = error

    def _feed(self, quiet: asyncio.Timeout, most: int | None = None) -> None:
        """Parses the held bytes, or so many of them."""
        if not self._held:
            return
        data, self._held = self._held[:most], self._held[most:] if most else b""
        room = max(0, self._limit_bytes - self._received_bytes)
        self._received_bytes += len(data)
        try:
            frames = self._decoder.feed(data[:room])
        except EventTooLarge as error:
            self._take(error.frames, self._held_at)
            raise
        if self._take(frames, self._held_at):
            # An event is progress; a comment only says that the connection is alive.
            self._move(quiet)

    def _move(self, quiet: asyncio.Timeout) -> None:
        due = _now() + self._quiet_seconds * (1 + QUIET_SLACK)
        if due - (quiet.when() or 0) >= self._quiet_seconds * QUIET_SLACK:
            quiet.reschedule(due)

    async def _until_there_is_room(self, quiet: asyncio.Timeout) -> bool:
        """Waits until the log has room. A slow database is not a silent server, so the silence
        timeout stops meanwhile. Returns ``False`` if it took too long."""
        if self._log.has_room:
            return True
        left = (quiet.when() or _now()) - _now()
        quiet.reschedule(None)
        try:
            async with asyncio.timeout(LONGEST_PAUSE_SECONDS):
                await self._log.room()
        except TimeoutError:
            return False
        quiet.reschedule(_now() + left)
        return True

    def _take(self, frames: list[Frame], t: int) -> bool:
        """Parses frames into the log. Returns whether there was an event among them."""
        found: list[canonical.Event] = []
        raw: list[bytes] = []
        try:
            for frame in frames:
                events = self._parser.feed(frame)
                for event in events:
                    event.t = t
                self._seen.add(frame, events)
                found += events
                raw.append(frame.raw)
        finally:
            # Adds the events before a frame that breaks the parser, too.
            self._log.add(found, raw=b"".join(raw))
        return bool(found)

    async def _read_body(self, answer: UpstreamAnswer) -> Outcome:
        body = await answer.body(min(BODY_BYTES, self._limit_bytes))
        events = self._parser.feed_body(body)
        t = self._elapsed()
        for event in events:
            event.t = t
        self._seen.add(Frame(event=WHOLE_BODY, data=""), events)
        self._log.add(events, raw=body)
        return Outcome(cause="eof")


def _now() -> float:
    return asyncio.get_running_loop().time()
