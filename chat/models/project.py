"""Projects: folders of a team with shared instructions, files and defaults."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.team import Team
from chat.models.tool import Tool
from chat.models.upstream import Upstream


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
    """The role of a selected person. In a project for everyone, the role in the team decides."""

    MANAGER = "manager", gettext_lazy("Manager")
    WRITER = "writer", gettext_lazy("Writer")
    READER = "reader", gettext_lazy("Reader")


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
    # Instructions for every answer in the project's conversations, before their own system prompts.
    instructions = models.TextField(gettext_lazy("instructions"), blank=True)
    access = models.CharField(
        gettext_lazy("access"),
        max_length=10,
        choices=ProjectAccess.choices,
        default=ProjectAccess.TEAM,
    )
    # The defaults of the composer of a new conversation.
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
