"""How a preset fills the composer: its server and model, parameters, system prompt and tools, as if they were chosen by
hand, and what of it can't be used now or here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import msgspec
from django.db.models import QuerySet
from django.forms.boundfield import BoundField
from django.utils.text import get_text_list
from django.utils.translation import gettext, ngettext, ngettext_lazy
from msgspec import Struct

from chat import access
from chat.conversations.actions.messages import ModelChoice
from chat.conversations.choice_form import (
    PRESET,
    ChoiceForm,
    as_typed,
    field_name,
    parameter_field,
    preset_value,
)
from chat.core.text import as_uuid
from chat.dialects import DIALECTS
from chat.events import Json
from chat.models import Conversation, PresetVersion, Project, Skill, Team, Tool, Upstream, User

TOOL_PROBLEMS = (
    ngettext_lazy("The tool %(names)s was deleted.", "The tools %(names)s were deleted.", "count"),
    ngettext_lazy(
        "The tool %(names)s is off, or you can’t use it here.",
        "The tools %(names)s are off, or you can’t use them here.",
        "count",
    ),
)
SKILL_PROBLEMS = (
    ngettext_lazy(
        "The skill %(names)s was deleted.", "The skills %(names)s were deleted.", "count"
    ),
    ngettext_lazy(
        "You can’t use the skill %(names)s here.",
        "You can’t use the skills %(names)s here.",
        "count",
    ),
)


class ControlChoice(Struct, frozen=True, kw_only=True):
    """One of the choices of a control, with the parameters that it sets."""

    label: str
    parameters: dict[str, Any]


class Control(Struct, frozen=True, kw_only=True):
    """A setting that a preset puts beside the model picker, such as "Thinking" with "Low" and "High"."""

    name: str
    choices: tuple[ControlChoice, ...]


def controls_of(stored: Json) -> list[Control]:
    return msgspec.convert(stored, list[Control])


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChoice:
    """``values``: the fields that a choice sets, as JSON for the page's script."""

    label: str
    values: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownControl:
    name: str
    choices: Sequence[ShownChoice]


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetInUse:
    """A preset in the composer. ``values``: what it sets, as JSON for the page's script, which compares it with the
    fields. ``problems``: sentences about what of it can't be used."""

    version: PresetVersion
    values: str
    controls: Sequence[ShownControl]
    problems: Sequence[str]
    tools: Sequence[Tool]
    skills: Sequence[Skill] = ()

    @property
    def option(self) -> str:
        """The value with which the list of models offers it."""
        return preset_value(self.version)

    @property
    def starters(self) -> Sequence[str]:
        starters: Sequence[str] = self.version.starters
        return starters


def can_be_used(version: PresetVersion, upstreams: Iterable[Upstream]) -> bool:
    """Returns whether its model can be chosen."""
    # One of these objects, which know what may be used of them.
    server = next((each for each in upstreams if each == version.upstream), None)
    return server is not None and not server.is_off(version.model)


def as_conversation(
    version: PresetVersion, upstreams: Iterable[Upstream], *, instead: Conversation | None = None
) -> Conversation:
    """The choices of a preset as a conversation that isn't stored, for forms. ``instead`` has the model where that of the
    preset can't be chosen."""
    source: Any = version if can_be_used(version, upstreams) else instead
    return Conversation(
        upstream=source.upstream if source else None,
        model=source.model if source else "",
        parameters=version.parameters,
        system_prompt=version.system_prompt,
    )


def preset_in_use(
    user: User, version: PresetVersion, form: ChoiceForm, teams: Iterable[Team]
) -> PresetInUse:
    """A preset that the composer shows. ``form`` has the offered servers, and the chosen one."""
    own = ChoiceForm(
        upstreams=form.upstreams,
        remembered=as_conversation(version, form.upstreams, instead=form.remembered),
    )
    tools, tool_problems = _tools_in(user, version, teams)
    skills, skill_problems = _skills_in(user, version, teams)
    values = _values_of(own)
    shown = {
        "choice": values["choice"] if can_be_used(version, form.upstreams) else "",
        "fields": values,
        # The ids of all that it switches on in the menu of tools.
        "tools": [str(each.public_id) for each in (*tools, *skills)],
        "has_tools": bool(version.tools),
    }
    return PresetInUse(
        version=version,
        values=json.dumps(shown),
        controls=_controls_in(version, own, values),
        problems=[*_model_problems(version, own), *tool_problems, *skill_problems],
        tools=tools,
        skills=skills,
    )


