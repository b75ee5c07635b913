"""The rule of access: who may read and who may write a conversation or a project. It is stated here only.

Each condition is about a row of its table and the ``person`` that `for_person` adds to the query: a user, a
placeholder of a prepared statement, or a column of an outer query. The conditions name columns of the
row and subqueries, and no joined table, so `text_of` can put them into a statement in plain SQL, for many
people at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from django.db.models import (
    BigIntegerField,
    Exists,
    ExpressionWrapper,
    F,
    Model,
    OuterRef,
    Q,
    QuerySet,
    Value,
)
from django.db.models.functions import Now

from chat.core.prepared import Column, condition_text
from chat.models import (
    ConversationRole,
    GroupMember,
    Membership,
    Participant,
    Project,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    User,
    Visibility,
)
from chat.models.team import FULL_ROLES, MANAGING_ROLES, WRITING_ROLES, TeamRole

M = TypeVar("M", bound=Model)

_PROJECT_WRITING_ROLES = (ProjectRole.MANAGER, ProjectRole.WRITER)
_CONVERSATION_WRITING_ROLES = (ConversationRole.MANAGER, ConversationRole.WRITER)


def for_person(rows: QuerySet[M], person: Any) -> QuerySet[M]:
    """The rows with the person about whom the conditions below are."""
    key = getattr(person, "pk", person)
    if not hasattr(key, "resolve_expression"):
        key = Value(key)
    with_person: QuerySet[Any] = rows.alias(
        person=ExpressionWrapper(key, output_field=BigIntegerField())
    )
    return with_person


def text_of(model: type[Model], condition: Q, *, person: str = "") -> str:
    """A condition as text for this thread's database, for a statement in which the table of the model has
    its own name and ``person`` is the column of the person."""
    rows = model._default_manager.all()
    return condition_text((for_person(rows, Column(person)) if person else rows).filter(condition))


def _with_role(members: QuerySet[M], roles: Iterable[str]) -> QuerySet[M]:
    return members.filter(role__in=roles) if roles else members


def _is_on_team(roles: Iterable[str] = ()) -> Q:
    """An enabled account in the team of the row, with any role or with one of these."""
    teams = _with_role(Membership.objects.filter(user=OuterRef("person")), roles)
    enabled = User.objects.filter(pk=OuterRef("person"), is_active=True)
    # Both databases make a range of an index of the list of teams; with an ``Exists`` SQLite would look
    # at each conversation there is.
    return Q(team__in=teams.values("team")) & Q(Exists(enabled))


# --- projects -----------------------------------------------------------------------------------


IS_FOR_TEAM = Q(access=ProjectAccess.TEAM)


def _is_selected(roles: Iterable[str] = ()) -> Q:
    selected = ProjectMember.objects.filter(project=OuterRef("pk"), user=OuterRef("person"))
    return Q(Exists(_with_role(selected, roles)))


def reads_project(is_for_team: Q = IS_FOR_TEAM) -> Q:
    """Reads what is shared with the project. A role in the project alone gives nothing: being on the team,
    and no guest, comes first. ``is_for_team`` stands for the project's access where somebody asks what
    would be."""
    return (is_for_team | _is_selected()) & _is_on_team(FULL_ROLES)


READS_PROJECT = reads_project()
WRITES_IN_PROJECT = (IS_FOR_TEAM | _is_selected(_PROJECT_WRITING_ROLES)) & _is_on_team(
    WRITING_ROLES
)
# The creator of a project for the whole team; a manager of one of selected people.
_IS_PROJECT_MANAGER = Q(IS_FOR_TEAM, created_by=F("person")) | (
    ~IS_FOR_TEAM & _is_selected([ProjectRole.MANAGER])
)
MANAGES_PROJECT = _is_on_team(WRITING_ROLES) & (
    _IS_PROJECT_MANAGER | IS_FOR_TEAM & _is_on_team(MANAGING_ROLES)
)
# Owners and admins of the team may change the members, so that nobody is locked out; that does not let
# them read the content.
MANAGES_MEMBERS = _is_on_team(WRITING_ROLES) & (_IS_PROJECT_MANAGER | _is_on_team(MANAGING_ROLES))


# --- conversations ------------------------------------------------------------------------------

IS_SHARED_WITH_TEAM = Q(visibility=Visibility.TEAM)
IS_SHARED_WITH_PROJECT = Q(visibility=Visibility.PROJECT)


def is_shared(conversation: str) -> Q:
    """About rows that refer to a conversation, in the field of this name: others read it, too."""
    participants = Participant.objects.filter(conversation=OuterRef(conversation))
    is_visible = ~Q(**{f"{conversation}__visibility": Visibility.PRIVATE})
    return is_visible | Q(Exists(participants))


HAS_PARTICIPANTS = Q(Exists(Participant.objects.filter(conversation=OuterRef("pk"))))
# Nobody but the owner is there to see it.
IS_PRIVATE = Q(visibility=Visibility.PRIVATE) & ~HAS_PARTICIPANTS
# The database's clock is used, because the clocks of hosts differ.
HAS_NOT_EXPIRED = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())
IS_PRESENT = Q(deleted_at__isnull=True) & HAS_NOT_EXPIRED
_IS_OWNER = Q(owner=F("person"))
_OPEN_PROJECT = Project.objects.filter(IS_FOR_TEAM, pk=OuterRef("project"), team=OuterRef("team"))
_IS_SHARED_WITH_OPEN_PROJECT = IS_SHARED_WITH_PROJECT & Q(Exists(_OPEN_PROJECT))
# Conversations that nobody on the team is excluded from, except guests.
IS_SHARED_WITH_EVERYONE = IS_SHARED_WITH_TEAM | _IS_SHARED_WITH_OPEN_PROJECT
_TEAM_MAY_WRITE = IS_SHARED_WITH_TEAM & Q(shared_role__in=_CONVERSATION_WRITING_ROLES)
# About a membership.
IS_OF_GUEST = Q(role=TeamRole.GUEST)
IS_GUEST = Q(
    Exists(Membership.objects.filter(IS_OF_GUEST, team=OuterRef("team"), user=OuterRef("person")))
)


def _is_shared_with_person(roles: Iterable[str] = ()) -> Q:
    """The conversation was shared with the person, or with a group of its team that they are in."""
    shared = _with_role(Participant.objects.filter(conversation=OuterRef("pk")), roles)
    groups = GroupMember.objects.filter(
        user=OuterRef(OuterRef("person")), group__team=OuterRef(OuterRef("team"))
    )
    return Q(
        Exists(shared.filter(Q(person=OuterRef("person")) | Q(group__in=groups.values("group"))))
    )


def _is_in_project(roles: Iterable[str] = ()) -> Q:
    """The conversation is shared with its project, which the person reads."""
    selected = ProjectMember.objects.filter(
        project=OuterRef("project"), project__team=OuterRef("team"), user=OuterRef("person")
    )
    is_selected = Q(Exists(_with_role(selected, roles)))
    return _IS_SHARED_WITH_OPEN_PROJECT | IS_SHARED_WITH_PROJECT & is_selected


# Every way in which a person belongs to a conversation. A further one is one more ``Exists`` beside these.
_TAKES_PART = _IS_OWNER | _is_shared_with_person()
READS = (
    IS_PRESENT
    & (_TAKES_PART | (IS_SHARED_WITH_TEAM | _is_in_project()) & ~IS_GUEST)
    & _is_on_team()
)
# The single ways, of those who may read.
TAKES_PART = READS & _TAKES_PART
READS_BY_PROJECT = READS & _is_in_project() & ~IS_GUEST
READS_AS_TEAM = READS & IS_SHARED_WITH_TEAM & ~IS_GUEST
# A viewer of the team writes nowhere, a guest where they take part.
WRITES = (
    IS_PRESENT
    & (
        _IS_OWNER
        | _is_shared_with_person(_CONVERSATION_WRITING_ROLES)
        | (_TEAM_MAY_WRITE | _is_in_project(_PROJECT_WRITING_ROLES)) & ~IS_GUEST
    )
    & _is_on_team((*WRITING_ROLES, TeamRole.GUEST))
)
# Readers who may begin conversations in its team may copy it into one.
FORKS = READS & _is_on_team(WRITING_ROLES)
# A guest manages nothing, since that takes knowing the people and groups of the team.
_IS_MANAGER = (_IS_OWNER | _is_shared_with_person([ConversationRole.MANAGER])) & _is_on_team(
    WRITING_ROLES
)
MANAGES = IS_PRESENT & _IS_MANAGER
RESTORES = Q(deleted_at__isnull=False) & HAS_NOT_EXPIRED & _IS_MANAGER
# Deletes it for ever.
ERASES = RESTORES & _IS_OWNER
# The owner is still on the team, perhaps with a disabled account.
IS_OWNED = IS_PRESENT & Q(team__in=Membership.objects.filter(user=OuterRef("owner")).values("team"))
