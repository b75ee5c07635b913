"""The queue of messages of a conversation: what people send next."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from chat.models.conversation import Conversation, Message
from chat.models.file import ChosenContent, StoredFile
from chat.models.preset import PresetVersion
from chat.models.upstream import Upstream


class QueuedMessage(models.Model):
    """A message that is sent when the answer before it has ended, with what its author had chosen.

    It is no turn yet: it is in no search, no export and no prompt.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="queued_messages"
    )
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="queued_messages"
    )
    # The answer that it waits for, and below which it is sent.
    after = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")
    text = models.TextField()
    upstream = models.ForeignKey(Upstream, null=True, on_delete=models.SET_NULL, related_name="+")
    model = models.CharField(max_length=200)
    parameters = models.JSONField(default=dict)
    system_prompt = models.TextField(blank=True)
    # The preset of the composer, for the conversation to remember; ``keeps_preset``: the one that it has then.
    preset_version = models.ForeignKey(
        PresetVersion, null=True, on_delete=models.SET_NULL, db_index=False, related_name="+"
    )
    keeps_preset = models.BooleanField(default=True, db_default=True)
    # The key of the form that was sent, and of the run that will answer.
    idempotency_key = models.UUIDField()
    # Somebody has asked to send it before the others, however the answer ends.
    is_urgent = models.BooleanField(default=False)
    # The reason why it could not be sent.
    refusal = models.TextField(blank=True)
    # Counts its changes.
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-is_urgent", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["author", "idempotency_key"], name="queued_message_key_unique"
            )
        ]

    def __str__(self) -> str:
        return f"queued message {self.public_id}"


class QueuedFile(ChosenContent):
    """A file that is attached to a queued message: a new file of the conversation, or a shared one."""

    queued = models.ForeignKey(QueuedMessage, on_delete=models.CASCADE, related_name="files")
    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="queued")
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["queued", "position"], name="queued_file_unique")
        ]

    def __str__(self) -> str:
        return f"{self.queued_id}: {self.file_id}"
