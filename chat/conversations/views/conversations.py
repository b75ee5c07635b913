"""The home page, the conversation page, and changes of a whole conversation."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import lazy
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST

from chat import access
from chat.conversations import page as page_responses
from chat.conversations.actions import conversation as actions
from chat.conversations.actions import messages as message_actions
from chat.conversations.choice_form import ChoiceForm, offered_in
from chat.conversations.composer import files_offered, is_of_demo, presets_offered, tools_for
from chat.conversations.forms import StartForm, SwitchForm, TitleForm
from chat.conversations.listing import listing_context
from chat.conversations.model_lists import model_lists
from chat.conversations.paths import read_path
from chat.conversations.preset_choice import (
    as_conversation,
    preset_in_use,
    starting_preset,
    with_preset,
    without_scripts,
)
from chat.conversations.project_lines import folds_of
from chat.conversations.starters import starter_lists, takes_tools
from chat.conversations.transcript import page_after, page_before, read_turns
from chat.core.errors import ActionRefused, InvalidForm
from chat.core.text import as_uuid
from chat.files.actions import shows
from chat.models import Conversation, PresetVersion, Project, Team, Upstream, User
from chat.web import responses
from chat.web.decorators import (
    frames_previews,
    login_required,
    login_required_in_background,
    post_action,
)


@login_required
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    project = _project_in(request.user, request.GET)
    server = as_uuid(request.GET.get("server"))
    draft, asked = request.GET.get("draft", "")[:10_000], request.GET.get("preset", "")
    return _home_page(request, project, draft=draft, server=server, asked_preset=asked)


def _project_in(user: User, data: QueryDict) -> Project | None:
    """The project in which a conversation is to be started. Raises ``Http404`` and
    ``PermissionDenied``."""
    if not data.get("project"):
        return None
    public_id = as_uuid(data["project"])
    if public_id is None:
        raise Http404(access.NOT_HERE)
    return access.get_project(user, public_id, for_write=True)


def _home_page(
    request: HttpRequest,
    project: Project | None,
    *,
    draft: str = "",
    server: UUID | None = None,
    asked_preset: str = "",
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    user = request.user
    last = _last_used(user)
    teams = list(_teams_for(user, project))
    # People go on in the team of their last conversation, wherever its name stands in the alphabet.
    teams.sort(key=lambda team: last is None or team.pk != last.team_id)
    first_team = teams[0] if teams else None
    version = None if server else starting_preset(user, asked_preset, project, first_team)
    form = _start_form(user, None, project, server, version, last=last)
    preset = version and preset_in_use(user, version, form, teams)
    chosen = form.chosen
    with_demo = chosen is not None and chosen.is_demo and takes_tools(chosen)
    tool_choice = tools_for(
        user, teams, form.upstreams, project, with_demo=with_demo, preset=preset
    )
    has_demo_tools = any(is_of_demo(line.tool) for line in tool_choice.lines)
    context: dict[str, Any] = {
        "form": form,
        "preset": preset,
        "teams": teams,
        "project": project,
        "instructing": project if project and project.instructions else None,
        "project_files": files_offered(user, project.pk) if project else None,
        "tool_choice": tool_choice,
        "key": uuid.uuid4(),
        "action": reverse("conversation_new"),
        "room": _place_of(project),
        "draft": draft,
        "refusal": refusal,
        # Asked only by a page without a team to write in, which says why.
        "has_team": partial(access.sees_a_team, user),
        "is_guest": partial(access.guest_memberships_of, user),
        # Asked only by a page without models, which says why.
        "has_any_server": Upstream.objects.exists,
        "has_enabled_server": Upstream.objects.filter(is_enabled=True).exists,
        "has_only_demos": all(upstream.is_demo for upstream in form.upstreams),
        "starter_lists": starter_lists(
            form,
            has_demo_tools=has_demo_tools,
            of_preset=preset.starters if preset else (),
        ),
    }
    return render(request, "conversations/home.html", context, status=status)


def _place_of(project: Project | None) -> str:
    """The place of the first message of a new conversation (`UnsentFile.place`)."""
    return f"{access.NEW_IN_PROJECT}{project.public_id.hex}" if project else access.NEW


def _first_of(upstreams: Sequence[Upstream], server: UUID | None) -> Conversation | None:
    """The first model of a server as a conversation that isn't stored."""
    upstream = next((each for each in upstreams if each.public_id == server), None)
    if upstream is None or not upstream.chat_models:
        return None
    return Conversation(upstream=upstream, model=upstream.chat_models[0]["id"])


