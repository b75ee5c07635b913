"""Projects: who reads them, writes in them, manages them."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import (
    Q,
    QuerySet,
)
from django.http import Http404
from django.utils.translation import gettext

from chat.access.not_here import NOT_HERE
from chat.models import (
    Project,
    ProjectAccess,
    User,
)


def visible_projects(user: User) -> QuerySet[Project]:
    """The projects whose shared conversations, files and instructions this user may read."""
    if not user.is_authenticated or not user.is_active:
        return Project.objects.none()
    return Project.objects.visible_to(user)


def writable_projects(user: User) -> QuerySet[Project]:
    """The projects in which this user may write, and into which they may move conversations."""
    if not user.is_authenticated or not user.is_active:
        return Project.objects.none()
    return Project.objects.written_by(user)


def managed_projects(user: User) -> QuerySet[Project]:
    """The projects that this user may change and delete."""
    if not user.is_authenticated or not user.is_active:
        return Project.objects.none()
    return Project.objects.managed_by(user)


def get_project(
    user: User, public_id: UUID, *, for_write: bool = False, for_manage: bool = False
) -> Project:
    """A project that this user may read, ``for_write`` write in, ``for_manage`` change and delete."""
    project = visible_projects(user).filter(public_id=public_id).select_related("team").first()
    if project is None:
        raise Http404(NOT_HERE)
    if for_manage and not may_manage_project(user, project):
        raise PermissionDenied(gettext("Only managers of this project can do this."))
    if for_write and not may_write_in_project(user, project):
        raise PermissionDenied(
            gettext("You have read-only access to this project. Ask one of its managers.")
        )
    return project


def get_project_with_members(user: User, public_id: UUID) -> Project:
    """A project whose members this user may change. Owners and admins of its team may, also where
    they don't read the project: they may be shown its name and its members, and nothing else."""
    readable = Q(pk__in=visible_projects(user).values("pk"))
    projects = Project.objects.filter(public_id=public_id).select_related("team")
    project = projects.filter(readable | _may_change_members(user)).first()
    if project is None:
        raise Http404(NOT_HERE)
    if not may_manage_members(user, project):
        raise PermissionDenied(gettext("Only managers of this project can do this."))
    return project


def _may_change_members(user: User) -> Q:
    return Q(pk__in=Project.objects.with_members_managed_by(user).values("pk"))


def may_read_project(user: User, project: Project) -> bool:
    return visible_projects(user).filter(pk=project.pk).exists()


def may_write_in_project(user: User, project: Project) -> bool:
    return Project.objects.written_by(user).filter(pk=project.pk).exists()


def may_manage_project(user: User, project: Project) -> bool:
    return Project.objects.managed_by(user).filter(pk=project.pk).exists()


def may_manage_members(user: User, project: Project) -> bool:
    return Project.objects.with_members_managed_by(user).filter(pk=project.pk).exists()


def readers_of_project(project: Project) -> QuerySet[User]:
    """The people who may read what is shared with the project."""
    people = User.objects.filter(memberships__team=project.team_id, is_active=True)
    if project.access == ProjectAccess.MEMBERS:
        people = people.filter(project_memberships__project=project)
    return people.order_by("name", "email")
