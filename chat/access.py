"""Access: what a user may see and change. The only way from an id to an object."""

from __future__ import annotations

from datetime import datetime
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
    Prefetch,
    QuerySet,
    Subquery,
    When,
)
from django.http import Http404
from django.utils.translation import gettext, gettext_lazy

from chat.core.prepared import Prepared
from chat.models import (
    OPEN_STATUSES,
    AccessToken,
    Artifact,
    Conversation,
    Import,
    Invitation,
    Membership,
    Message,
    Mockup,
    Pin,
    Question,
    Run,
    StoredFile,
    Team,
    Tool,
    Upstream,
    User,
    Visibility,
)
from chat.models.team import MANAGING_ROLES, WRITING_ROLES

# The same for what does not exist and for what belongs to somebody else.
NOT_HERE = gettext_lazy("This doesn’t exist, or you don’t have access to it.")


def membership_of(user: User, team_id: int) -> Membership | None:
    return Membership.objects.filter(user=user, team_id=team_id).first()


def known_membership_of(user: User, team: Team) -> Membership | None:
    """As `membership_of`, without a query if the team's memberships are loaded."""
    if "memberships" not in getattr(team, "_prefetched_objects_cache", {}):
        return membership_of(user, team.pk)
    return next((each for each in team.memberships.all() if each.user_id == user.pk), None)


def may_write(user: User, conversation: Conversation) -> bool:
    """Whether this user, who may see the conversation, may also write in it. If `get_conversation`
    has loaded it for them, this is as of then."""
    known = conversation.role_of
    if known is not None and known[0] == user.pk:
        return known[1] in WRITING_ROLES
    membership = membership_of(user, conversation.team_id)
    return membership is not None and membership.may_write


def get_conversation(user: User, public_id: UUID, *, for_write: bool = False) -> Conversation:
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
    conversation = _visible_conversation.first(user=user.pk, public_id=public_id)
    if conversation is None:
        raise Http404(NOT_HERE)
    conversation.role_of = (user.pk, _annotated(conversation, "role"))
    if for_write and not may_write(user, conversation):
        raise PermissionDenied(
            gettext("You have read-only access. Ask a team owner for write access.")
        )
    return conversation


_visible_conversation = Prepared(
    lambda user, public_id: (
        Conversation.objects.visible_to(user)  # type: ignore[no-redef]  # by the annotations
        .select_related("team", "owner", "upstream")
        # The role in the team by which it is visible.
        .annotate(
            role=F("team__memberships__role"),
            is_pinned=Exists(Pin.objects.filter(user=user, conversation=OuterRef("pk"))),
        )
        .filter(public_id=public_id)
    )
)


def _annotated(row: Model, name: str) -> Any:
    """A value that a query has added to a row, which its type does not know."""
    return getattr(row, name)


def readers_of(conversation: Conversation) -> QuerySet[Membership]:
    """The memberships, with their users, by which a conversation may be read."""
    readers = Membership.objects.filter(team_id=conversation.team_id, user__is_active=True)
    if conversation.visibility != Visibility.TEAM:
        readers = readers.filter(user_id=conversation.owner_id)
    return readers.select_related("user")


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
    return Question.objects.filter(
        ~Exists(later),
        conversation__in=_written_by(user),
        status__in=OPEN_STATUSES,
        run__message__children__isnull=True,
    )


def answered_questions_for(user: User) -> QuerySet[Question]:
    """Settled questions of the conversations that this user may write in, the newest first."""
    if not user.is_authenticated or not user.is_active:
        return Question.objects.none()
    return (
        Question.objects.filter(conversation__in=_written_by(user), answered_at__isnull=False)
        .exclude(status__in=OPEN_STATUSES)
        .order_by("-answered_at", "-pk")
    )


def _written_by(user: Any) -> QuerySet[Conversation]:
    return Conversation.objects.visible_to(user).filter(
        team__memberships__user=user, team__memberships__role__in=WRITING_ROLES
    )


def count_of_questions(user: Any) -> Subquery:
    """The number of `questions_for`, as a column of another query."""
    counted = _questions_for(user).order_by().annotate(count=Func(F("pk"), function="COUNT"))
    return Subquery(counted.values("count"), output_field=IntegerField())


def get_file(user: User, public_id: UUID) -> StoredFile:
    """A file of a conversation that the user may see. A file without a conversation belongs to
    nobody."""
    file = StoredFile.objects.filter(public_id=public_id).select_related("conversation").first()
    if file is None or file.conversation is None:
        raise Http404(NOT_HERE)
    file.conversation = get_conversation(user, file.conversation.public_id)
    return file


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


def get_team(user: User, public_id: UUID, *, for_manage: bool = False) -> Team:
    """A team that the user is in, or any team for an administrator."""
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
    team = Team.objects.filter(public_id=public_id).first()
    membership = membership_of(user, team.pk) if team else None
    if team is None or (membership is None and not user.is_staff):
        raise Http404(NOT_HERE)
    if for_manage and not (user.is_staff or (membership and membership.may_manage)):
        raise PermissionDenied(gettext("Only owners and admins of this team can do this."))
    return team


def get_tool(user: User, public_id: UUID, *, for_manage: bool = False) -> Tool:
    """A tool of a team that the user is in. Raises as ``get_team`` does."""
    tool = Tool.objects.filter(public_id=public_id).select_related("team").first()
    if tool is None:
        raise Http404(NOT_HERE)
    tool.team = get_team(user, tool.team.public_id, for_manage=for_manage)
    return tool


def writable_teams(user: User) -> QuerySet[Team]:
    return Team.objects.filter(
        memberships__user=user, memberships__role__in=WRITING_ROLES
    ).order_by("name")


