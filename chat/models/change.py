"""Changes of a conversation, each signed: what its people read in a line below a turn."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from chat.models.conversation import Conversation, Message
from chat.models.user import User

# The size of the column. Names and titles that are longer are cut.
NAME_LENGTH = 200


class ChangeKind(models.TextChoices):
    """The verb of a change. `chat.conversations.change_lines` has the sentence of each."""

    RENAMED = "renamed"
    SHARED = "shared"
    ROLE = "role"
    REMOVED = "removed"
    LEFT = "left"
    TAKEN_OVER = "taken_over"
    PRIVATE = "private"
    TEAM_READS = "team_reads"
    TEAM_WRITES = "team_writes"
    PROJECT = "project"
    MOVED_IN = "moved_in"
    MOVED_OUT = "moved_out"
    ARCHIVED = "archived"
    UNARCHIVED = "unarchived"
    KEPT = "kept"
    RESTORED = "restored"
    SETTINGS_SHOWN = "settings_shown"
    SETTINGS_HIDDEN = "settings_hidden"
    QUEUED_SENT = "queued_sent"
    QUEUED_REMOVED = "queued_removed"
    # Earlier turns are no longer sent to models, or are sent again.
    CONTEXT_CUT = "context_cut"
    CONTEXT_WHOLE = "context_whole"


class ConversationChangeManager(models.Manager["ConversationChange"]):
    def record(
        self,
        actor: User | None,
        conversation: Conversation,
        kind: ChangeKind,
        *,
        person: User | None = None,
        name: str = "",
        role: str = "",
    ) -> None:
        """Adds a line. Call it inside the transaction of the change, after it has raised the revision of
        the conversation: open pages get the lines of later revisions than theirs."""
        messages = Message.objects.filter(conversation=conversation)
        self.create(
            conversation=conversation,
            kind=kind,
            actor=actor,
            person=person,
            name=name[:NAME_LENGTH],
            role=role,
            revision=conversation.revision,
            after=messages.order_by("-pk").only("pk").first(),
        )


class ConversationChange(models.Model):
    """A change and who made it. Rows are only added, and go with their conversation."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="changes")
    kind = models.CharField(max_length=20, choices=ChangeKind.choices)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # The person whom it is about; `name` is that of a group, or a title.
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    name = models.CharField(max_length=NAME_LENGTH, blank=True)
    role = models.CharField(max_length=10, blank=True)
    at = models.DateTimeField(default=timezone.now, editable=False)
    # The conversation's revision from then on, and its last message at that time: the line follows that
    # message.
    revision = models.PositiveBigIntegerField()
    after = models.ForeignKey(Message, null=True, on_delete=models.SET_NULL, related_name="+")

    objects = ConversationChangeManager()

    def __str__(self) -> str:
        return f"{self.conversation_id}: {self.kind}"
