"""The uploaded file of an import: it is sent in pieces, which become rows, and kept for its
import."""

from __future__ import annotations

from typing import BinaryIO

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet, Sum
from django.db.models.functions import Length
from django.utils.translation import gettext

from chat.core.errors import ActionRefused, full_storage_refused
from chat.imports.archive import shown
from chat.imports.jobs import FILE_DAYS
from chat.jobs import actions
from chat.jobs.chunks import CHUNK_BYTES
from chat.models import Job, JobChunk, JobKind, JobStatus, Team, User


def begin_upload(user: User, team: Team, *, name: str, size_bytes: int) -> Job:
    """A job whose file has yet to be uploaded. Raises ``ActionRefused`` for a file that is too
    large."""
    if size_bytes > settings.IMPORT_BYTES:
        words = gettext("The file is too large (limit: %(limit)s MB).")
        raise ActionRefused(words % {"limit": f"{settings.IMPORT_BYTES // (1024 * 1024):,}"})
    if size_bytes <= 0:
        raise ActionRefused(gettext("The file is empty."))
    with full_storage_refused(), transaction.atomic():
        return actions.create(
            user,
            JobKind.CHECK,
            days=FILE_DAYS,
            status=JobStatus.UPLOADING,
            team=team,
            file_name=shown(name)[-255:],
            size_bytes=size_bytes,
        )


def store_piece(job: Job, number: int, body: bytes) -> None:
    """Stores a piece. A repeated one, whose response was lost, changes nothing. Raises
    ``ActionRefused`` if it doesn't belong to this file."""
    expected = min(CHUNK_BYTES, job.size_bytes - number * CHUNK_BYTES)
    if len(body) != expected:
        raise ActionRefused(gettext("The file has changed while it was uploaded. Upload it again."))
    try:
        with full_storage_refused(), transaction.atomic():
            # This update locks the row: a job that is canceled gets no more pieces.
            if not _uploading(job).update(status=JobStatus.UPLOADING):
                raise ActionRefused(gettext("This upload was canceled."))
            JobChunk.objects.create(job=job, number=number, body=body)
    except IntegrityError:
        if not JobChunk.objects.filter(job=job, number=number).exists():
            raise


def end_upload(job: Job) -> None:
    """Queues the check of a complete file. Raises ``ActionRefused`` if it is incomplete."""
    stored = job.chunks.aggregate(size=Sum(Length("body")), pieces=Max("number", default=-1) + 1)
    if stored["size"] != job.size_bytes or stored["pieces"] != -(-job.size_bytes // CHUNK_BYTES):
        raise ActionRefused(gettext("The upload is incomplete. Upload the file again."))
    actions.queue(job, JobKind.CHECK, days=FILE_DAYS)


def store_file(user: User, team: Team, *, name: str, file: BinaryIO, size_bytes: int) -> Job:
    """Stores a whole file, without scripts in the browser, with at most one piece of it in memory.
    Raises as ``begin_upload`` does."""
    job = begin_upload(user, team, name=name, size_bytes=size_bytes)
    try:
        number = 0
        while body := file.read(CHUNK_BYTES):
            store_piece(job, number, body)
            number += 1
        end_upload(job)
    except BaseException:
        actions.cancel(job)
        raise
    return job


def _uploading(job: Job) -> QuerySet[Job]:
    return Job.objects.filter(pk=job.pk, status=JobStatus.UPLOADING)
