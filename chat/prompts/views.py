"""The library of prompts, their versions, and what the composer inserts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Prompt, Team
from chat.prompts import actions
from chat.prompts.forms import (
    MOST_VARIABLES,
    FillForm,
    NewPromptForm,
    PromptForm,
    VariableForm,
    variable_forms,
)
from chat.prompts.variables import Variable, fill, variables_of
from chat.web.decorators import (
    login_required,
    login_required_in_background,
    post_action,
    refuse_with_message,
)
from chat.web.versions import known_version, posted_version, version_lines

# The list of the composer shows this many; more letters find the others.
MOST_FOUND = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptGroup:
    """The prompts of a team, or of the reader (``place`` is ``None``)."""

    place: Team | None
    prompts: Sequence[Prompt]


# --- the library ----------------------------------------------------------------------------------


@login_required
@require_GET
def prompts(request: HttpRequest) -> HttpResponse:
    rows = list(access.visible_prompts(request.user).order_by("name", "pk"))
    teams = {row.team_id: row.team for row in rows if row.team is not None}
    by_name = sorted(teams.values(), key=lambda team: (team.name, team.pk))
    groups = [
        PromptGroup(place=team, prompts=[row for row in rows if row.team == team])
        for team in (None, *by_name)
    ]
    context = {"groups": [group for group in groups if group.prompts]}
    return render(request, "prompts/prompts.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    form = NewPromptForm(request.POST or None, teams=access.writable_teams(request.user))
    rows = _variable_forms(request, [])
    if form.is_valid() and all(row.is_valid() for row in rows):
        values = dict(form.cleaned_data)
        try:
            actions.create_prompt(request.user, variables=_set_in(rows), **values)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, gettext("Prompt created"))
            return redirect("prompts")
    return _edit_page(request, form, rows)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def prompt(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The page of a prompt. Those who may change it edit it there."""
    shown: Any = access.get_prompt(request.user, public_id)
    if not access.may_edit_prompt(request.user, shown):
        return render(request, "prompts/prompt.html", {"prompt": shown})
    form = PromptForm(request.POST or None, initial={"name": shown.name, "text": shown.text})
    rows = _variable_forms(request, variables_of(shown.text, shown.variables))
    if form.is_valid() and all(row.is_valid() for row in rows):
        try:
            actions.change_prompt(
                request.user,
                shown,
                known=known_version(request),
                variables=_set_in(rows),
                **form.cleaned_data,
            )
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, gettext("Saved"))
            return redirect("prompt", public_id=public_id)
    return _edit_page(request, form, rows, prompt=shown)


def _variable_forms(request: HttpRequest, known: Sequence[Variable]) -> list[VariableForm]:
    if request.method != "POST":
        return variable_forms(None, known)
    return variable_forms(request.POST, variables_of(request.POST.get("text", ""), []))


def _set_in(rows: Sequence[VariableForm]) -> list[Variable]:
    return [row.variable for row in rows]


def _edit_page(
    request: HttpRequest,
    form: PromptForm,
    rows: Sequence[VariableForm],
    *,
    prompt: Prompt | None = None,
) -> HttpResponse:
    context = {"form": form, "variables": rows, "prompt": prompt}
    status = 422 if form.is_bound else 200
    return render(request, "prompts/edit.html", context, status=status)


@login_required_in_background
@require_POST
def variables(request: HttpRequest) -> HttpResponse:
    """The settings of the variables that are in the text now, as they were entered so far."""
    rows = _variable_forms(request, [])[:MOST_VARIABLES]
    # Errors are shown when the form is saved: somebody is still writing.
    entered = [VariableForm(None, _entered(row)) for row in rows]
    return render(request, "prompts/_variables.html", {"variables": entered})


def _entered(row: VariableForm) -> Variable:
    row.is_valid()
    return row.variable


# --- versions -------------------------------------------------------------------------------------


@login_required
@require_GET
def versions(request: HttpRequest, public_id: UUID) -> HttpResponse:
    shown = access.get_prompt(request.user, public_id)
    context = {
        "prompt": shown,
        "lines": version_lines(shown.versions, attrgetter("text")),
        "may_edit": access.may_edit_prompt(request.user, shown),
    }
    return render(request, "prompts/versions.html", context)


@post_action(access.get_editable_prompt, refuse_with_message("prompts"))
def use_version(request: HttpRequest, prompt: Prompt) -> HttpResponse:
    actions.use_version(request.user, prompt, posted_version(request, prompt.versions))
    messages.success(request, gettext("Saved"))
    return redirect("prompt", public_id=prompt.public_id)


@post_action(access.get_editable_prompt, refuse_with_message("prompts"))
def delete(request: HttpRequest, prompt: Prompt) -> HttpResponse:
    actions.delete_prompt(request.user, prompt)
    messages.success(request, gettext("Prompt deleted"))
    return redirect("prompts")


# --- in the composer ------------------------------------------------------------------------------


@login_required_in_background
@require_GET
def find(request: HttpRequest) -> HttpResponse:
    """The prompts that ``q`` names: those whose name begins with it first."""
    words = request.GET.get("q", "").strip()[:80]
    rows = access.visible_prompts(request.user).order_by("name", "pk")
    begin = list(rows.filter(name__istartswith=words)[:MOST_FOUND])
    known = {row.pk for row in begin}
    within = rows.filter(name__icontains=words).exclude(pk__in=known)
    found = [*begin, *within[: MOST_FOUND - len(begin)]]
    return render(request, "prompts/_found.html", {"found": found})


@login_required_in_background
@require_http_methods(["GET", "POST"])
def insert(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The text to insert, or the form for the values that it needs."""
    shown: Any = access.get_prompt(request.user, public_id)
    needed = variables_of(shown.text, shown.variables)
    form = FillForm(request.POST if request.method == "POST" else None, needed)
    if needed and not form.is_valid():
        context = {"prompt": shown, "form": form}
        return render(request, "prompts/_fill.html", context)
    filled = fill(shown.text, form.values() if needed else {})
    return render(request, "prompts/_text.html", {"text": filled})
