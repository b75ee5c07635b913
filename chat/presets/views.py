"""The library of presets, their versions and defaults, and what the composer takes from one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from chat import access
from chat.conversations.actions.messages import ModelChoice
from chat.conversations.choice_form import ChoiceForm
from chat.conversations.preset_choice import (
    as_conversation,
    chosen_version,
    controls_of,
    preset_in_use,
)
from chat.conversations.starters import preset_starters
from chat.core.errors import ActionRefused
from chat.core.text import as_uuid
from chat.models import (
    Conversation,
    DefaultPreset,
    Preset,
    PresetVersion,
    Project,
    Team,
    Tool,
    Upstream,
    User,
)
from chat.presets import actions
from chat.presets.actions import Content, Place
from chat.presets.forms import NewPresetForm, PresetForm, SavePresetForm, entries_of
from chat.presets.words import text_of
from chat.web.decorators import (
    login_required,
    login_required_in_background,
    post_action,
    refuse_with_message,
)
from chat.web.places import places_of
from chat.web.versions import known_version, posted_version, version_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetLine:
    """A preset in the library. ``is_own_default``: the reader's; ``is_default``: of its place."""

    version: PresetVersion
    is_own_default: bool
    is_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetGroup:
    """The presets of a place, or of the reader (``place`` is ``None``), who may set its default with ``may_set``."""

    place: Place
    lines: Sequence[PresetLine]
    may_set: bool

    @property
    def key(self) -> str:
        return key_of(self.place)


def key_of(place: Place) -> str:
    """The id of a place in forms."""
    if place is None:
        return ""
    kind = "project" if isinstance(place, Project) else "team"
    return f"{kind}:{place.public_id}"


# --- the library ----------------------------------------------------------------------------------


@login_required
@require_GET
def presets(request: HttpRequest) -> HttpResponse:
    user = request.user
    rows = list(access.newest_versions(access.visible_presets(user)))
    places = places_of(row.preset for row in rows)
    defaults = _defaults(user, places)
    groups = [
        PresetGroup(
            place=place,
            lines=[
                PresetLine(
                    version=row,
                    is_own_default=row.preset_id == defaults.get(None),
                    is_default=place is not None and row.preset_id == defaults.get(place),
                )
                for row in rows
                if (row.preset.team or row.preset.project) == place
            ],
            may_set=place is not None and access.may_set_default(user, place),
        )
        for place in places
    ]
    context = {"groups": [group for group in groups if group.lines]}
    return render(request, "presets/presets.html", context)


