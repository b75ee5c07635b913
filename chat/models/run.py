"""A run: one execution of one upstream request, and its log."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation, Message
from chat.models.preset import PresetVersion
from chat.models.project import Project
from chat.models.upstream import Upstream


class RunStatus(models.TextChoices):
    QUEUED = "queued", gettext_lazy("Queued")
    RUNNING = "running", gettext_lazy("Running")
    COMPLETED = "completed", gettext_lazy("Completed")
    WAITING = "waiting", gettext_lazy("Needs input")
    INCOMPLETE = "incomplete", gettext_lazy("Incomplete")
    STOPPED = "stopped", gettext_lazy("Stopped")
    FAILED = "failed", gettext_lazy("Failed")
    CUT = "cut", gettext_lazy("Cut off")
    INTERRUPTED = "interrupted", gettext_lazy("Interrupted")


LIVE_STATUSES = (RunStatus.QUEUED, RunStatus.RUNNING)


class Runner(models.Model):
    """The part of a process that executes runs. One heartbeat row per process, not per run."""

    uuid = models.UUIDField(
        gettext_lazy("ID"), primary_key=True, default=uuid.uuid4, editable=False
    )
    host = models.CharField(gettext_lazy("host"), max_length=200)
    pid = models.PositiveIntegerField(gettext_lazy("process ID"))
    # Distinguishes a process from a later one with the same number on the same host.
    boot = models.CharField(max_length=100, blank=True)
    started_at = models.DateTimeField(gettext_lazy("started"), default=timezone.now)
    heartbeat_at = models.DateTimeField(gettext_lazy("last heartbeat"), default=timezone.now)
    is_draining = models.BooleanField(gettext_lazy("stopping"), default=False)
    # How many runs it executes at once. The database's default is for runners of an older version.
    capacity = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        verbose_name = gettext_lazy("runner")
        verbose_name_plural = gettext_lazy("runners")

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class Run(models.Model):
    """One request to a server, from being queued to its result. A runner claims it; its events are the log."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="runs")
    # The answer that this run writes. An answer that continues after a pause or a tool has several runs.
    # Without an index of its own (like the runner): an index over several columns begins with it.
    message = models.ForeignKey(
        Message, on_delete=models.CASCADE, related_name="runs", db_index=False
    )
    position = models.PositiveIntegerField(default=0)

    upstream = models.ForeignKey(
        Upstream,
        null=True,
        on_delete=models.SET_NULL,
        related_name="runs",
        verbose_name=gettext_lazy("server"),
    )
    # The dialect at the time of the request; the server's may have changed since.
    dialect = models.CharField(max_length=40, blank=True)
    model = models.CharField(gettext_lazy("model"), max_length=200)
    # The version of a preset that the conversation used, for figures; what was sent may differ from it.
    preset_version = models.ForeignKey(
        PresetVersion,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        # Most runs have none: the index below is only of those that have one.
        db_index=False,
        related_name="+",
    )
    system_prompt = models.TextField(blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    # Definitions of the tools that were offered: [{"name", "description", "schema"}].
    tools = models.JSONField(default=list, blank=True)
    # The results and replies that the run before it waited for, if it continues an answer
    # (`chat.runs.resume`).
    inputs = models.JSONField(default=list, blank=True)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        # The index below does this, too.
        db_index=False,
        related_name="runs",
        verbose_name=gettext_lazy("requested by"),
    )
    idempotency_key = models.UUIDField(unique=True)
    # The digest of an API request (`chat.public_api.idempotency`).
    request_digest = models.CharField(max_length=64, null=True, blank=True)

    status = models.CharField(
        gettext_lazy("status"),
        max_length=12,
        choices=RunStatus.choices,
        default=RunStatus.QUEUED,
    )
    runner = models.ForeignKey(
        Runner,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="runs",
        db_index=False,
    )
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    queued_at = models.DateTimeField(gettext_lazy("queued"), default=timezone.now)
    claimed_at = models.DateTimeField(null=True, blank=True)
    request_sent_at = models.DateTimeField(null=True, blank=True)
    first_event_at = models.DateTimeField(null=True, blank=True)
    first_token_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    # Set when the run ends; while it is live, read it from the segments.
    last_seq = models.PositiveBigIntegerField(default=0)
    # The chat.end result, JSON as chat.events encodes it.
    result = models.TextField(blank=True)
    response_id = models.CharField(max_length=200, blank=True)
    input_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    output_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    reasoning_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    error_kind = models.CharField(max_length=20, blank=True)
    error_message = models.TextField(blank=True)
    # Sentences for the run's details, such as "earlier turns were sent as text".
    notes = models.JSONField(default=list, blank=True)

    # The server and the model's label in the source of an imported conversation, if they were loaded
    # with it and the run has no server here.
    imported_server = ""
    imported_label = ""
    # Set on the object that an action returns: the idempotency key was known, and nothing was done
    # again.
    is_repeated = False

    class Meta:
        verbose_name = gettext_lazy("run")
        verbose_name_plural = gettext_lazy("runs")
        indexes = [
            models.Index(fields=["status", "queued_at"]),
            models.Index(fields=["runner", "status"]),
            # The inbox reads a person's newest runs.
            models.Index(fields=["requested_by", "queued_at"], name="run_requested"),
            # The deletion of a preset looks its versions up.
            models.Index(
                fields=["preset_version"],
                condition=models.Q(preset_version__isnull=False),
                name="run_preset",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["message", "position"], name="run_position_unique")
        ]

    def __str__(self) -> str:
        return f"run {self.public_id}"

    @property
    def is_live(self) -> bool:
        return self.status in LIVE_STATUSES

    @property
    def is_queued(self) -> bool:
        """True if no runner has claimed it yet."""
        return self.status == RunStatus.QUEUED


