"""People in conversations: who has one open, what they have read, and what they have not sent yet."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from chat.models.conversation import Conversation


class Presence(models.Model):
    """A person who has a conversation open. A row is valid for a minute after ``seen_at`` and is deleted some
    minutes later, so nothing is stored of where somebody was (`chat.presence.records`)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    conversation = models.ForeignKey(
        # The constraint's index does this, too.
        Conversation,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="+",
    )
    # Each of these changes every few seconds; an index on one of them would have to change as often.
    seen_at = models.DateTimeField()
    # The last time at which the person did something on the page.
    active_at = models.DateTimeField(null=True)
    # The last time at which they changed the text in the composer.
    typed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "user"], name="presence_unique")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.conversation_id}"


class ReadMark(models.Model):
    """How far a person has read a conversation."""

    user = models.ForeignKey(
        # The index below does this, too.
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="+",
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")
    # The conversation's revision that a visible page of theirs has shown.
    revision = models.PositiveBigIntegerField()
    # The conversation's ``updated_at`` then: quiet changes raise the revision, but are no news.
    news_at = models.DateTimeField(null=True)
    read_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "conversation"], name="read_mark_unique")
        ]
        indexes = [models.Index(fields=["user", "read_at"], name="read_mark_recent")]

    def __str__(self) -> str:
        return f"{self.user_id} read {self.conversation_id} up to {self.revision}"


class Draft(models.Model):
    """A text that a person has not sent yet, in the composer of a conversation or of the home page."""

    user = models.ForeignKey(
        # The constraint's index does this, too.
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="+",
    )
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.CASCADE, related_name="+"
    )
    # The id of the conversation, or "new".
    place = models.CharField(max_length=40)
    text = models.TextField()
    # Milliseconds since 1970 when it was stored, and larger than the version before it, ``base``.
    version = models.BigIntegerField()
    base = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "place"], name="draft_unique")]

    def __str__(self) -> str:
        return f"draft of {self.user_id} in {self.place}"
