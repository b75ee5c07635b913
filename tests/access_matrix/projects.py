"""Cases of projects."""

from __future__ import annotations

from typing import Any

from chat.models import Project, ProjectRole
from chat.projects.actions import create_project, set_member
from chat.projects.forms import Place
from tests.access_matrix.case import (
    Case,
    Make,
    Outcome,
    Outcomes,
    Values,
    World,
    alice_only,
    owner_only,
    readers,
    signed_in_only,
    writers,
)
from tests.access_matrix.organization import _chosen
from tests.support.files import store_file


def _project(world: World) -> Values:
    """For everyone on the team."""
    project = create_project(world.alice, world.team, name="Springs")
    return {"public_id": project.public_id}


def _own_project(world: World) -> Values:
    """A project of selected people: of Alice alone."""
    project = create_project(world.alice, world.team, name="Sources", access="members")
    return {"public_id": project.public_id}


def _member(world: World) -> Values:
    """Bob, who is one of the selected people."""
    values = _own_project(world)
    project = Project.objects.get(**values)
    set_member(world.alice, project, world.bob, ProjectRole.READER)
    return {**values, "person_id": world.bob.public_id}


def _project_file(make: Make) -> Make:
    def file(world: World) -> Values:
        project = Project.objects.get(**make(world))
        return {"public_id": store_file(project=project, body=b"x").public_id}

    return file


def _moved(world: World) -> Values:
    """Alice's conversation into her project, although others lose access to it."""
    project = _own_project(world)["public_id"]
    return {**_chosen(world.shared), "project": str(project), "confirmed": "1"}


def _moved_back(world: World) -> Values:
    return {"conversation": str(Place.of(world.shared.conversation))}


def _new_member(world: World) -> Values:
    return {"person": str(world.bob.public_id), "role": "reader"}


def of_both(route: str, rights: Outcomes, outcome: Outcome, **more: Any) -> list[Case]:
    """In the project of the team by its ``rights``; in Alice's own one for her alone."""
    return [
        Case(route, rights, "team", _project, **more),
        Case(route, alice_only(outcome), "members", _own_project, **more),
    ]


PROJECT_CASES = [
    Case("projects", signed_in_only(200)),
    # Dana may write in her own team; the administrator is in none.
    Case("project_new", signed_in_only(403, alice=200, bob=200, dana=200)),
    *of_both("project", readers(200), 200),
    *of_both("project_instructions", readers(200), 200),
    *of_both("project_instructions", owner_only(302), 302, method="post"),
    *of_both("project_settings", owner_only(200), 200),
    *of_both("project_delete", owner_only(302), 302, method="post"),
    *of_both("project_members", readers(200), 200),
    *of_both("project_members", owner_only(302), 302, method="post", data=_new_member),
    *of_both("project_files", writers(302), 302, method="post"),
    Case("project_file_remove", writers(302), "team", _project_file(_project), "post"),
    Case("project_file_remove", alice_only(302), "members", _project_file(_own_project), "post"),
    Case(
        "project_member",
        signed_in_only(404, alice=302, bob=403),
        "role",
        _member,
        "post",
        lambda _: {"role": "writer"},
    ),
    # Everybody may leave.
    Case(
        "project_member",
        signed_in_only(404, alice=302, bob=302),
        "leaving",
        _member,
        "post",
        lambda _: {"remove": "1", "confirmed": "1"},
    ),
    Case("projects_move", owner_only(302), "moved", method="post", data=_moved),
    Case("projects_move_back", owner_only(302), "back", method="post", data=_moved_back),
]
