"""Access to a person's exports and imports."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import Http404

from chat.access.not_here import NOT_HERE, existing
from chat.models import Job, JobKind, JobScope, JobStatus, Team, TeamRole, User


def owned_teams(user: User) -> QuerySet[Team]:
    """The teams whose shared conversations a user may export."""
    owned = Team.objects.filter(memberships__user=user, memberships__role=TeamRole.OWNER)
    return owned.order_by("name")


def jobs_of(user: User) -> QuerySet[Job]:
    """The user's own exports and imports that have not expired, the newest first; without exports that they may
    not make any more: those of a team for its owners, those of everything for administrators."""
    if not user.is_authenticated or not user.is_active:
        return Job.objects.none()
    is_allowed = ~Q(scope=JobScope.TEAM) | Q(team__in=owned_teams(user).order_by())
    listed = Job.objects.exclude(kind=JobKind.READ)
    mine = listed.filter(is_allowed, user=user, expires_at__gt=Now()).select_related("team")
    return mine if user.is_staff else mine.exclude(scope=JobScope.ALL)


def get_job(user: User, public_id: UUID) -> Job:
    """The user's own export or import, in any state. Raises ``Http404``."""
    return existing(jobs_of(user).filter(public_id=public_id).first())


def get_exported_file(user: User, public_id: UUID) -> Job:
    """The user's own export, if its file is complete and they may still make it."""
    job = get_job(user, public_id)
    if job.kind != JobKind.EXPORT or job.status != JobStatus.DONE:
        raise Http404(NOT_HERE)
    return job
