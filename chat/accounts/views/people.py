"""People and their accounts: the members of teams, roles, reset links, activation."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST

from chat import access
from chat.accounts.actions import people as actions
from chat.accounts.adapter import reset_links_last
from chat.accounts.forms import RoleForm
from chat.accounts.two_step import actions as factors
from chat.accounts.views.account import without_referrer
from chat.core.errors import InvalidForm
from chat.models import Invitation, Membership, Team, TeamRole, User
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import (
    administrators_only,
    login_required,
    post_action,
    refuse_with_message,
)

# --- the page -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TeamOf:
    """A team that a person is in, and what the reader may do about that."""

    team: Team
    membership: Membership
    # The roles that the reader may give this person.
    roles: tuple[TeamRole, ...]
    may_remove: bool
    # The provider that decides about the membership; empty: people do.
    managed_by: str


@dataclass(frozen=True, slots=True)
class PersonRow:
    person: User
    last_active: datetime | None
    teams: tuple[TeamOf, ...]
    may_reset: bool

    @property
    def has_actions(self) -> bool:
        return self.may_reset or any(of.may_remove for of in self.teams)


@login_required
@require_GET
def people(request: HttpRequest) -> HttpResponse:
    """Everyone in the reader's teams, or in the one team that ``?team=`` names."""
    user = request.user
    teams = access.teams_with_members(user)
    chosen = [team for team in teams if team.public_id.hex == request.GET.get("team")]
    managed = [team for team in teams if actions.grantable_roles(user, team)]
    shown = chosen or teams
    context = {
        "teams": teams,
        "team": chosen[0] if chosen else None,
        "rows": _rows(user, shown),
        "invitations": _open_invitations([team for team in shown if team in managed]),
        "sends_mail": bool(settings.EMAIL_HOST),
        "invites_to": next((team for team in shown if team in managed), None),
    }
    return render(request, "accounts/people.html", context)


def _rows(user: User, teams: list[Team]) -> list[PersonRow]:
    resettable = set(actions.resettable_people(user).values_list("pk", flat=True))
    found: dict[User, list[TeamOf]] = defaultdict(list)
    shown = [membership for team in teams for membership in team.memberships.all()]
    managers = access.managers_of_memberships(shown)
    for team in teams:
        roles = actions.grantable_roles(user, team)
        for membership in team.memberships.all():
            person = membership.user
            managed_by = managers.get(membership.pk, "")
            may_change = membership.role in roles and not managed_by
            found[person].append(
                TeamOf(
                    team=team,
                    membership=membership,
                    roles=roles if may_change else (),
                    may_remove=not managed_by and (may_change or person == user),
                    managed_by=managed_by,
                )
            )
    rows = [
        PersonRow(person, access.last_active(person), tuple(of), person.pk in resettable)
        for person, of in found.items()
    ]
    return sorted(rows, key=lambda row: row.person.name.casefold())


def _open_invitations(teams: list[Team]) -> list[Invitation]:
    """The newest first. They are read with their teams, so that no row asks for its own."""
    found = [each for team in teams for each in team.invitations.all() if each.is_open]
    return sorted(found, key=lambda each: each.pk, reverse=True)


# --- roles and removal ---------------------------------------------------------------------

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


@confirmed_recently()
@post_action(_managed_member, refuse)
def member_role(request: HttpRequest, membership: Membership) -> HttpResponse:
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(gettext("Choose a role."))
    actions.change_role(request.user, membership, form.cleaned_data["role"])
    text = gettext("%(person)s’s role in %(team)s is now %(role)s.")
    role = TeamRole(form.cleaned_data["role"]).label
    values = {"person": membership.user, "team": membership.team, "role": role}
    messages.success(request, text % values)
    return redirect("people")


def _is_of_somebody_else(request: HttpRequest, team_id: UUID, person_id: UUID) -> bool:
    return person_id != request.user.public_id


@confirmed_recently(only_if=_is_of_somebody_else)
@post_action(_own_or_managed_member, refuse)
def member_remove(request: HttpRequest, membership: Membership) -> HttpResponse:
    actions.remove_member(request.user, membership)
    if membership.user_id == request.user.pk:
        text = gettext("You left %(team)s.")
    else:
        text = gettext("%(person)s was removed from %(team)s.")
    messages.success(request, text % {"person": membership.user, "team": membership.team})
    return redirect("people")


# --- accounts -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AccountRow:
    person: User
    last_active: datetime | None
    may_switch: bool
    may_reset: bool
    # The provider that the person signs in at; empty: none.
    provider: str
    may_reset_factors: bool


@administrators_only
@require_GET
def accounts(request: HttpRequest) -> HttpResponse:
    user = request.user
    resettable = set(actions.resettable_people(user).values_list("pk", flat=True))
    people = list(access.all_accounts(user))
    providers = access.providers_of_people(people)
    rows = [
        AccountRow(
            person,
            access.last_active(person),
            actions.may_deactivate(user, person),
            person.pk in resettable,
            providers.get(person.pk, ""),
            person.has_second_factor and factors.may_reset(user, person),
        )
        for person in people
    ]
    return render(request, "accounts/accounts.html", {"rows": rows})


@confirmed_recently()
@without_referrer
@login_required
@require_POST
def person_reset_link(request: HttpRequest, person_id: UUID) -> HttpResponse:
    """Answers with the link itself, as ``invite`` does."""
    person = access.get_person(request.user, person_id)
    link = actions.make_reset_link(request.user, person)
    context = {"person": person, "link": link, "lasts": reset_links_last()}
    return render(request, "accounts/reset_link.html", context)


refuse_account = refuse_with_message("accounts")


@confirmed_recently()
@post_action(access.get_person, refuse_account)
def person_deactivate(request: HttpRequest, person: User) -> HttpResponse:
    actions.set_active(request.user, person, is_active=False)
    text = gettext("%(person)s’s account is deactivated. They’re signed out everywhere.")
    messages.success(request, text % {"person": person})
    return redirect("accounts")


@confirmed_recently()
@post_action(access.get_person, refuse_account)
def person_activate(request: HttpRequest, person: User) -> HttpResponse:
    actions.set_active(request.user, person, is_active=True)
    text = gettext("%(person)s can sign in again.")
    messages.success(request, text % {"person": person})
    return redirect("accounts")
