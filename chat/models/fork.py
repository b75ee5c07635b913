"""Forks: conversations that begin as a copy of a path of another one."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from chat.models.conversation import Conversation


class Fork(models.Model):
    """The origin of a conversation that a person copied from another one."""

    conversation = models.OneToOneField(
        Conversation, on_delete=models.CASCADE, primary_key=True, related_name="fork"
    )
    # None: it was permanently deleted.
    source = models.ForeignKey(
        Conversation, null=True, on_delete=models.SET_NULL, related_name="forks"
    )
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    idempotency_key = models.UUIDField()
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    # If the source was imported: the names in its source, for the copied records
    # (`ImportedSource.names`).
    names = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "idempotency_key"], name="fork_key_unique")
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id} from {self.source_id}"
