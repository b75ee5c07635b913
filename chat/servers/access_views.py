"""Settings → Servers → Access: who may use a server; and the models of a team, for those who manage it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from chat import access
from chat.core.errors import ActionRefused
from chat.models import ModelGrant, Upstream
from chat.servers.actions import grants as actions
from chat.servers.grant_form import EVERYONE, SELECTED, GrantForm, LimitedForm
from chat.servers.views import tab_page
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import (
    administrators_only,
    login_required,
    post_action,
    refuse_with_message,
)
from chat.web.responses import form_page


@confirmed_recently(methods=("POST",))
@administrators_only
@require_http_methods(["GET", "HEAD", "POST"])
def server_access(request: HttpRequest, public_id: UUID) -> HttpResponse:
    upstream = access.get_upstream(request.user, public_id)
    initial = {"who": SELECTED if upstream.is_limited else EVERYONE}
    form = LimitedForm(request.POST or None, initial=initial)
    if form.is_valid():
        is_limited = form.cleaned_data["who"] == SELECTED
        actions.set_limited(request.user, upstream, is_limited=is_limited)
        messages.success(request, gettext("Saved"))
        return redirect("server_access", public_id)
    grants = upstream.grants.select_related("team", "group").order_by("team__name", "group__name")
    context = {"form": form, "grants": grants, "is_limited": upstream.is_limited}
    status = 422 if form.is_bound else 200
    return tab_page(request, "access", upstream, status=status, **context)


@confirmed_recently()
@administrators_only
@require_http_methods(["GET", "HEAD", "POST"])
def grant_add(request: HttpRequest, public_id: UUID) -> HttpResponse:
    upstream = access.get_upstream(request.user, public_id)
    form = GrantForm(request.POST or None, upstream=upstream)
    if form.is_valid():
        try:
            actions.give(request.user, upstream, form.place_chosen(), form.terms())
        except ActionRefused as refusal:
            form.add_error("place", str(refusal))
        else:
            messages.success(request, gettext("Access added"))
            return redirect("server_access", public_id)
    return form_page(request, "servers/grant.html", form, upstream=upstream)


@confirmed_recently()
@administrators_only
@require_http_methods(["GET", "HEAD", "POST"])
def grant(request: HttpRequest, public_id: UUID, grant_id: UUID) -> HttpResponse:
    shown = access.get_grant(request.user, public_id, grant_id)
    form = GrantForm(request.POST or None, upstream=shown.upstream, grant=shown)
    if form.is_valid():
        actions.change(request.user, shown, form.terms())
        messages.success(request, gettext("Saved"))
        return redirect("server_access", public_id)
    context = {"upstream": shown.upstream, "grant": shown, "place": actions.place_name(shown)}
    return form_page(request, "servers/grant.html", form, **context)


@confirmed_recently()
@administrators_only
@post_action(access.get_grant, refuse_with_message("servers"))
def grant_remove(request: HttpRequest, grant: ModelGrant) -> HttpResponse:
    actions.revoke(request.user, grant)
    messages.success(request, gettext("Access removed"))
    return redirect("server_access", grant.upstream.public_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamServer:
    """An enabled server as a team may use it. ``grants`` is empty for a server for everyone."""

    upstream: Upstream
    grants: list[ModelGrant]


@login_required
@require_GET
def team_models(request: HttpRequest, team_id: UUID) -> HttpResponse:
    """The servers and models that a team may use, for those who manage it. Only administrators change them."""
    team = access.get_team(request.user, team_id, for_manage=True)
    granted: dict[int, list[ModelGrant]] = {}
    for each in team.model_grants.select_related("group").order_by("group__name"):
        granted.setdefault(each.upstream_id, []).append(each)
    servers = [
        TeamServer(upstream=each, grants=granted.get(each.pk, []) if each.is_limited else [])
        for each in access.enabled_upstreams()
        if not each.is_limited or each.pk in granted
    ]
    return render(request, "servers/team_models.html", {"team": team, "servers": servers})
