"""Teams, their people and what belongs to a person."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import (
    Exists,
    OuterRef,
    Prefetch,
    QuerySet,
    Subquery,
)
from django.http import Http404
from django.utils.translation import gettext

from chat.access.not_here import NOT_HERE
from chat.models import (
    AccessToken,
    Import,
    Invitation,
    Membership,
    Message,
    Team,
    Tool,
    User,
)
from chat.models.team import MANAGING_ROLES, WRITING_ROLES


def membership_of(user: User, team_id: int) -> Membership | None:
    return Membership.objects.filter(user=user, team_id=team_id).first()


def known_membership_of(user: User, team: Team) -> Membership | None:
    """As `membership_of`, without a query if the team's memberships are loaded."""
    if "memberships" not in getattr(team, "_prefetched_objects_cache", {}):
        return membership_of(user, team.pk)
    return next((each for each in team.memberships.all() if each.user_id == user.pk), None)


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
    times = (person.last_login, getattr(person, "wrote_at", None))
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
