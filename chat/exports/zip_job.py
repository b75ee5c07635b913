"""The job that writes many conversations into one ZIP file, and who may start it."""

from __future__ import annotations

import logging
import zipfile
from datetime import datetime, timedelta
from tempfile import SpooledTemporaryFile
from typing import IO

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext

from chat.core.errors import ActionRefused, is_database_unavailable
from chat.events import JsonObject
from chat.exports.many import UNREADABLE, allowed_to, file_name_of, keys_of, one_by_one, write_to
from chat.jobs import actions
from chat.jobs.chunks import ChunkWriter, TooLarge
from chat.jobs.kinds import Task
from chat.models import AuditEvent, Conversation, Job, JobKind, JobScope, JobStatus, Team, User
from chat.rendering.figures import size

logger = logging.getLogger(__name__)

# A conversation is written whole before it is added: one that can't be read leaves nothing in the
# archive. Larger ones are in a temporary file meanwhile.
IN_MEMORY_BYTES = 1024 * 1024
COPIED_BYTES = 64 * 1024
# Names of conversations that could not be exported, for the page.
MOST_REFUSED = 100


def start_export(user: User, *, scope: str, team: Team | None, form: str) -> Job:
    """Queues an export. Raises ``ActionRefused`` if this user may not make it, or has too many."""
    chosen = allowed_to(user, scope, team)
    with transaction.atomic():
        if not chosen.exists():
            raise ActionRefused(gettext("There are no conversations to export."))
        whole = user if scope == JobScope.OWN else None
        AuditEvent.objects.record(
            user,
            "conversation.export",
            subject=whole,
            target=str(team or ""),
            count=chosen.count(),
        )
        return actions.create(
            user,
            JobKind.EXPORT,
            days=settings.EXPORT_DAYS,
            scope=scope,
            team=team,
            form=form,
            file_name=f"tributary-{timezone.localdate():%Y-%m-%d}-{form}.zip",
        )


def make_zip(task: Task) -> JsonObject:
    """Writes the archive. Access is a part of the query that loads each conversation."""
    job = task.job
    chosen = allowed_to(job.user, job.scope, job.team)
    keys = keys_of(chosen)
    if not keys:
        # They were deleted, or this user lost the right to export them.
        raise ActionRefused(gettext("There are no conversations to export."))
    task.advance(0, len(keys))
    sink = ChunkWriter(job, task.lease, most_bytes=settings.EXPORT_BYTES)
    refused: list[JsonObject] = []
    exported = 0
    try:
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, conversation in enumerate(one_by_one(keys, chosen), start=1):
                if conversation is not None:
                    reason = _add(archive, job, conversation)
                    exported += not reason
                    if reason:
                        refused.append({"title": conversation.title, "reason": reason})
                task.advance(number, len(keys))
        sink.close()
    except TooLarge:
        words = gettext("The export is larger than %(limit)s. Ask an administrator to make it.")
        raise ActionRefused(words % {"limit": size(settings.EXPORT_BYTES)}) from None
    _renew_expiry(task)
    _delete_older(task)
    return {
        "exported": exported,
        "refused": len(refused),
        "refusals": list(refused[:MOST_REFUSED]),
    }


def _renew_expiry(task: Task) -> None:
    """The days count from the moment at which the file can be downloaded."""
    expires_at = timezone.now() + timedelta(days=settings.EXPORT_DAYS)
    actions.held_by(task.job, task.lease).update(expires_at=expires_at)


def _delete_older(task: Task) -> None:
    """Makes room for a new file: of one person there are a few, and no more bytes than one may have."""
    size_bytes = Job.objects.values_list("size_bytes", flat=True).get(pk=task.job.pk)
    older = Job.objects.filter(
        user=task.job.user, kind=JobKind.EXPORT, status=JobStatus.DONE, expires_at__gt=Now()
    )
    unneeded = []
    for count, job in enumerate(older.order_by("-finished_at", "-pk"), start=1):
        size_bytes += job.size_bytes
        if count >= settings.EXPORTS_PER_PERSON or size_bytes > settings.EXPORT_BYTES:
            unneeded.append(job.pk)
    # The end of this job starts the deletion of their rows.
    Job.objects.filter(pk__in=unneeded).update(expires_at=Now())


def _add(archive: zipfile.ZipFile, job: Job, conversation: Conversation) -> str:
    """Adds one conversation, and returns why it can't be exported, if it can't."""
    with SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as file:
        try:
            write_to(file, job.user, conversation, job.form)
        except UNREADABLE as error:
            if is_database_unavailable(error):
                raise
            logger.warning(
                "export.refused conversation=%s error=%s",
                conversation.public_id,
                type(error).__name__,
            )
            return gettext("It can’t be read.")
        info = zipfile.ZipInfo(
            file_name_of(conversation, job.form), _moment(conversation.updated_at)
        )
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        info.file_size = file.tell()
        file.seek(0)
        _copy(file, archive, info)
    return ""


def _copy(file: IO[bytes], archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    with archive.open(info, "w") as entry:
        while part := file.read(COPIED_BYTES):
            entry.write(part)


def _moment(at: datetime) -> tuple[int, int, int, int, int, int]:
    return (max(at.year, 1980), at.month, at.day, at.hour, at.minute, at.second)
