"""The places of presets and skills: a person, a team or a project."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from chat.models import Preset, Project, Skill, Team

ONLY_ME = gettext_lazy("Only me")


def places_of(owned: Iterable[Preset | Skill]) -> list[Team | Project | None]:
    """The places of these: the person first (``None``), then teams and projects by their names."""
    rows = list(owned)
    teams = {row.team for row in rows if row.team}
    projects = {row.project for row in rows if row.project}
    return [None, *sorted(teams, key=_by_name), *sorted(projects, key=_by_name)]


def _by_name(place: Team | Project) -> tuple[str, int]:
    return place.name, place.pk


class PlaceField(forms.ChoiceField):
    """The people who can use it: only the person, or those of a team or a project."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            label=gettext_lazy("Who can use it"), choices=[("", ONLY_ME)], required=False, **kwargs
        )
        self.places: dict[str, Team | Project] = {}

    def offer(self, teams: Iterable[Team], projects: Iterable[Project]) -> None:
        teams_by = {f"team:{each.public_id}": each for each in teams}
        projects_by = {f"project:{each.public_id}": each for each in projects}
        self.places = {**teams_by, **projects_by}
        groups = [(gettext("Teams"), teams_by), (gettext("Projects"), projects_by)]
        self.choices = [
            ("", ONLY_ME),
            *(
                (label, [(key, str(each)) for key, each in by.items()])
                for label, by in groups
                if by
            ),
        ]

    def clean(self, value: Any) -> Team | Project | None:
        return self.places.get(super().clean(value))
