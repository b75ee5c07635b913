"""Artifacts and mockups that an upstream creates beside its answer, with all their versions."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation
from chat.models.file import StoredFile
from chat.models.run import Run
from chat.models.upstream import Upstream


class Artifact(models.Model):
    """A text that the upstream identifies by ``artifact_id`` and may change in later answers."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="artifacts"
    )
    artifact_id = models.CharField(max_length=200)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "artifact_id"], name="artifact_unique")
        ]

    def __str__(self) -> str:
        return f"artifact {self.artifact_id}"


class ArtifactVersion(models.Model):
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(gettext_lazy("version"))
    # The event of this run's log that created it.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifact_versions")
    seq = models.PositiveBigIntegerField()
    identifier = models.CharField(max_length=200, blank=True)
    title = models.CharField(max_length=300, blank=True)
    language = models.CharField(max_length=60, blank=True)
    content_type = models.CharField(max_length=100, blank=True)
    content = models.TextField(blank=True)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = gettext_lazy("artifact version")
        verbose_name_plural = gettext_lazy("artifact versions")
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["artifact", "number"], name="artifact_version_unique"),
            models.UniqueConstraint(fields=["artifact", "run", "seq"], name="artifact_made_once"),
        ]

    def __str__(self) -> str:
        return f"{self.artifact_id} v{self.number}"


class Mockup(models.Model):
    """A bundle of files that is stored at the upstream until this server has fetched it."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="mockups")
    upstream = models.ForeignKey(Upstream, null=True, on_delete=models.SET_NULL, related_name="+")
    bundle_id = models.CharField(max_length=200)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "bundle_id"], name="mockup_unique")
        ]

    def __str__(self) -> str:
        return f"mockup {self.bundle_id}"


class MockupVersion(models.Model):
    mockup = models.ForeignKey(Mockup, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(gettext_lazy("version"))
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="mockup_versions")
    seq = models.PositiveBigIntegerField()
    identifier = models.CharField(max_length=200, blank=True)
    title = models.CharField(max_length=300, blank=True)
    entry = models.CharField(max_length=500, blank=True)
    changed = models.JSONField(default=list, blank=True)
    deleted = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = gettext_lazy("mockup version")
        verbose_name_plural = gettext_lazy("mockup versions")
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["mockup", "number"], name="mockup_version_unique"),
            models.UniqueConstraint(fields=["mockup", "run", "seq"], name="mockup_made_once"),
        ]

    def __str__(self) -> str:
        return f"{self.mockup_id} v{self.number}"


class FetchStatus(models.TextChoices):
    WANTED = "wanted", gettext_lazy("Downloading")
    STORED = "stored", gettext_lazy("Stored")
    REFUSED = "refused", gettext_lazy("Not downloaded")


class MockupFile(models.Model):
    """One path of a version. A file that did not change shares the bytes of the version before."""

    version = models.ForeignKey(MockupVersion, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=500)
    content_type = models.CharField(max_length=100, blank=True)
    # The size that the upstream announced; the stored file has its own.
    announced_bytes = models.PositiveBigIntegerField(default=0)
    status = models.CharField(
        max_length=10, choices=FetchStatus.choices, default=FetchStatus.WANTED
    )
    attempts = models.PositiveIntegerField(default=0)
    # When it may be fetched (again). The process that takes it moves this on, so that no other
    # process takes it as well.
    due_at = models.DateTimeField(default=timezone.now)
    file = models.ForeignKey(StoredFile, null=True, on_delete=models.SET_NULL, related_name="+")
    # Why it was not fetched, in a sentence for the page.
    reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["path"]
        indexes = [models.Index(fields=["status", "due_at"])]
        constraints = [
            models.UniqueConstraint(fields=["version", "path"], name="mockup_file_unique")
        ]

    def __str__(self) -> str:
        return self.path
