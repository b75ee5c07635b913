"""A viewer: one browser tab with the runs it follows, its cursors, and its unacknowledged bytes."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from msgspec import Raw

from chat.core import metrics
from chat.core.waiting import Signal
from chat.live.access_monitor import (
    GONE_ACCESS,
    GONE_DELETED,
    GONE_EXPIRED,
    GONE_RESTORED,
    GONE_SIGNED_OUT,
    GONE_UNSURE,
    Identity,
)
from chat.live.broadcaster import RunBroadcaster, RunBroadcasters, broadcasters
from chat.live.channels import Reader, Subscriptions
from chat.live.frames import ViewerFrame
from chat.live.messages import encode
from chat.live.posts import BegunRun

logger = logging.getLogger(__name__)

# With more unacknowledged bytes a viewer is behind: nothing is sent until it acknowledges, and then
# one patch brings it up to date.
UNACKNOWLEDGED_BYTES = 256 * 1024
BEHIND_SECONDS = 60.0
# Bytes of other waiting messages: answers to forms, updates of the page, lines of its list. A page
# that reads has few, and one that does not could request any number.
WAITING_BYTES = 4 * 1024 * 1024
HEARTBEAT_SECONDS = 15.0
# A tab shows one conversation, which has few live answers.
MOST_RUNS = 20

HEARTBEAT: dict[str, object] = {"heartbeat": True}
# Pages of earlier versions know no other message at which they reload. The connection goes on.
OUTDATED: dict[str, object] = {"gone": True, "reason": GONE_RESTORED}

CLOSE_SIGNED_OUT = 4401
CLOSE_ACCESS = 4403
CLOSE_DELETED = 4404
CLOSE_EXPIRED = 4410
CLOSE_BEHIND = CLOSE_LATER = 1013

# For a page that receives the close code before it has handled the last message.
_CODES = {
    GONE_SIGNED_OUT: CLOSE_SIGNED_OUT,
    GONE_ACCESS: CLOSE_ACCESS,
    GONE_DELETED: CLOSE_DELETED,
    GONE_EXPIRED: CLOSE_EXPIRED,
    # The page reloads itself.
    GONE_RESTORED: CLOSE_LATER,
}

Send = Callable[[str], Awaitable[None]]
# Returns whether it was sent. It is not sent if that would mean waiting for the socket.
SendNow = Callable[[str], bool]
Close = Callable[[int], Awaitable[None]]


def new_viewer_id() -> str:
    """An id that marks the log lines of one connection."""
    return secrets.token_hex(4)


# Later than any seq.
NO_FRAMES = sys.maxsize


@dataclass(slots=True, kw_only=True, eq=False)
class FollowedRun:
    """One run that a viewer follows. ``sent`` are the (seq, bytes) of frames that are not acknowledged
    yet, and ``unacknowledged_bytes`` is their sum."""

    broadcaster: RunBroadcaster
    on_change: Callable[[], None]
    conversation_id: UUID
    seq: int
    # The tab got every shared frame from here on; `NO_FRAMES`: it can't read them.
    since: int
    # Nothing is sent until the tab's cursor has been compared with the log.
    is_verified: bool = False
    must_replace: bool = False
    sent: list[tuple[int, int]] = field(default_factory=list)
    unacknowledged_bytes: int = 0

    def sends(self, seq: int, size: int) -> None:
        self.sent.append((seq, size))
        self.unacknowledged_bytes += size

    def acknowledge(self, seq: int) -> None:
        sizes = [size for sent_seq, size in self.sent if sent_seq <= seq]
        self.unacknowledged_bytes -= sum(sizes)
        del self.sent[: len(sizes)]

    def forget_sent(self) -> None:
        self.sent.clear()
        self.unacknowledged_bytes = 0


class Viewer:
    """Sends frames from its own task, so that no handler waits for the socket. A frame that can be written
    at once bypasses the task through ``send_now``.

    The consumer calls `follow`, `acknowledge` and so on, and owns the task of `run`. With
    ``is_acknowledged=False`` the tab sends no acknowledgements, and only ``send`` limits the rate.
    """

    def __init__(
        self,
        identity: Identity,
        send: Send,
        close: Close,
        *,
        send_now: SendNow | None = None,
        is_acknowledged: bool = True,
        transport: str = "websocket",
        of: RunBroadcasters = broadcasters,
        reader: Reader | None = None,
    ) -> None:
        self.viewer_id = new_viewer_id()
        self.transport = transport
        self.identity = identity
        self.rooms: set[UUID] = set()
        self.room: UUID | None = None
        self.reader = reader or Reader(person=identity.user_pk)
        self.is_two_way = is_acknowledged
        self.channels = Subscriptions()
        self._is_outdated = False
        self._send = send
        self._send_now = send_now
        self._close = close
        self._is_acknowledged = is_acknowledged
        self._broadcasters = of
        self._runs: dict[UUID, FollowedRun] = {}
        self._messages: list[str] = []
        self._waiting_bytes = 0
        self._gone: str | None = None
        self._wake = Signal()
        # True if the sending task has nothing left to send.
        self._is_idle_task = False
        self._behind_since: float | None = None
        self._has_news = False
        self._sent_at = 0.0

    # --- from the consumer ---------------------------------------------------------------

    def enter(self, room: UUID | None) -> None:
        """The conversation that the tab shows. The caller has checked the right to read it."""
        self.room = room
        self._update_rooms()

    def receive(self, said: Mapping[str, Raw]) -> None:
        """``said`` by the tab to its channels."""
        if not self.is_gone:
            self.channels.receive(self, said)

    async def follow(
        self, run_id: UUID, conversation_id: UUID, seq: int, check: str, *, holds: bool
    ) -> None:
        """Continues from the tab's cursor. A cursor of another log gets the whole answer again.
        Without ``holds`` the tab gets no shared frames.

        The caller has checked the right to read the run.
        """
        if run_id in self._runs:
            self.unfollow(run_id)
        if len(self._runs) >= MOST_RUNS:
            return
        followed = self._join(run_id, conversation_id, seq, holds=holds)
        if not await followed.broadcaster.knows(seq, check):
            followed.must_replace = True
            self._note_replacement(run_id, "cursor")
        followed.is_verified = True
        self._wake.set()

    def may_begin(self, begun: BegunRun | None) -> bool:
        """Returns whether the tab shows the conversation in which this run was queued, and can follow it."""
        is_shown = begun is not None and begun.conversation_id == self.room
        return is_shown and len(self._runs) < MOST_RUNS

    def follow_begun(self, begun: BegunRun) -> None:
        """Follows a run that the tab has just queued and shows after the answer to its form. Right
        and cursor are known, so nothing is read."""
        self.unfollow(begun.run_id)
        followed = self._join(
            begun.run_id, begun.conversation_id, 0, holds=True, new_run_pk=begun.run_pk
        )
        followed.is_verified = True
        self._wake.set()

    def _join(
        self,
        run_id: UUID,
        conversation_id: UUID,
        seq: int,
        *,
        holds: bool,
        new_run_pk: int | None = None,
    ) -> FollowedRun:
        on_change = partial(self._on_change, run_id)
        followed = self._runs[run_id] = FollowedRun(
            broadcaster=self._broadcasters.join(run_id, on_change, new_run_pk=new_run_pk),
            on_change=on_change,
            conversation_id=conversation_id,
            seq=seq,
            since=seq if holds else NO_FRAMES,
        )
        self._update_rooms()
        return followed

    def unfollow(self, run_id: UUID) -> None:
        followed = self._runs.pop(run_id, None)
        if followed is not None:
            self._broadcasters.leave(followed.broadcaster, followed.on_change)
            self._update_rooms()
            if self._behind_since is not None:
                # Without its unacknowledged bytes, frames of other runs may be sent.
                self._wake.set()

    def acknowledge(self, run_id: UUID, seq: int) -> None:
        if run_id in self._runs:
            self._runs[run_id].acknowledge(seq)
            if self._behind_since is not None:
                # A viewer that isn't behind doesn't wait for acknowledgements.
                self._wake.set()

    def resync(self, run_id: UUID) -> None:
        """A frame could not be applied: the tab wants the whole answer."""
        if run_id in self._runs:
            followed = self._runs[run_id]
            followed.must_replace = True
            followed.forget_sent()
            self._note_replacement(run_id, "asked")
            self._wake.set()

    def _note_replacement(self, run_id: UUID, reason: str) -> None:
        metrics.REPLACEMENTS.labels(reason).inc()
        logger.info("viewer.replaced viewer=%s run=%s reason=%s", self.viewer_id, run_id, reason)

    def tell(self, message: dict[str, object]) -> None:
        """Sends a message before any frame that comes later."""
        self._queue(message)

    def send_heartbeat(self) -> None:
        self._queue(HEARTBEAT, is_news=False)

    def tell_outdated(self) -> None:
        """The page has scripts of another version. It reloads when that disturbs nobody, and is told again with
        each heartbeat: one that has just reloaded doesn't do so again at once."""
        self._is_outdated = True
        self._queue(OUTDATED)

    def leave(self) -> None:
        self.channels.close()
        for run_id in list(self._runs):
            self.unfollow(run_id)

    @property
    def followed(self) -> Mapping[UUID, FollowedRun]:
        return self._runs

    def _update_rooms(self) -> None:
        rooms = {followed.conversation_id for followed in self._runs.values()}
        self.rooms = rooms | ({self.room} if self.room else set())

    # --- from the access monitor -----------------------------------------------------------

    def on_gone(self, reason: str) -> None:
        """Ends the connection. Nothing protected is sent after this, not even queued messages."""
        self._gone = reason
        self._messages.clear()
        self._wake.set()

    @property
    def is_gone(self) -> bool:
        """True if the connection has ended or is about to."""
        return self._gone is not None

    def _queue(self, message: dict[str, object], *, is_news: bool = True) -> None:
        """Queues a message. A long poll does not end for a message with ``is_news=False``."""
        self.send_text(encode(message), is_news=is_news)

    def send_text(self, message: str, *, is_news: bool = True) -> None:
        if self.is_gone:
            return
        self._messages.append(message)
        self._waiting_bytes += len(message)
        if self._waiting_bytes > max(WAITING_BYTES, len(message)):
            self._note_behind()
            self.on_gone(GONE_UNSURE)
        self._has_news |= is_news
        self._wake.set()

    # --- from the broadcasters ------------------------------------------------------------

    def _on_change(self, run_id: UUID) -> None:
        followed = self._runs.get(run_id)
        try:
            is_shown = followed is not None and self._is_shown_now(followed)
        except Exception:
            # Only this connection fails; others follow the same run.
            logger.exception("viewer.failed viewer=%s", self.viewer_id)
            self.on_gone(GONE_UNSURE)
            return
        if not is_shown:
            self._wake.set()

    def _is_shown_now(self, followed: FollowedRun) -> bool:
        """Sends shared frames at once, unless the sending task is busy or has to handle them."""
        is_idle = self._is_idle_task and not self._wake.is_set()
        is_usual = followed.is_verified and not (
            followed.must_replace or followed.broadcaster.is_gone
        )
        if self._send_now is None or not (is_idle and is_usual) or self._is_behind():
            return False
        for frame in followed.broadcaster.shared_after(followed.seq, followed.since):
            if not self._send_now(frame.text):
                return False
            self._note_sent(followed, frame)
            self._sent_at = asyncio.get_running_loop().time()
        return followed.seq >= followed.broadcaster.seq

    # --- the sending task ------------------------------------------------------------------

    async def run(self) -> None:
        """Sends until the viewer has ended or the task is cancelled. A viewer that is behind still gets
        heartbeats."""
        loop = asyncio.get_running_loop()
        self._sent_at = loop.time()
        self._wake_for_heartbeat()
        try:
            while True:
                self._is_idle_task = True
                await self._wake.wait()
                self._is_idle_task = False
                if await self._send_pending():
                    return
                if loop.time() - self._sent_at >= HEARTBEAT_SECONDS:
                    await self._send_text(encode(HEARTBEAT))
                    if self._is_outdated:
                        await self._send_text(encode(OUTDATED))
        finally:
            self._is_idle_task = False
            self._beating.cancel()

    def _wake_for_heartbeat(self) -> None:
        """Wakes the sender with one timer per connection; a timeout of each wait would set one per frame."""
        loop = asyncio.get_running_loop()
        due = self._sent_at + HEARTBEAT_SECONDS
        if loop.time() >= due:
            self._wake.set()
            due = loop.time() + HEARTBEAT_SECONDS
        self._beating = loop.call_at(due, self._wake_for_heartbeat)

    async def _send_text(self, text: str) -> None:
        await self._send(text)
        self._sent_at = asyncio.get_running_loop().time()

    async def run_once(self, wait_seconds: float) -> None:
        """Sends what is queued, or the first news within this time, and returns."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        while True:
            is_late = not await self._wake.wait(max(0.0, deadline - loop.time()))
            if await self._send_pending() or is_late or (self._has_news and not self._messages):
                return

    async def _send_pending(self) -> bool:
        """Returns whether the connection has ended."""
        self._wake.clear()
        if self._gone is not None:
            await self._send_ending(self._gone)
            return True
        await self._send_messages()
        for followed in list(self._runs.values()):
            await self._send_frames(followed)
        if self._is_behind_too_long():
            self._note_behind()
            await self._close(CLOSE_BEHIND)
            return True
        return False

    def _note_behind(self) -> None:
        metrics.VIEWERS_ENDED.labels("behind").inc()
        logger.info("viewer.behind viewer=%s user=%d", self.viewer_id, self.identity.user_pk)

    async def _send_ending(self, reason: str) -> None:
        if reason == GONE_UNSURE:
            # The page and its draft stay; it connects again and is checked again.
            await self._close(CLOSE_LATER)
            return
        await self._send_text(encode({"gone": True, "reason": reason}))
        await self._close(_CODES[reason])

    async def _send_messages(self) -> None:
        messages, self._messages = self._messages, []
        for message in messages:
            if self.is_gone:
                return
            await self._send_text(message)
            self._waiting_bytes -= len(message)

    async def _send_frames(self, followed: FollowedRun) -> None:
        if self._is_behind() or not followed.is_verified or followed.broadcaster.is_gone:
            return
        try:
            frames = await self._frames_for(followed)
        except Exception:
            followed.broadcaster.break_off()
            return
        await self._send_all(followed, frames)

    @staticmethod
    async def _frames_for(followed: FollowedRun) -> list[ViewerFrame]:
        if not followed.must_replace:
            return await followed.broadcaster.frames_after(followed.seq, followed.since)
        followed.must_replace = False
        return await followed.broadcaster.replacement()

    async def _send_all(self, followed: FollowedRun, frames: list[ViewerFrame]) -> None:
        for frame in frames:
            if self._gone is not None:
                return
            self._note_sent(followed, frame)
            await self._send_text(frame.text)

    def _note_sent(self, followed: FollowedRun, frame: ViewerFrame) -> None:
        followed.seq = frame.seq
        if frame.since is None and followed.since != NO_FRAMES:
            followed.since = frame.seq
        if self._is_acknowledged:
            followed.sends(frame.seq, len(frame.text))
        self._has_news = True

    @property
    def is_behind(self) -> bool:
        """True if too much is unacknowledged. Nothing is sent until that changes."""
        waiting = sum(followed.unacknowledged_bytes for followed in self._runs.values())
        return waiting > UNACKNOWLEDGED_BYTES

    def _is_behind(self) -> bool:
        loop = asyncio.get_running_loop()
        if not self.is_behind:
            self._behind_since = None
            return False
        if self._behind_since is None:
            self._behind_since = loop.time()
        return True

    def _is_behind_too_long(self) -> bool:
        if not self._is_behind() or self._behind_since is None:
            return False
        return asyncio.get_running_loop().time() - self._behind_since > BEHIND_SECONDS
