"""Mentions of people in messages."""

from __future__ import annotations

from django.db import models

from chat.models.conversation import Message
from chat.models.notice import Notice


class Mention(Notice):
    """A person who is mentioned in a message, whether or not they may read it."""

    message = models.ForeignKey(
        # The constraint's index does this, too.
        Message,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="mentions",
    )
    # The mention as it is written, without the "@": people change their names.
    name = models.CharField(max_length=254)
    # The time of the message.
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["message", "person"], name="mention_unique")]
        indexes = [models.Index(fields=["person", "created_at"], name="mention_recent")]

    def __str__(self) -> str:
        return f"{self.person_id} in {self.message_id}"