class RunSegment(models.Model):
    """A batch of a run's events: ``body`` is a JSON array, zlib-compressed after compaction.

    Thousands of rows are written in a second, so each index and each further row counts.
    """

    # Without an index of its own, because the unique one begins with it.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="segments", db_index=False)
    first_seq = models.PositiveBigIntegerField()
    last_seq = models.PositiveBigIntegerField()
    is_compressed = models.BooleanField(default=False)
    body = models.BinaryField()
    # The bytes that it was made of, and those before them that produced no event, until compaction
    # (see `RawSegment`).
    raw = models.BinaryField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "first_seq"], name="segment_unique")]
        indexes = [
            # Runs that are not compacted yet. Only the first segment of each is in this index, so
            # that the others cost nothing more.
            models.Index(
                fields=["run"],
                name="segment_uncompacted",
                condition=models.Q(first_seq=1, is_compressed=False),
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.first_seq}–{self.last_seq}"


class RawSegment(models.Model):
    """Bytes as the upstream sent them (credentials redacted), for the details view. One row of a
    compacted run; while the run is live they are beside its segments."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="raw_segments", db_index=False
    )
    position = models.PositiveIntegerField()
    is_compressed = models.BooleanField(default=False)
    body = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "position"], name="raw_segment_unique")
        ]

    def __str__(self) -> str:
        return f"{self.run_id} raw {self.position}"


class EndedRun(models.Model):
    """A run that has ended and that a follower has not handled yet: `chat.runs.ended_runs`."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    follower = models.CharField(max_length=40)
    failures = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["follower", "due_at"])]

    def __str__(self) -> str:
        return f"{self.run_id} {self.follower}"


class Attempt(models.Model):
    """One attempt to reach the upstream. A second one happens only if the first was refused."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    started_at = models.DateTimeField(default=timezone.now)
    outcome = models.CharField(max_length=20, blank=True)
    error_kind = models.CharField(max_length=20, blank=True)
    error_message = models.TextField(blank=True)
    retry_after_seconds = models.FloatField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="attempt_unique")]

    def __str__(self) -> str:
        return f"{self.run_id} attempt {self.number}"


class RunInstructions(models.Model):
    """The shared instructions of a project, as the request of a run was sent with them. Runs outside
    of projects have no row. The text is content of the project: its readers may read it, and it goes
    with the project."""

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="project_instructions"
    )
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    text = models.TextField()

    def __str__(self) -> str:
        return f"{self.run_id}: instructions of {self.project_id}"


class RunPersonalInstructions(models.Model):
    """The personal instructions with which the request of a run was sent. Only their author may read them, and they go
    with the account."""

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="personal_instructions"
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    text = models.TextField()

    def __str__(self) -> str:
        return f"{self.run_id}: instructions of {self.user_id}"


def model_label(run: Run) -> str:
    """The model's name in its server's list, else its id."""
    entries = run.upstream.model_list if run.upstream else []
    labels = (e["label"] for e in entries if e["id"] == run.model and e.get("label"))
    return next(labels, run.imported_label or run.model)
