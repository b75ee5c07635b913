"""The contents of the composer: the server and model, the parameters, the team's tools."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext

from chat import access
from chat.conversations.choice_form import ChoiceForm
from chat.conversations.forms import SendForm
from chat.conversations.model_lists import model_lists
from chat.conversations.preset_choice import PresetInUse, preset_in_use, without_scripts
from chat.core.prepared import Prepared
from chat.dialects import DIALECTS
from chat.models import (
    Conversation,
    Message,
    PresetVersion,
    Project,
    Role,
    Skill,
    StoredFile,
    Team,
    Tool,
    Upstream,
    User,
)
from chat.models import ToolChoice as ToolDecision
from chat.web.tool_words import how_it_runs, icon_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """A tool in the menu. ``team`` is shown if the menu has tools of several teams."""

    tool: Tool
    is_on: bool
    team: str = ""
    # Somebody's decision for all calls in the conversation.
    is_allowed: bool | None = None

    @property
    def icon(self) -> str:
        return icon_of(self.tool)

    @property
    def how(self) -> str:
        if self.is_allowed is None or not self.tool.may_be_on:
            return how_it_runs(self.tool)
        return gettext("Always allowed here") if self.is_allowed else gettext("Never allowed here")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillLine:
    """A skill in the menu of tools. ``place``: with whom it is shared."""

    skill: Skill
    description: str
    is_on: bool

    @property
    def place(self) -> str:
        return str(self.skill.team or self.skill.project or gettext("Only me"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    lines: Sequence[ToolLine]
    # The offered servers; read only if the tools are shown.
    upstreams: Iterable[Upstream] = field(repr=False)
    skills: Sequence[SkillLine] = ()

    @property
    def without_tools(self) -> list[tuple[str, str]]:
        """Dialects of the offered servers that send no tools, with their labels."""
        names = sorted({upstream.dialect for upstream in self.upstreams} & DIALECTS.keys())
        return [(name, DIALECTS[name].label) for name in names if not DIALECTS[name].takes_tools]

    @property
    def names_reader(self) -> bool:
        """True if it shows what is one person's: decisions about calls with their account, or their own skills."""
        own_skills = any(line.skill.owner_id for line in self.skills)
        return own_skills or any(line.tool.is_personal for line in self.lines)

    @property
    def count(self) -> int:
        return sum(line.is_on for line in (*self.lines, *self.skills))

    @property
    def mark(self) -> str:
        """A hash of what is shown of the tools and skills, to detect changes; empty without any."""
        tools = (
            f"{line.tool.public_id} {line.is_on} {line.tool.name} {line.how} {line.tool.description}"
            for line in self.lines
        )
        skills = (
            f"{line.skill.public_id} {line.is_on} {line.skill.name} {line.description}"
            for line in self.skills
        )
        shown = "\n".join((*tools, *skills))
        return f"{zlib.crc32(shown.encode()):08x}" if shown else ""


def _allowed(room: Any, person: Any) -> Subquery:
    decisions = ToolDecision.objects.filter(conversation=room, tool=OuterRef("pk"))
    mine = (
        decisions.filter(person__isnull=True) if person is None else decisions.filter(person=person)
    )
    return Subquery(mine.values("is_allowed"))


_tools_of: Prepared[Any] = Prepared(
    lambda team, room, viewer: (
        Tool.objects.filter(team=team)
        .select_related("server")
        .annotate(
            is_on=Exists(
                Conversation.tools.through.objects.filter(conversation=room, tool=OuterRef("pk"))
            ),
            allowed_for_all=_allowed(room, None),
            # About calls with this person's account.
            allowed_for_own=_allowed(room, viewer),
        )
    )
)


def tools_of(user: User, conversation: Conversation, upstreams: Iterable[Upstream]) -> ToolChoice:
    """The team's tools that may be used, and those that are switched on here, which may be off since, with what was
    decided about them, by this person if their calls use accounts."""
    context = conversation.context
    has_none = context is not None and not context.team_has_tools
    tools = (
        []
        if has_none
        else _tools_of.all(team=conversation.team_id, room=conversation.pk, viewer=user.pk)
    )
    return ToolChoice(
        lines=[
            ToolLine(
                tool=tool,
                is_on=tool.is_on,
                is_allowed=tool.allowed_for_own if tool.is_personal else tool.allowed_for_all,
            )
            for tool in tools
            if tool.may_be_on or tool.is_on
        ],
        upstreams=upstreams,
        skills=_skills_of(user, conversation),
    )


def _skills_of(user: User, conversation: Conversation) -> list[SkillLine]:
    """The skills that the person could switch on, and those that are on and that they may use: nobody is told of others."""
    context = conversation.context
    if context is not None and not (context.has_skills or context.offers_skills):
        return []
    skills = access.skills_in(user, conversation.project_id, [conversation.team], conversation)
    return _skill_lines(skills, set(conversation.skills.values_list("pk", flat=True)))


