"""Prompts: texts that a person or a team writes once and inserts into messages, with all their versions."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.team import Team
from chat.models.version import Version


class VariableKind(models.TextChoices):
    """The kinds of values that a variable of a prompt takes."""

    TEXT = "text", gettext_lazy("Short text")
    LINES = "lines", gettext_lazy("Long text")
    NUMBER = "number", gettext_lazy("Number")
    DATE = "date", gettext_lazy("Date")
    CHOICE = "choice", gettext_lazy("Choice")


class Prompt(models.Model):
    """A prompt of a person, or of a team, whose people may use it. Its text is that of the version with the highest
    number."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="prompts"
    )
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="prompts")
    name = models.CharField(gettext_lazy("name"), max_length=80)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(owner__isnull=True, team__isnull=False)
                | Q(owner__isnull=False, team__isnull=True),
                name="prompt_has_one_place",
            )
        ]

    def __str__(self) -> str:
        return self.name


class PromptVersion(Version):
    """A version of a prompt's text. ``variables`` has an object for each variable of the text (`chat.prompts.variables`)."""

    of = "prompt"

    prompt = models.ForeignKey(
        # The constraint's index does this, too.
        Prompt,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="versions",
    )
    text = models.TextField()
    variables = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["prompt", "number"], name="prompt_version_unique")
        ]

    def __str__(self) -> str:
        return f"{self.prompt_id}: {self.number}"

    def content(self) -> dict[str, Any]:
        return {"text": self.text, "variables": self.variables}
