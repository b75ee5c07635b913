"""Skills: folders with instructions in ``SKILL.md`` and other files, which a model loads when it needs them, with all their
versions."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.file_content import FileContent
from chat.models.places import one_of
from chat.models.project import Project
from chat.models.team import Team
from chat.models.version import Version

# The limits of the exchange form (agentskills.io).
SKILL_NAME_LENGTH = 64
SKILL_DESCRIPTION_LENGTH = 1024


class Skill(models.Model):
    """A skill of a person, or of a project or a team, whose people may use it. Its content is that of the version with the
    highest number."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="skills"
    )
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="skills")
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="skills")
    # The name that the newest SKILL.md says.
    name = models.CharField(gettext_lazy("name"), max_length=SKILL_NAME_LENGTH)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=one_of("owner", "project", "team"), name="skill_has_one_place"
            ),
            models.UniqueConstraint(fields=["owner", "name"], name="skill_of_person_unique"),
            models.UniqueConstraint(fields=["project", "name"], name="skill_of_project_unique"),
            models.UniqueConstraint(fields=["team", "name"], name="skill_of_team_unique"),
        ]

    def __str__(self) -> str:
        return self.name


class SkillVersion(Version):
    """The content of a skill. ``files``: objects with ``path``, ``sha256`` and ``size``, of all its files but SKILL.md."""

    of = "skill"

    skill = models.ForeignKey(
        # The constraint's index does this, too.
        Skill,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="versions",
    )
    # SKILL.md as it was imported or written.
    text = models.TextField()
    # The description of SKILL.md, in a column because lists and requests have it of many skills at once.
    description = models.CharField(max_length=SKILL_DESCRIPTION_LENGTH)
    files = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["skill", "number"], name="skill_version_unique")
        ]

    def __str__(self) -> str:
        return f"{self.skill_id}: {self.number}"

    def content(self) -> dict[str, Any]:
        return {"text": self.text, "description": self.description, "files": self.files}


class SkillContent(models.Model):
    """Bytes that a file of some version of a skill has, which are kept as long as the skill."""

    skill = models.ForeignKey(
        # The constraint's index does this, too.
        Skill,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="contents",
    )
    content = models.ForeignKey(FileContent, on_delete=models.PROTECT, related_name="skills")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["skill", "content"], name="skill_content_unique")
        ]

    def __str__(self) -> str:
        return f"{self.skill_id}: {self.content_id}"


class SkillUpload(models.Model):
    """A file with skills that a person has uploaded and not confirmed yet: one at a time."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="skill_upload"
    )
    name = models.CharField(max_length=255)
    body = models.BinaryField()
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return self.name
