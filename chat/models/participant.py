"""Participants of conversations: people and groups of the team with a role in one conversation."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.conversation import Conversation, ConversationRole
from chat.models.team import Team


class Group(models.Model):
    """A group of people of a team, to which conversations can be shared."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, related_name="groups", verbose_name=gettext_lazy("team")
    )
    name = models.CharField(gettext_lazy("name"), max_length=80)
    people = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="GroupMember", related_name="conversation_groups"
    )
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = gettext_lazy("group")
        verbose_name_plural = gettext_lazy("groups")
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="group_name_unique"),
        ]

    def __str__(self) -> str:
        return self.name


class GroupMember(models.Model):
    """A person in a group. They count only while they are on the team, too."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="group_memberships"
    )

    class Meta:
        verbose_name = gettext_lazy("group member")
        verbose_name_plural = gettext_lazy("group members")
        constraints = [
            models.UniqueConstraint(fields=["group", "user"], name="group_member_unique")
        ]

    def __str__(self) -> str:
        return f"{self.group_id}: {self.user_id}"


class Participant(models.Model):
    """A person or a group with a role in a conversation. They count only while they are on its team."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="participants"
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="participations",
    )
    group = models.ForeignKey(
        Group, null=True, blank=True, on_delete=models.CASCADE, related_name="participations"
    )
    role = models.CharField(
        gettext_lazy("role"),
        max_length=10,
        choices=ConversationRole.choices,
        default=ConversationRole.WRITER,
    )
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    added_at = models.DateTimeField(gettext_lazy("added"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = gettext_lazy("participant")
        verbose_name_plural = gettext_lazy("participants")
        constraints = [
            models.CheckConstraint(
                condition=Q(person__isnull=False, group__isnull=True)
                | Q(person__isnull=True, group__isnull=False),
                name="participant_person_or_group",
            ),
            # Both begin with the conversation, by which the rule of access looks for them.
            models.UniqueConstraint(
                fields=["conversation", "person"], name="participant_person_unique"
            ),
            models.UniqueConstraint(
                fields=["conversation", "group"], name="participant_group_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id}: {self.person_id or self.group_id} ({self.role})"

    @property
    def name(self) -> str:
        return str(self.person or self.group)