def _values_of(form: ChoiceForm) -> dict[str, str]:
    """The values that the fields of a form show, by their names."""
    names = [name for name in form.fields if "-" in name]
    return {name: _shown(form[name]) for name in ("choice", "system_prompt", *names)}


def _shown(bound: BoundField) -> str:
    return _as_text(bound.field, bound.value())


def _as_text(field: Any, value: Any) -> str:
    shown = field.widget.format_value(field.prepare_value(value))
    if isinstance(shown, list):
        shown = shown[0] if shown else ""
    return "" if shown is None else str(shown)


def _controls_in(
    version: PresetVersion, form: ChoiceForm, values: Mapping[str, str]
) -> list[ShownControl]:
    if form.chosen is None:
        return []
    dialect = form.chosen.dialect
    known = {each.name: each for each in DIALECTS[dialect].parameters}
    controls = []
    for control in controls_of(version.controls):
        names = {name for choice in control.choices for name in choice.parameters} & known.keys()
        base = {field_name(dialect, name): values[field_name(dialect, name)] for name in names}
        choices = [
            ShownChoice(
                label=choice.label,
                values=json.dumps(
                    {
                        **base,
                        **{
                            field_name(dialect, name): _as_text(
                                parameter_field(known[name]), as_typed(value)
                            )
                            for name, value in choice.parameters.items()
                            if name in known
                        },
                    }
                ),
            )
            for choice in control.choices
        ]
        # With another model nothing may be left to set.
        if names:
            controls.append(ShownControl(name=control.name, choices=choices))
    return controls


# --- what can't be used ---------------------------------------------------------------------------


def _model_problems(version: PresetVersion, form: ChoiceForm) -> list[str]:
    server, model = version.upstream, version.model
    problems = []
    if server is None:
        words = gettext("The server of this preset, %(server)s, was removed. Choose another model.")
        problems.append(words % {"server": version.server})
    elif not can_be_used(version, form.upstreams):
        words = gettext("%(model)s on %(server)s isn’t available. Choose another model.")
        problems.append(words % {"model": model, "server": server})
    elif all(entry["id"] != model for entry in server.model_list):
        words = gettext(
            "%(server)s doesn’t list %(model)s. If it was removed, choose another model."
        )
        problems.append(words % {"model": model, "server": server})
    if form.chosen is not None and (lacking := _lacking(version, form.chosen)):
        words = ngettext(
            "This model has no parameter %(names)s, which isn’t sent.",
            "This model has no parameters %(names)s, which aren’t sent.",
            len(lacking),
        )
        problems.append(words % {"names": _listed(lacking)})
    return problems


def _lacking(version: PresetVersion, upstream: Upstream) -> list[str]:
    """The parameters that a server lacks, or takes other values for, also those of controls."""
    known = {each.name: each for each in DIALECTS[upstream.dialect].parameters}
    used = dict(version.parameters)
    for control in controls_of(version.controls):
        for choice in control.choices:
            used |= choice.parameters
    return [
        name for name, value in used.items() if name not in known or not known[name].accepts(value)
    ]


def _tools_in(
    user: User, version: PresetVersion, teams: Iterable[Team]
) -> tuple[list[Tool], list[str]]:
    """The tools that the person may turn on in conversations of these teams, and sentences about the others."""
    if not version.tools:
        return [], []
    rows = Tool.objects.filter(public_id__in=_ids_of(version.tools), team__in=teams)
    tools = access.usable_tools(user, rows.select_related("server"))
    usable = [tool for tool in tools if tool.may_be_on]
    return usable, _problems(version.tools, usable, Tool.objects.all(), *TOOL_PROBLEMS)


