"""The part of a conversation that models are sent: the turn with which it starts, and what a run was sent with."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from chat.models.conversation import Message
from chat.models.run import Run


class StartKind(models.TextChoices):
    """The reason why what is above a turn is not sent."""

    # A person left out what is above it.
    DROPPED = "dropped"
    # The turn asks for a summary of it. It is left out once the answer is complete.
    SUMMARY = "summary"
    # A person took back the choice: everything is sent.
    WHOLE = "whole"


class ContextStart(models.Model):
    """A person's turn with which the context of the answers below it starts: nothing above it is sent.

    Of several on a path, the one with the highest key is in effect (`chat.runs.context`), so a new choice is a new row.
    """

    message = models.OneToOneField(Message, on_delete=models.CASCADE, related_name="context_start")
    kind = models.CharField(max_length=10, choices=StartKind.choices)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return f"{self.message_id}: {self.kind}"


class SentContext(models.Model):
    """The start of the context with which the request of a run was made. Runs that were sent everything have no row."""

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="sent_context"
    )
    # The first turn that was sent, and the number of those above it.
    start = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")
    left_out = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.run_id}: from {self.start_id}"
