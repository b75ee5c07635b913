"""The page of a team's groups, and of conversations without a manager for those who may take them over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Conversation, Group, Team, User
from chat.participants import group_actions as actions
from chat.participants.forms import GroupForm, GroupMemberForm
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required, post_action

# Conversations without a manager that are listed; of more the rest follows as these are taken over.
CONVERSATIONS_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmanagedLine:
    """A conversation that may be taken over. Its title is content, and shown only to people who read it."""

    conversation: Conversation
    is_reader: bool


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def groups(request: HttpRequest, team_id: UUID) -> HttpResponse:
    """The groups of a team; a POST creates one."""
    is_post = request.method == "POST"
    team = access.get_team(request.user, team_id, for_manage=is_post)
    form = GroupForm(request.POST if is_post else None)
    if form.is_valid():
        try:
            made = actions.create_group(request.user, team, form.cleaned_data["name"])
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            return redirect("group", public_id=made.public_id)
    is_member = Q(people__is_active=True, people__memberships__team=team)
    rows = team.groups.annotate(count=Count("people", filter=is_member, distinct=True))
    may_manage = _may_manage(request.user, team)
    context = {
        "team": team,
        "groups": rows,
        "form": form if may_manage else None,
        "may_manage": may_manage,
        "unmanaged": _unmanaged(request.user, team),
    }
    return render(request, "participants/groups.html", context, status=422 if is_post else 200)


def _may_manage(user: User, team: Team) -> bool:
    return access.managed_teams(user).filter(pk=team.pk).exists()


def _unmanaged(user: User, team: Team) -> Sequence[UnmanagedLine]:
    if not access.may_take_over(user, team):
        return []
    readable = access.visible_conversations(user).filter(pk=OuterRef("pk"))
    rows: Any = access.unmanaged_conversations(team).annotate(is_reader=Exists(readable))
    rows = rows.select_related("owner").order_by("-updated_at", "-pk")[:CONVERSATIONS_SHOWN]
    return [UnmanagedLine(conversation=row, is_reader=row.is_reader) for row in rows]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def group(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The people of a group; a POST renames it."""
    is_post = request.method == "POST"
    shown = access.get_group(request.user, public_id, for_manage=is_post)
    form = GroupForm(request.POST if is_post else None, initial={"name": shown.name})
    if form.is_valid():
        try:
            actions.rename_group(request.user, shown, form.cleaned_data["name"])
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, gettext("Group renamed"))
            return redirect("group", public_id=public_id)
    people = _people(shown)
    may_manage = _may_manage(request.user, shown.team)
    context = {
        "team": shown.team,
        "group": shown,
        "people": people,
        "addable": _addable(shown) if may_manage else (),
        "form": form if may_manage else None,
        "may_manage": may_manage,
    }
    return render(request, "participants/group.html", context, status=422 if is_post else 200)


def _people(shown: Group) -> QuerySet[User]:
    on_team = Q(is_active=True, memberships__team=shown.team_id)
    people = User.objects.filter(on_team, group_memberships__group=shown)
    managed_by = access.managing_provider_in(shown)
    return people.annotate(managed_by=managed_by).order_by("name", "email")


def _addable(shown: Group) -> QuerySet[User]:
    on_team = User.objects.filter(is_active=True, memberships__team=shown.team_id)
    return on_team.exclude(group_memberships__group=shown).order_by("name", "email")


def _managed_group(user: User, public_id: UUID) -> Group:
    return access.get_group(user, public_id, for_manage=True)


def _back(request: HttpRequest, shown: Group, refusal: ActionRefused | None = None) -> HttpResponse:
    if refusal is not None:
        messages.error(request, str(refusal))
    return redirect("group", public_id=shown.public_id)


@confirmed_recently()
@post_action(_managed_group, _back)
def member(request: HttpRequest, shown: Group) -> HttpResponse:
    """Adds a person to a group, or removes them."""
    is_removal = "remove" in request.POST
    form = GroupMemberForm(request.POST, people=_people(shown) if is_removal else _addable(shown))
    if not form.is_valid():
        raise Http404(access.NOT_HERE)
    person = form.cleaned_data["person"]
    act = actions.remove_member if is_removal else actions.add_member
    act(request.user, shown, person)
    text = gettext("%(name)s removed") if is_removal else gettext("%(name)s added")
    messages.success(request, text % {"name": person})
    return _back(request, shown)


@confirmed_recently()
@post_action(_managed_group, _back)
def delete(request: HttpRequest, shown: Group) -> HttpResponse:
    actions.delete_group(request.user, shown)
    messages.success(request, gettext("Group %(name)s deleted") % {"name": shown.name})
    return redirect("groups", team_id=shown.team.public_id)
