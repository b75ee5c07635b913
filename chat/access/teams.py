"""Teams, their people and what belongs to a person."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import (
    Exists,
    F,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
)
from django.http import Http404
from django.utils.translation import gettext

from chat.access.identity import has_left
from chat.access.not_here import NOT_HERE, check_is_active, existing
from chat.access.second_factors import fulfills_policy
from chat.access.tools import is_listed_for, listed_tools
from chat.models import (
    AccessToken,
    Group,
    Import,
    Invitation,
    Membership,
    Message,
    Team,
    Tool,
    ToolAccount,
    ToolCredentials,
    ToolServer,
    User,
    UserSession,
)
from chat.models.team import FULL_ROLES, MANAGING_ROLES, WRITING_ROLES, TeamRole


def membership_of(user: User, team_id: int) -> Membership | None:
    return Membership.objects.filter(user=user, team_id=team_id).first()


def known_membership_of(user: User, team: Team) -> Membership | None:
    """The membership as from `membership_of`, without a query if the team's memberships are loaded."""
    if "memberships" not in getattr(team, "_prefetched_objects_cache", {}):
        return membership_of(user, team.pk)
    return next((each for each in team.memberships.all() if each.user_id == user.pk), None)


def get_team(user: User, public_id: UUID, *, for_manage: bool = False) -> Team:
    """A team that the user is in, and not as a guest, or any team for an administrator."""
    check_is_active(user)
    team = Team.objects.filter(public_id=public_id).first()
    membership = membership_of(user, team.pk) if team else None
    sees_team = membership is not None and membership.sees_team
    if team is None or not (sees_team or user.is_staff):
        raise Http404(NOT_HERE)
    if for_manage and not (user.is_staff or (membership and membership.may_manage)):
        raise PermissionDenied(gettext("Only owners and admins of this team can do this."))
    return team


def get_tool(user: User, public_id: UUID, *, for_manage: bool = False) -> Tool:
    """A tool of a team that the user is in. Raises as ``get_team`` does."""
    tool = existing(Tool.objects.filter(public_id=public_id).select_related("team").first())
    tool.team = get_team(user, tool.team.public_id, for_manage=for_manage)
    return tool


def get_tool_to_change(user: User, public_id: UUID) -> Tool:
    """A tool whose definition the user may change. Raises as ``get_team`` does."""
    tool = get_tool(user, public_id, for_manage=True)
    if tool.runs_here and not may_manage_tool_servers(user, tool.team):
        raise PermissionDenied(gettext("Only administrators can do this."))
    return tool


def may_manage_tool_servers(user: User, team: Team) -> bool:
    """Returns whether the user adds MCP servers and HTTP tools. Administrators do, and the team's owners and admins if
    ``TEAM_TOOL_SERVERS`` lets them: calls may go to private addresses, as those to LLM servers do."""
    if not user.is_active or user.is_staff:
        return user.is_active
    membership = known_membership_of(user, team)
    return settings.TEAM_TOOL_SERVERS and membership is not None and membership.may_manage


def get_team_of_tool_servers(user: User, public_id: UUID) -> Team:
    """A team whose tool servers the user manages. Raises as ``get_team`` does."""
    team = get_team(user, public_id)
    if not may_manage_tool_servers(user, team):
        raise PermissionDenied(gettext("Only administrators can do this."))
    return team


def get_tool_server(user: User, public_id: UUID) -> ToolServer:
    """A tool server that the user manages; its address is for nobody else. Raises as ``get_team`` does."""
    server = existing(ToolServer.objects.filter(public_id=public_id).select_related("team").first())
    server.team = get_team_of_tool_servers(user, server.team.public_id)
    return server


def get_tool_of_server(user: User, public_id: UUID) -> Tool:
    """A tool of a server that the user manages. Raises as ``get_team`` does."""
    tool = Tool.objects.filter(public_id=public_id).select_related("server").first()
    if tool is None or tool.server is None:
        raise Http404(NOT_HERE)
    tool.server = get_tool_server(user, tool.server.public_id)
    if not listed_tools(user, tool.server).filter(pk=tool.pk).exists():
        raise Http404(NOT_HERE)
    tool.team = tool.server.team
    return tool


