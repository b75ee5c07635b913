"""A team's function tools: managed by the team's admins, enabled by everyone who writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Team, Tool
from chat.tools import actions
from chat.tools.forms import EXAMPLE, ToolForm
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.responses import form_page


@dataclass(frozen=True, slots=True)
class ToolRow:
    tool: Tool
    team: Team
    may_manage: bool


@login_required
@require_GET
def tools(request: HttpRequest) -> HttpResponse:
    """The tools of all teams of the reader, and for an administrator of every team."""
    managed = list(access.managed_teams(request.user))
    rows = [
        ToolRow(tool, team, team in managed)
        for team in access.teams_with_members(request.user)
        for tool in team.tools.all()
    ]
    return render(request, "tools/tools.html", {"rows": rows, "managed": managed})


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def add(request: HttpRequest, team_id: UUID) -> HttpResponse:
    team = access.get_team(request.user, team_id, for_manage=True)
    form = ToolForm(request.POST or None)
    if form.is_valid():
        try:
            tool = actions.create_tool(request.user, team, **form.cleaned_data)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            text = gettext("Tool %(name)s added. Enable it in a conversation to use it.")
            messages.success(request, text % {"name": tool.name})
            return redirect("tools")
    return _form_page(request, form, team)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, public_id: UUID) -> HttpResponse:
    tool = access.get_tool(request.user, public_id, for_manage=True)
    form = ToolForm.of(tool, request.POST or None)
    if form.is_valid():
        try:
            actions.change_tool(request.user, tool, **form.cleaned_data)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            text = gettext(
                "Tool %(name)s saved. The change applies starting with the next message."
            )
            messages.success(request, text % {"name": tool.name})
            return redirect("tools")
    return _form_page(request, form, tool.team, tool)


def _form_page(
    request: HttpRequest, form: ToolForm, team: Team, tool: Tool | None = None
) -> HttpResponse:
    return form_page(
        request,
        "tools/tool.html",
        form,
        team=team,
        tool=tool,
        teams=[] if tool else access.managed_teams(request.user),
        example=json.dumps(EXAMPLE, indent=2),
    )


@post_action(partial(access.get_tool, for_manage=True), refuse_with_message("tools"))
def remove(request: HttpRequest, tool: Tool) -> HttpResponse:
    actions.remove_tool(request.user, tool)
    text = gettext("Tool %(name)s removed from %(team)s and its conversations.")
    messages.success(request, text % {"name": tool.name, "team": tool.team})
    return redirect("tools")
