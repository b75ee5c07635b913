"""How a person orders conversations in their own sidebar."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from chat.models.conversation import Conversation


class Pin(models.Model):
    """A conversation that a person keeps at the top of their sidebar. ``position`` is their order."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="pins"
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="pins")
    position = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "conversation"], name="pin_unique")]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.conversation_id}"
