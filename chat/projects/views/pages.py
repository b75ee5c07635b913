"""Pages of projects: the list, a project's conversations, instructions and settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Conversation, Project, ProjectAccess, User
from chat.organization.lines import page_of_lines
from chat.projects import actions
from chat.projects.defaults_form import DefaultsForm
from chat.projects.effects import effect_of_access
from chat.projects.forms import InstructionsForm, NewProjectForm, ProjectForm
from chat.projects.views.questions import AccessQuestion, question_of
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.responses import form_page

# The id of the form, with which the question before it is saved sends it again.
SETTINGS_FORM = "project-settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectLine:
    project: Project
    # Conversations that the reader may read.
    count: int


def conversations_in(user: User, project: Project) -> QuerySet[Conversation]:
    return access.visible_conversations(user).filter(project=project, archived_at__isnull=True)


@login_required
@require_GET
def projects(request: HttpRequest) -> HttpResponse:
    user = request.user
    rows = access.visible_projects(user).select_related("team").order_by("name", "pk")
    counts = dict(
        access.visible_conversations(user)
        .filter(project__isnull=False, archived_at__isnull=True)
        .order_by()
        .values("project")
        .annotate(count=Count("pk"))
        .values_list("project", "count")
    )
    context = {
        "lines": [ProjectLine(project=row, count=counts.get(row.pk, 0)) for row in rows],
        "may_create": access.writable_teams(user).exists(),
        "is_mixed": len({row.team_id for row in rows}) > 1,
        "sidebar_page": "projects",
    }
    return render(request, "projects/projects.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    teams = access.writable_teams(request.user)
    if not teams:
        raise PermissionDenied(access.without_team_text(request.user))
    form = NewProjectForm(request.POST or None, teams=teams)
    if form.is_valid():
        values = dict(form.cleaned_data)
        try:
            made = actions.create_project(request.user, values.pop("team"), **values)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            is_for_members = made.access == ProjectAccess.MEMBERS
            address = "project_members" if is_for_members else "project"
            return redirect(address, public_id=made.public_id)
    return form_page(request, "projects/new.html", form, sidebar_page="projects")


@login_required
@require_GET
def project(request: HttpRequest, public_id: UUID) -> HttpResponse:
    try:
        shown = access.get_project(request.user, public_id)
    except Http404:
        # An owner or admin of the team who doesn't read it may still see who does.
        access.get_project_with_members(request.user, public_id)
        return redirect("project_members", public_id=public_id)
    page, lines = page_of_lines(request, conversations_in(request.user, shown), by="updated_at")
    context = {"page": page, "lines": lines, "in_project": True}
    return project_page(request, shown, "projects/conversations.html", "conversations", context)


def project_page(
    request: HttpRequest,
    shown: Project,
    template: str,
    tab: str,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    """One of the pages of a project, with what the person may do in the project."""
    user = request.user
    rights = {
        "project": shown,
        "project_tab": tab,
        "tab": "all",
        "is_reader": access.may_read_project(user, shown),
        "may_write": access.may_write_in_project(user, shown),
        "may_manage": access.may_manage_project(user, shown),
        "sidebar_page": shown.public_id.hex,
    }
    return render(request, template, {**rights, **context}, status=status)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def instructions(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The project's instructions for every answer. Readers read them, managers change them."""
    is_post = request.method == "POST"
    shown = access.get_project(request.user, public_id, for_manage=is_post)
    initial = {"instructions": shown.instructions}
    form = InstructionsForm(request.POST if is_post else None, initial=initial)
    if form.is_valid():
        actions.change_project(request.user, shown, **form.cleaned_data)
        messages.success(request, gettext("Instructions saved"))
        return redirect("project_instructions", public_id=public_id)
    context = {"form": form, "files": access.shared_files(request.user, shown.pk)}
    status = 422 if form.is_bound else 200
    return project_page(
        request, shown, "projects/instructions.html", "instructions", context, status=status
    )


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest, public_id: UUID) -> HttpResponse:
    shown = access.get_project(request.user, public_id, for_manage=True)
    # Forms of models write what was sent into the object that they are given.
    edited = access.get_project(request.user, public_id, for_manage=True)
    data = request.POST or None
    form = ProjectForm(data, instance=edited)
    upstreams = access.usable_upstreams(request.user, [shown.team])
    presets = list(access.newest_versions(access.presets_of_place(shown)))
    defaults = DefaultsForm(data, project=shown, upstreams=upstreams, presets=presets)
    if form.is_valid() and defaults.is_valid():
        values = {**form.cleaned_data, **defaults.values()}
        question = _access_question(request, shown, values["access"])
        if question is not None:
            return _settings_page(request, shown, form, defaults, question=question)
        try:
            actions.change_project(request.user, shown, **values)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, gettext("Settings saved"))
            return redirect("project_settings", public_id=public_id)
    status = 422 if form.is_bound else 200
    return _settings_page(request, shown, form, defaults, status=status)


def _settings_page(
    request: HttpRequest,
    shown: Project,
    form: ProjectForm,
    defaults: DefaultsForm,
    *,
    question: AccessQuestion | None = None,
    status: int = 200,
) -> HttpResponse:
    inside = Conversation.objects.filter(project=shown, deleted_at__isnull=True)
    context = {
        "form": form,
        "defaults": defaults,
        "count": inside.count(),
        "question": question,
        "form_id": SETTINGS_FORM,
    }
    return project_page(
        request, shown, "projects/settings.html", "settings", context, status=status
    )


def _access_question(
    request: HttpRequest, shown: Project, new_access: str
) -> AccessQuestion | None:
    """``None`` where nobody's access changes, and after the question for this very access."""
    if request.POST.get("confirmed") == new_access:
        return None
    return question_of(
        request.user,
        shown,
        effect_of_access(request.user, shown, new_access),
        title=gettext("Change who can read %(project)s?") % {"project": shown.name},
        go=gettext("Save"),
        confirms=new_access,
        form_id=SETTINGS_FORM,
    )


@post_action(partial(access.get_project, for_manage=True), refuse_with_message("projects"))
def delete(request: HttpRequest, project: Project) -> HttpResponse:
    name = project.name
    actions.delete_project(request.user, project)
    messages.success(request, gettext("Project %(name)s deleted") % {"name": name})
    return redirect("projects")
