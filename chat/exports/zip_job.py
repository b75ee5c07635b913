"""The job that writes many conversations into one ZIP file, and who may start it."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext

from chat.access_reasons.actions import tell_of_export
from chat.core.errors import ActionRefused, is_database_unavailable, is_storage_full
from chat.events import JsonObject
from chat.exports.many import UNREADABLE, allowed_to, file_name_of, keys_of, one_by_one, write_to
from chat.jobs import actions
from chat.jobs.chunks import ChunkWriter, TooLarge
from chat.jobs.kinds import Task
from chat.models import AuditEvent, Conversation, Job, JobKind, JobScope, JobStatus, Team, User
from chat.rendering.figures import size

logger = logging.getLogger(__name__)

# Conversations are written completely before they are added, so an unreadable one leaves nothing in
# the archive. Larger ones are in a temporary file meanwhile.
IN_MEMORY_BYTES = 1024 * 1024
COPIED_BYTES = 64 * 1024
# The page shows this many names of conversations that could not be exported.
MOST_REFUSED = 100


def start_export(user: User, *, scope: str, team: Team | None, form: str, reason: str = "") -> Job:
    """Queues an export. An export of everyone's conversations needs a ``reason``, which everybody
    sees. Raises ``ActionRefused`` if this user may not make it, or has too many."""
    chosen = allowed_to(user, scope, team)
    given = {"reason": reason} if scope == JobScope.ALL else {}
    with transaction.atomic():
        if not chosen.exists():
            raise ActionRefused(gettext("There are no conversations to export."))
        if scope == JobScope.ALL:
            if not reason:
                raise ActionRefused(gettext("Enter a reason."))
            tell_of_export(user, reason)
        whole = user if scope == JobScope.OWN else None
        AuditEvent.objects.record(
            user,
            "conversation.export",
            subject=whole,
            target=str(team or ""),
            count=chosen.count(),
            **given,
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
        # The conversations were deleted, or this user lost the right to export them.
        raise ActionRefused(gettext("There are no conversations to export."))
    task.advance(0, len(keys))
    sink = ChunkWriter(job, task.lease, most_bytes=settings.EXPORT_BYTES)
    refused: list[JsonObject] = []
    exported = 0
    try:
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, conversation in enumerate(one_by_one(keys, chosen), start=1):
                if conversation is not None:
                    reason = _add(archive, job, conversation, task.check)
                    exported += not reason
                    if reason:
                        refused.append({"title": conversation.title, "reason": reason})
                task.advance(number, len(keys))
        sink.close()
    except TooLarge:
        words = gettext("The export is larger than %(limit)s. Ask an administrator to make it.")
        raise ActionRefused(words % {"limit": size(settings.EXPORT_BYTES)}) from None
    task.also = partial(_make_room, job)
    return {
        "exported": exported,
        "refused": len(refused),
        "refusals": list(refused[:MOST_REFUSED]),
    }


def _make_room(job: Job) -> None:
    """Expires older exports beyond the number and bytes that a person may have. The days of the new
    one count from the moment when it can be downloaded."""
    expires_at = timezone.now() + timedelta(days=settings.EXPORT_DAYS)
    Job.objects.filter(pk=job.pk).update(expires_at=expires_at)
    size_bytes = Job.objects.values_list("size_bytes", flat=True).get(pk=job.pk)
    older = Job.objects.filter(
        user=job.user, kind=JobKind.EXPORT, status=JobStatus.DONE, expires_at__gt=Now()
    ).exclude(pk=job.pk)
    unneeded = []
    for count, each in enumerate(older.order_by("-finished_at", "-pk"), start=1):
        size_bytes += each.size_bytes
        if count >= settings.EXPORTS_PER_PERSON or size_bytes > settings.EXPORT_BYTES:
            unneeded.append(each.pk)
    # The rows are deleted once this job has ended.
    Job.objects.filter(pk__in=unneeded).update(expires_at=Now())


def _add(
    archive: zipfile.ZipFile, job: Job, conversation: Conversation, check: Callable[[], None]
) -> str:
    """Adds one conversation, and returns why it can't be exported, if it can't."""
    with SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as file:
        try:
            is_complete = job.scope == JobScope.ALL
            write_to(file, job.user, conversation, job.form, is_complete=is_complete, check=check)
        except UNREADABLE as error:
            if is_database_unavailable(error) or is_storage_full(error):
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
        _copy(file, archive, info, check)
    return ""


def _copy(
    file: IO[bytes], archive: zipfile.ZipFile, info: zipfile.ZipInfo, check: Callable[[], None]
) -> None:
    with archive.open(info, "w") as entry:
        while part := file.read(COPIED_BYTES):
            entry.write(part)
            check()


def _moment(at: datetime) -> tuple[int, int, int, int, int, int]:
    return (max(at.year, 1980), at.month, at.day, at.hour, at.minute, at.second)
