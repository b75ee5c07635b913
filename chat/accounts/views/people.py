"""The page People: teams and members, invitations, reset links, activation of accounts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat import access
from chat.accounts.actions import people as actions
from chat.accounts.adapter import reset_links_last
from chat.accounts.forms import InvitedForm, InviteForm, RoleForm, TeamForm
from chat.accounts.views.account import sign_in, without_referrer
from chat.core.errors import ActionRefused, InvalidForm
from chat.models import Invitation, Membership, Team, TeamRole, User
from chat.web.decorators import login_required, post_action, refuse_with_message

# --- the page -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member of a team, and what the reader may do with them."""

    membership: Membership
    is_me: bool
    roles: tuple[TeamRole, ...]
    may_remove: bool
    may_reset: bool


@dataclass(frozen=True, slots=True)
class TeamSection:
    team: Team
    members: list[MemberRow]
    invitations: list[Invitation]
    invite_form: InviteForm | None
    # Whether the reader manages the team: its invitations and its tools.
    may_manage: bool


@login_required
@require_GET
def people(request: HttpRequest) -> HttpResponse:
    return _page(request)


def _page(
    request: HttpRequest, *, invite_form: InviteForm | None = None, of_team: Team | None = None
) -> HttpResponse:
    """Renders the page, with the refused form in the place of its team's empty one."""
    user = request.user
    resettable = set(actions.resettable_people(user).values_list("pk", flat=True))
    sections = [_section(user, team, resettable) for team in _teams_of(user)]
    if invite_form and of_team:
        sections = [
            replace(section, invite_form=invite_form) if section.team == of_team else section
            for section in sections
        ]
    context = {
        "sections": sections,
        "team_form": TeamForm() if user.is_staff else None,
        "accounts": _accounts(user, resettable) if user.is_staff else [],
    }
    return render(request, "accounts/people.html", context, status=422 if invite_form else 200)


def _teams_of(user: User) -> list[Team]:
    """The teams of the user, and for an administrator all others after them."""
    teams = Team.objects.all() if user.is_staff else Team.objects.filter(memberships__user=user)
    return list(
        teams.order_by("name").prefetch_related("memberships__user", "invitations", "tools")
    )


def _section(user: User, team: Team, resettable: set[int]) -> TeamSection:
    roles = actions.grantable_roles(user, team)
    members = sorted(team.memberships.all(), key=_rank)
    return TeamSection(
        team=team,
        members=[_member_row(user, member, roles, resettable) for member in members],
        invitations=[
            invitation for invitation in team.invitations.all() if roles and invitation.is_open
        ],
        invite_form=InviteForm(team=team, roles=roles) if roles else None,
        may_manage=bool(roles),
    )


def _rank(membership: Membership) -> tuple[int, str]:
    return list(TeamRole).index(TeamRole(membership.role)), membership.user.name.casefold()


def _member_row(
    user: User, membership: Membership, roles: tuple[TeamRole, ...], resettable: set[int]
) -> MemberRow:
    is_me = membership.user_id == user.pk
    may_change = membership.role in roles
    return MemberRow(
        membership=membership,
        is_me=is_me,
        roles=roles if may_change else (),
        may_remove=is_me or may_change,
        may_reset=membership.user_id in resettable,
    )


@dataclass(frozen=True, slots=True)
class AccountRow:
    person: User
    may_switch: bool
    may_reset: bool


def _accounts(user: User, resettable: set[int]) -> list[AccountRow]:
    """All accounts of the installation, for administrators."""
    return [
        AccountRow(person, actions.may_deactivate(user, person), person.pk in resettable)
        for person in User.objects.prefetch_related("memberships__team").order_by("name")
    ]


# --- teams and members ------------------------------------------------------------------


@login_required
@require_POST
def team_create(request: HttpRequest) -> HttpResponse:
    form = TeamForm(request.POST)
    if form.is_valid():
        team = actions.create_team(request.user, form.cleaned_data["name"])
        text = gettext("Team “%(team)s” created. You’re its owner.")
        messages.success(request, text % {"team": team.name})
    else:
        messages.error(request, gettext("Enter a team name of up to 80 characters."))
    return redirect("people")


refuse = refuse_with_message("people")


def _managed_member(user: User, team_id: UUID, person_id: UUID) -> Membership:
    membership = access.get_member(user, team_id, person_id)
    access.get_team(user, team_id, for_manage=True)
    return membership


def _own_or_managed_member(user: User, team_id: UUID, person_id: UUID) -> Membership:
    membership = access.get_member(user, team_id, person_id)
    if membership.user_id != user.pk:
        access.get_team(user, team_id, for_manage=True)
    return membership


