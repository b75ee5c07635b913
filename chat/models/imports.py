"""Imports of conversations from other products: who imported what, and from which source."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation
from chat.models.team import Team


class Import(models.Model):
    """One file that a person imported. It can be undone as a whole."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="imports")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="imports"
    )
    # The name of a format in `chat.imports.formats`.
    format = models.CharField(max_length=40)
    # Conversations: in the file, created, imported before, of these changed since, and not readable.
    found = models.PositiveIntegerField(default=0)
    created = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    not_understood = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)
    finished_at = models.DateTimeField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"import {self.public_id}"


class ImportedSource(models.Model):
    """A conversation of another product that a person has imported into a team. It is not imported
    again, not even if its conversation was deleted; undoing the import removes the row."""

    batch = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="sources")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    format = models.CharField(max_length=40)
    # The product's own id; a digest of the content where it has none.
    source_id = models.CharField(max_length=200)
    # Of the content, to see whether it has changed.
    digest = models.CharField(max_length=64)
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.SET_NULL, related_name="imported_from"
    )
    # The newest message that was imported: a later one continues the conversation.
    last_message = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "team", "format", "source_id"], name="imported_source_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.format} {self.source_id}"
