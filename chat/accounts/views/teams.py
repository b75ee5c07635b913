"""The page Teams: the teams of a person, and a form for administrators that creates one."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from chat import access
from chat.accounts.actions import people as actions
from chat.accounts.forms import TeamForm
from chat.models import Membership, Team
from chat.web.decorators import login_required


@dataclass(frozen=True, slots=True)
class TeamRow:
    team: Team
    # The reader's own; None for an administrator who isn't in the team.
    membership: Membership | None
    may_manage: bool


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def teams(request: HttpRequest) -> HttpResponse:
    user = request.user
    form = TeamForm(request.POST or None) if user.is_staff else None
    if request.method == "POST" and form is None:
        raise PermissionDenied
    if form is not None and form.is_valid():
        team = actions.create_team(user, form.cleaned_data["name"])
        text = gettext("Team “%(team)s” created. You’re its owner.")
        messages.success(request, text % {"team": team.name})
        return redirect("teams")
    rows = [
        TeamRow(
            team=team,
            membership=next((each for each in team.memberships.all() if each.user == user), None),
            may_manage=bool(actions.grantable_roles(user, team)),
        )
        for team in access.teams_with_members(user)
    ]
    status = 422 if form is not None and form.is_bound else 200
    context = {"rows": rows, "form": form, "guest_of": access.guest_memberships_of(user)}
    return render(request, "accounts/teams.html", context, status=status)
