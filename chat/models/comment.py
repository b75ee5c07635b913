"""Comments of people on turns of a conversation."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext

from chat.models.conversation import Conversation, Message
from chat.models.notice import Notice


class Comment(models.Model):
    """A note on a turn, or on a passage of it. Replies have a ``thread``, the comment that began it.

    It is no turn: it is in no prompt, no search and no title. A passage is a quotation of the text that a page
    shows, with what is around it and its place (static/comments/anchors.js), in one ``part`` of the turn.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="comments"
    )
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="comments")
    thread = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="replies")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="comments"
    )
    # Empty if it was deleted and has replies.
    text = models.TextField(blank=True)
    # The id of the element that has the passage. Without a quotation the comment is on the whole turn.
    part = models.CharField(max_length=100, blank=True)
    quote = models.TextField(blank=True)
    prefix = models.CharField(max_length=100, blank=True)
    suffix = models.CharField(max_length=100, blank=True)
    # Characters of the part before the passage, without white space.
    start = models.PositiveIntegerField(default=0)
    # The key of the form that was sent.
    idempotency_key = models.UUIDField(default=uuid.uuid4)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    edited_at = models.DateTimeField(null=True)
    # Set on the comment that began the thread.
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["author", "idempotency_key"], name="comment_key_unique")
        ]

    def __str__(self) -> str:
        return f"comment {self.public_id}"

    @property
    def author_name(self) -> str:
        return str(self.author) if self.author else gettext("Deleted user")

    @property
    def is_deleted(self) -> bool:
        """True for a deleted comment that keeps its place because it has replies."""
        return not self.text

    @property
    def first(self) -> Comment:
        """The comment that began its thread."""
        return self.thread or self


class CommentNotice(Notice):
    """A person whom a comment concerns, whether or not they may read it: the author of its turn, one of the
    earlier authors of its thread, or somebody whom it mentions."""

    comment = models.ForeignKey(
        # The constraint's index does this, too.
        Comment,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="notices",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["comment", "person"], name="comment_notice_unique")
        ]
        indexes = [models.Index(fields=["person", "created_at"], name="comment_notice_recent")]

    def __str__(self) -> str:
        return f"{self.person_id} of {self.comment_id}"
