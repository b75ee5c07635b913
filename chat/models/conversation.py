"""A conversation is a room: a tree of messages that all members see."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from chat.core.prepared import PreparedUpdate
from chat.models.preset import PresetVersion
from chat.models.project import Project
from chat.models.skill import Skill
from chat.models.team import Team
from chat.models.tool import Tool
from chat.models.upstream import Upstream

if TYPE_CHECKING:
    from chat.models.user import User


class Visibility(models.TextChoices):
    PRIVATE = "private", gettext_lazy("Private")
    TEAM = "team", gettext_lazy("Team")
    # With those who see its project. Within a project it is this or private.
    PROJECT = "project", gettext_lazy("Project")


class ConversationRole(models.TextChoices):
    """A role in a conversation: read, write, or manage it. A manager also renames, shares, moves and deletes it."""

    READER = "reader", gettext_lazy("Reader")
    WRITER = "writer", gettext_lazy("Writer")
    MANAGER = "manager", gettext_lazy("Manager")


# The roles that everyone on a team may have in a conversation that is shared with it.
SHARED_ROLES = (ConversationRole.READER, ConversationRole.WRITER)


def visibilities(*, in_project: bool) -> tuple[Visibility, Visibility]:
    """The two visibilities of a conversation: private, and shared with its team or its project's readers."""
    return Visibility.PRIVATE, Visibility.PROJECT if in_project else Visibility.TEAM


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationContext:
    """Facts about a conversation that one query reads with it, for one user and as of then."""

    user_pk: int
    may_write: bool
    may_manage: bool
    # True if people or groups take part in it beside its owner.
    has_participants: bool
    # True if the person sees nothing else of the team.
    is_guest: bool
    reads_project: bool
    is_pinned: bool
    # True if a tool is enabled in it; the next, if its team has any.
    has_tools: bool
    team_has_tools: bool
    # True if a skill is switched on in it; the next, if the person could switch some on.
    has_skills: bool
    offers_skills: bool
    # True if an administrator has opened it with a reason.
    was_opened: bool
    # True if messages are queued in it.
    has_queue: bool
    # True if several models have answered a message of it side by side.
    has_comparison: bool
    # True if the person may copy it into a conversation of their own.
    may_fork: bool
    # True if it is such a copy; the next, if a change of it is signed in a line.
    is_fork: bool
    was_changed: bool


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
    # The role of everyone on the team if the visibility is `team`. The database's default is for processes
    # of an older version.
    shared_role = models.CharField(
        gettext_lazy("role of the team"),
        max_length=10,
        choices=[(role.value, role.label) for role in SHARED_ROLES],
        default=ConversationRole.WRITER,
        db_default=ConversationRole.WRITER,
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
    # The title was taken from the first message, so a model may write a better one. Titles that a person or
    # the source of an import gave stay. The database's default is for processes of an older version.
    has_automatic_title = models.BooleanField(default=False, db_default=False, editable=False)
    system_prompt = models.TextField(blank=True)
    # The last choice, which the composer offers next.
    upstream = models.ForeignKey(Upstream, null=True, blank=True, on_delete=models.SET_NULL)
    model = models.CharField(max_length=200, blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    # The version of a preset that was chosen last; the choice may differ from it by now.
    preset_version = models.ForeignKey(
        PresetVersion, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    # The team's tools that are enabled in this conversation.
    tools = models.ManyToManyField(Tool, blank=True, related_name="conversations")
    # The skills that are switched on. An answer gets those that the person it is for may use.
    skills = models.ManyToManyField(Skill, blank=True, related_name="conversations")
    # True if readers are shown the system prompts, parameters and tools, which are the writers'
    # (`chat.access.may_see_settings`). The database's default is for processes of an older version.
    shows_settings = models.BooleanField(default=False, db_default=False)
    # Increases with every change of the room: a message, the end of a run, a rename, a deletion.
    revision = models.PositiveBigIntegerField(default=1)
    # Counts the changes of its comments, which are no news. The database's default is for processes of an
    # older version.
    comments_version = models.PositiveBigIntegerField(default=0, db_default=0, editable=False)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(gettext_lazy("updated"), default=timezone.now)
    # Out of the sidebar of everybody. A message takes it out of the archive.
    archived_at = models.DateTimeField(gettext_lazy("archived"), null=True, blank=True)
    # In the trash of its owner, until `TRASH_DAYS` later.
    deleted_at = models.DateTimeField(gettext_lazy("deleted"), null=True, blank=True)
    # The end of a temporary conversation, or the moment when it was permanently deleted.
    expires_at = models.DateTimeField(gettext_lazy("expires"), null=True, blank=True)

    # Set where `chat.access.get_conversation` has loaded it.
    context: ConversationContext | None = None
    # Set where it is known that no skill is switched on.
    is_without_skills = False

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
    def audiences(self) -> tuple[Visibility, Visibility]:
        """The possible visibilities: private, or shared where it is."""
        return visibilities(in_project=self.project_id is not None)

    @property
    def shared_visibility(self) -> Visibility:
        return self.audiences[1]

    @property
    def is_read_by_team(self) -> bool:
        """True if everyone on the team may read it, and not write in it."""
        is_for_team = self.visibility == Visibility.TEAM
        return is_for_team and self.shared_role == ConversationRole.READER

    def touch(self) -> int:
        """Increases the revision in the database, and returns the new one. It is news: lists have it on top,
        and browsers mark it as new."""
        return self._touched(_touch)

    def touch_quietly(self) -> int:
        """Like `touch`, for changes that are no news, such as the archive. The time and the place in lists
        stay; the change of the list has to be counted (`count_rearrangement`)."""
        return self._revised(_touch_quietly.rows(room=self.pk))

    def remember(
        self,
        upstream: Upstream,
        model: str,
        parameters: dict[str, object],
        system_prompt: str,
        preset_version: int | None,
    ) -> int:
        """Like `touch`, for a message, with what the composer is to offer next. That is stored, and
        not set on this object. A conversation in which somebody writes leaves the archive."""
        return self._touched(
            _remember,
            upstream=upstream.pk,
            model=model,
            parameters=parameters,
            system_prompt=system_prompt,
            preset_version=preset_version,
        )

    def _touched(self, update: PreparedUpdate, **changes: object) -> int:
        now = timezone.now()
        revision = self._revised(update.rows(room=self.pk, now=now, **changes))
        self.updated_at = now
        return revision

    def _revised(self, rows: list[tuple[int]]) -> int:
        if not rows:
            raise Conversation.DoesNotExist
        ((self.revision,),) = rows
        return self.revision


_touch = PreparedUpdate(
    lambda room, now: (
        Conversation.objects.filter(pk=room),
        {"revision": F("revision") + 1, "updated_at": now},
    ),
    returning=["revision"],
)
_touch_quietly = PreparedUpdate(
    lambda room: (Conversation.objects.filter(pk=room), {"revision": F("revision") + 1}),
    returning=["revision"],
)
_remember = PreparedUpdate(
    lambda room, now, upstream, model, parameters, system_prompt, preset_version: (
        Conversation.objects.filter(pk=room),
        {
            "revision": F("revision") + 1,
            "updated_at": now,
            "upstream": upstream,
            "model": model,
            "parameters": parameters,
            "system_prompt": system_prompt,
            "preset_version": preset_version,
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
    # The conversation's revision when feedback on this answer last changed, which is no news; 0 if nobody has given
    # any. The database's default is for processes of an older version.
    feedback_revision = models.PositiveBigIntegerField(default=0, db_default=0, editable=False)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

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
    """The one of several siblings that a user looks at. ``parent`` is null at the root.

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
