"""One follower and one renderer per run and process; frames that all its viewers share."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakSet

import msgspec

from chat import events as canonical
from chat.core import metrics
from chat.core.waiting import Signal
from chat.live.snapshot import check_of, format_check
from chat.rendering.patches import Answer
from chat.runs.configured_buffer import event_buffer
from chat.runs.event_buffer import Entry
from chat.runs.log_follower import RunGone, follow_log

logger = logging.getLogger(__name__)

# The first change after a quiet moment goes out at once, then at most a frame in this time;
# three times as long when the event loop lags, for then there is too much to do.
FRAME_SECONDS = 0.05
LONGEST_FRAME_SECONDS = 0.15
# A frame may come so much sooner, though not on average: commits are as far apart as frames, and
# words that arrive a moment before their time would all wait for a timer.
FRAME_SLACK_SECONDS = 0.01
# What a viewer that is a little late may still get as the very frames that the others got: a second of
# plain words, or the last few where each frame brings the whole of an open block. A later one gets a
# single patch made for it.
RING_BYTES = 4 * 1024
FEW_FRAMES = 4
FEW_BYTES = 24 * 1024
# A reload comes back within seconds; rendering the answer again would be wasted.
LINGER_SECONDS = 30.0
# Beyond this, of a batch or of a block that is open before it, a batch is applied, or a frame made, in
# a thread: it may take over 5 ms.
THREAD_BYTES = 16 * 1024
THREAD_EVENTS = 200
# A hub that begins late skips the frame from 0 to now: nobody stands at 0 any more.
FIRST_EVENTS = 20
# How long a page waits until a new hub has read the log up to its cursor.
CATCH_UP_SECONDS = 5.0

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

_encoder = msgspec.json.Encoder()


async def in_thread(
    function: Callable[Parameters, Value], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Value:
    """The function's value. Whoever is cancelled meanwhile leaves only when the thread is done: the
    lock that guards what it works on must not be free before."""
    working = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One message to the browser, which turns the page at ``after`` into the page at ``seq``."""

    after: int
    seq: int
    text: str