def may_sign_in_at(user: User, server: ToolServer) -> bool:
    """Returns whether the user may have an account at the server: people of its team, and those who manage it."""
    if not user.is_active:
        return False
    if membership_of(user, server.team_id) is not None:
        return True
    return may_manage_tool_servers(user, server.team)


def sign_in_servers(user: User) -> QuerySet[ToolServer]:
    """The servers that the user may sign in at with an account of their own, by team and name. A guest sees one on the
    card of a call only."""
    teams = Membership.objects.filter(user=user, role__in=FULL_ROLES).values("team")
    servers = ToolServer.objects.filter(
        team__in=teams, credentials=ToolCredentials.PERSON, is_enabled=True
    )
    return servers.select_related("team").order_by("team__name", "name")


def get_sign_in_server(user: User, public_id: UUID) -> ToolServer:
    """One of `sign_in_servers`. Raises ``Http404`` for any other."""
    return existing(sign_in_servers(user).filter(public_id=public_id).first())


def tool_accounts(user: User) -> QuerySet[ToolAccount]:
    """The user's own accounts at tool servers; nobody sees those of others."""
    return ToolAccount.objects.filter(person=user).select_related("person", "server__team")


def get_tool_account(user: User, public_id: UUID) -> ToolAccount:
    """An account of the user. Raises ``Http404`` for that of anybody else."""
    return existing(tool_accounts(user).filter(public_id=public_id).first())


def teams_with_tool_servers(user: User) -> list[Team]:
    """The teams whose tool servers the user manages, with the servers and their tools."""
    if not (user.is_staff or settings.TEAM_TOOL_SERVERS):
        return []
    # A server's schemas can be megabytes.
    tools = Prefetch("tools", Tool.objects.defer("schema", "description"))
    servers = ToolServer.objects.prefetch_related(tools)
    return list(managed_teams(user).prefetch_related(Prefetch("tool_servers", servers)))


def get_group(user: User, public_id: UUID, *, for_manage: bool = False) -> Group:
    """A group of a team that the user sees. Raises as ``get_team`` does."""
    group = existing(Group.objects.filter(public_id=public_id).select_related("team").first())
    group.team = get_team(user, group.team.public_id, for_manage=for_manage)
    return group


def full_members_of(team_id: int) -> QuerySet[Membership]:
    """The members of a team with enabled accounts who see it, so that anything of it may be shown to
    them: all but its guests."""
    return Membership.objects.filter(team=team_id, role__in=FULL_ROLES, user__is_active=True)


def is_guest(user: User, team_id: int) -> bool:
    """Returns whether the user sees nothing of the team but the conversations that they take part in."""
    guests = Membership.objects.filter(user=user, team=team_id, role=TeamRole.GUEST)
    return guests.exists()


def writable_teams(user: User) -> QuerySet[Team]:
    return Team.objects.filter(
        memberships__user=user, memberships__role__in=WRITING_ROLES
    ).order_by("name")


def sees_a_team(user: User) -> bool:
    """Returns whether the user is on any team, and not as a guest."""
    return Membership.objects.filter(user=user, role__in=FULL_ROLES).exists()


def without_team_text(user: User) -> str:
    """Why somebody has no team to write in, and whom to ask."""
    if sees_a_team(user):
        return gettext("You have read-only access. Ask a team owner for write access.")
    if guest_memberships_of(user):
        return gettext("You’re a guest. You can only use conversations that are shared with you.")
    if user.is_staff:
        return gettext("You’re not on a team yet. Create one in the settings, under Teams.")
    return gettext(
        "You’re not on a team yet. Ask a team owner or an administrator for an invitation."
    )


def managed_teams(user: User) -> QuerySet[Team]:
    if user.is_staff:
        return Team.objects.order_by("name")
    return Team.objects.filter(
        memberships__user=user, memberships__role__in=MANAGING_ROLES
    ).order_by("name")


def people_of_teams(user: User) -> QuerySet[User]:
    """The people of the teams that the user sees, and the user."""
    seen = Membership.objects.filter(user=user, role__in=FULL_ROLES).values("team")
    shared = Membership.objects.filter(user=OuterRef("pk"), team__in=seen)
    return User.objects.filter(Q(Exists(shared)) | Q(pk=user.pk), is_active=True).order_by(
        "name", "email"
    )


