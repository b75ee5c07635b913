"""Projects: folders of a team with shared instructions, files and defaults."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.team import MANAGING_ROLES, WRITING_ROLES, Team
from chat.models.tool import Tool
from chat.models.upstream import Upstream

if TYPE_CHECKING:
    from chat.models.user import User


class ProjectColor(models.TextChoices):
    """Names of color tokens: pages know what they look like in the light and in the dark."""

    GRAY = "gray", gettext_lazy("Gray")
    RED = "red", gettext_lazy("Red")
    ORANGE = "orange", gettext_lazy("Orange")
    YELLOW = "yellow", gettext_lazy("Yellow")
    GREEN = "green", gettext_lazy("Green")
    TEAL = "teal", gettext_lazy("Teal")
    BLUE = "blue", gettext_lazy("Blue")
    PURPLE = "purple", gettext_lazy("Purple")


class ProjectAccess(models.TextChoices):
    TEAM = "team", gettext_lazy("Everyone on the team")
    MEMBERS = "members", gettext_lazy("Selected people")


class ProjectRole(models.TextChoices):
    """What selected people may do. In a project for everyone, the role in the team decides."""

    MANAGER = "manager", gettext_lazy("Manager")
    WRITER = "writer", gettext_lazy("Writer")
    READER = "reader", gettext_lazy("Reader")


PROJECT_WRITING_ROLES = (ProjectRole.MANAGER, ProjectRole.WRITER)


class ProjectQuerySet(models.QuerySet["Project"]):
    """Who may do what, by their role in the team and, in projects of selected people, that in the
    project. Being on the team comes first: a role in the project alone gives nothing."""

    def visible_to(self, user: User) -> ProjectQuerySet:
        """Those whose shared conversations, files and instructions this user may read."""
        return self.filter(
            Q(access=ProjectAccess.TEAM) | _has_role(user, ProjectRole.values),
            team__memberships__user=user,
        )

    def written_by(self, user: User) -> ProjectQuerySet:
        """Those in whose shared conversations this user may write. A viewer of the team never does."""
        return self.filter(
            Q(access=ProjectAccess.TEAM) | _has_role(user, PROJECT_WRITING_ROLES),
            team__memberships__user=user,
            team__memberships__role__in=WRITING_ROLES,
        )

    def managed_by(self, user: User) -> ProjectQuerySet:
        """Those that this user may change and delete."""
        return self.filter(
            _is_manager(user) | Q(access=ProjectAccess.TEAM) & _MANAGES_TEAM,
            team__memberships__user=user,
            team__memberships__role__in=WRITING_ROLES,
        )

    def with_members_managed_by(self, user: User) -> ProjectQuerySet:
        """Those whose members this user may see and change. Owners and admins of the team may, so
        that nobody is locked out; that does not let them read the content."""
        return self.filter(
            _is_manager(user) | _MANAGES_TEAM,
            team__memberships__user=user,
            team__memberships__role__in=WRITING_ROLES,
        )


_MANAGES_TEAM = Q(team__memberships__role__in=MANAGING_ROLES)


def _is_manager(user: User) -> Q:
    """The creator of a project for the whole team; a manager of one of selected people."""
    return Q(access=ProjectAccess.TEAM, created_by=user) | (
        Q(access=ProjectAccess.MEMBERS) & _has_role(user, [ProjectRole.MANAGER])
    )


def _has_role(user: User, roles: Iterable[str]) -> Q:
    members = ProjectMember.objects.filter(project=OuterRef("pk"), user=user)
    return Q(Exists(members.filter(role__in=roles)))


class Project(models.Model):
    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, related_name="projects", verbose_name=gettext_lazy("team")
    )
    name = models.CharField(gettext_lazy("name"), max_length=80)
    color = models.CharField(
        gettext_lazy("color"),
        max_length=10,
        choices=ProjectColor.choices,
        default=ProjectColor.GRAY,
    )
    description = models.CharField(gettext_lazy("description"), max_length=500, blank=True)
    # What every answer in the project's conversations is told, before their own system prompts.
    instructions = models.TextField(gettext_lazy("instructions"), blank=True)
    access = models.CharField(
        gettext_lazy("access"),
        max_length=10,
        choices=ProjectAccess.choices,
        default=ProjectAccess.TEAM,
    )
    # What the composer of a new conversation begins with.
    upstream = models.ForeignKey(
        Upstream, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    model = models.CharField(gettext_lazy("model"), max_length=200, blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    tools = models.ManyToManyField(Tool, blank=True, related_name="projects")
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="ProjectMember", related_name="projects"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    objects = ProjectQuerySet.as_manager()

    class Meta:
        verbose_name = gettext_lazy("project")
        verbose_name_plural = gettext_lazy("projects")
        ordering = ["name", "pk"]

    def __str__(self) -> str:
        return self.name


class ProjectMember(models.Model):
    """A person selected for a project. They count only while they are on the team, too."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="project_memberships"
    )
    role = models.CharField(
        gettext_lazy("role"),
        max_length=10,
        choices=ProjectRole.choices,
        default=ProjectRole.WRITER,
    )

    class Meta:
        verbose_name = gettext_lazy("project member")
        verbose_name_plural = gettext_lazy("project members")
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="project_member_unique")
        ]

    def __str__(self) -> str:
        return f"{self.project_id}: {self.user_id} ({self.role})"
