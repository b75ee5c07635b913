"""A call that a runner executes, and the progress that its server tells."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from django.conf import settings

from chat.core.text import clean
from chat.events import JsonObject
from chat.tools.claims import ClaimedCall
from chat.tools.kinds import RECORDED_BYTES, InputReply, Recording

# Characters of a message about progress.
PROGRESS_CHARACTERS = 200
# Exchanges of a call that its receipt shows, and the characters of all of them.
MOST_RECORDINGS = 20
RECORDINGS_CHARACTERS = 4 * RECORDED_BYTES


@dataclass(slots=True, kw_only=True, eq=False)
class Execution:
    """A call and its task. ``is_sent``: it may have run. ``is_task_silent``: the server has not answered the
    last question about the task of the call. ``waiting`` are the requests that the open call waits for, and
    ``limit`` its time, which stands still meanwhile."""

    call: ClaimedCall
    is_sent: bool = False
    is_task_silent: bool = False
    progress: JsonObject = field(default_factory=dict)
    is_progress_new: bool = False
    # The server has told that its list of tools has changed, and nobody knows yet.
    has_new_list: bool = False
    limit: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    waiting: dict[int, asyncio.Future[InputReply]] = field(default_factory=dict)
    recordings: list[Recording] = field(default_factory=list)
    # Requests so far, also those that were refused unseen.
    asked: int = 0
    _left_seconds: float = 0.0
    # For how long the call has waited for people, and since when it does now, by the clock of the event loop.
    _waited_seconds: float = 0.0
    _waits_since: float = 0.0
    _pauses: int = 0

    def input_seconds_left(self) -> float:
        """For how long the call may still wait for people: all its requests share one time."""
        waited = self._waited_seconds
        if self.waits:
            waited += asyncio.get_running_loop().time() - self._waits_since
        return float(settings.TOOL_INPUT_SECONDS) - waited

    @property
    def waits(self) -> bool:
        """True while people are asked, or are about to be."""
        return self._pauses > 0

    def pause(self) -> None:
        """The call waits for people, until ``resume`` was called as often."""
        self._pauses += 1
        now = asyncio.get_running_loop().time()
        if self._pauses == 1:
            self._waits_since = now
        when = self.limit.when()
        if when is not None:
            self._left_seconds = when - now
            self.limit.reschedule(None)

    def resume(self) -> None:
        self._pauses -= 1
        if self.waits:
            return
        now = asyncio.get_running_loop().time()
        self._waited_seconds += now - self._waits_since
        if not self.limit.expired():
            self.limit.reschedule(now + self._left_seconds)

    def record(self, recording: Recording) -> None:
        """Keeps the first exchange, which most often is the call itself, and the last ones of many."""
        if not recording.sent:
            return
        self.recordings.append(recording)
        while len(self.recordings) > 2 and self._has_too_many_recordings():
            del self.recordings[1]

    def _has_too_many_recordings(self) -> bool:
        characters = sum(len(each.sent) + len(each.received) for each in self.recordings)
        return len(self.recordings) > MOST_RECORDINGS or characters > RECORDINGS_CHARACTERS

    def list_changed(self) -> None:
        self.has_new_list = True

    def heard(self, has_answered: bool) -> None:
        self.is_task_silent = not has_answered

    def report(self, progress: JsonObject) -> None:
        bounded = bounded_progress(progress)
        if bounded != self.progress:
            self.progress, self.is_progress_new = bounded, True


def bounded_progress(progress: JsonObject) -> JsonObject:
    """The members that pages show, without anything long."""
    bounded: JsonObject = {}
    for name in ("progress", "total"):
        value = progress.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
            bounded[name] = value
    message = progress.get("message")
    if isinstance(message, str) and message:
        bounded["message"] = clean(message)[:PROGRESS_CHARACTERS]
    return bounded
