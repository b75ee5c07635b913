"""Projects: who reads them, writes in them, manages them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import BooleanField, Exists, OuterRef, Q, QuerySet, Value
from django.utils.translation import gettext

from chat.access import rule
from chat.access.not_here import existing
from chat.models import Project, ProjectAccess, User


def visible_projects(person: Any) -> QuerySet[Project]:
    """The projects whose shared conversations, files and instructions a person may read. As in
    `chat.access.rule`, the person is a user, a placeholder or a column of an outer query."""
    return rule.for_person(Project.objects.all(), person).filter(rule.READS_PROJECT)


def writable_projects(person: Any) -> QuerySet[Project]:
    """The projects in which a person may write, and into which they may move conversations."""
    return rule.for_person(Project.objects.all(), person).filter(rule.WRITES_IN_PROJECT)


def managed_projects(user: User) -> QuerySet[Project]:
    """The projects that this user may change and delete."""
    return rule.for_person(Project.objects.all(), user).filter(rule.MANAGES_PROJECT)


def _with_managed_members(user: User) -> QuerySet[Project]:
    return rule.for_person(Project.objects.all(), user).filter(rule.MANAGES_MEMBERS)


def get_project(
    user: User, public_id: UUID, *, for_write: bool = False, for_manage: bool = False
) -> Project:
    """A project that this user may read, ``for_write`` write in, ``for_manage`` change and delete."""
    project = existing(
        visible_projects(user).filter(public_id=public_id).select_related("team").first()
    )
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
    projects = rule.for_person(Project.objects.select_related("team"), user).filter(
        rule.READS_PROJECT | rule.MANAGES_MEMBERS
    )
    project = existing(projects.filter(public_id=public_id).first())
    if not may_manage_members(user, project):
        raise PermissionDenied(gettext("Only managers of this project can do this."))
    return project


def may_read_project(user: User, project: Project) -> bool:
    return visible_projects(user).filter(pk=project.pk).exists()


def may_write_in_project(user: User, project: Project) -> bool:
    return writable_projects(user).filter(pk=project.pk).exists()


def may_manage_project(user: User, project: Project) -> bool:
    return managed_projects(user).filter(pk=project.pk).exists()


def may_manage_members(user: User, project: Project) -> bool:
    return _with_managed_members(user).filter(pk=project.pk).exists()


def readers_of_project(project: Project, *, new_access: str = "") -> QuerySet[User]:
    """The people who may read what is shared with the project, or who might if its access were another."""
    reads = rule.READS_PROJECT
    if new_access:
        is_for_team = Value(new_access == ProjectAccess.TEAM, output_field=BooleanField())
        reads = rule.reads_project(Q(is_for_team))
    theirs = rule.for_person(Project.objects.filter(pk=project.pk), OuterRef("pk")).filter(reads)
    people = User.objects.filter(Exists(theirs), memberships__team=project.team_id)
    return people.order_by("name", "email")
