"""Presets: who chooses them, who changes them, and with which one a new conversation begins.

A preset grants nothing: its server, its tools and its project are checked like those that somebody chooses by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Subquery, Value, When
from django.utils.translation import gettext

from chat.access.not_here import existing
from chat.access.projects import managed_projects, visible_projects, writable_projects
from chat.access.teams import managed_teams
from chat.models import (
    Conversation,
    DefaultPreset,
    Membership,
    Preset,
    PresetVersion,
    Project,
    Team,
    User,
)
from chat.models.team import FULL_ROLES, WRITING_ROLES


def visible_presets(user: User) -> QuerySet[Preset]:
    """The person's own presets, those of teams that they are in, but not as a guest, and those of projects that they
    read."""
    teams = Membership.objects.filter(user=user, role__in=FULL_ROLES).values("team")
    projects = visible_projects(user).values("pk")
    return Preset.objects.filter(
        Q(owner=user) | Q(team__in=teams) | Q(project__in=projects)
    ).select_related("team", "project")


def presets_in(user: User, project_pk: int | None, teams: Iterable[Team]) -> QuerySet[Preset]:
    """The visible presets that fit a place: the person's own, those of the teams, and of this project."""
    fits = Q(owner=user) | Q(team__in=teams)
    if project_pk is not None:
        fits |= Q(project=project_pk)
    return visible_presets(user).filter(fits)


def presets_of_place(place: Team | Project) -> QuerySet[Preset]:
    """The presets that everyone who begins conversations in a team or a project may choose."""
    if isinstance(place, Project):
        return Preset.objects.filter(Q(project=place) | Q(team=place.team_id))
    return Preset.objects.filter(team=place)


def newest_versions(presets: QuerySet[Preset]) -> QuerySet[PresetVersion]:
    """The newest version of each preset, with it and its server."""
    newest = PresetVersion.objects.filter(preset=OuterRef("preset")).order_by("-number")
    return (
        PresetVersion.objects.filter(
            preset__in=presets, number=Subquery(newest.values("number")[:1])
        )
        .select_related("preset__team", "preset__project", "upstream")
        .order_by("preset__name", "pk")
    )


def with_defaults(
    versions: QuerySet[PresetVersion], user: User, project_pk: int | None, teams: Iterable[Team]
) -> QuerySet[PresetVersion]:
    """The versions with ``default_of``: "person", "project" or "team" if the preset is that one's default, else empty."""
    defaults = DefaultPreset.objects.filter(preset=OuterRef("preset"))
    return versions.annotate(
        default_of=Case(
            When(Exists(defaults.filter(user=user)), then=Value("person")),
            When(Exists(defaults.filter(project__in=[project_pk])), then=Value("project")),
            When(Exists(defaults.filter(team__in=teams)), then=Value("team")),
            default=Value(""),
        )
    )


def get_preset(user: User, public_id: UUID) -> Preset:
    """A preset that the user may choose."""
    return existing(visible_presets(user).filter(public_id=public_id).first())


def get_editable_preset(user: User, public_id: UUID) -> Preset:
    """A preset that the user may change and delete."""
    preset = get_preset(user, public_id)
    if not may_edit_preset(user, preset):
        raise PermissionDenied(gettext("You have read-only access to this preset."))
    return preset


def may_edit_preset(user: User, preset: Preset) -> bool:
    """Their own, and those of teams and projects in which they write."""
    teams = Membership.objects.filter(user=user, role__in=WRITING_ROLES).values("team")
    projects = writable_projects(user).values("pk")
    mine = Q(owner=user) | Q(team__in=teams) | Q(project__in=projects)
    return Preset.objects.filter(mine, pk=preset.pk).exists()


def may_set_default(user: User, place: Team | Project) -> bool:
    """Returns whether the user decides with which preset the conversations of others begin there."""
    if isinstance(place, Project):
        return managed_projects(user).filter(pk=place.pk).exists()
    return managed_teams(user).filter(pk=place.pk).exists()


def default_preset(user: User, project: Project | None, team: Team | None) -> PresetVersion | None:
    """The preset with which a new conversation begins: that of the project, else the person's, else the team's, as far
    as the person may choose it. A project that has a model as its default leaves no room for the others."""
    of_place = Q(project=project) if project else Q(pk__isnull=True)
    if project is None or project.upstream_id is None:
        of_place |= Q(user=user)
        if team is not None:
            of_place |= Q(team=team)
    rows = list(
        DefaultPreset.objects.filter(of_place, preset__in=visible_presets(user)).values_list(
            "project", "user", "preset"
        )
    )
    if not rows:
        return None
    _, _, preset = min(rows, key=lambda row: (row[0] is None, row[1] is None))
    return newest_versions(Preset.objects.filter(pk=preset)).first()


def version_of(user: User, key: str, *, known: int | None = None) -> PresetVersion | None:
    """The version that a page names (`PresetVersion.key`), if the person may choose it; or the one that the conversation
    has already (``known``), whoever may choose that."""
    hex_id, _, number = key.partition(".")
    try:
        public_id = UUID(hex_id)
    except ValueError:
        return None
    if not (number.isdecimal() and len(number) < 8):
        return None
    mine = Q(preset__in=visible_presets(user))
    if known is not None:
        mine |= Q(pk=known)
    versions = PresetVersion.objects.filter(mine, preset__public_id=public_id, number=int(number))
    return versions.select_related("preset").first()


def version_in(user: User, conversation: Conversation) -> PresetVersion | None:
    """The version that a conversation uses, if the person may choose its preset."""
    if conversation.preset_version_id is None:
        return None
    return (
        PresetVersion.objects.filter(
            pk=conversation.preset_version_id, preset__in=visible_presets(user)
        )
        .select_related("preset__team", "preset__project", "upstream")
        .first()
    )