def _skill_lines(skills: QuerySet[Skill], on: Collection[int]) -> list[SkillLine]:
    return [
        SkillLine(
            skill=version.skill,
            description=version.description,
            is_on=version.skill_id in on,
        )
        for version in access.newest_skill_versions(skills)
    ]


def tools_for(
    user: User,
    teams: Sequence[Team],
    upstreams: Iterable[Upstream],
    project: Project | None = None,
    *,
    with_demo: bool = False,
    preset: PresetInUse | None = None,
) -> ToolChoice:
    """The tools that a new conversation in one of these teams may use. Those of the preset are switched on,
    without one the project's tools, and with ``with_demo`` those of the demo's server."""
    if preset is not None:
        enabled = {tool.pk for tool in preset.tools}
    else:
        enabled = set(project.tools.values_list("pk", flat=True)) if project else set()
    tools = (
        access.usable_tools(user, Tool.objects.filter(team__in=teams))
        .select_related("team", "server")
        .order_by("team__name", "name")
    )
    is_mixed = len(teams) > 1
    return ToolChoice(
        lines=[
            ToolLine(
                tool=tool,
                is_on=tool.pk in enabled or (with_demo and is_of_demo(tool)),
                team=tool.team.name if is_mixed else "",
            )
            for tool in tools
            if tool.may_be_on
        ],
        upstreams=upstreams,
        skills=_skill_lines(
            access.skills_in(user, project.pk if project else None, teams),
            {skill.pk for skill in preset.skills} if preset else (),
        ),
    )


def is_of_demo(tool: Tool) -> bool:
    return tool.server is not None and tool.server.is_demo


def composer_context(
    user: User, conversation: Conversation, tail: Message | None, *, tools_mark: str | None = None
) -> dict[str, Any]:
    """``tail``: the message below which the next one goes. ``tools_mark``: that of the page, whose tools are not
    read again."""
    # Both are lazy: patches of a page that already has its composer need neither.
    upstreams: Any = SimpleLazyObject(partial(access.usable_upstreams, user, [conversation.team]))
    presets: Any = SimpleLazyObject(
        partial(presets_offered, user, conversation.project_id, [conversation.team])
    )
    form: Any = SimpleLazyObject(
        lambda: SendForm(
            upstreams=upstreams,
            remembered=conversation,
            presets=presets,
            lists=partial(model_lists, user),
        )
    )
    return {
        "form": form,
        "preset": SimpleLazyObject(lambda: shown_preset(user, conversation, form)),
        "tool_choice": (
            tools_of(user, conversation, upstreams) if tools_mark is None else {"mark": tools_mark}
        ),
        "key": uuid.uuid4(),
        "parent": tail.public_id.hex if tail and tail.role == Role.ASSISTANT else "",
        "action": reverse("conversation_send", args=[conversation.public_id]),
        "room": conversation.public_id.hex,
        "project_files": files_offered(user, conversation.project_id),
        "instructing": partial(instructing_project, user, conversation.project_id),
    }


def presets_offered(
    user: User, project_pk: int | None, teams: Iterable[Team]
) -> list[PresetVersion]:
    """The presets that may be chosen in a place, with whose default each is."""
    fitting = access.newest_versions(access.presets_in(user, project_pk, teams))
    return list(access.with_defaults(fitting, user, project_pk, teams))


def shown_preset(user: User, conversation: Conversation, form: ChoiceForm) -> PresetInUse | None:
    """The preset that a conversation uses, for those who may choose it. Nobody else is told its name, and what they send
    leaves it as it is."""
    version = access.version_in(user, conversation)
    return version and preset_in_use(user, version, form, [conversation.team])


def instructing_project(user: User, project_pk: int | None) -> Project | None:
    """The project whose instructions apply, where the person may read them."""
    if project_pk is None:
        return None
    return access.visible_projects(user).exclude(instructions="").filter(pk=project_pk).first()


def files_offered(user: User, project_pk: int | None) -> QuerySet[StoredFile] | None:
    """The files that the project shares with its conversations, if the person reads the project."""
    return None if project_pk is None else access.shared_files(user, project_pk)


def remembered_choice(
    user: User, conversation: Conversation, data: Mapping[str, Any]
) -> ChoiceForm:
    """The choice of the posted form, else the last choice in the conversation."""
    upstreams = list(access.usable_upstreams(user, [conversation.team]))
    data = without_scripts(user, data, [conversation.team])
    if data.get("choice"):
        return ChoiceForm(data, upstreams=upstreams)
    kept = ChoiceForm(upstreams=upstreams, remembered=conversation)
    return ChoiceForm(kept.initial, upstreams=upstreams)