def _defaults(user: User, places: Sequence[Any]) -> dict[Place, int]:
    """The keys of the default presets of the person and of the places."""
    teams = [each for each in places if isinstance(each, Team)]
    projects = [each for each in places if isinstance(each, Project)]
    rows = DefaultPreset.objects.select_related("team", "project")
    found = rows.filter(user=user) | rows.filter(team__in=teams) | rows.filter(project__in=projects)
    return {row.team or row.project: row.preset_id for row in found}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    user = request.user
    form = NewPresetForm(
        request.POST or None,
        upstreams=access.usable_upstreams(user),
        tools=_tools(user, None),
        skills=access.skills_for_preset(user, None),
        teams=list(access.writable_teams(user)),
        projects=list(access.writable_projects(user)),
    )
    if form.is_valid():
        said = form.cleaned_data
        # A preset for others has none of the person's own skills.
        fitting = access.skills_for_preset(user, said["place"]).filter(pk__in=said["skills"])
        content = replace(form.content(), skills=entries_of(fitting.order_by("name", "pk")))
        try:
            actions.create_preset(user, said["place"], name=said["name"], content=content)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, gettext("Preset created"))
            return redirect("presets")
    return _edit_page(request, form)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def preset(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The page of a preset. Those who may change it edit it there."""
    user = request.user
    shown = access.get_preset(user, public_id)
    version = _newest(shown)
    if not access.may_edit_preset(user, shown):
        context = {"preset": shown, "version": version, "text": text_of(version)}
        return render(request, "presets/preset.html", context)
    form = PresetForm(
        request.POST or None,
        upstreams=access.usable_upstreams(user, _teams_using(shown)),
        tools=_tools(user, shown),
        skills=access.skills_for_preset(user, shown.team or shown.project),
        version=version,
        remembered=_as_stored(version),
    )
    if form.is_valid():
        try:
            actions.change_preset(
                user,
                shown,
                known=known_version(request),
                name=form.cleaned_data["name"],
                content=form.content(),
            )
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, gettext("Saved"))
            return redirect("preset", public_id=public_id)
    return _edit_page(request, form, version)


def _newest(preset: Preset) -> PresetVersion:
    version = access.newest_versions(Preset.objects.filter(pk=preset.pk)).first()
    if version is None:
        raise Http404(access.NOT_HERE)
    return version


def _as_stored(version: PresetVersion) -> Conversation:
    """All that a version sets, also what can't be used now."""
    return Conversation(
        upstream=version.upstream,
        model=version.model,
        parameters=version.parameters,
        system_prompt=version.system_prompt,
    )


def _tools(user: User, preset: Preset | None) -> QuerySet[Tool]:
    """The tools that a preset may turn on: those of its team, or of all teams in which the person writes."""
    teams: Any = access.writable_teams(user)
    if preset is not None and preset.owner_id is None:
        teams = [preset.team or preset.project.team]
    tools = Tool.objects.filter(team__in=teams).order_by("team__name", "name")
    return access.usable_tools(user, tools)


def _edit_page(
    request: HttpRequest, form: PresetForm, version: PresetVersion | None = None
) -> HttpResponse:
    context = {
        "form": form,
        "version": version,
        "preset": version.preset if version else None,
        "problems": _problems(request.user, version) if version else (),
        "is_mixed": len({tool.team_id for tool in form.fields["tools"].queryset}) > 1,
    }
    status = 422 if form.is_bound else 200
    return render(request, "presets/edit.html", context, status=status)


def _teams_using(preset: Preset) -> list[Team] | None:
    """The team in which a preset is used; ``None`` for a person's own, which they use in all of theirs."""
    team = preset.team or (preset.project and preset.project.team)
    return [team] if team else None


def _problems(user: User, version: PresetVersion) -> Sequence[str]:
    """Sentences about settings of a preset that can't be used now."""
    form = ChoiceForm(
        upstreams=access.usable_upstreams(user, _teams_using(version.preset)),
        remembered=_as_stored(version),
    )
    owning = version.preset.team or (version.preset.project and version.preset.project.team)
    teams = [owning] if owning else list(access.writable_teams(user))
    return preset_in_use(user, version, form, teams).problems


# --- versions and defaults ------------------------------------------------------------------------


@login_required
@require_GET
def versions(request: HttpRequest, public_id: UUID) -> HttpResponse:
    shown = access.get_preset(request.user, public_id)
    rows = shown.versions.select_related("upstream")
    context = {
        "preset": shown,
        "lines": version_lines(rows, text_of),
        "may_edit": access.may_edit_preset(request.user, shown),
    }
    return render(request, "presets/versions.html", context)


@post_action(access.get_editable_preset, refuse_with_message("presets"))
def use_version(request: HttpRequest, preset: Preset) -> HttpResponse:
    actions.use_version(request.user, preset, posted_version(request, preset.versions))
    messages.success(request, gettext("Saved"))
    return redirect("preset", public_id=preset.public_id)


@post_action(access.get_editable_preset, refuse_with_message("presets"))
def delete(request: HttpRequest, preset: Preset) -> HttpResponse:
    actions.delete_preset(request.user, preset)
    messages.success(request, gettext("Preset deleted"))
    return redirect("presets")


@post_action(access.get_preset, refuse_with_message("presets"))
def make_default(request: HttpRequest, preset: Preset) -> HttpResponse:
    """Makes a preset the default of a place, or the person's."""
    actions.set_default(request.user, _posted_place(request), preset)
    messages.success(request, gettext("Saved"))
    return redirect("presets")


@post_action(access.get_preset, refuse_with_message("presets"))
def remove_default(request: HttpRequest, preset: Preset) -> HttpResponse:
    actions.remove_default(request.user, _posted_place(request), preset)
    messages.success(request, gettext("Saved"))
    return redirect("presets")


def _posted_place(request: HttpRequest) -> Place:
    """The place that a form names. Raises ``Http404``."""
    kind, _, identity = request.POST.get("place", "").partition(":")
    if not kind:
        return None
    public_id = as_uuid(identity)
    if public_id is None:
        raise Http404(access.NOT_HERE)
    if kind == "project":
        return access.get_project(request.user, public_id)
    return access.get_team(request.user, public_id)


# --- in the composer ------------------------------------------------------------------------------


@login_required_in_background
@require_GET
def choose(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The parts of the composer that show a preset. ``choice`` is the model that is chosen now, which stays where that of
    the preset can't be used."""
    version = _newest(access.get_preset(request.user, public_id))
    return _composer_parts(request, version, request.GET)


def _composer_parts(request: HttpRequest, version: PresetVersion, data: Any) -> HttpResponse:
    user = request.user
    conversation, teams = _place_in(user, data)
    upstreams = list(access.usable_upstreams(user, teams))
    now = _posted_choice(upstreams, data.get("choice", ""))
    form = ChoiceForm(
        upstreams=upstreams, remembered=as_conversation(version, upstreams, instead=now)
    )
    shown = preset_in_use(user, version, form, teams)
    context = {
        "form": form,
        "preset": shown,
        "conversation": conversation,
        "list": preset_starters(shown.starters),
    }
    return render(request, "presets/_parts.html", context)


def _posted_choice(upstreams: Sequence[Upstream], choice: str) -> Conversation | None:
    identity, _, model = choice.partition(":")
    server = next((each for each in upstreams if each.public_id.hex == identity), None)
    return Conversation(upstream=server, model=model) if server and model else None


def _place_in(user: User, data: Any) -> tuple[Conversation | None, Sequence[Team]]:
    """The conversation that the page shows, and the teams whose tools may be used."""
    public_id = as_uuid(data.get("conversation"))
    if public_id is None:
        return None, list(access.writable_teams(user))
    conversation = access.get_conversation(user, public_id, for_write=True)
    return conversation, [conversation.team]


@login_required_in_background
@require_http_methods(["GET", "POST"])
def save(request: HttpRequest) -> HttpResponse:
    """Makes a preset of what the composer has, or a new version of the preset that it uses (``update``). Fetched, it is
    the form for the name and the place."""
    user = request.user
    is_post = request.method == "POST"
    data = request.POST if is_post else request.GET
    used = chosen_version(user, data)
    form = SavePresetForm(
        data if is_post and "update" not in data else None,
        teams=list(access.writable_teams(user)),
        projects=list(access.writable_projects(user)),
    )
    context = {
        "form": form,
        "used": used if used and access.may_edit_preset(user, used.preset) else None,
    }
    if not is_post:
        return render(request, "presets/_save.html", context)
    choice = ChoiceForm(data, upstreams=access.usable_upstreams(user))
    is_named = "update" in data or form.is_valid()
    if not (choice.is_valid() and is_named):
        context["refusal"] = choice.first_error()
        return render(request, "presets/_save.html", context, status=422)
    try:
        version = _saved(user, data, choice, form, used)
    except ActionRefused as refusal:
        context["refusal"] = str(refusal)
        return render(request, "presets/_save.html", context, status=refusal.status)
    return _composer_parts(request, version, data)


def _saved(
    user: User, data: Any, choice: ChoiceForm, form: SavePresetForm, used: PresetVersion | None
) -> PresetVersion:
    """Raises ``ActionRefused``, ``PermissionDenied`` and ``Http404``."""
    if "update" not in data:
        said = form.cleaned_data
        place = said["preset_place"]
        content = _content_of(user, data, choice.model_choice(), used, place)
        return actions.create_preset(user, place, name=said["preset_name"], content=content)
    if used is None:
        raise ActionRefused(gettext("This preset was deleted."))
    preset = access.get_editable_preset(user, used.preset.public_id)
    place = preset.team or preset.project
    content = _content_of(user, data, choice.model_choice(), used, place)
    actions.change_preset(user, preset, known=used.number, name=preset.name, content=content)
    return _newest(preset)


def _content_of(
    user: User, data: Any, choice: ModelChoice, used: PresetVersion | None, place: Place
) -> Content:
    """The settings in the composer, with the suggestions and controls of the preset that it uses, and the skills that all
    people of the place can use."""
    conversation, teams = _place_in(user, data)
    skills = access.skills_for_preset(user, place)
    if conversation is not None:
        tools = conversation.tools.all()
        skills = skills.filter(conversations=conversation)
    else:
        mine = Tool.objects.filter(team__in=teams, public_id__in=_ids_in(data, "tools"))
        tools = access.usable_tools(user, mine)
        skills = skills.filter(public_id__in=_ids_in(data, "skills"))
    kept: dict[str, Any] = {}
    if used is not None:
        kept = {
            "icon": used.icon,
            "starters": used.starters,
            "controls": controls_of(used.controls),
        }
    return Content(
        upstream=choice.upstream,
        model=choice.model,
        parameters=choice.parameters,
        system_prompt=choice.system_prompt,
        tools=entries_of(tools),
        skills=entries_of(skills.order_by("name", "pk")),
        **kept,
    )


def _ids_in(data: Any, name: str) -> list[UUID]:
    return [public_id for each in data.getlist(name) if (public_id := as_uuid(each))]
