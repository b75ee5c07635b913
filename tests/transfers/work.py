"""Does the jobs that tests have queued, in this thread, as a runner does."""

from __future__ import annotations

from uuid import uuid4

from chat.jobs import actions
from chat.jobs.kinds import Task
from chat.jobs.worker import execute
from chat.models import Job


def work_off() -> list[Job]:
    """All that is queued. Returns the jobs as they ended."""
    done = []
    while job := actions.claim(lease := uuid4()):
        execute(Task(job=job, lease=lease))
        done.append(Job.objects.get(pk=job.pk))
    return done


def work_once() -> Job:
    [job] = work_off()
    return job
