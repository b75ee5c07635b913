"""The page of a team's web search."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Team
from chat.tools.web import actions
from chat.tools.web.forms import WebSearchForm
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.responses import form_page


@sensitive_post_parameters("key")
@confirmed_recently()
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("form")
def web_search(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Turns the team's web search on, or changes it."""
    team = access.get_team_of_tool_servers(request.user, public_id)
    tools = actions.web_tools(team)
    form = WebSearchForm(request.POST or None, tools=tools)
    if form.is_valid():
        try:
            actions.set_web_search(request.user, team, actions.WebSearchValues(**form.cleaned_data))
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            text = gettext("Web search saved. Enable it in a conversation to use it.")
            messages.success(request, text)
            return redirect("tools")
    managed = access.managed_teams(request.user)
    teams = [each for each in managed if access.may_manage_tool_servers(request.user, each)]
    return form_page(
        request, "tools/web_search.html", form, team=team, teams=teams, is_on=bool(tools)
    )


@post_action(access.get_team_of_tool_servers, refuse_with_message("tools"))
def web_search_remove(request: HttpRequest, team: Team) -> HttpResponse:
    actions.remove_web_search(request.user, team)
    messages.success(request, gettext("Web search removed from all conversations."))
    return redirect("tools")
