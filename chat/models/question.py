"""Questions that a run waits for: an answer, an approval, or the result of a tool."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation, name_of
from chat.models.run import Run


class QuestionKind(models.TextChoices):
    ASK = "ask", gettext_lazy("Question")
    APPROVAL = "approval", gettext_lazy("Approval")
    TOOL = "tool", gettext_lazy("Tool call")


class QuestionStatus(models.TextChoices):
    OPEN = "open", gettext_lazy("Open")
    CLAIMED = "claimed", gettext_lazy("Being answered")
    # A call that Tributary runs: nobody is asked.
    RUNNING = "running", gettext_lazy("Running")
    ANSWERED = "answered", gettext_lazy("Answered")
    DECLINED = "declined", gettext_lazy("Declined")
    EXPIRED = "expired", gettext_lazy("Expired")


# In these states people may still answer; every change names the state that it expects.
OPEN_STATUSES = (QuestionStatus.OPEN, QuestionStatus.CLAIMED)
# In these states the answer can't go on yet.
UNSETTLED_STATUSES = (*OPEN_STATUSES, QuestionStatus.RUNNING)
# An open question waits for a person until a message was sent below its answer.
WAITS_FOR_PERSON = models.Q(status__in=OPEN_STATUSES, run__message__children__isnull=True)


class Question(models.Model):
    """Written in the transaction that ends its run; answered once, by a conditional update."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="questions"
    )
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="questions")
    position = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=10, choices=QuestionKind.choices)
    # The upstream's own id of the question or the call.
    ask_id = models.CharField(max_length=200)
    # The members of the ``ask.question`` event, or of the pending ``tool_call`` item.
    body = models.JSONField(default=dict)
    status = models.CharField(
        max_length=10, choices=QuestionStatus.choices, default=QuestionStatus.OPEN
    )
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    claimed_at = models.DateTimeField(null=True, blank=True)
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    answered_at = models.DateTimeField(null=True, blank=True)
    # {"text", "selected", "fields"}, or {"output", "is_error"} for a tool.
    answer = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    # The person who answered, as `Message.imported_author`.
    imported_answerer = ""

    class Meta:
        ordering = ["run", "position"]
        # Few of all questions are open.
        indexes = [models.Index(fields=["status", "conversation"])]
        constraints = [
            models.UniqueConstraint(fields=["run", "kind", "ask_id"], name="question_unique")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.public_id}"

    @property
    def is_seen_by_others(self) -> bool:
        """True if more people than the owner of the conversation see it, if `chat.access.with_audience` has
        read that."""
        return bool(vars(self).get("has_audience", self.conversation.is_shared))

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_STATUSES

    @property
    def answerer_name(self) -> str:
        return name_of(self.answered_by, self.imported_answerer)
