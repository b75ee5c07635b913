"""The calls of tools that Tributary runs, and what people have decided about them in advance."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation
from chat.models.question import Question
from chat.models.run import Runner
from chat.models.tool import Tool


class ToolChoice(models.Model):
    """The decision of a person about all further calls of a tool in one conversation. It never widens the
    tool's rule: "always" stands for the approval that the rule asks for."""

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="tool_choices"
    )
    tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="choices")
    is_allowed = models.BooleanField()
    # "Always" stands only while the tool's definition and target are these (`chat.tools.definitions`).
    definition_digest = models.CharField(max_length=64, blank=True)
    # This person must be entitled at the time of the call, too.
    chosen_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    chosen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "tool"], name="tool_choice_unique")
        ]

    def __str__(self) -> str:
        return f"{self.tool_id} in {self.conversation_id}"


class CallStatus(models.TextChoices):
    APPROVAL = "approval", gettext_lazy("Waiting for approval")
    QUEUED = "queued", gettext_lazy("Queued")
    RUNNING = "running", gettext_lazy("Running")
    DONE = "done", gettext_lazy("Done")
    FAILED = "failed", gettext_lazy("Failed")
    REFUSED = "refused", gettext_lazy("Refused")
    # It was sent, and its result was not stored: people decide.
    UNKNOWN = "unknown", gettext_lazy("May have run")


class ToolCall(models.Model):
    """One call that Tributary runs. Its question is settled with the result, as a person's would be."""

    question = models.OneToOneField(Question, on_delete=models.CASCADE, related_name="tool_call")
    # Without one, the tool has been removed since.
    tool = models.ForeignKey(Tool, null=True, on_delete=models.SET_NULL, related_name="calls")
    status = models.CharField(max_length=10, choices=CallStatus.choices)
    # The tool's rule, kind, server and definition when the call was made.
    rule = models.CharField(max_length=16, blank=True)
    kind = models.CharField(max_length=8)
    server_name = models.CharField(max_length=80, blank=True)
    definition_digest = models.CharField(max_length=64, blank=True)
    # The arguments that are sent; the question has those of the model.
    arguments = models.JSONField(default=dict, blank=True)
    approved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    approved_at = models.DateTimeField(null=True)
    # The person whose account it uses, who alone decides about it; none for tools without one.
    executor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # Stays when the executor's account here is deleted: nobody else may take the call over.
    is_personal = models.BooleanField(default=False, db_default=False)
    # Where others read the conversation, the result is for the executor alone. It stands here and nowhere else, so
    # that nothing that shows, copies or exports answers has it.
    keeps_private = models.BooleanField(default=False, db_default=False)
    private_output = models.TextField(blank=True, db_default="")
    # The runner that has claimed it, and the token of the claim that owns the row.
    runner = models.ForeignKey(
        Runner, null=True, on_delete=models.SET_NULL, related_name="tool_calls"
    )
    claim = models.UUIDField(null=True)
    attempt = models.PositiveIntegerField(default=0)
    queued_at = models.DateTimeField(null=True)
    claimed_at = models.DateTimeField(null=True)
    # Stored before the first byte of the request is sent.
    sent_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    # {"progress", "total", "message"}: the last that the server told.
    progress = models.JSONField(default=dict, blank=True)
    request_bytes = models.PositiveBigIntegerField(default=0)
    response_bytes = models.PositiveBigIntegerField(default=0)
    # A sentence for people, if it failed.
    error = models.TextField(blank=True)

    class Meta:
        # Few of all calls are not finished.
        indexes = [models.Index(fields=["status"], name="tool_call_status")]

    def __str__(self) -> str:
        return f"call of question {self.question_id}"
