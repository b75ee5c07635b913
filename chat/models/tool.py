"""Function tools that a team defines: the model calls them, and a person gives the result."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from chat.models.team import Team


class Tool(models.Model):
    """The definition of a tool that a model gets. ``schema`` is a JSON Schema of type object."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="tools")
    # Every API accepts these: letters, digits, underscores and dashes, at most 64.
    name = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    schema = models.JSONField(default=dict, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, editable=False
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="tool_name_unique")]

    def __str__(self) -> str:
        return self.name
