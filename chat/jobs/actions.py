"""The queue of jobs: created and canceled by people, claimed and ended by runners."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from chat.core import notify
from chat.core.errors import ActionRefused
from chat.events import JsonObject
from chat.jobs.kinds import TRANSFERS, JobStopped, Lane, StopReason, has_failed, lane_of
from chat.models import ACTIVE_JOB_STATUSES, Job, JobChunk, JobKind, JobStatus, User

logger = logging.getLogger(__name__)

# Published when files may have become unnecessary.
PURGE = "jobs.purge"
# Exports and imports that one person may have uploading, queued or running.
MOST_ACTIVE = 3
# A job during which so many processes died will not succeed, and must not end the next one.
MOST_ATTEMPTS = 3
# Pieces that are deleted in one transaction. On SQLite all other writers wait meanwhile.
PURGED_CHUNKS = 32

_ENDED = (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELED)


# --- of people ------------------------------------------------------------------------------------


def create(user: User, kind: JobKind, *, days: float, **values: Any) -> Job:
    """Queues a job, unless ``status`` says that its file is still to come. It expires after
    ``days``. Raises ``ActionRefused`` if the person has too many. Call this in a transaction."""
    lane = lane_of(kind)
    if lane.is_for_people:
        _check_count(user, lane)
    expires_at = timezone.now() + timedelta(days=days)
    job = Job.objects.create(user=user, kind=kind, expires_at=expires_at, **values)
    notify.publish_after_commit(lane.topic)
    return job


def _check_count(user: User, lane: Lane) -> None:
    # The second of two requests of one person waits here, and counts the first.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    active = Job.objects.filter(
        user=user, kind__in=lane.kinds, status__in=ACTIVE_JOB_STATUSES, expires_at__gt=Now()
    )
    if active.count() >= MOST_ACTIVE:
        words = ngettext(
            "You already have %(count)d export or import in progress. Wait for it, or cancel it.",
            "You already have %(count)d exports or imports in progress. Wait for one, or cancel one.",
            MOST_ACTIVE,
        )
        raise ActionRefused(words % {"count": MOST_ACTIVE})


def queue(job: Job, kind: JobKind, *, days: float, **changes: Any) -> bool:
    """Queues an ended or uploaded job again, as one of this kind. Whether it was still as the
    caller has seen it."""
    queued = Job.objects.filter(pk=job.pk, kind=job.kind, status=job.status).update(
        kind=kind,
        status=JobStatus.QUEUED,
        queued_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=days),
        **{**_FRESH, **changes},
    )
    notify.publish_after_commit(lane_of(kind).topic)
    return bool(queued)


_FRESH: Mapping[str, Any] = {
    "done": 0,
    "total": 0,
    "attempts": 0,
    "lease": None,
    "error": "",
    "finished_at": None,
    "cancel_requested_at": None,
}


def cancel(job: Job) -> None:
    """Cancels a waiting job at once; a running one stops at its next step, within about a second."""
    waiting = Job.objects.filter(pk=job.pk, status__in=(JobStatus.UPLOADING, JobStatus.QUEUED))
    if waiting.update(status=JobStatus.CANCELED, finished_at=timezone.now()):
        logger.info("job.canceled job=%s kind=%s", job.public_id, job.kind)
        notify.publish_after_commit(PURGE)
        return
    running = Job.objects.filter(pk=job.pk, status=JobStatus.RUNNING)
    running.update(cancel_requested_at=Now())


def remove(job: Job) -> None:
    """The job is gone for its person, and a runner deletes its rows. Raises ``ActionRefused`` for
    one that is active."""
    if not Job.objects.filter(pk=job.pk, status__in=_ENDED).update(expires_at=Now()):
        raise ActionRefused(gettext("This is still in progress. Cancel it first."))
    notify.publish_after_commit(PURGE)


# --- of runners -----------------------------------------------------------------------------------


def claim(lease: UUID, lane: Lane = TRANSFERS) -> Job | None:
    """The next job of the lane that waits, or whose runner was lost: it is this runner's from now on, as long
    as the lease is renewed."""
    for job in _due(lane).select_related("user")[:20]:
        # Still due: its runner may have been late, and renew the lease at this moment.
        held = _due(lane).filter(pk=job.pk, status=job.status, lease=job.lease)
        is_unwanted = lane.is_for_people and not job.user.is_active
        if job.cancel_requested_at is not None or is_unwanted:
            held.update(status=JobStatus.CANCELED, finished_at=timezone.now(), lease=None)
        elif job.attempts >= MOST_ATTEMPTS:
            _abandon(job, held)
        elif held.update(
            status=JobStatus.RUNNING, lease=lease, heartbeat_at=Now(), attempts=F("attempts") + 1
        ):
            logger.info("job.claimed job=%s kind=%s", job.public_id, job.kind)
            return Job.objects.select_related("user", "team").get(pk=job.pk)
    return None


def _abandon(job: Job, held: QuerySet[Job]) -> None:
    words = gettext("The server stopped several times while this was in progress.")
    with transaction.atomic():
        if held.update(error=words, **_ended_as(job, JobStatus.FAILED)):
            has_failed(job, words)
    logger.error("job.abandoned job=%s kind=%s", job.public_id, job.kind)


def _due(lane: Lane) -> QuerySet[Job]:
    silent = Q(heartbeat_at__lt=Now() - timedelta(seconds=settings.LEASE_SECONDS))
    due = Q(status=JobStatus.QUEUED) | Q(silent, status=JobStatus.RUNNING)
    return Job.objects.filter(due, kind__in=lane.kinds).order_by("queued_at", "pk")


def _ended_as(job: Job, status: JobStatus) -> Mapping[str, Any]:
    ended = {"status": status, "finished_at": timezone.now(), "lease": None}
    return ended if lane_of(job.kind).is_for_people else {**ended, "expires_at": Now()}


def held_by(job: Job, lease: UUID) -> QuerySet[Job]:
    """The job's row, as long as this lease holds it."""
    return Job.objects.filter(pk=job.pk, lease=lease, status=JobStatus.RUNNING)


