"""A conversation is a room: a tree of messages that all members see."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from chat.core.prepared import PreparedUpdate
from chat.models.project import PROJECT_WRITING_ROLES, Project, ProjectQuerySet
from chat.models.team import WRITING_ROLES, Team
from chat.models.tool import Tool
from chat.models.upstream import Upstream

if TYPE_CHECKING:
    from chat.models.user import User


class Visibility(models.TextChoices):
    PRIVATE = "private", gettext_lazy("Private")
    TEAM = "team", gettext_lazy("Team")
    # With those who see its project. Within a project it is this or private.
    PROJECT = "project", gettext_lazy("Project")


def is_read_by(
    member: int, *, owner: int | None, visibility: str | None, project_role: str | None
) -> bool:
    """The one rule of reading: members of the team read what is shared with them and what is their
    own. Keys of people; ``project_role`` is the member's role in the conversation's project, that of
    a writer in a project for the whole team. `ConversationQuerySet.visible_to` is the same rule as a
    query."""
    if owner == member or visibility == Visibility.TEAM:
        return True
    return visibility == Visibility.PROJECT and project_role is not None


def is_written_by(
    member: int,
    *,
    owner: int | None,
    visibility: str | None,
    role: str | None,
    project_role: str | None,
) -> bool:
    """Whether a member who may read the conversation may write in it, too. ``role`` is theirs in the
    team. `ConversationQuerySet.written_by` is the same rule as a query."""
    if role not in WRITING_ROLES:
        return False
    if owner == member or visibility == Visibility.TEAM:
        return True
    return visibility == Visibility.PROJECT and project_role in PROJECT_WRITING_ROLES


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def visible_to(self, user: User) -> ConversationQuerySet:
        """What this user may read: `is_read_by` in their teams, without the trash, and without
        temporary conversations whose time is over."""
        return self.filter(
            _is_shared_with(user, Project.objects.visible_to(user)),
            _HAS_NOT_EXPIRED,
            team__memberships__user=user,
            deleted_at__isnull=True,
        )

    def written_by(self, user: User) -> ConversationQuerySet:
        """What this user may read and write in: `is_written_by` of `visible_to`."""
        return self.filter(
            _is_shared_with(user, Project.objects.written_by(user)),
            _HAS_NOT_EXPIRED,
            team__memberships__user=user,
            team__memberships__role__in=WRITING_ROLES,
            deleted_at__isnull=True,
        )

    def in_trash_of(self, user: User) -> ConversationQuerySet:
        """What this user may restore: their own deleted conversations, in teams they may write in."""
        return self.filter(
            _HAS_NOT_EXPIRED,
            owner=user,
            team__memberships__user=user,
            team__memberships__role__in=WRITING_ROLES,
            deleted_at__isnull=False,
        )


def _is_shared_with(user: User, projects: ProjectQuerySet) -> Q:
    return (
        Q(owner=user)
        | Q(visibility=Visibility.TEAM)
        | Q(visibility=Visibility.PROJECT, project__in=projects.values("pk"))
    )


# The database's clock is used, because the clocks of hosts differ.
_HAS_NOT_EXPIRED = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())


class Conversation(models.Model):
    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    team = models.ForeignKey(
        Team,
        on_delete=models.CASCADE,
        related_name="conversations",
        verbose_name=gettext_lazy("team"),
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="conversations",
        verbose_name=gettext_lazy("owner"),
    )
    visibility = models.CharField(
        gettext_lazy("visibility"),
        max_length=10,
        choices=Visibility.choices,
        default=Visibility.PRIVATE,
    )
    # An action takes the conversations out of a project before it deletes it.
    project = models.ForeignKey(
        Project,
        null=True,
        blank=True,
        on_delete=models.RESTRICT,
        # The index below does this, too.
        db_index=False,
        related_name="conversations",
        verbose_name=gettext_lazy("project"),
    )
    title = models.CharField(gettext_lazy("title"), max_length=200)
    system_prompt = models.TextField(blank=True)
    # What the composer offers next: the last choice.
    upstream = models.ForeignKey(Upstream, null=True, blank=True, on_delete=models.SET_NULL)
    model = models.CharField(max_length=200, blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    # The team's tools that are enabled in this conversation.
    tools = models.ManyToManyField(Tool, blank=True, related_name="conversations")
    # Increases with every change of the room: a message, the end of a run, a rename, a deletion.
    revision = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(gettext_lazy("updated"), default=timezone.now)
    # Out of the sidebar of everybody. A message takes it out of the archive.
    archived_at = models.DateTimeField(gettext_lazy("archived"), null=True, blank=True)
    # In the trash of its owner, until `TRASH_DAYS` later.
    deleted_at = models.DateTimeField(gettext_lazy("deleted"), null=True, blank=True)
    # The end of a temporary conversation. What is deleted for ever expires at that moment.
    expires_at = models.DateTimeField(gettext_lazy("expires"), null=True, blank=True)

    # The key of the user for whom this object was loaded, and whether they might write in it then.
    writing_of: tuple[int, bool] | None = None
    # Whether that user has pinned it.
    is_pinned: bool = False
    # Whether any tool was enabled when it was loaded, if that was loaded with it.
    has_tools: bool | None = None
    # Whether its team had any, if that was loaded with it.
    team_has_tools: bool | None = None

    objects = ConversationQuerySet.as_manager()

    class Meta:
        verbose_name = gettext_lazy("conversation")
        verbose_name_plural = gettext_lazy("conversations")
        indexes = [
            models.Index(fields=["owner", "-updated_at"]),
            models.Index(fields=["team", "visibility", "-updated_at"]),
            # The sidebar reads what has changed lately in all of somebody's teams.
            models.Index(fields=["team", "-updated_at"]),
            models.Index(
                fields=["project", "-updated_at"],
                condition=Q(project__isnull=False),
                name="conversation_project",
            ),
            # Few conversations are in the trash, and few are temporary.
            models.Index(
                fields=["deleted_at"],
                condition=Q(deleted_at__isnull=False),
                name="conversation_trash",
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(expires_at__isnull=False),
                name="conversation_expiry",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(visibility=Visibility.PRIVATE)
                | Q(visibility=Visibility.TEAM, project__isnull=True)
                | Q(visibility=Visibility.PROJECT, project__isnull=False),
                name="conversation_project_visibility",
            )
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def is_shared(self) -> bool:
        return self.visibility != Visibility.PRIVATE

    @property
    def shared_visibility(self) -> Visibility:
        """What it is when it is not private: in a project it is shared with those who see that."""
        return Visibility.TEAM if self.project_id is None else Visibility.PROJECT

    def touch(self) -> int:
        """Increases the revision in the database, and returns the new one."""
        return self._touched(_touch)

    def remember(
        self, upstream: Upstream, model: str, parameters: dict[str, object], system_prompt: str
    ) -> int:
        """Like `touch`, for a message, with what the composer is to offer next. That is stored, and
        not set on this object. A conversation in which somebody writes leaves the archive."""
        return self._touched(
            _remember,
            upstream=upstream.pk,
            model=model,
            parameters=parameters,
            system_prompt=system_prompt,
        )

    def _touched(self, update: PreparedUpdate, **changes: object) -> int:
        now = timezone.now()
        rows = update.rows(room=self.pk, now=now, **changes)
        if not rows:
            raise Conversation.DoesNotExist
        ((self.revision,),) = rows
        self.updated_at = now
        return self.revision


_touch = PreparedUpdate(
    lambda room, now: (
        Conversation.objects.filter(pk=room),
        {"revision": F("revision") + 1, "updated_at": now},
    ),
    returning=["revision"],
)
_remember = PreparedUpdate(
    lambda room, now, upstream, model, parameters, system_prompt: (
        Conversation.objects.filter(pk=room),
        {
            "revision": F("revision") + 1,
            "updated_at": now,
            "upstream": upstream,
            "model": model,
            "parameters": parameters,
            "system_prompt": system_prompt,
            "archived_at": None,
        },
    ),
    returning=["revision"],
)


class Role(models.TextChoices):
    USER = "user", gettext_lazy("Person")
    ASSISTANT = "assistant", gettext_lazy("Answer")


class Message(models.Model):
    """One turn. Edits, retries and branches are siblings: messages with the same parent."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="messages"
    )
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="children"
    )
    role = models.CharField(max_length=10, choices=Role.choices)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="messages",
    )
    # The text of a user; the text of an answer is in the logs of its runs.
    text = models.TextField(blank=True)
    # The conversation's revision when this message last changed.
    revision = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    # Whether it was being written when it was loaded, if that was loaded with it.
    is_live: bool | None = None
    # Whether it had no children when it was loaded, if that was loaded with it.
    is_last: bool | None = None
    # Whether nothing had been sent under the idempotency key of the message that is sent below it.
    is_key_new: bool | None = None
    # For the user for whom it was loaded: `BranchChoice.is_kept`; ``None`` if they chose nothing.
    is_kept: bool | None = None
    # The author in the source of an imported conversation, if that was loaded with it and nobody
    # here is the author.
    imported_author = ""

    class Meta:
        indexes = [models.Index(fields=["conversation", "parent", "id"])]

    def __str__(self) -> str:
        return f"{self.role} {self.public_id}"

    @property
    def author_name(self) -> str:
        """The author of a person's message, as people read it."""
        return name_of(self.author, self.imported_author)


def name_of(known: User | Upstream | None, imported_name: str) -> str:
    """The name of a person or a server. One that only the source of an imported conversation knows is
    marked, so that nobody takes it for one of this installation."""
    if known is not None:
        return str(known)
    if imported_name:
        return gettext("%(name)s (imported)") % {"name": imported_name}
    return gettext("Deleted user")


class BranchChoice(models.Model):
    """Which of several siblings a user looks at. ``parent`` is null at the root.

    ``is_kept``: the user did not choose it; they were reading it when somebody else wrote another
    version.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE)
    parent = models.ForeignKey(Message, null=True, on_delete=models.CASCADE, related_name="+")
    chosen = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")
    is_kept = models.BooleanField(default=False, db_default=False)

    class Meta:
        # Two constraints, because a unique constraint allows any number of null parents.
        constraints = [
            models.UniqueConstraint(fields=["user", "parent"], name="branch_choice_unique"),
            models.UniqueConstraint(
                fields=["user", "conversation"],
                condition=Q(parent__isnull=True),
                name="branch_choice_root_unique",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.parent_id} → {self.chosen_id}"
