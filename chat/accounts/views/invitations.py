"""Invitations: creating a link, revoking it, and joining a team by it."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from chat import access
from chat.accounts.actions import people as actions
from chat.accounts.forms import InvitedForm, InviteForm
from chat.accounts.views.account import sign_in, without_referrer
from chat.core.errors import ActionRefused
from chat.models import Invitation
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.responses import form_page


@without_referrer
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def invite(request: HttpRequest, team_id: UUID) -> HttpResponse:
    """Responds with the link itself: it is shown once, and a redirect would have to store it."""
    team = access.get_team(request.user, team_id, for_manage=True)
    roles = actions.grantable_roles(request.user, team)
    form = InviteForm(request.POST or None, team=team, roles=roles)
    if form.is_valid():
        invitation, link = actions.invite(request.user, team, **form.cleaned_data)
        return render(request, "accounts/invited.html", {"invitation": invitation, "link": link})
    teams = access.managed_teams(request.user)
    return form_page(request, "accounts/invite.html", form, team=team, teams=teams)


@post_action(access.get_invitation, refuse_with_message("people"))
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
    return form_page(request, "accounts/invitation_new.html", form, invitation=found)