def teams_with_members(user: User) -> list[Team]:
    """The teams that a user sees (not those of which they are a guest), with members, open invitations and tools: their own, or all for an
    administrator. Each member has the time of their newest message for `last_active`."""
    mine = Membership.objects.filter(user=user, role__in=FULL_ROLES)
    teams = Team.objects.all() if user.is_staff else Team.objects.filter(pk__in=mine.values("team"))
    people = User.objects.annotate(wrote_at=_newest_message)
    invitations = Invitation.objects.select_related("invited_by", "team")
    return list(
        teams.order_by("name").prefetch_related(
            Prefetch(
                "tools",
                Tool.objects.filter(is_listed_for(user))
                .select_related("request", "server")
                .defer("schema", "offered"),
            ),
            Prefetch("memberships__user", people),
            Prefetch("invitations", invitations),
        )
    )


def guest_memberships_of(user: User) -> list[Membership]:
    """The memberships as a guest, with their teams, of which a guest sees the name."""
    mine = Membership.objects.filter(user=user, role=TeamRole.GUEST)
    return list(mine.select_related("team").order_by("team__name"))


def all_accounts(user: User) -> QuerySet[User]:
    """All accounts with their teams, for administrators; none for others. Only administrators learn when somebody
    has used a session, because people may be present without being seen."""
    people = User.objects.annotate(wrote_at=_newest_message, used_at=_last_use).order_by("name")
    people = people.prefetch_related("memberships__team")
    return people if user.is_active and user.is_staff else people.none()


_newest_message = Subquery(
    Message.objects.filter(author=OuterRef("pk")).order_by("-pk").values("created_at")[:1]
)
_last_use = Subquery(
    UserSession.objects.filter(user=OuterRef("pk"))
    .order_by("-last_used_at")
    .values("last_used_at")[:1]
)


def last_active(person: User) -> datetime | None:
    """The newest of the last sign-in and of what the query has added: the newest message, and the last use of a session."""
    times = (person.last_login, getattr(person, "wrote_at", None), getattr(person, "used_at", None))
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
    check_is_active(user)
    return existing(managed_people(user).filter(public_id=person_id).first())


def get_member(user: User, team_id: UUID, person_id: UUID) -> Membership:
    """A membership in a team that the user is in (or in any team, for an administrator), for a guest their
    own. Actions check which changes both roles allow. Raises ``Http404``."""
    if person_id == user.public_id:
        mine = Membership.objects.filter(user=user, team__public_id=team_id, user__is_active=True)
        if (membership := mine.select_related("team", "user").first()) is not None:
            return membership
    team = get_team(user, team_id)
    return existing(
        Membership.objects.filter(team=team, user__public_id=person_id)
        .select_related("team", "user")
        .first()
    )


def get_invitation(user: User, team_id: UUID, invitation_id: int) -> Invitation:
    """An invitation into a team that the user manages. Raises as ``get_team`` does."""
    team = get_team(user, team_id, for_manage=True)
    return existing(
        Invitation.objects.filter(team=team, pk=invitation_id).select_related("team").first()
    )


def usable_tokens() -> QuerySet[AccessToken]:
    """Tokens that are valid now: neither revoked nor expired, of an enabled account that may write in the
    token's team and has the second factor that it needs, and whose provider, if there is one, has confirmed the person
    lately."""
    return AccessToken.objects.not_ended().filter(
        ~has_left(),
        fulfills_policy("user__"),
        user__is_active=True,
        team__memberships__user=F("user"),
        team__memberships__role__in=WRITING_ROLES,
    )


def get_token(user: User, public_id: UUID) -> AccessToken:
    """The user's own access token, in any state. Raises ``Http404``."""
    check_is_active(user)
    return existing(
        AccessToken.objects.filter(user=user, public_id=public_id).select_related("team").first()
    )


def get_import(user: User, public_id: UUID) -> Import:
    """The user's own import. Raises ``Http404``."""
    check_is_active(user)
    return existing(
        Import.objects.filter(user=user, public_id=public_id).select_related("team").first()
    )
