"""Moving conversations into and out of a project: which one, who gains and loses access, and the move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Conversation, Project
from chat.organization.change_responses import changed, refused, still_there
from chat.organization.undo import MOVE_BACK, Undo
from chat.projects import actions
from chat.projects.effects import AccessEffect, effect_of_move
from chat.projects.forms import NO_PROJECT, MoveBackForm, MoveForm, Place
from chat.projects.views.questions import Names
from chat.web.decorators import login_required

# The form has a search field if there are at least this many projects.
SEARCHED_FROM = 8


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def move(request: HttpRequest) -> HttpResponse:
    """Shows the projects; asks where somebody gains or loses access; moves. For htmx the first two
    are the content of a dialog. Reading changes nothing."""
    data = request.POST if request.method == "POST" else request.GET
    form = MoveForm(_values(data))
    if not form.is_valid():
        raise Http404(access.NOT_HERE)
    values = form.cleaned_data
    if not values["conversation"]:
        return refused(request, gettext("Select conversations first."), 422)
    chosen = still_there(access.get_managed_conversation, request.user, values["conversation"])
    if not values["project"]:
        return _choose(request, chosen)
    target = None
    if values["project"] != NO_PROJECT:
        target = access.get_project(request.user, values["project"], for_write=True)
    # Conversations that are already there stay as they are.
    chosen = [each for each in chosen if each.project != target]
    if not chosen:
        return refused(request, gettext("There is nothing to move."), 422)
    effect = AccessEffect.of_all(effect_of_move(each, target) for each in chosen)
    is_asked = bool(effect.gaining or effect.losing) and not values["confirmed"]
    if request.method != "POST" or is_asked:
        return _ask(request, chosen, target, effect)
    return _move(request, chosen, target)


def _values(data: QueryDict) -> dict[str, Any]:
    return {**data.dict(), "conversation": data.getlist("conversation")}


def _choose(request: HttpRequest, chosen: Sequence[Conversation]) -> HttpResponse:
    teams = {each.team_id for each in chosen}
    here = {each.project_id for each in chosen}
    projects = access.writable_projects(request.user).filter(team__in=teams)
    offered = [each for each in projects if here != {each.pk}] if len(teams) == 1 else []
    context = {
        "projects": offered,
        "is_searched": len(offered) >= SEARCHED_FROM,
        "is_in_project": here != {None},
        "is_mixed": len(teams) > 1,
        "may_create": access.writable_teams(request.user).filter(pk__in=teams).exists(),
        "step": "projects/_move_choice.html",
    }
    return _step(request, chosen, context)


def _ask(
    request: HttpRequest,
    chosen: Sequence[Conversation],
    target: Project | None,
    effect: AccessEffect,
) -> HttpResponse:
    context = {
        "target": target,
        "gaining": Names.of(effect.gaining),
        "losing": Names.of(effect.losing),
        "step": "projects/_move_question.html",
    }
    return _step(request, chosen, context)


def _step(
    request: HttpRequest, chosen: Sequence[Conversation], context: dict[str, Any]
) -> HttpResponse:
    context = {"chosen": chosen, **context}
    template = context["step"] if request.htmx else "projects/move.html"
    return render(request, template, context)


def _move(
    request: HttpRequest, chosen: Sequence[Conversation], target: Project | None
) -> HttpResponse:
    undo = Undo(verb=MOVE_BACK, conversations=[str(Place.of(each)) for each in chosen])
    try:
        for conversation in chosen:
            actions.move_conversation(request.user, conversation, target)
    except ActionRefused as refusal:
        return refused(request, str(refusal), refusal.status)
    return changed(request, _said(len(chosen), target), chosen, undo=undo)


def _said(count: int, target: Project | None) -> str:
    if target is None:
        text = ngettext(
            "Conversation moved out of its project",
            "%(count)d conversations moved out of their projects",
            count,
        )
        return text % {"count": count}
    text = ngettext(
        "Conversation moved to %(project)s", "%(count)d conversations moved to %(project)s", count
    )
    return text % {"count": count, "project": target.name}


@login_required
@require_POST
def move_back(request: HttpRequest) -> HttpResponse:
    """Takes a move back: each conversation goes to where it was, as shared as it was there. All do, or
    none does."""
    form = MoveBackForm({"conversation": request.POST.getlist("conversation")})
    if not form.is_valid():
        raise Http404(access.NOT_HERE)
    places = {place.conversation: place for place in form.cleaned_data["conversation"]}
    chosen = still_there(access.get_managed_conversation, request.user, list(places))
    try:
        with transaction.atomic():
            for conversation in chosen:
                place = places[conversation.public_id]
                target = _former_project(request, place.project)
                actions.move_conversation(
                    request.user, conversation, target, is_shared=place.is_shared
                )
    except ActionRefused as refusal:
        return refused(request, str(refusal), refusal.status)
    text = ngettext("Conversation moved back", "%(count)d conversations moved back", len(chosen))
    return changed(request, text % {"count": len(chosen)}, chosen)


def _former_project(request: HttpRequest, public_id: UUID | None) -> Project | None:
    if public_id is None:
        return None
    try:
        return access.get_project(request.user, public_id, for_write=True)
    except (Http404, PermissionDenied):
        raise ActionRefused(
            gettext("You can’t write in the former project anymore, or it was deleted.")
        ) from None