def _teams_for(user: User, project: Project | None) -> QuerySet[Team]:
    """The teams in which a conversation can be started."""
    teams = access.writable_teams(user)
    return teams.filter(pk=project.team_id) if project else teams


def _start_form(
    user: User,
    data: Any,
    project: Project | None,
    server: UUID | None = None,
    preset: PresetVersion | None = None,
    *,
    last: Conversation | None,
) -> StartForm:
    """``server``: the one of which a model is chosen, instead of that of the ``last`` conversation. ``preset``: with
    which the form begins."""
    teams = _teams_for(user, project)
    upstreams = list(access.usable_upstreams(user, teams.values("pk")))
    has_default = project is not None and project.upstream is not None
    remembered = _first_of(upstreams, server) or (
        offered_in(project) if project and has_default else _last_or_default(last, upstreams)
    )
    return StartForm(
        data,
        upstreams=upstreams,
        teams=teams,
        # Asked only if it is said.
        without_team=lazy(access.without_team_text, str)(user),
        remembered=as_conversation(preset, upstreams, instead=remembered) if preset else remembered,
        project=project,
        presets=()
        if data is not None
        else presets_offered(user, project.pk if project else None, teams),
        lists=partial(model_lists, user),
        skills=access.skills_in(user, project.pk if project else None, teams),
    )


@login_required
@require_GET
def parameters(request: HttpRequest) -> HttpResponse:
    """The parameters of a server's API type, which a page fetches when a model of it is chosen."""
    server, shown = as_uuid(request.GET.get("server")), as_uuid(request.GET.get("conversation"))
    if server is None:
        raise Http404(access.NOT_HERE)
    conversation = access.get_conversation(request.user, shown) if shown else None
    team = conversation.team_id if conversation else None
    upstream = access.get_usable_upstream(request.user, server, team)
    if conversation is not None and not access.may_see_settings(request.user, conversation):
        conversation = None
    form = ChoiceForm(upstreams=[upstream], remembered=conversation, chosen=upstream)
    return render(request, "conversations/_parameter_fields.html", {"form": form})


def _last_or_default(
    last: Conversation | None, upstreams: Sequence[Upstream]
) -> Conversation | None:
    """The model of the person's last conversation, or that of the team if they can't use it here."""
    server = next((each for each in upstreams if last and each == last.upstream), None)
    if last is not None and server is not None and not server.is_off(last.model):
        return last
    default = access.default_model(upstreams)
    return Conversation(upstream=default[0], model=default[1]) if default else last


def _last_used(user: User) -> Conversation | None:
    """A new conversation offers the model of the person's last one, without its parameters."""
    last = (
        access.visible_conversations(user)
        .filter(owner=user, upstream__is_enabled=True)
        .select_related("upstream")
        .order_by("-updated_at")
        .first()
    )
    if last is not None:
        last.system_prompt = ""
        last.parameters = {}
    return last


@login_required
@require_POST
def new(request: HttpRequest) -> HttpResponse:
    try:
        project = _project_in(request.user, request.POST)
    except (Http404, PermissionDenied) as error:
        # Deleted while the message was written, or the right to write in it has ended.
        sentence = gettext(
            "This project was deleted, or you can’t write in it anymore. Your text is kept. Start the "
            "conversation elsewhere."
        )
        status = 404 if isinstance(error, Http404) else 403
        return _not_started(request, None, sentence, status)
    data = without_scripts(request.user, request.POST, _teams_for(request.user, project))
    form = _start_form(request.user, data, project, last=_last_used(request.user))
    if not form.is_valid():
        return _not_started(request, project, form.first_error(), 422)
    said = form.cleaned_data
    try:
        run = message_actions.start_conversation(
            request.user,
            project or said["team"],
            text=said["text"],
            choice=replace(
                with_preset(request.user, form.model_choice(), data), skills=list(said["skills"])
            ),
            idempotency_key=said["key"],
            visibility=said["visibility"] or form.fields["visibility"].initial,
            expires_in=said["expires"],
            attachments=form.files_at(_place_of(project)),
            tools=said["tools"],
        )
    except ActionRefused as refusal:
        return _not_started(request, project, str(refusal), refusal.status)
    if not (page_responses.says(run, said["text"]) and shows(run, said["files"])):
        refusal_text = str(page_responses.SAID_OTHERWISE)
        return _not_started(request, project, refusal_text, 409, new_key=True)
    return _started(request, run.conversation)


