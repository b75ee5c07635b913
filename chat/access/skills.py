"""Skills: who uses them, who changes them, and which of them fit a place.

A conversation or a preset that names a skill grants nothing: each answer gets those that its person may use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Case, IntegerField, OuterRef, Q, QuerySet, Subquery, When
from django.utils.translation import gettext

from chat.access.not_here import existing
from chat.access.projects import visible_projects, writable_projects
from chat.models import Conversation, Membership, Project, Skill, SkillVersion, Team, User
from chat.models.team import FULL_ROLES, WRITING_ROLES


def is_skill_of(user: Any) -> Q:
    """The condition that a person (a user, a key, a placeholder) may use a skill: their own, those of teams that they are
    in, but not as a guest, and those of projects that they read."""
    teams = Membership.objects.filter(user=user, role__in=FULL_ROLES).values("team")
    return Q(owner=user) | Q(team__in=teams) | Q(project__in=visible_projects(user).values("pk"))


def visible_skills(user: Any) -> QuerySet[Skill]:
    return Skill.objects.filter(is_skill_of(user)).select_related("team", "project")


def editable_skills(user: User) -> QuerySet[Skill]:
    """Their own, and those of teams and projects in which they write."""
    teams = Membership.objects.filter(user=user, role__in=WRITING_ROLES).values("team")
    projects = writable_projects(user).values("pk")
    return Skill.objects.filter(Q(owner=user) | Q(team__in=teams) | Q(project__in=projects))


def skills_in(
    user: User,
    project_pk: int | None,
    teams: Iterable[Team],
    conversation: Conversation | None = None,
) -> QuerySet[Skill]:
    """The usable skills that fit a place: the person's own, those of the teams, and of this project; and those that a
    conversation has switched on."""
    fits = Q(owner=user) | Q(team__in=teams)
    if project_pk is not None:
        fits |= Q(project=project_pk)
    if conversation is not None:
        fits |= Q(pk__in=_switched_on(conversation))
    return visible_skills(user).filter(fits)


def _switched_on(conversation: Conversation) -> QuerySet[Any]:
    return Conversation.skills.through.objects.filter(conversation=conversation).values("skill")


def skills_for_preset(user: User, place: Team | Project | None) -> QuerySet[Skill]:
    """The skills that a preset may switch on: those that all who can choose it can use. A person's own preset has the
    person's skills and those of their teams."""
    if place is None:
        return visible_skills(user).filter(project__isnull=True)
    if isinstance(place, Project):
        return visible_skills(user).filter(Q(project=place) | Q(team=place.team_id))
    return visible_skills(user).filter(team=place)


def newest_skill_versions(skills: QuerySet[Skill]) -> QuerySet[SkillVersion]:
    """The newest version of each skill, with it. Of several with one name, the person's own comes first, then that of a
    project: the special one goes before the general one."""
    newest = SkillVersion.objects.filter(skill=OuterRef("skill")).order_by("-number")
    order = Case(
        When(skill__owner__isnull=False, then=0),
        When(skill__project__isnull=False, then=1),
        default=2,
        output_field=IntegerField(),
    )
    return (
        SkillVersion.objects.filter(skill__in=skills, number=Subquery(newest.values("number")[:1]))
        .select_related("skill__team", "skill__project")
        .order_by("skill__name", order, "pk")
    )


def get_skill(user: User, public_id: UUID) -> Skill:
    """A skill that the user may use."""
    return existing(visible_skills(user).filter(public_id=public_id).first())


def get_editable_skill(user: User, public_id: UUID) -> Skill:
    """A skill that the user may change and delete."""
    skill = get_skill(user, public_id)
    if not may_edit_skill(user, skill):
        raise PermissionDenied(gettext("You have read-only access to this skill."))
    return skill


def may_edit_skill(user: User, skill: Skill) -> bool:
    return editable_skills(user).filter(pk=skill.pk).exists()
