"""Invitations: creating, sending, renewing and revoking them, and joining a team by one."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods

from chat import access
from chat.accounts.actions import invitations as actions
from chat.accounts.actions import people
from chat.accounts.actions.invitations import NewInvitation
from chat.accounts.forms import InvitedForm, InviteForm
from chat.accounts.views.account import sign_in, without_referrer
from chat.core.errors import ActionRefused
from chat.models import Invitation, InvitationUse, Team
from chat.models.team import MANAGING_ROLES
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required, post_action
from chat.web.responses import form_page


def _gives_management(request: HttpRequest, team_id: UUID, invitation_id: int = 0) -> bool:
    """True if who uses the invitation will manage the team."""
    if invitation_id:
        role = access.get_invitation(request.user, team_id, invitation_id).role
    else:
        role = request.POST.get("role", "")
    return role in MANAGING_ROLES


@confirmed_recently(methods=("POST",), only_if=_gives_management)
@without_referrer
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def invite(request: HttpRequest, team_id: UUID) -> HttpResponse:
    """Responds with the links themselves: they are shown once, and a redirect would have to store them."""
    team = access.get_team(request.user, team_id, for_manage=True)
    roles = people.grantable_roles(request.user, team)
    form = InviteForm(request.POST or None, team=team, roles=roles)
    status = 422
    if form.is_valid():
        try:
            return _invited(request, team, _invite(request, team, form))
        except ActionRefused as refusal:
            form.add_error("emails", str(refusal))
            status = 409
    context = {"form": form, "team": team, "teams": access.managed_teams(request.user)}
    context["sends_mail"] = bool(settings.EMAIL_HOST)
    return render(request, "accounts/invite.html", context, status=status if form.is_bound else 200)


def _invite(request: HttpRequest, team: Team, form: InviteForm) -> list[NewInvitation]:
    said = dict(form.cleaned_data)
    emails, people_count = said.pop("emails"), said.pop("people")
    if emails:
        return actions.invite_addresses(request.user, team, emails, **said)
    return [NewInvitation(*actions.invite(request.user, team, people=people_count, **said))]


def _invited(request: HttpRequest, team: Team, made: list[NewInvitation]) -> HttpResponse:
    """The links to copy, and whom mail was sent to."""
    unsent = [each for each in made if not each.is_sent]
    context = {
        "team": team,
        "invitation": made[0].invitation,
        "sent": [each for each in made if each.is_sent],
        "unsent": unsent,
        # Mail is set up and has failed.
        "has_failed": bool(settings.EMAIL_HOST) and any(one.invitation.email for one in unsent),
        "link": unsent[0].link if len(made) == len(unsent) == 1 else "",
    }
    return render(request, "accounts/invited.html", context)


# The newest of a team. Older ones are in the administration.
MOST_SHOWN = 100


@login_required
@require_GET
def invitations(request: HttpRequest, team_id: UUID) -> HttpResponse:
    """The team's invitations in any state, and who joined by them."""
    team = access.get_team(request.user, team_id, for_manage=True)
    rows = team.invitations.select_related("invited_by", "used_by", "team").order_by("-pk")
    used = Prefetch("joined", InvitationUse.objects.select_related("user"))
    context = {
        "team": team,
        "teams": access.managed_teams(request.user),
        "invitations": list(rows.prefetch_related(used)[:MOST_SHOWN]),
        "sends_mail": bool(settings.EMAIL_HOST),
    }
    return render(request, "accounts/invitations.html", context)


def _back(request: HttpRequest, invitation: Invitation, refusal: ActionRefused) -> HttpResponse:
    messages.error(request, str(refusal))
    return redirect("invitations", invitation.team.public_id)


@post_action(access.get_invitation, _back)
def invitation_revoke(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    actions.revoke(request.user, invitation)
    messages.success(request, gettext("Invitation revoked. Its link no longer works."))
    return redirect("invitations", invitation.team.public_id)


@confirmed_recently(only_if=_gives_management)
@without_referrer
@post_action(access.get_invitation, _back)
def invitation_renew(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    """A new link, which is sent or shown; the earlier one ends."""
    new = actions.renew(request.user, invitation)
    if not new.is_sent:
        return _invited(request, invitation.team, [new])
    text = gettext("Invitation sent to %(email)s again. The earlier link no longer works.")
    messages.success(request, text % {"email": invitation.email})
    return redirect("invitations", invitation.team.public_id)


@never_cache
@without_referrer
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    found = actions.find(token)
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
