"""Presets: a model with parameters, a system prompt and tools that a person, a project or a team sets up once, with all
their versions."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Value
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.places import one_of
from chat.models.project import Project
from chat.models.team import Team
from chat.models.upstream import Upstream
from chat.models.version import Version


class Preset(models.Model):
    """A preset of a person, or of a project or a team, whose people may use it. What it sets is that of the version with
    the highest number."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="presets"
    )
    project = models.ForeignKey(
        Project, null=True, on_delete=models.CASCADE, related_name="presets"
    )
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="presets")
    name = models.CharField(gettext_lazy("name"), max_length=80)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=one_of("owner", "project", "team"), name="preset_has_one_place"
            )
        ]

    def __str__(self) -> str:
        return self.name


class PresetVersion(Version):
    """The settings of a preset. Names of servers and tools are stored too, for versions that outlive them.

    ``tools`` and ``skills``: objects with ``id`` and ``name``. ``starters``: suggested messages. ``controls``: objects with ``name`` and
    ``choices``, each of which has a ``label`` and ``parameters``.
    """

    of = "preset"

    preset = models.ForeignKey(
        # The constraint's index does this, too.
        Preset,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="versions",
    )
    icon = models.CharField(max_length=40)
    upstream = models.ForeignKey(
        Upstream, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    server_name = models.CharField(max_length=80, blank=True)
    model = models.CharField(max_length=200)
    parameters = models.JSONField(default=dict, blank=True)
    system_prompt = models.TextField(blank=True)
    tools = models.JSONField(default=list, blank=True)
    # The database's default is for processes of an older version.
    skills = models.JSONField(default=list, db_default=Value([], models.JSONField()), blank=True)
    starters = models.JSONField(default=list, blank=True)
    controls = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["preset", "number"], name="preset_version_unique")
        ]

    def __str__(self) -> str:
        return f"{self.preset_id}: {self.number}"

    @property
    def key(self) -> str:
        """The id of the version in pages."""
        return f"{self.preset.public_id.hex}.{self.number}"

    @property
    def server(self) -> str:
        """The name of its server, also of one that was removed."""
        return self.upstream.name if self.upstream else self.server_name

    def content(self) -> dict[str, Any]:
        return {
            "icon": self.icon,
            "upstream_id": self.upstream_id,
            "server_name": self.server,
            "model": self.model,
            "parameters": self.parameters,
            "system_prompt": self.system_prompt,
            "tools": self.tools,
            "skills": self.skills,
            "starters": self.starters,
            "controls": self.controls,
        }


class DefaultPreset(models.Model):
    """The preset with which new conversations of a person, in a project or in a team begin."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="default_preset"
    )
    project = models.OneToOneField(
        Project, null=True, on_delete=models.CASCADE, related_name="default_preset"
    )
    team = models.OneToOneField(
        Team, null=True, on_delete=models.CASCADE, related_name="default_preset"
    )
    preset = models.ForeignKey(Preset, on_delete=models.CASCADE, related_name="default_of")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=one_of("user", "project", "team"), name="default_preset_has_one_place"
            )
        ]

    def __str__(self) -> str:
        return f"default preset {self.preset_id}"
