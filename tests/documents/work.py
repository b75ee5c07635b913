"""Reads the documents that tests have queued, in this thread, as a runner does."""

from __future__ import annotations

from uuid import uuid4

from chat.jobs import actions
from chat.jobs.kinds import READING, Task
from chat.jobs.worker import execute


def read_queued() -> int:
    """Reads all that is queued, each in a process of its own. Returns how many there were."""
    count = 0
    while job := actions.claim(lease := uuid4(), READING):
        execute(Task(job=job, lease=lease))
        count += 1
    return count
