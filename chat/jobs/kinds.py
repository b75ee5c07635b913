"""Lanes of jobs, and the function that executes each kind, registered by its feature (`chat.apps`)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from uuid import UUID

from chat.events import JsonObject
from chat.models import Job, JobKind

StopReason: TypeAlias = Literal["canceled", "interrupted", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Kinds of jobs that wait for each other, and for no job of another lane."""

    # Published when one is queued.
    topic: str
    kinds: frozenset[str]
    # True if people start, watch and cancel these jobs. The others are deleted when they end.
    is_for_people: bool


# They take up to hours.
TRANSFERS = Lane(
    topic="jobs",
    kinds=frozenset({JobKind.EXPORT, JobKind.CHECK, JobKind.IMPORT, JobKind.UNDO}),
    is_for_people=True,
)
# They take up to a minute, and people wait for them.
READING = Lane(topic="jobs.reading", kinds=frozenset({JobKind.READ}), is_for_people=False)
_lanes = {kind: lane for lane in (TRANSFERS, READING) for kind in lane.kinds}


def lane_of(kind: str) -> Lane:
    return _lanes[kind]


class JobStopped(Exception):
    """The job must end at once: its person has canceled it, the process is to stop, or another
    runner has it."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, kw_only=True)
class Task:
    """A job while a thread works on it. The event loop reads its progress and stops it."""

    job: Job
    lease: UUID
    done: int = 0
    total: int = 0
    # Called in the transaction that ends the job as done.
    also: Callable[[], None] | None = None
    _reason: StopReason | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def advance(self, done: int, total: int) -> None:
        """To be called after each step: a job is stopped here. Raises ``JobStopped``."""
        self.done, self.total = done, total
        self.check()

    def check(self) -> None:
        """To be called within a long step. Raises ``JobStopped``."""
        if self._reason is not None:
            raise JobStopped(self._reason)

    def stop(self, reason: StopReason) -> None:
        """The next step ends the job. The first reason counts."""
        with self._lock:
            self._reason = self._reason or reason


# Works on a job and returns its ``result``. It may be called again for a job that was interrupted.
# The work of a job; raises ``ActionRefused`` with a message for the person.
Work: TypeAlias = Callable[[Task], JsonObject]
# Called with the message for the person, in the transaction that ends a job as failed.
OnFailure: TypeAlias = Callable[[Job, str], None]

_works: dict[str, Work] = {}
_on_failure: dict[str, OnFailure] = {}


def register_kind(kind: str, work: Work, *, on_failure: OnFailure | None = None) -> None:
    _works[kind] = work
    if on_failure is not None:
        _on_failure[kind] = on_failure


def has_failed(job: Job, words: str) -> None:
    """Tells the feature about a failed job."""
    if (tell := _on_failure.get(job.kind)) is not None:
        tell(job, words)


def work_of(kind: str) -> Work:
    return _works[kind]