def managed_teams(user: User) -> QuerySet[Team]:
    if user.is_staff:
        return Team.objects.order_by("name")
    return Team.objects.filter(
        memberships__user=user, memberships__role__in=MANAGING_ROLES
    ).order_by("name")


def people_of_teams(user: User) -> QuerySet[User]:
    """The people of the teams that a user is in, and the user."""
    shared = Membership.objects.filter(
        user=OuterRef("pk"), team__in=Membership.objects.filter(user=user).values("team")
    )
    return User.objects.filter(Exists(shared), is_active=True).order_by("name", "email")


def teams_with_members(user: User) -> list[Team]:
    """The teams that a user sees, with members, open invitations and tools: their own, or all for an
    administrator. Each member has the time of their newest message for `last_active`."""
    teams = Team.objects.all() if user.is_staff else Team.objects.filter(memberships__user=user)
    people = User.objects.annotate(wrote_at=_newest_message)
    invitations = Invitation.objects.select_related("invited_by", "team")
    return list(
        teams.order_by("name").prefetch_related(
            "tools",
            Prefetch("memberships__user", people),
            Prefetch("invitations", invitations),
        )
    )


def all_accounts(user: User) -> QuerySet[User]:
    """All accounts with their teams, for administrators; none for others."""
    people = User.objects.annotate(wrote_at=_newest_message).order_by("name")
    people = people.prefetch_related("memberships__team")
    return people if user.is_active and user.is_staff else people.none()


_newest_message = Subquery(
    Message.objects.filter(author=OuterRef("pk")).order_by("-pk").values("created_at")[:1]
)


def last_active(person: User) -> datetime | None:
    """The newer of the last sign-in and the newest message, which the query has added."""
    times = (person.last_login, _annotated(person, "wrote_at"))
    return max((time for time in times if time is not None), default=None)


def managed_people(user: User) -> QuerySet[User]:
    """The users whose accounts and memberships a user manages: all users for an administrator."""
    if user.is_staff:
        return User.objects.order_by("name")
    return (
        User.objects.filter(memberships__team__in=managed_teams(user)).distinct().order_by("name")
    )


def get_person(user: User, person_id: UUID) -> User:
    """A user whom this user manages. Raises ``Http404``."""
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
    person = managed_people(user).filter(public_id=person_id).first()
    if person is None:
        raise Http404(NOT_HERE)
    return person


def get_member(user: User, team_id: UUID, person_id: UUID) -> Membership:
    """A membership in a team that the user is in (or in any team, for an administrator). What may
    be changed depends on both roles, and the action decides that. Raises ``Http404``."""
    team = get_team(user, team_id)
    membership = (
        Membership.objects.filter(team=team, user__public_id=person_id)
        .select_related("team", "user")
        .first()
    )
    if membership is None:
        raise Http404(NOT_HERE)
    return membership


def get_invitation(user: User, team_id: UUID, invitation_id: int) -> Invitation:
    """An invitation into a team that the user manages. Raises as ``get_team`` does."""
    team = get_team(user, team_id, for_manage=True)
    invitation = (
        Invitation.objects.filter(team=team, pk=invitation_id).select_related("team").first()
    )
    if invitation is None:
        raise Http404(NOT_HERE)
    return invitation


def get_token(user: User, public_id: UUID) -> AccessToken:
    """The user's own access token, in any state. Raises ``Http404``."""
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
    token = (
        AccessToken.objects.filter(user=user, public_id=public_id).select_related("team").first()
    )
    if token is None:
        raise Http404(NOT_HERE)
    return token


def get_import(user: User, public_id: UUID) -> Import:
    """The user's own import. Raises ``Http404``."""
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
    found = Import.objects.filter(user=user, public_id=public_id).select_related("team").first()
    if found is None:
        raise Http404(NOT_HERE)
    return found


def usable_upstreams(user: User, *, without_models: bool = False) -> QuerySet[Upstream]:
    """The servers that a user may send to: every enabled one, for anyone who is signed in. Those
    without a list of models only ``without_models``: whoever uses them must name a model."""
    if not user.is_authenticated or not user.is_active:
        return Upstream.objects.none()
    # The demo servers in the order of set-up: the first shows the most.
    order_of_demos = Case(When(is_demo=True, then="pk"), default=0)
    enabled = Upstream.objects.filter(is_enabled=True)
    offered = enabled if without_models else enabled.exclude(model_list=[])
    return offered.order_by("is_demo", order_of_demos, "name")


def get_usable_upstream(user: User, public_id: UUID, *, known: Upstream | None = None) -> Upstream:
    """``known`` is a server that was loaded a moment ago: if it is the right one, it is not loaded
    again."""
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
    if known is not None and known.public_id == public_id:
        upstream = known if known.is_enabled else None
    else:
        upstream = Upstream.objects.filter(is_enabled=True, public_id=public_id).first()
    if upstream is None:
        raise Http404(NOT_HERE)
    return upstream


def get_upstream(user: User, public_id: UUID) -> Upstream:
    """A server's settings: for administrators only; for everyone else it does not exist."""
    if not user.is_authenticated or not user.is_active or not user.is_staff:
        raise Http404(NOT_HERE)
    upstream = Upstream.objects.filter(public_id=public_id).first()
    if upstream is None:
        raise Http404(NOT_HERE)
    return upstream


def may_read(actor: User, conversation: Conversation) -> bool:
    """Whether this user may read the conversation as a member, not as an administrator."""
    if conversation.owner_id == actor.pk:
        return True
    return Conversation.objects.visible_to(actor).filter(pk=conversation.pk).exists()
