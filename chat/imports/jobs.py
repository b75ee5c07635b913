"""The jobs of an import: the check of the file, the import, and its undoing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.events import JsonObject
from chat.imports.actions import import_file, undo
from chat.imports.report import Report
from chat.imports.source import ReaderKilled
from chat.jobs import actions
from chat.jobs.chunks import open_file
from chat.jobs.kinds import Task
from chat.models import Import, Job, JobKind, JobStatus, Membership, Team, User
from chat.models.team import WRITING_ROLES

# An uploaded file is kept for this time until it is imported.
FILE_DAYS = 1.0
# The report of an import is kept for this time; the import can also be undone later.
REPORT_DAYS = 30.0
# The report on the page has this many notes of each kind. A command prints all of them.
MOST_NOTES = 100
# Name in a job's result of the digest of the bytes on which the reader was killed.
_KILLED = "killed_sha256"
# Name of the reader's memory limit then: with a higher limit, the same bytes are read again.
_KILLED_AT = "killed_memory_bytes"


# --- for people ----------------------------------------------------------------------------------


def check_again(job: Job, team: Team) -> None:
    """Checks a file for another team, into which other conversations were imported before."""
    if job.kind != JobKind.CHECK or job.status != JobStatus.DONE:
        raise ActionRefused(_changed_meanwhile())
    if not actions.queue(job, JobKind.CHECK, days=FILE_DAYS, team=team, result={}):
        raise ActionRefused(_changed_meanwhile())


def start_import(job: Job) -> None:
    """Queues the import of a file that was checked. Raises ``ActionRefused``."""
    if job.kind != JobKind.CHECK or job.status != JobStatus.DONE or not job.result.get("created"):
        raise ActionRefused(_changed_meanwhile())
    if not actions.queue(job, JobKind.IMPORT, days=REPORT_DAYS):
        raise ActionRefused(_changed_meanwhile())


def start_undo(user: User, batch: Import) -> None:
    """Queues the undoing of an import, in the row of its job if there still is one."""
    job = batch.job
    with transaction.atomic():
        if batch.undone_at is not None or (job is not None and job.is_active):
            raise ActionRefused(_changed_meanwhile())
        if job is not None and actions.queue(job, JobKind.UNDO, days=REPORT_DAYS):
            return
        fresh = actions.create(user, JobKind.UNDO, days=REPORT_DAYS, team=batch.team)
        Import.objects.filter(pk=batch.pk).update(job=fresh)


def _changed_meanwhile() -> str:
    return gettext("This was changed in the meantime. Reload the page.")


# --- for runners ---------------------------------------------------------------------------------


def check(task: Task) -> JsonObject:
    return _report(_read(task, is_dry_run=True))


def run_import(task: Task) -> JsonObject:
    return _report(_read(task, is_dry_run=False))


def _read(task: Task, *, is_dry_run: bool) -> Report:
    job = task.job
    assert job.team is not None

    def advance(done: int, total: int) -> None:
        task.advance(done, total)
        if not is_dry_run and not _may_import(job):
            raise ActionRefused(gettext("You no longer have write access to this team."))

    def check() -> None:
        task.advance(task.done, task.total)

    _refuse_tried(job)
    with open_file(job) as file:
        try:
            return import_file(
                job.user,
                job.team,
                file,
                is_dry_run=is_dry_run,
                progress=advance,
                check=check,
                job=None if is_dry_run else job,
                keep=partial(actions.keep, job, task.lease),
            )
        except ReaderKilled:
            memory_bytes = settings.IMPORT_MEMORY_BYTES
            result = {**job.result, _KILLED: _digest_of(job), _KILLED_AT: memory_bytes}
            actions.held_by(job, task.lease).update(result=result)
            raise


def _refuse_tried(job: Job) -> None:
    """Raises ``ActionRefused`` for bytes on which the reader was killed before, and would be again.
    The digest is only calculated if such a file has the same length."""
    enough = {f"result__{_KILLED_AT}__gte": settings.IMPORT_MEMORY_BYTES}
    tried = Job.objects.filter(size_bytes=job.size_bytes, **enough)
    before = dict(tried.values_list(f"result__{_KILLED}", "error"))
    if before and (error := before.get(_digest_of(job))) is not None:
        raise ActionRefused(error or gettext("This file can’t be read."))


def _digest_of(job: Job) -> str:
    with open_file(job) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _may_import(job: Job) -> bool:
    """Returns whether the person may still write in the team: checked before each conversation, because an
    import may take hours."""
    writers = Membership.objects.filter(role__in=WRITING_ROLES, user__is_active=True)
    return writers.filter(user=job.user_id, team=job.team_id).exists()


def run_undo(task: Task) -> JsonObject:
    batch = Import.objects.select_related("team").get(job=task.job)
    undone = undo(
        task.job.user,
        batch,
        progress=task.advance,
        keep=partial(actions.keep, task.job, task.lease),
    )
    kept: Sequence[JsonObject] = [
        {"conversation": str(room.public_id), "title": room.title}
        for room in undone.kept[:MOST_NOTES]
    ]
    return {
        **task.job.result,
        "deleted": undone.deleted,
        "kept": len(undone.kept),
        "kept_conversations": list(kept),
    }


def _report(report: Report) -> JsonObject:
    """The report for the page, with the number of its notes and the first of them."""
    found = report.as_json()
    for name in ("changed", "not_understood", "left_out"):
        notes = found[name]
        found[f"{name}_count"] = len(notes)
        found[name] = notes[:MOST_NOTES]
    found["unread"] = report.unread
    return found
