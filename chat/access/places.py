"""The places of presets and skills: a person's own, a team's, a project's."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext

from chat.access.projects import may_write_in_project
from chat.access.teams import writable_teams
from chat.models import Project, Team, User


def fields_of_place(user: User, place: Team | Project | None) -> dict[str, Any]:
    """The fields of what a person makes there; ``None`` is for the person alone. Raises ``PermissionDenied``."""
    if place is None:
        return {"owner": user, "team": None, "project": None}
    if isinstance(place, Project):
        may_write = may_write_in_project(user, place)
    else:
        may_write = writable_teams(user).filter(pk=place.pk).exists()
    if not may_write:
        raise PermissionDenied(gettext("You have read-only access here."))
    name = "project" if isinstance(place, Project) else "team"
    return {"owner": None, "team": None, "project": None, name: place}
