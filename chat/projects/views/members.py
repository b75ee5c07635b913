"""The people of a project: who they are, and for those who may, who they shall be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Project, ProjectAccess, ProjectMember, ProjectRole, User
from chat.projects import actions
from chat.projects.effects import effect_of_adding, effect_of_removing
from chat.projects.forms import MemberForm, RoleForm
from chat.projects.views.pages import project_page
from chat.projects.views.questions import AccessQuestion, question_of
from chat.web.decorators import login_required

# People shown by name; of a larger team the rest is counted.
PEOPLE_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    person: User
    role: str
    label: str
    is_me: bool


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def members(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The members of the project; a POST adds somebody."""
    if request.method == "POST":
        project = access.get_project_with_members(request.user, public_id)
    else:
        project = _shown(request.user, public_id)
    form = MemberForm(request.POST or None, people=_addable(project))
    if not form.is_valid():
        return _page(request, project, form, status=422 if form.is_bound else 200)
    person, role = form.cleaned_data["person"], form.cleaned_data["role"]
    question = None if "confirmed" in request.POST else _adding(request.user, project, person, role)
    if question is not None:
        return _page(request, project, form, question=question)
    return _after(
        request,
        project,
        partial(actions.set_member, request.user, project, person, role),
        gettext("%(name)s added") % {"name": person},
    )


def _page(
    request: HttpRequest,
    project: Project,
    form: MemberForm,
    *,
    question: AccessQuestion | None = None,
    status: int = 200,
) -> HttpResponse:
    may_manage_members = access.may_manage_members(request.user, project)
    rows, more = _rows(request.user, project)
    is_selected = project.access == ProjectAccess.MEMBERS
    context = {
        "rows": rows,
        "more": more,
        "form": form if is_selected and may_manage_members else None,
        "may_add": form.fields["person"].queryset.exists(),
        "may_manage_members": is_selected and may_manage_members,
        "roles": ProjectRole.choices,
        "question": question,
    }
    return project_page(
        request, project, "projects/members.html", "members", context, status=status
    )


def _adding(user: User, project: Project, person: User, role: str) -> AccessQuestion | None:
    return question_of(
        user,
        project,
        effect_of_adding(project, person),
        title=gettext("Add %(name)s to %(project)s?") % {"name": person, "project": project.name},
        go=gettext("Add"),
        action=reverse("project_members", args=[project.public_id]),
        fields={"person": str(person.public_id), "role": role},
    )


def _removing(user: User, project: Project, person: User) -> AccessQuestion | None:
    is_me = person == user
    if not is_me and not access.may_manage_members(user, project):
        # The same sentence as after the question.
        raise PermissionDenied(gettext("Only managers of this project can do this."))
    title = gettext("Leave %(project)s?") if is_me else gettext("Remove %(name)s from %(project)s?")
    return question_of(
        user,
        project,
        effect_of_removing(project, person),
        title=title % {"name": person, "project": project.name},
        go=gettext("Leave project") if is_me else gettext("Remove"),
        action=reverse("project_member", args=[project.public_id, person.public_id]),
        fields={"remove": "1"},
    )


def _shown(user: User, public_id: UUID) -> Project:
    try:
        return access.get_project(user, public_id)
    except Http404:
        return access.get_project_with_members(user, public_id)


def _addable(project: Project) -> Any:
    on_team = access.full_members_of(project.team_id).values("user")
    return (
        User.objects.filter(pk__in=on_team)
        .exclude(project_memberships__project=project)
        .order_by("name", "email")
    )


def _rows(user: User, project: Project) -> tuple[Sequence[MemberRow], int]:
    """The people that are shown, and how many more there are."""
    of_team = access.full_members_of(project.team_id)
    if project.access == ProjectAccess.TEAM:
        found: Any = of_team.select_related("user").order_by("user__name", "pk")
    else:
        found = (
            ProjectMember.objects.filter(project=project, user__in=of_team.values("user"))
            .select_related("user")
            .order_by("user__name", "pk")
        )
    shown = [
        MemberRow(
            person=each.user,
            role=each.role,
            label=each.get_role_display(),
            is_me=each.user_id == user.pk,
        )
        for each in found[:PEOPLE_SHOWN]
    ]
    return shown, found.count() - len(shown)


@login_required
@require_http_methods(["POST"])
def change(request: HttpRequest, public_id: UUID, person_id: UUID) -> HttpResponse:
    """Gives a member another role; without a role, removes them. Everybody may leave."""
    project = _shown(request.user, public_id)
    member = ProjectMember.objects.filter(project=project, user__public_id=person_id)
    found = member.select_related("user").first()
    if found is None:
        raise Http404(access.NOT_HERE)
    person = found.user
    if "remove" in request.POST:
        question = None
        if "confirmed" not in request.POST:
            question = _removing(request.user, project, person)
        if question is not None:
            form = MemberForm(people=_addable(project))
            return _page(request, project, form, question=question)
        is_me = person == request.user
        text = gettext("You left the project") if is_me else gettext("%(name)s removed")
        act = partial(actions.remove_member, request.user, project, person)
        return _after(request, project, act, text % {"name": person} if not is_me else text)
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise Http404(access.NOT_HERE)
    act = partial(actions.set_member, request.user, project, person, form.cleaned_data["role"])
    return _after(request, project, act, gettext("Role saved"))


def _after(request: HttpRequest, project: Project, act: Any, text: str) -> HttpResponse:
    try:
        act()
    except ActionRefused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, text)
    try:
        _shown(request.user, project.public_id)
    except Http404:
        # A person who has left can't open the project any more.
        return redirect("projects")
    return redirect("project_members", public_id=project.public_id)
