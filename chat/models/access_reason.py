"""The reasons that administrators give before they read conversations that they are not part of."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from chat.models.conversation import Conversation, Message
from chat.models.team import Team


class AccessKind(models.TextChoices):
    """The purpose of a reason: to open one conversation, to search in all, to export all."""

    OPEN = "open"
    SEARCH = "search"
    EXPORT = "export"


class AccessReason(models.Model):
    """A reason with its time. `chat.access.reasons` says what it allows, and for how long. Rows are only
    added: the people of a conversation are shown why it was opened, and everybody why all were exported."""

    kind = models.CharField(max_length=10, choices=AccessKind.choices)
    # Nobody for an export from the command line.
    administrator = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    reason = models.CharField(max_length=300, blank=True)
    given_at = models.DateTimeField(default=timezone.now, editable=False)
    words = models.CharField(max_length=200, blank=True)

    # The conversation that was opened, its revision from then on, and its last message at that time: the
    # line about it follows that message.
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.CASCADE, related_name="access_reasons"
    )
    revision = models.PositiveBigIntegerField(default=0)
    after = models.ForeignKey(Message, null=True, on_delete=models.SET_NULL, related_name="+")

    # The owner of the exported conversations: a person, or a team that shares them; else everyone.
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind=AccessKind.OPEN, conversation__isnull=False)
                | Q(~Q(kind=AccessKind.OPEN), conversation__isnull=True),
                name="access_reason_conversation",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"
