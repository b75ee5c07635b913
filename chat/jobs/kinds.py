"""The function that executes each kind of job, registered by its feature (`chat.apps`)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from uuid import UUID

from chat.events import JsonObject
from chat.models import Job

StopReason: TypeAlias = Literal["canceled", "interrupted", "lost"]


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

_works: dict[str, Work] = {}


def register_kind(kind: str, work: Work) -> None:
    _works[kind] = work


def work_of(kind: str) -> Work:
    return _works[kind]
