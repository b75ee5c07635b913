"""Conversations and what is in them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import (
    Case,
    Exists,
    F,
    Func,
    IntegerField,
    Model,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.http import Http404
from django.utils.translation import gettext

from chat.access.not_here import NOT_HERE
from chat.access.projects import readers_of_project
from chat.core.prepared import Prepared
from chat.models import (
    OPEN_STATUSES,
    Artifact,
    Conversation,
    Membership,
    Message,
    Mockup,
    Pin,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    Question,
    Run,
    Tool,
    User,
    Visibility,
)
from chat.models.conversation import is_written_by
from chat.models.project import PROJECT_WRITING_ROLES
from chat.models.team import WRITING_ROLES


def may_write(user: User, conversation: Conversation) -> bool:
    """Whether this user, who may see the conversation, may also write in it. If `get_conversation`
    has loaded it for them, this is as of then."""
    known = conversation.writing_of
    if known is not None and known[0] == user.pk:
        return known[1]
    return Conversation.objects.written_by(user).filter(pk=conversation.pk).exists()


def get_conversation(user: User, public_id: UUID, *, for_write: bool = False) -> Conversation:
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
    conversation = _visible_conversation.first(user=user.pk, public_id=public_id)
    if conversation is None:
        raise Http404(NOT_HERE)
    conversation.writing_of = (user.pk, writes_in(user, conversation))
    if for_write and not may_write(user, conversation):
        raise PermissionDenied(_read_only(conversation))
    return conversation


def _read_only(conversation: Conversation) -> str:
    project = conversation.project
    if project is not None and project.access == ProjectAccess.MEMBERS:
        return gettext(
            "You have read-only access. Ask a manager of the project %(project)s for write access."
        ) % {"project": project.name}
    return gettext("You have read-only access. Ask a team owner for write access.")


_visible_conversation = Prepared(
    lambda user, public_id: (
        Conversation.objects.visible_to(user)  # type: ignore[no-redef]  # by the annotations
        .select_related("team", "owner", "upstream", "project")
        .annotate(
            **roles_of(user),
            is_pinned=Exists(Pin.objects.filter(user=user, conversation=OuterRef("pk"))),
            has_tools=Exists(
                Conversation.tools.through.objects.filter(conversation=OuterRef("pk"))
            ),
            team_has_tools=Exists(Tool.objects.filter(team=OuterRef("team"))),
        )
        # The user may have been loaded a while ago, or only their key is known.
        .alias(is_active=F("team__memberships__user__is_active"))
        .filter(public_id=public_id, is_active=True)
    )
)


def roles_of(user: Any) -> dict[str, Any]:
    """Columns of `Conversation.objects.visible_to` this user: the role in the team by which a
    conversation is visible, and that in its project (`is_read_by`)."""
    selected = ProjectMember.objects.filter(
        project=OuterRef("project"), project__team=OuterRef("team"), user=user
    )
    everyone = When(
        project__access=ProjectAccess.TEAM, project__team=F("team"), then=Value(ProjectRole.WRITER)
    )
    return {
        "role": F("team__memberships__role"),
        "project_role": Case(everyone, default=Subquery(selected.values("role")[:1])),
    }


def writes_in(user: User, row: Conversation) -> bool:
    """Whether this user may write in a conversation that was loaded with `roles_of` them."""
    return is_written_by(
        user.pk,
        owner=row.owner_id,
        visibility=row.visibility,
        role=_annotated(row, "role"),
        project_role=_annotated(row, "project_role"),
    )


def project_role_of(row: Conversation) -> str | None:
    """The role in its project of the user for whom `get_conversation` has loaded it; ``None`` also where
    they may not read the project."""
    role: str | None = _annotated(row, "project_role")
    return role


def _annotated(row: Model, name: str) -> Any:
    """A value that a query has added to a row, which its type does not know."""
    return getattr(row, name)


def readers_of(conversation: Conversation) -> QuerySet[Membership]:
    """The memberships, with their users, by which a conversation may be read."""
    readers = Membership.objects.filter(team_id=conversation.team_id, user__is_active=True)
    return readers.filter(_reads(conversation)).select_related("user")


def writers_of(conversation: Conversation) -> QuerySet[Membership]:
    """Of `readers_of` those who may write in it: `is_written_by`."""
    writers = readers_of(conversation).filter(role__in=WRITING_ROLES)
    project = conversation.project
    if project is None or project.access == ProjectAccess.TEAM:
        return writers
    selected = project.memberships.filter(role__in=PROJECT_WRITING_ROLES).values("user")
    return writers.filter(Q(user=conversation.owner_id) | Q(user__in=selected))


def _reads(conversation: Conversation) -> Q:
    project = conversation.project
    if conversation.visibility == Visibility.TEAM:
        return Q()
    owner = Q(user=conversation.owner_id)
    if conversation.visibility == Visibility.PRIVATE or project is None:
        return owner
    return owner | Q(user__in=readers_of_project(project))


def get_own_conversation(user: User, public_id: UUID) -> Conversation:
    """For what only the owner may do: share, delete. Raises as ``get_conversation`` does."""
    conversation = get_conversation(user, public_id, for_write=True)
    if conversation.owner_id != user.pk:
        raise PermissionDenied(gettext("Only the owner of this conversation can do this."))
    return conversation


def get_trashed_conversation(user: User, public_id: UUID) -> Conversation:
    """For what its owner may do with a conversation in the trash. Raises ``Http404``."""
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
    rows = Conversation.objects.in_trash_of(user).select_related("team", "owner")
    conversation = rows.filter(public_id=public_id).first()
    if conversation is None:
        raise Http404(NOT_HERE)
    return conversation


def get_message(user: User, public_id: UUID, *, for_write: bool = False) -> Message:
    message = Message.objects.filter(public_id=public_id).select_related("conversation").first()
    if message is None:
        raise Http404(NOT_HERE)
    message.conversation = get_conversation(
        user, message.conversation.public_id, for_write=for_write
    )
    return message


def get_run(
    user: User, public_id: UUID, *, for_write: bool = False, team_id: int | None = None
) -> Run:
    """``team_id`` is the only team that a program's token reaches; runs of other teams do not exist
    for it."""
    run: Run | None = _run.first(public_id=public_id)
    if run is None or team_id not in (None, _annotated(run, "team")):
        raise Http404(NOT_HERE)
    run.conversation = get_conversation(user, _annotated(run, "room"), for_write=for_write)
    return run


_run: Prepared[Any] = Prepared(
    lambda public_id: Run.objects.filter(public_id=public_id).annotate(
        room=F("conversation__public_id"), team=F("conversation__team_id")
    )
)


def get_question(user: User, public_id: UUID, *, for_write: bool = False) -> Question:
    """What a run in a conversation waits for. Raises as ``get_conversation`` does."""
    question = (
        Question.objects.filter(public_id=public_id)
        .select_related("conversation", "run__upstream", "claimed_by", "answered_by")
        .first()
    )
    if question is None:
        raise Http404(NOT_HERE)
    question.conversation = question.run.conversation = get_conversation(
        user, question.conversation.public_id, for_write=for_write
    )
    return question


def questions_for(user: User) -> QuerySet[Question]:
    """What this user may answer: open questions, in conversations that they may write in, and not
    followed by a message or replaced by another attempt."""
    if not user.is_authenticated or not user.is_active:
        return Question.objects.none()
    return _questions_for(user)


def _questions_for(user: Any) -> QuerySet[Question]:
    later = Message.objects.filter(
        parent=OuterRef("run__message__parent"), pk__gt=OuterRef("run__message")
    )
    # For each open question its conversation is looked up. A list of all conversations that somebody
    # may write in would be made first, and takes milliseconds for ten thousand.
    written = Conversation.objects.written_by(user).filter(pk=OuterRef("conversation"))
    return Question.objects.filter(
        ~Exists(later),
        Exists(written),
        status__in=OPEN_STATUSES,
        run__message__children__isnull=True,
    )


def answered_questions_for(user: User) -> QuerySet[Question]:
    """Settled questions of the conversations that this user may write in, the newest first."""
    if not user.is_authenticated or not user.is_active:
        return Question.objects.none()
    return (
        Question.objects.filter(
            conversation__in=Conversation.objects.written_by(user), answered_at__isnull=False
        )
        .exclude(status__in=OPEN_STATUSES)
        .order_by("-answered_at", "-pk")
    )


def count_of_questions(user: Any) -> Subquery:
    """The number of `questions_for`, as a column of another query."""
    counted = _questions_for(user).order_by().annotate(count=Func(F("pk"), function="COUNT"))
    return Subquery(counted.values("count"), output_field=IntegerField())


def get_artifact(user: User, public_id: UUID) -> Artifact:
    artifact = Artifact.objects.filter(public_id=public_id).select_related("conversation").first()
    if artifact is None:
        raise Http404(NOT_HERE)
    artifact.conversation = get_conversation(user, artifact.conversation.public_id)
    return artifact


def get_mockup(user: User, public_id: UUID) -> Mockup:
    mockup = Mockup.objects.filter(public_id=public_id).select_related("conversation").first()
    if mockup is None:
        raise Http404(NOT_HERE)
    mockup.conversation = get_conversation(user, mockup.conversation.public_id)
    return mockup


def may_read(actor: User, conversation: Conversation) -> bool:
    """Whether this user may read the conversation as a member, not as an administrator."""
    if conversation.owner_id == actor.pk:
        return True
    return Conversation.objects.visible_to(actor).filter(pk=conversation.pk).exists()