def _skills_in(
    user: User, version: PresetVersion, teams: Iterable[Team]
) -> tuple[list[Skill], list[str]]:
    """The skills that the person may use in conversations of these teams, and sentences about the others."""
    if not version.skills:
        return [], []
    fitting = access.skills_in(user, version.preset.project_id, teams)
    usable = fitting.filter(public_id__in=_ids_of(version.skills)).order_by("name", "pk")
    return list(usable), _problems(version.skills, usable, Skill.objects.all(), *SKILL_PROBLEMS)


def _ids_of(stored: Iterable[Mapping[str, str]]) -> list[UUID]:
    return [UUID(each["id"]) for each in stored]


def _problems(
    stored: Sequence[Mapping[str, str]],
    usable: Iterable[Tool | Skill],
    rows: QuerySet[Any],
    deleted: Any,
    barred: Any,
) -> list[str]:
    """Sentences about those of a preset that are not ``usable``: ``deleted`` about those that are gone from ``rows``,
    ``barred`` about the others."""
    there = set(rows.filter(public_id__in=_ids_of(stored)).values_list("public_id", flat=True))
    on = {each.public_id for each in usable}
    found = (
        (deleted, [each["name"] for each in stored if UUID(each["id"]) not in there]),
        (barred, [each["name"] for each in stored if UUID(each["id"]) in there - on]),
    )
    return [
        words % {"count": len(names), "names": _listed(names)} for words, names in found if names
    ]


def _listed(names: Sequence[str]) -> str:
    return str(get_text_list(list(names), gettext("and")))


# --- what was posted ------------------------------------------------------------------------------


def starting_preset(
    user: User, asked: str, project: Project | None, team: Team | None
) -> PresetVersion | None:
    """The preset of a new conversation: the one that the address names, else the default."""
    public_id = as_uuid(asked)
    if public_id is not None:
        presets = access.visible_presets(user).filter(public_id=public_id)
        return access.newest_versions(presets).first()
    return access.default_preset(user, project, team)


def chosen_version(
    user: User, data: Mapping[str, Any], conversation: Conversation | None = None
) -> PresetVersion | None:
    """The preset that a posted form names."""
    known = conversation.preset_version_id if conversation else None
    key = data.get("preset", "")
    return access.version_of(user, key, known=known) if key else None


def with_preset(
    user: User,
    choice: ModelChoice,
    data: Mapping[str, Any],
    conversation: Conversation | None = None,
) -> ModelChoice:
    """The choice with the preset that a posted form names, for the conversation to remember. A form that names none
    leaves the conversation's preset as it is."""
    if "preset" not in data:
        return choice
    return replace(choice, preset=chosen_version(user, data, conversation), keeps_preset=False)


def without_scripts(user: User, data: Any, teams: Iterable[Team]) -> Any:
    """The posted form. Without scripts a preset is chosen in the list of models, and its values take the place of those
    that the form had when the page was loaded."""
    kind, _, asked = data.get("choice", "").partition(":")
    if kind != PRESET:
        return data
    version = starting_preset(user, asked, None, None) if as_uuid(asked) else None
    if version is None:
        return data
    upstreams = list(access.usable_upstreams(user, teams))
    form = ChoiceForm(upstreams=upstreams, remembered=as_conversation(version, upstreams))
    chosen = data.copy()
    for name in [name for name in chosen if "-" in name]:
        del chosen[name]
    chosen.update(_values_of(form))
    if not can_be_used(version, upstreams):
        # Refused with the sentence about servers that are gone.
        chosen["choice"] = data["choice"]
    tools, _ = _tools_in(user, version, teams)
    skills, _ = _skills_in(user, version, teams)
    chosen.setlist("tools", [str(tool.public_id) for tool in tools])
    chosen.setlist("skills", [str(skill.public_id) for skill in skills])
    chosen["preset"] = version.key
    return chosen