class RunBroadcaster:
    """The live state of one run. Lives on the event loop; `close` ends its tasks.

    ``on_change`` of each viewer is called when there is something new to send.
    """

    def __init__(self, run_id: UUID) -> None:
        self.run_id = run_id
        self.has_ended = False
        self.is_gone = False
        self._answer = Answer(run_id.hex)
        # The checksum of the log at each seq, so that any cursor can be verified.
        self._checks = array("I", [0])
        self._ring: deque[Frame] = deque()
        self._ring_bytes = 0
        self._framed_seq = 0
        # When the next frame may be made, and whether a task waits for that moment.
        self._due = 0.0
        self._is_frame_coming = False
        # Bytes of the log up to each seq: what a patch between two of them may cost.
        self._sizes = array("Q", [0])
        self._changed = Signal()
        self._progressed = Signal()
        self._applying = asyncio.Lock()
        self._viewers: set[Callable[[], None]] = set()
        self._tasks = [
            asyncio.create_task(self._guarded(self._follow()), name=f"hub-follow-{run_id.hex}"),
            asyncio.create_task(self._guarded(self._frame()), name=f"hub-frame-{run_id.hex}"),
        ]

    @property
    def seq(self) -> int:
        """The last number that viewers may be sent."""
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
        """Whether a page at ``seq`` shows a prefix of this log, and not of another one.

        A hub that has just begun reads its log first; a page from before a restored backup
        knows a number that never comes, so the wait has an end.
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

    async def frames_after(self, seq: int) -> list[Frame]:
        """What brings a page at ``seq`` to now: shared frames if it stands at the edge of one,
        else one patch made for it, which ends at such an edge."""
        shared = self.shared_after(seq)
        if shared or seq >= self._framed_seq:
            # Nearly always: what is shared is complete at any moment, and needs no lock.
            return shared
        async with self._applying:
            await self._share_frame()
            if shared := self.shared_after(seq):
                return shared
            metrics.CATCH_UPS.add(1)
            return [await self._patch(seq)]

    def shared_after(self, seq: int) -> list[Frame]:
        """What all viewers get, behind ``seq``; nothing if no frame begins there. From the ring's end:
        most viewers lack the last frame alone."""
        shared: list[Frame] = []
        for frame in reversed(self._ring):
            if frame.after < seq:
                break
            shared.append(frame)
        return shared[::-1] if shared and shared[-1].after == seq else []

    async def replacement(self) -> list[Frame]:
        """Frames that rebuild the answer for a page whose cursor means nothing here."""
        async with self._applying:
            await self._share_frame()
            pieces = await in_thread(self._answer.replacement)
            last = len(pieces) - 1
            return [
                self._envelope(0, piece, replaces=True, is_whole=number == last)
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
        """Call it in an exception handler: a run that cannot be rendered gets no more frames, and
        takes no other run's viewers with it."""
        logger.exception("hub.broken run=%s", self.run_id)
        self.is_gone = True

    async def _follow(self) -> None:
        async for entries in follow_log(self.run_id, take=self._take):
            if self.is_gone:
                return
            await self._apply(entries)

    def _take(self, entries: list[Entry]) -> bool:
        """As `_apply`, at once, for what is short and not the end, where nobody else is at work on the
        answer: so the words of hundreds of runs wake no task on their way."""
        if self._is_much(entries) or entries[-1].is_end or self.is_gone or self._applying.locked():
            return False
        try:
            self._apply_now(entries)
            framed = self._framed_seq
            if self._is_frame_due and not self._is_long(framed):
                self._share(self._patch_now(framed) if self._is_anybody_there else None)
                self._say_when_next()
            else:
                self._show_in_time()
        except Exception:
            self.break_off()
            self._wake()
            return False
        self._progressed.set()
        return True

    def _is_much(self, entries: list[Entry]) -> bool:
        size = sum(len(entry.body) for entry in entries)
        return max(size, self._answer.open_length) > THREAD_BYTES

    async def _apply(self, entries: list[Entry]) -> None:
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
        """By the task that waits for the moment. Once: a second frame behind it would be empty, and
        put off the words that come next."""
        if not self._is_frame_coming:
            self._is_frame_coming = True
            self._changed.set()

    @property
    def _is_frame_due(self) -> bool:
        """Whether there is nothing to wait for, and so no other task to wake."""
        return not (self._is_frame_coming or self.has_ended) and _now() >= self._due

    def _apply_now(self, entries: list[Entry]) -> None:
        check = self._checks[-1]
        for entry in entries:
            self._answer.apply(canonical.decode(entry.body))
            check = check_of([entry], check)
            self._checks.append(check)
            self._sizes.append(self._sizes[-1] + len(entry.body))

    async def _frame(self) -> None:
        """The frames that have to wait for their time, and the last one."""
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
        """There is a new frame: viewers may have it now, and the next one only after a while."""
        window = min(LONGEST_FRAME_SECONDS, max(FRAME_SECONDS, 3 * lag))
        self._due = max(self._due, _now() - FRAME_SLACK_SECONDS) + window
        self._wake()

    @staticmethod
    async def _sleep_until(due: float) -> float:
        """Seconds by which the loop woke us too late."""
        wait = due - _now()
        if wait <= 0:
            return 0.0
        await asyncio.sleep(wait)
        return max(0.0, _now() - due)

    async def _share_frame(self) -> None:
        """Puts what was applied since the last frame into the ring. Under the lock only."""
        if self._answer.seq != self._framed_seq:
            self._share(await self._patch(self._framed_seq) if self._is_anybody_there else None)

    @property
    def _is_anybody_there(self) -> bool:
        """Whether some page may stand where the next frame begins."""
        return self._framed_seq > 0 or self._answer.seq <= FIRST_EVENTS

    def _share(self, frame: Frame | None) -> None:
        if frame is not None:
            self._ring.append(frame)
            self._ring_bytes += len(frame.text)
            metrics.FRAMES_RENDERED.add(1)
        while self._is_ring_too_long:
            self._ring_bytes -= len(self._ring.popleft().text)
        self._framed_seq = self._answer.seq

    @property
    def _is_ring_too_long(self) -> bool:
        count = len(self._ring)
        return count > 1 and self._ring_bytes > (FEW_BYTES if count <= FEW_FRAMES else RING_BYTES)

    def _is_long(self, after: int) -> bool:
        """Whether a patch of what came behind ``after`` is made in a thread."""
        seq = self._answer.seq
        size = max(self._sizes[seq] - self._sizes[after], self._answer.open_length)
        return seq - after > THREAD_EVENTS or size > THREAD_BYTES

    async def _patch(self, after: int) -> Frame:
        if self._is_long(after):
            return await in_thread(self._patch_now, after)
        return self._patch_now(after)

    def _patch_now(self, after: int) -> Frame:
        return self._envelope(after, self._answer.patches_since(after))

    def _envelope(
        self, after: int, content: str, *, replaces: bool = False, is_whole: bool = True
    ) -> Frame:
        """``replaces``: the content stands for itself, whatever the page showed before.

        Until it is whole the page has no cursor to come back with (a checksum that fits nothing),
        and more is to come even of a run that has ended.
        """
        seq = self._answer.seq
        envelope = {
            "run": self.run_id.hex,
            "after": after,
            "seq": seq,
            "replaces": replaces,
            "check": format_check(self._checks[seq]) if is_whole else "",
            "live": not (self.has_ended and is_whole),
            "content": content,
        }
        return Frame(after, seq, _encoder.encode(envelope).decode())

    def _wake(self) -> None:
        for on_change in list(self._viewers):
            on_change()


def _now() -> float:
    return asyncio.get_running_loop().time()


class RunBroadcasters:
    """The hubs of this process. A hub goes some seconds after its last viewer."""

    def __init__(self) -> None:
        self._broadcasters: dict[UUID, RunBroadcaster] = {}
        self._leaving: dict[UUID, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        _all_hubs.add(self)

    @property
    def count(self) -> int:
        return len(self._broadcasters)

    def join(self, run_id: UUID, on_change: Callable[[], None]) -> RunBroadcaster:
        """The hub of a run; the caller must `leave` it."""
        if timer := self._leaving.pop(run_id, None):
            timer.cancel()
        broadcaster = self._broadcasters.get(run_id)
        if broadcaster is not None and broadcaster.is_gone:
            self._close_soon(broadcaster)
            broadcaster = None
        if broadcaster is None:
            broadcaster = self._broadcasters[run_id] = RunBroadcaster(run_id)
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

    def begin_anew(self) -> None:
        """The database is another one: nothing that was read of the earlier one is shown again.
        Who looks gets no more frames here, and has to come back."""
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


_all_hubs: WeakSet[RunBroadcasters] = WeakSet()
metrics.HUBS.read_from(lambda: {"": sum(some.count for some in _all_hubs)})

broadcasters = RunBroadcasters()