def _started(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    address = reverse("conversation", args=[conversation.public_id])
    if not request.htmx:
        return redirect(address)
    return HttpResponse(headers={"HX-Redirect": address, "HX-Trigger": page_responses.ACCEPTED})


def _not_started(
    request: HttpRequest,
    project: Project | None,
    refusal: str,
    status: int,
    *,
    new_key: bool = False,
) -> HttpResponse:
    if request.htmx:
        key_place = page_responses.COMPOSER_KEY if new_key else ""
        return responses.refusal_patch(
            request, refusal, status=status, place="composer-note", key_place=key_place
        )
    draft = request.POST.get("text", "")
    return _home_page(request, project, draft=draft, refusal=refusal, status=status)


@login_required
@require_GET
@frames_previews
def page(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id)
    return page_responses.room_page(
        request,
        conversation,
        draft=request.GET.get("draft", "")[:10_000],
        since=as_uuid(request.GET.get("since")),
    )


@login_required_in_background
@require_GET
def changes(request: HttpRequest, public_id: UUID) -> HttpResponse:
    return page_responses.changes(request, access.get_conversation(request.user, public_id))


@login_required
@require_GET
@frames_previews
def earlier(request: HttpRequest, public_id: UUID, before: UUID) -> HttpResponse:
    """Loads the turns above the first one on the page; those ``after`` its last one, if it shows
    turns in the middle."""
    conversation = access.get_conversation(request.user, public_id)
    path = read_path(request.user, conversation)
    after = as_uuid(request.GET.get("after"))
    indices = page_before(path, before, after)
    if indices is None:
        raise Http404(access.NOT_HERE)
    context = {
        "conversation": conversation,
        "turns": read_turns(path, indices),
        "earlier": indices.start,
        "later": page_after(path, indices),
        "is_later": after is not None,
        "may_write": access.may_write(request.user, conversation),
        "may_fork": access.context_of(request.user, conversation).may_fork,
    }
    return render(request, "conversations/earlier.html", context)


@login_required_in_background
@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    current = as_uuid(request.GET.get("current"))
    shown = Conversation(public_id=current) if current else None
    lines = request.GET.get("lines", "")
    context = listing_context(
        request.user,
        shown,
        request.GET.get("before", ""),
        int(lines) if lines.isdecimal() and len(lines) < 5 else 0,
        folds_of(request.COOKIES),
    )
    context["sidebar_page"] = request.GET.get("page", "")
    return render(request, "conversations/_conversation_list.html", context)


@post_action(access.get_managed_conversation, page_responses.refuse_beside("head-note"))
def rename(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    form = TitleForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(gettext("Enter a title of up to 200 characters."))
    actions.rename(conversation, form.cleaned_data["title"], by=request.user)
    return page_responses.accepted(request, conversation)


@post_action(
    partial(access.get_conversation, for_write=True), page_responses.refuse_beside("tools-note")
)
def switch(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    # A guest doesn't see the tools of the team.
    access.get_team(request.user, conversation.team.public_id)
    skills = access.skills_in(
        request.user, conversation.project_id, [conversation.team], conversation
    )
    form = SwitchForm(request.POST, tools=conversation.team.tools.all(), skills=skills)
    if not form.is_valid():
        raise InvalidForm(form.first_error())
    said = form.cleaned_data
    actions.switch_tools(
        request.user,
        conversation,
        said["tools"],
        skills=said["skills"],
        shown_skills=said["shown_skills"],
    )
    return page_responses.accepted(request, conversation)
