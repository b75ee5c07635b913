"""Background jobs that people start, watch and cancel, and the files that jobs read or make."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.document import Document
from chat.models.team import Team


class JobKind(models.TextChoices):
    """An uploaded export of another product goes through check, import and undo, in one row."""

    EXPORT = "export", gettext_lazy("Export")
    CHECK = "check", gettext_lazy("Check of an import")
    IMPORT = "import", gettext_lazy("Import")
    UNDO = "undo", gettext_lazy("Undo of an import")
    READ = "read", gettext_lazy("Reading of a document")


class JobStatus(models.TextChoices):
    UPLOADING = "uploading", gettext_lazy("Uploading")
    QUEUED = "queued", gettext_lazy("Queued")
    RUNNING = "running", gettext_lazy("Running")
    DONE = "done", gettext_lazy("Done")
    FAILED = "failed", gettext_lazy("Failed")
    CANCELED = "canceled", gettext_lazy("Canceled")


ACTIVE_JOB_STATUSES = (JobStatus.UPLOADING, JobStatus.QUEUED, JobStatus.RUNNING)


class JobScope(models.TextChoices):
    """The owner of an export's conversations."""

    OWN = "own", gettext_lazy("My conversations")
    TEAM = "team", gettext_lazy("Shared conversations of a team")
    ALL = "all", gettext_lazy("All conversations")


class Job(models.Model):
    """One job of a person, or for one. A runner that works on it holds a lease, which it renews every second;
    a job whose lease was not renewed is begun again by another runner."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    kind = models.CharField(max_length=10, choices=JobKind.choices)
    status = models.CharField(max_length=10, choices=JobStatus.choices, default=JobStatus.QUEUED)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="jobs"
    )
    # The team to import to, or whose shared conversations are exported.
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="+")
    # The document to read.
    document = models.ForeignKey(Document, null=True, on_delete=models.CASCADE, related_name="jobs")
    # Exports only.
    scope = models.CharField(max_length=10, choices=JobScope.choices, blank=True)
    # A name of `chat.exports.forms.FORMS`, for exports.
    form = models.CharField(max_length=20, blank=True)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    # The result that the page shows at the end; its form depends on the kind.
    result = models.JSONField(default=dict, blank=True)
    # A sentence for the person, if it failed.
    error = models.TextField(blank=True)

    # The file that it reads or makes. Its bytes are in `JobChunk`.
    file_name = models.CharField(max_length=255, blank=True)
    size_bytes = models.PositiveBigIntegerField(default=0)

    created_at = models.DateTimeField(default=timezone.now, editable=False)
    queued_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    # From this time on its person doesn't see it, and a runner deletes it with its file.
    expires_at = models.DateTimeField()

    # A new one for each claim, so that a runner that has lost the job can't write about it.
    lease = models.UUIDField(null=True)
    # The time by the database's clock.
    heartbeat_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["queued_at"], name="job_due", condition=Q(status__in=("queued", "running"))
            ),
            models.Index(fields=["expires_at"], name="job_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.public_id}"

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE_JOB_STATUSES


class JobChunk(models.Model):
    """A piece of a job's file, in the database so that any web process and any runner can read it.
    All pieces but the last have the same length."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField()
    body = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="job_chunk_unique")]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.number}"
