"""A team's tools: managed by the team's admins, enabled by everyone who writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Team, Tool, ToolKind, User
from chat.rendering.safety import host_of
from chat.tools import actions
from chat.tools.definition_check import DefinitionCheck, check_definition
from chat.tools.forms import EXAMPLE, EXAMPLE_ADDRESS, ToolForm
from chat.tools.web.actions import WEB_KINDS
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.responses import form_page
from chat.web.tool_words import how_it_runs, icon_of


@dataclass(frozen=True, slots=True)
class ToolRow:
    tool: Tool
    team: Team
    # True if the reader may change the tool.
    may_manage: bool

    @property
    def icon(self) -> str:
        return icon_of(self.tool)

    @property
    def how(self) -> str:
        return how_it_runs(self.tool)

    @property
    def where(self) -> str:
        """The server that runs it. An address is for people who manage the tool."""
        if self.tool.kind == ToolKind.SEARCH:
            return str(self.tool.request.get_service_display())
        if self.tool.kind == ToolKind.HTTP:
            return str(self.tool.request) if self.may_manage else host_of(self.tool.request.address)
        return self.tool.server.name if self.tool.server else ""


@login_required
@require_GET
def tools(request: HttpRequest) -> HttpResponse:
    """The tools of all teams of the reader, and for an administrator of every team."""
    managed = list(access.managed_teams(request.user))
    rows = [
        ToolRow(tool, team, team in managed and (runs_too or not tool.runs_here))
        for team in access.teams_with_members(request.user)
        for runs_too in [access.may_manage_tool_servers(request.user, team)]
        for tool in team.tools.all()
    ]
    may_manage = access.may_manage_tool_servers
    of_servers = [team for team in managed if may_manage(request.user, team)]
    page = {"rows": rows, "managed": managed, "of_servers": of_servers}
    return render(request, "tools/tools.html", page)


def _has_headers(request: HttpRequest, **address: UUID) -> bool:
    """True if the form has headers, which contain keys."""
    return bool(request.POST.get("headers"))


@confirmed_recently(methods=("POST",), only_if=_has_headers)
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def add(request: HttpRequest, team_id: UUID) -> HttpResponse:
    team = access.get_team(request.user, team_id, for_manage=True)
    form = ToolForm(request.POST or None, kinds=_kinds_for(request.user, team))
    if form.is_valid():
        try:
            tool = actions.create_tool(request.user, team, **form.values())
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            text = gettext("Tool %(name)s added. Enable it in a conversation to use it.")
            messages.success(request, text % {"name": tool.name})
            return redirect("tools")
    return _form_page(request, form, team)


@confirmed_recently(methods=("POST",), only_if=_has_headers)
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, public_id: UUID) -> HttpResponse:
    tool = access.get_tool_to_change(request.user, public_id)
    if tool.server is not None:
        return redirect("tool_server", public_id=tool.server.public_id)
    if tool.kind in WEB_KINDS:
        return redirect("web_search", public_id=tool.team.public_id)
    kinds = _kinds_for(request.user, tool.team)
    form = ToolForm(request.POST or None, tool=tool, kinds=kinds)
    if form.is_valid():
        try:
            actions.change_tool(request.user, tool, **form.values())
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            text = gettext(
                "Tool %(name)s saved. The change applies starting with the next message."
            )
            messages.success(request, text % {"name": tool.name})
            return redirect("tools")
    return _form_page(request, form, tool.team, tool)


@login_required
@require_POST
def check(request: HttpRequest, team_id: UUID) -> HttpResponse:
    """The problems of the definition that somebody types. Headers are not looked at."""
    access.get_team(request.user, team_id, for_manage=True)
    return render(request, "tools/_check.html", {"check": _checked(request.POST)})


def _kinds_for(user: User, team: Team) -> tuple[ToolKind, ...]:
    """The kinds of tools that the user may define on the page."""
    if access.may_manage_tool_servers(user, team):
        return ToolKind.PERSON, ToolKind.HTTP
    return (ToolKind.PERSON,)


def _checked(said: Mapping[str, str]) -> DefinitionCheck:
    is_http = said.get("kind") == ToolKind.HTTP
    return check_definition(
        schema=said.get("schema", ""),
        method=said.get("method", ""),
        address=said.get("address", "") if is_http else None,
    )


def _form_page(
    request: HttpRequest, form: ToolForm, team: Team, tool: Tool | None = None
) -> HttpResponse:
    said = form.data if form.is_bound else {k: _shown(v) for k, v in form.initial.items()}
    return form_page(
        request,
        "tools/tool.html",
        form,
        team=team,
        tool=tool,
        teams=[] if tool else access.managed_teams(request.user),
        example=json.dumps(EXAMPLE, indent=2),
        example_address=EXAMPLE_ADDRESS,
        check=_checked(said),
    )


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@post_action(partial(access.get_tool, for_manage=True), refuse_with_message("tools"))
def remove(request: HttpRequest, tool: Tool) -> HttpResponse:
    actions.remove_tool(request.user, tool)
    text = gettext("Tool %(name)s removed from %(team)s and its conversations.")
    messages.success(request, text % {"name": tool.name, "team": tool.team})
    return redirect("tools")