@post_action(_managed_member, refuse)
def member_role(request: HttpRequest, membership: Membership) -> HttpResponse:
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(gettext("Choose one of the roles."))
    actions.change_role(request.user, membership, form.cleaned_data["role"])
    text = gettext("%(person)s’s role in %(team)s is now %(role)s.")
    role = TeamRole(form.cleaned_data["role"]).label
    values = {"person": membership.user, "team": membership.team, "role": role}
    messages.success(request, text % values)
    return redirect("people")


@post_action(_own_or_managed_member, refuse)
def member_remove(request: HttpRequest, membership: Membership) -> HttpResponse:
    actions.remove_member(request.user, membership)
    if membership.user_id == request.user.pk:
        text = gettext("You left %(team)s.")
    else:
        text = gettext("%(person)s was removed from %(team)s.")
    messages.success(request, text % {"person": membership.user, "team": membership.team})
    return redirect("people")


# --- invitations -----------------------------------------------------------------------------


@without_referrer
@login_required
@require_POST
def invite(request: HttpRequest, team_id: UUID) -> HttpResponse:
    """Responds with the link itself: it is shown once, and a redirect would have to store it."""
    team = access.get_team(request.user, team_id, for_manage=True)
    roles = actions.grantable_roles(request.user, team)
    form = InviteForm(request.POST, team=team, roles=roles)
    if not form.is_valid():
        return _page(request, invite_form=form, of_team=team)
    invitation, link = actions.invite(request.user, team, **form.cleaned_data)
    return render(request, "accounts/invited.html", {"invitation": invitation, "link": link})


@post_action(access.get_invitation, refuse)
def invitation_revoke(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    actions.revoke_invitation(request.user, invitation)
    messages.success(request, gettext("Invitation revoked. Its link no longer works."))
    return redirect("people")


@never_cache
@without_referrer
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    found = actions.find_invitation(token)
    if found is None:
        return _dead(request)
    if request.user.is_authenticated:
        return _join(request, found)
    return _join_as_new_person(request, found)


def _dead(request: HttpRequest) -> HttpResponse:
    """The same page for unknown, used, expired and revoked links, so that trying tells nothing."""
    return render(request, "accounts/invitation_dead.html", status=404)


def _join(request: HttpRequest, found: Invitation) -> HttpResponse:
    refusal = ""
    if request.method == "POST":
        try:
            actions.join(found, request.user)
        except ActionRefused as error:
            refusal = str(error)
        else:
            text = gettext("Welcome to %(team)s.")
            messages.success(request, text % {"team": found.team})
            return redirect("home")
    context = {
        "invitation": found,
        "refusal": refusal,
        "is_member": access.membership_of(request.user, found.team_id) is not None,
        "is_for_another": bool(found.email) and found.email != request.user.email.lower(),
    }
    return render(request, "accounts/invitation_join.html", context, status=409 if refusal else 200)


def _join_as_new_person(request: HttpRequest, found: Invitation) -> HttpResponse:
    form = InvitedForm(request.POST or None, bound_email=found.email)
    if form.is_valid():
        try:
            user = actions.join_as_new_person(found, **form.cleaned_data)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            sign_in(request, user)
            return redirect("home")
    status = 422 if form.is_bound else 200
    context = {"invitation": found, "form": form}
    return render(request, "accounts/invitation_new.html", context, status=status)


# --- accounts -----------------------------------------------------------------------------------


@without_referrer
@login_required
@require_POST
def person_reset_link(request: HttpRequest, person_id: UUID) -> HttpResponse:
    """Answers with the link itself, as ``invite`` does."""
    person = access.get_person(request.user, person_id)
    link = actions.make_reset_link(request.user, person)
    context = {"person": person, "link": link, "lasts": reset_links_last()}
    return render(request, "accounts/reset_link.html", context)


@post_action(access.get_person, refuse)
def person_deactivate(request: HttpRequest, person: User) -> HttpResponse:
    actions.set_active(request.user, person, is_active=False)
    text = gettext("%(person)s’s account is deactivated. They’re signed out everywhere.")
    messages.success(request, text % {"person": person})
    return redirect("people")


@post_action(access.get_person, refuse)
def person_activate(request: HttpRequest, person: User) -> HttpResponse:
    actions.set_active(request.user, person, is_active=True)
    text = gettext("%(person)s can sign in again.")
    messages.success(request, text % {"person": person})
    return redirect("people")
