"""Titles of conversations that a model writes: which model, and its requests."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.run import Run
from chat.models.upstream import Upstream


class TitleSetting(models.Model):
    """The server and model that write the titles of the whole installation. It has one row at most;
    without a server no titles are written."""

    ONLY = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY)
    upstream = models.ForeignKey(Upstream, null=True, on_delete=models.SET_NULL, related_name="+")
    model = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="title_setting_only")]

    def __str__(self) -> str:
        return f"titles by {self.model or 'nobody'}"


class TitleStatus(models.TextChoices):
    QUEUED = "queued", gettext_lazy("Queued")
    RUNNING = "running", gettext_lazy("Running")
    DONE = "done", gettext_lazy("Completed")
    FAILED = "failed", gettext_lazy("Failed")
    SKIPPED = "skipped", gettext_lazy("Skipped")


ACTIVE_TITLE_STATUSES = (TitleStatus.QUEUED, TitleStatus.RUNNING)


class TitleReason(models.TextChoices):
    """Why a request was not sent, or its title not used."""

    RENAMED = "renamed", gettext_lazy("The conversation was renamed meanwhile")
    DELETED = "deleted", gettext_lazy("The conversation was deleted meanwhile")
    PRIVATE = (
        "private",
        gettext_lazy("Private and temporary conversations are sent to no other server"),
    )
    OFF = "off", gettext_lazy("Titles by this model were turned off meanwhile")
    BUSY = "busy", gettext_lazy("The server was busy with answers for too long")
    LOST = "lost", gettext_lazy("The runner stopped before the title was complete")
    LOCKED = "locked", gettext_lazy("The server’s credentials can’t be decrypted")
    EMPTY = "empty", gettext_lazy("The model wrote no title")


class TitleRequest(models.Model):
    """One request for the title of a conversation, after its first answer. It is no run of the answer: it
    is in no queue that people see, and counts for no limit but the server's."""

    # The run is the one that ended the answer.
    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="title_request")
    status = models.CharField(
        max_length=10, choices=TitleStatus.choices, default=TitleStatus.QUEUED
    )
    # Server and model are those of the setting when a runner claimed the request, just before it sent it.
    upstream = models.ForeignKey(
        Upstream, null=True, on_delete=models.SET_NULL, related_name="title_requests"
    )
    model = models.CharField(max_length=200, blank=True)
    queued_at = models.DateTimeField(default=timezone.now)
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    # The title that the model wrote is stored also if it was not used.
    title = models.CharField(max_length=200, blank=True)
    input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    reasoning_tokens = models.PositiveBigIntegerField(null=True)
    reason = models.CharField(max_length=10, choices=TitleReason.choices, blank=True)
    # The error is that of the server or the connection.
    error_kind = models.CharField(max_length=20, blank=True)
    error_message = models.TextField(blank=True)

    class Meta:
        indexes = [
            # The index has the few that are queued or running: each claim of runs counts the running ones.
            models.Index(
                fields=["status", "queued_at"],
                condition=Q(status__in=["queued", "running"]),
                name="title_request_active",
            )
        ]

    def __str__(self) -> str:
        return f"title after run {self.run_id}: {self.status}"
