"""The MCP servers of teams: the list, the page of one with its tools, and its settings."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Team, Tool, ToolServer
from chat.tools import servers as actions
from chat.tools.server_forms import ToolServerForm
from chat.tools.server_page import read_only_offers, state_of, steps_of, tool_page
from chat.tools.server_people import ServerPeopleForm, set_people
from chat.tools.sign_in.server_section import sign_in_of
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.responses import form_page

# A field of the form that lets read-only tools run: the digest of each tool that was shown.
SEEN = "seen-"


@login_required
@require_safe
def tool_servers(request: HttpRequest) -> HttpResponse:
    """The servers of all teams whose servers the reader manages."""
    teams = access.teams_with_tool_servers(request.user)
    if not teams:
        raise PermissionDenied(gettext("Only administrators can do this."))
    rows = [
        {
            "server": server,
            "team": team,
            "state": state_of(server),
            "tools": len(server.tools.all()),
            "changed": sum(actions.is_changed(tool) for tool in server.tools.all()),
        }
        for team in teams
        for server in team.tool_servers.all()
    ]
    return render(request, "tools/servers.html", {"rows": rows, "teams": teams})


@sensitive_post_parameters("headers")
@confirmed_recently()
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("form")
def tool_server_add(request: HttpRequest, team_id: UUID) -> HttpResponse:
    team = access.get_team_of_tool_servers(request.user, team_id)
    form = ToolServerForm(request.POST or None, commands=_commands_for(request))
    if form.is_valid():
        try:
            server = actions.add_server(
                request.user,
                team,
                name=form.cleaned_data["name"],
                address=form.cleaned_data["address"],
                headers=form.cleaned_data["headers"],
                signs_in_people=form.cleaned_data["signs_in_people"],
            )
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            return redirect("tool_server", server.public_id)
    return _form_page(request, form, team)


@login_required
@require_safe
def tool_server(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The last test and the tools. While a test is made, the page fetches itself again."""
    server = access.get_tool_server(request.user, public_id)
    start = request.GET.get("from", "")
    listed = access.listed_tools(request.user, server)
    shown = tool_page(listed, int(start[:6]) if start.isascii() and start.isdigit() else 0)
    page = {
        "server": server,
        "state": state_of(server),
        "steps": steps_of(server),
        "lines": shown.lines,
        "shown": shown,
        "sees_list": access.sees_list(request.user, server),
        "read_only": read_only_offers(shown.lines),
        "people": ServerPeopleForm(server=server) if _has_people(server) else None,
        "sign_in": sign_in_of(server, request.user) if server.signs_in_people else None,
    }
    return render(request, "tools/server.html", page)


def _has_people(server: ToolServer) -> bool:
    """Returns whether its people can be chosen, or are to be chosen again because their groups are deleted."""
    return server.is_for_groups or server.team.groups.exists()


@sensitive_post_parameters("headers")
@confirmed_recently()
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("form")
def tool_server_settings(request: HttpRequest, public_id: UUID) -> HttpResponse:
    server = access.get_tool_server(request.user, public_id)
    form = ToolServerForm(request.POST or None, server=server, commands=_commands_for(request))
    if form.is_valid():
        try:
            are_dropped = actions.change_server(
                request.user,
                server,
                name=form.cleaned_data["name"],
                address=form.cleaned_data["address"],
                headers=form.new_headers,
                signs_in_people=form.cleaned_data["signs_in_people"],
            )
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            _say_changed(request, server, are_dropped=are_dropped)
            return redirect("tool_server", server.public_id)
    return _form_page(request, form, server.team, server)


def _commands_for(request: HttpRequest) -> Collection[str]:
    return settings.TOOL_COMMANDS.keys() if actions.may_use_commands(request.user) else ()


def _say_changed(request: HttpRequest, server: ToolServer, *, are_dropped: bool) -> None:
    messages.success(request, gettext("%(name)s was saved.") % {"name": server.name})
    if are_dropped:
        messages.warning(
            request,
            gettext(
                "The stored headers were removed because they belong to the previous address. "
                "Enter the headers for the new one."
            ),
        )


def _form_page(
    request: HttpRequest, form: ToolServerForm, team: Team, server: ToolServer | None = None
) -> HttpResponse:
    teams = [] if server else access.teams_with_tool_servers(request.user)
    return form_page(request, "tools/server_form.html", form, team=team, server=server, teams=teams)


# --- buttons --------------------------------------------------------------------------------------


def _refuse(
    request: HttpRequest, record: ToolServer | Tool, refusal: ActionRefused
) -> HttpResponse:
    """Back to the server's page, which shows the refusal as a message."""
    messages.error(request, str(refusal))
    server = record.server if isinstance(record, Tool) else record
    assert server is not None
    return redirect("tool_server", server.public_id)


@post_action(access.get_tool_server, _refuse)
def tool_server_test(request: HttpRequest, server: ToolServer) -> HttpResponse:
    actions.queue_test(server, request.user)
    return redirect("tool_server", server.public_id)


@confirmed_recently()
@post_action(access.get_tool_server, _refuse)
def tool_server_people(request: HttpRequest, server: ToolServer) -> HttpResponse:
    form = ServerPeopleForm(request.POST, server=server)
    if not form.is_valid():
        raise ActionRefused(gettext("One of these groups no longer exists. Reload the page."))
    said = form.cleaned_data
    set_people(
        request.user, server, is_for_groups=said["is_for_groups"], groups=list(said["groups"])
    )
    messages.success(request, gettext("%(name)s was saved.") % {"name": server.name})
    return redirect("tool_server", server.public_id)


@post_action(access.get_tool_server, _refuse)
def tool_server_switch(request: HttpRequest, server: ToolServer) -> HttpResponse:
    actions.set_enabled(request.user, server, is_enabled=request.POST.get("is_enabled") == "true")
    return redirect("tool_server", server.public_id)


@post_action(access.get_tool_server, refuse_with_message("tool_servers"))
def tool_server_remove(request: HttpRequest, server: ToolServer) -> HttpResponse:
    actions.remove_server(request.user, server)
    text = gettext("%(name)s and its tools were removed.")
    messages.success(request, text % {"name": server.name})
    return redirect("tool_servers")


@post_action(access.get_tool_server, _refuse)
def tool_server_read_only(request: HttpRequest, server: ToolServer) -> HttpResponse:
    """Lets the tools that only read run automatically, as far as they are those that the page showed."""
    digests = {
        name.removeprefix(SEEN): str(value)
        for name, value in request.POST.items()
        if name.startswith(SEEN)
    }
    done = actions.run_read_only_tools(request.user, server, digests)
    words = ngettext(
        "%(count)d tool runs automatically now.", "%(count)d tools run automatically now.", done
    )
    messages.success(request, words % {"count": done})
    return redirect("tool_server", server.public_id)


@post_action(access.get_tool_of_server, _refuse)
def tool_server_rule(request: HttpRequest, tool: Tool) -> HttpResponse:
    """When a tool runs, for the definition that the page showed."""
    actions.set_rule(
        request.user,
        tool,
        rule=request.POST.get("rule", ""),
        digest=request.POST.get("digest", ""),
        keeps_private={"share": False, "private": True}.get(request.POST.get("result", "")),
    )
    assert tool.server is not None
    return redirect("tool_server", tool.server.public_id)