def renew(job: Job, lease: UUID, *, done: int, total: int) -> StopReason | None:
    """Renews the lease and writes the progress. Returns why the job must stop, if it must."""
    held = held_by(job, lease)
    if not held.update(heartbeat_at=Now(), done=done, total=total):
        return "lost"
    return "canceled" if held.filter(cancel_requested_at__isnull=False).exists() else None


def keep(job: Job, lease: UUID) -> None:
    """Call this at the end of a transaction that writes for the job: until it is over, nobody can take the
    job. Raises ``JobStopped`` if another runner has it."""
    if not held_by(job, lease).update(heartbeat_at=Now()):
        raise JobStopped("lost")


def end_job(
    job: Job,
    lease: UUID,
    status: JobStatus,
    *,
    also: Callable[[], None] | None = None,
    **values: Any,
) -> bool:
    """Ends the job, if this runner still has it; ``also`` is called in the same transaction."""
    with transaction.atomic():
        ended = held_by(job, lease).update(**_ended_as(job, status), **values)
        if ended and also is not None:
            also()
        notify.publish_after_commit(PURGE)
    if ended:
        logger.info("job.ended job=%s kind=%s status=%s", job.public_id, job.kind, status)
    return bool(ended)


def end_done(
    job: Job,
    lease: UUID,
    *,
    done: int,
    total: int,
    result: JsonObject,
    also: Callable[[], None] | None = None,
) -> bool:
    return end_job(job, lease, JobStatus.DONE, done=done, total=total, result=result, also=also)


def end_failed(job: Job, lease: UUID, words: str) -> bool:
    """Ends the job with a message for the person."""
    also = partial(has_failed, job, words)
    return end_job(job, lease, JobStatus.FAILED, error=words, also=also)


def give_back(job: Job, lease: UUID) -> None:
    """Queues the job again, because this process stops. It keeps its place."""
    held_by(job, lease).update(status=JobStatus.QUEUED, lease=None, attempts=F("attempts") - 1)
    logger.info("job.requeued job=%s kind=%s", job.public_id, job.kind)
    notify.publish_after_commit(lane_of(job.kind).topic)


# --- what is not needed any more ------------------------------------------------------------------


def purge_some() -> bool:
    """Deletes some of the pieces that nobody needs, or a few expired jobs. Says whether there may
    be more."""
    is_expired = Q(expires_at__lte=Now()) & ~Q(status=JobStatus.RUNNING)
    # Chunks that outlive their job: exports are downloaded, and checked files are imported.
    is_wanted = Q(status=JobStatus.DONE, kind__in=(JobKind.EXPORT, JobKind.CHECK))
    unneeded = Job.objects.filter(is_expired | (Q(status__in=_ENDED) & ~is_wanted))
    chunks = JobChunk.objects.filter(job__in=unneeded).values_list("pk", flat=True)[:PURGED_CHUNKS]
    keys = list(chunks)
    if keys:
        JobChunk.objects.filter(pk__in=keys).delete()
        return True
    expired = list(Job.objects.filter(is_expired).values_list("pk", flat=True)[:PURGED_CHUNKS])
    Job.objects.filter(is_expired, pk__in=expired).delete()
    return bool(expired)
