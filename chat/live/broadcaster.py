"""Broadcasters: one log follower and one renderer per watched run, and frames that all viewers share."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakSet

from chat import events as canonical
from chat.core import metrics
from chat.core.waiting import Signal
from chat.live.frames import Envelope, OpenBlocks, ShortPatch, ViewerFrame
from chat.live.snapshot import check_of, format_check
from chat.rendering.patches import Answer
from chat.runs.configured_buffer import event_buffer
from chat.runs.event_buffer import LogEntry
from chat.runs.log_follower import RunGone, follow_log

logger = logging.getLogger(__name__)

# The first change after a pause is sent at once; then there is at most one frame in this time, and
# up to three times as long between two while the event loop lags.
FRAME_SECONDS = 0.05
LONGEST_FRAME_SECONDS = 0.15
# A single frame may be sent this much early. Commits are as far apart as frames, so without it most
# of them would arrive just before the time and wait for a timer.
FRAME_SLACK_SECONDS = 0.01
# Frames kept for viewers that are slightly late: about a second of plain text, or the last few frames
# where each contains a whole open block. A viewer that is later gets one patch of its own.
RING_BYTES = 4 * 1024
FEW_FRAMES = 4
FEW_BYTES = 24 * 1024
# The broadcaster stays this long for a page that reloads.
LINGER_SECONDS = 30.0
# A batch with more than this (new text, blocks that close, and the part of an open block that each
# change renders again) is applied and rendered in a thread. It mostly takes 5 ms, with hostile marks
# 100 ms.
RENDER_BYTES = 2 * 1024
# The end of a longer open block is searched, and larger batches are encoded, in a thread.
THREAD_BYTES = 16 * 1024
THREAD_EVENTS = 200
# A broadcaster that starts later than this skips the frame from 0: no page is at 0 any more.
FIRST_EVENTS = 20
# How long a page waits until a new broadcaster has read the log up to its cursor.
CATCH_UP_SECONDS = 5.0

# Rendering holds the interpreter lock, so that more threads are not faster. The event loop has to wait up
# to 5 ms for each thread that wants the lock, several times in one step.
_renderers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="render")

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


async def in_thread(
    function: Callable[Parameters, Value], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Value:
    """The function's value. A cancellation takes effect only when the thread has finished, because the
    caller's lock must not be released before."""
    work = partial(copy_context().run, function, *args, **kwargs)
    working = asyncio.get_running_loop().run_in_executor(_renderers, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


class RunBroadcaster:
    """The live state of one run. Lives on the event loop; `close` ends its tasks.

    ``on_change`` of each viewer is called when there is something new to send. ``new_run_pk``: as in
    `follow_log`.
    """

    def __init__(self, run_id: UUID, *, new_run_pk: int | None = None) -> None:
        self.run_id = run_id
        self._new_run_pk = new_run_pk
        self.has_ended = False
        self.is_gone = False
        # Pages get the rest of a long text by requests, from the log.
        self._answer = Answer(run_id.hex, keeps_rest=False)
        # The checksum of the log at each seq, so that any cursor can be verified.
        self._checks = array("I", [0])
        self._ring: list[ViewerFrame] = []
        self._ring_bytes = 0
        self._framed_seq = 0
        self._open_blocks = OpenBlocks(run_id)
        # When the next frame may be sent, and whether a task waits for that time.
        self._due = 0.0
        self._is_frame_coming = False
        # Bytes of the log up to each seq: an estimate of what a patch between two of them costs.
        self._sizes = array("Q", [0])
        self._changed = Signal()
        self._progressed = Signal()
        self._applying = asyncio.Lock()
        self._viewers: set[Callable[[], None]] = set()
        self._tasks = [
            asyncio.create_task(
                self._guarded(self._follow()), name=f"broadcaster-follow-{run_id.hex}"
            ),
            asyncio.create_task(
                self._guarded(self._frame()), name=f"broadcaster-frame-{run_id.hex}"
            ),
        ]

    @property
    def seq(self) -> int:
        """The last seq that viewers may be sent."""
        return self._framed_seq

    def add_viewer(self, on_change: Callable[[], None]) -> None:
        self._viewers.add(on_change)

    def remove_viewer(self, on_change: Callable[[], None]) -> None:
        self._viewers.discard(on_change)

    @property
    def has_viewers(self) -> bool:
        return bool(self._viewers)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    # --- what viewers ask for ----------------------------------------------------------

    async def knows(self, seq: int, check: str) -> bool:
        """Returns whether a page at ``seq`` shows a prefix of this log and not of another one.

        A new broadcaster reads its log first. The wait is bounded, because a page from before a restored
        backup may have a seq that never comes.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CATCH_UP_SECONDS
        while seq >= len(self._checks) and not self._is_settled and loop.time() < deadline:
            self._progressed.clear()
            await self._progressed.wait(0.2)
        return 0 <= seq < len(self._checks) and format_check(self._checks[seq]) == check

    @property
    def _is_settled(self) -> bool:
        return self.has_ended or self.is_gone

    async def frames_after(self, seq: int, since: int) -> list[ViewerFrame]:
        """The frames that bring a page at ``seq`` up to date: shared ones if a frame starts at ``seq``,
        otherwise one patch for this page, which ends where a shared frame ends. ``since``: it got every
        shared frame from there on."""
        shared = self.shared_after(seq, since)
        if shared or seq >= self._framed_seq:
            # The usual case. Shared frames are complete at any time, so no lock is needed.
            return shared
        async with self._applying:
            await self._share_frame()
            if shared := self.shared_after(seq, since):
                return shared
            metrics.CATCH_UPS.add(1)
            if since <= seq:
                # This page gets shared frames from here on, without the open blocks that others
                # hold.
                self._open_blocks.forget()
            return [await self._patch(seq)]

    def shared_after(self, seq: int, since: int) -> list[ViewerFrame]:
        """The shared frames after ``seq``, or nothing if none starts there, or if one needs more than the
        shared frames from ``since`` on. Searched from the newest, because most viewers lack only the last
        one."""
        shared: list[ViewerFrame] = []
        for frame in reversed(self._ring):
            if frame.after < seq:
                break
            if frame.since is None or frame.since < since:
                return []
            shared.append(frame)
        return shared[::-1] if shared and shared[-1].after == seq else []

    async def replacement(self) -> list[ViewerFrame]:
        """Frames that rebuild the whole answer, for a page whose cursor is unknown."""
        async with self._applying:
            await self._share_frame()
            self._open_blocks.forget()
            pieces = await in_thread(self._answer.replacement)
            last = len(pieces) - 1
            return [
                self._framed(0, piece, replaces=True, is_whole=number == last)
                for number, piece in enumerate(pieces)
            ]

    # --- tasks ---------------------------------------------------------------------------

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except RunGone:
            self.is_gone = True
        except Exception:
            self.break_off()
        self._wake()

    def break_off(self) -> None:
        """Ends a run that cannot be rendered, without affecting others. Call it in an exception
        handler."""
        logger.exception("broadcaster.failed run=%s", self.run_id)
        self.is_gone = True

    async def _follow(self) -> None:
        log = follow_log(self.run_id, take=self._take, new_run_pk=self._new_run_pk)
        async for entries in log:
            if self.is_gone:
                return
            await self._apply(entries)

    def _take(self, entries: list[LogEntry]) -> bool:
        """Applies short batches that are not the end synchronously, while nobody else changes the answer, so
        that the deltas of hundreds of runs wake no task."""
        if self._is_much(entries) or entries[-1].is_end or self.is_gone or self._applying.locked():
            return False
        try:
            self._apply_now(entries)
            framed = self._framed_seq
            if self._is_frame_due and not self._is_long(framed):
                self._share(self._shared_now(framed) if self._is_anybody_there else None)
                self._say_when_next()
            else:
                self._show_in_time()
        except Exception:
            self.break_off()
            self._wake()
            return False
        self._progressed.set()
        return True

    def _is_much(self, entries: list[LogEntry]) -> bool:
        size = sum(len(entry.body) for entry in entries)
        return size > RENDER_BYTES or self._answer.open_length > THREAD_BYTES

    async def _apply(self, entries: list[LogEntry]) -> None:
        async with self._applying:
            if self._is_much(entries):
                await in_thread(self._apply_now, entries)
            else:
                self._apply_now(entries)
            self.has_ended = entries[-1].is_end
            if self._is_frame_due:
                await self._show_frame()
            else:
                self._show_in_time()
        self._progressed.set()

    def _show_in_time(self) -> None:
        """Leaves the frame to the task that waits for its time. Only once: a second frame would be empty,
        and would delay the next one."""
        if not self._is_frame_coming:
            self._is_frame_coming = True
            self._changed.set()

    @property
    def _is_frame_due(self) -> bool:
        """True if a frame can be sent at once, without waking a task."""
        return not (self._is_frame_coming or self.has_ended) and _now() >= self._due

    def _apply_now(self, entries: list[LogEntry]) -> None:
        check = self._checks[-1]
        for entry in entries:
            self._answer.apply(canonical.decode(entry.body))
            check = check_of([entry], check)
            self._checks.append(check)
            self._sizes.append(self._sizes[-1] + len(entry.body))

    async def _frame(self) -> None:
        """Sends the frames that have to wait for their time, and the last one."""
        while not (self.has_ended and self._framed_seq == self._answer.seq):
            await self._changed.wait()
            self._changed.clear()
            lag = await self._sleep_until(self._due)
            async with self._applying:
                self._is_frame_coming = False
                await self._show_frame(lag)

    async def _show_frame(self, lag: float = 0.0) -> None:
        """Under the lock only."""
        await self._share_frame()
        self._say_when_next(lag)

    def _say_when_next(self, lag: float = 0.0) -> None:
        """Wakes the viewers for a new frame, and sets the time of the next one."""
        window = min(LONGEST_FRAME_SECONDS, max(FRAME_SECONDS, 3 * lag))
        self._due = max(self._due, _now() - FRAME_SLACK_SECONDS) + window
        self._wake()

    @staticmethod
    async def _sleep_until(due: float) -> float:
        """Returns the seconds by which the event loop was late."""
        wait = due - _now()
        if wait <= 0:
            return 0.0
        await asyncio.sleep(wait)
        return max(0.0, _now() - due)

    async def _share_frame(self) -> None:
        """Adds a frame with the changes since the last one to the ring. Under the lock only."""
        if self._answer.seq != self._framed_seq:
            is_needed = self._is_anybody_there
            self._share(await self._patch(self._framed_seq, is_shared=True) if is_needed else None)

    @property
    def _is_anybody_there(self) -> bool:
        """True if some page may be at the start of the next frame."""
        return self._framed_seq > 0 or self._answer.seq <= FIRST_EVENTS

    def _share(self, frame: ViewerFrame | None) -> None:
        if frame is not None:
            self._ring.append(frame)
            self._open_blocks.confirm()
            self._ring_bytes += len(frame.text)
            metrics.FRAMES_RENDERED.add(1)
        while self._is_ring_too_long:
            self._ring_bytes -= len(self._ring.pop(0).text)
        self._framed_seq = self._answer.seq

    @property
    def _is_ring_too_long(self) -> bool:
        count = len(self._ring)
        return count > 1 and self._ring_bytes > (FEW_BYTES if count <= FEW_FRAMES else RING_BYTES)

    def _is_long(self, after: int) -> bool:
        """Returns whether a patch of the changes after ``after`` is rendered in a thread."""
        seq = self._answer.seq
        answer = self._answer
        size = max(self._sizes[seq] - self._sizes[after], answer.unrendered)
        is_open_long = answer.open_length > THREAD_BYTES
        return seq - after > THREAD_EVENTS or size > RENDER_BYTES or is_open_long

    async def _patch(self, after: int, *, is_shared: bool = False) -> ViewerFrame:
        patch_now = self._shared_now if is_shared else self._patch_now
        return await in_thread(patch_now, after) if self._is_long(after) else patch_now(after)

    def _patch_now(self, after: int) -> ViewerFrame:
        return self._framed(after, self._answer.patches_since(after))

    def _shared_now(self, after: int) -> ViewerFrame:
        patches = self._answer.changes_since(after)
        content, since = self._open_blocks.shorten(patches, after)
        self._answer.is_rendered()
        return self._framed(after, content, since=since)

    def _framed(
        self,
        after: int,
        content: str | list[ShortPatch],
        *,
        since: int | None = None,
        replaces: bool = False,
        is_whole: bool = True,
    ) -> ViewerFrame:
        """A frame. Until the last piece (``is_whole``) the page has no valid cursor (an empty checksum),
        and more follows even if the run has ended."""
        seq = self._answer.seq
        envelope = Envelope(
            run=self.run_id.hex,
            after=after,
            seq=seq,
            check=format_check(self._checks[seq]) if is_whole else "",
            content=content,
            replaces=replaces,
            live=not (self.has_ended and is_whole),
        )
        return ViewerFrame(after, seq, envelope.encoded(), since)

    def _wake(self) -> None:
        for on_change in list(self._viewers):
            on_change()


def _now() -> float:
    return asyncio.get_running_loop().time()


class RunBroadcasters:
    """The broadcasters of this process. One is closed some seconds after its last viewer has left."""

    def __init__(self) -> None:
        self._broadcasters: dict[UUID, RunBroadcaster] = {}
        self._leaving: dict[UUID, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        _all_broadcasters.add(self)

    @property
    def count(self) -> int:
        return len(self._broadcasters)

    def join(
        self, run_id: UUID, on_change: Callable[[], None], *, new_run_pk: int | None = None
    ) -> RunBroadcaster:
        """The broadcaster of a run. The caller must `leave` it. ``new_run_pk``: as in `follow_log`."""
        if timer := self._leaving.pop(run_id, None):
            timer.cancel()
        broadcaster = self._broadcasters.get(run_id)
        if broadcaster is not None and broadcaster.is_gone:
            self._close_soon(broadcaster)
            broadcaster = None
        if broadcaster is None:
            broadcaster = self._broadcasters[run_id] = RunBroadcaster(run_id, new_run_pk=new_run_pk)
        broadcaster.add_viewer(on_change)
        return broadcaster

    def leave(self, broadcaster: RunBroadcaster, on_change: Callable[[], None]) -> None:
        broadcaster.remove_viewer(on_change)
        if broadcaster.has_viewers or self._broadcasters.get(broadcaster.run_id) is not broadcaster:
            return
        loop = asyncio.get_running_loop()
        self._leaving[broadcaster.run_id] = loop.call_later(LINGER_SECONDS, self._drop, broadcaster)

    def _drop(self, broadcaster: RunBroadcaster) -> None:
        self._leaving.pop(broadcaster.run_id, None)
        if broadcaster.has_viewers or self._broadcasters.get(broadcaster.run_id) is not broadcaster:
            return
        del self._broadcasters[broadcaster.run_id]
        self._close_soon(broadcaster)

    def _close_soon(self, broadcaster: RunBroadcaster) -> None:
        task = asyncio.create_task(broadcaster.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def reset(self) -> None:
        """Drops everything that was read, because the database is another one. Viewers get no more frames
        and have to connect again."""
        for timer in self._leaving.values():
            timer.cancel()
        self._leaving.clear()
        event_buffer.forget_all()
        for broadcaster in self._broadcasters.values():
            broadcaster.is_gone = True
            self._close_soon(broadcaster)
        self._broadcasters.clear()

    async def close(self) -> None:
        for timer in self._leaving.values():
            timer.cancel()
        broadcasters = list(self._broadcasters.values())
        self._broadcasters.clear()
        self._leaving.clear()
        for broadcaster in broadcasters:
            await broadcaster.close()


_all_broadcasters: WeakSet[RunBroadcasters] = WeakSet()
metrics.BROADCASTERS.read_from(lambda: {"": sum(some.count for some in _all_broadcasters)})

broadcasters = RunBroadcasters()
