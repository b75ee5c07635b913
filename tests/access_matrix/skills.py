"""Cases of skills."""

from __future__ import annotations

from chat.models import Project, Team
from chat.skills.actions import import_skills, store_upload
from chat.skills.archive import read_upload
from tests.access_matrix.case import Case, Outcomes, Values, World, alice_only, signed_in_only
from tests.access_matrix.prompts import team

_TEXT = "---\nname: report\ndescription: Writes reports.\n---\nWrite.\n"


def _made(world: World, place: Team | Project | None) -> Values:
    (skill,) = import_skills(world.alice, place, read_upload(_TEXT.encode()).skills)
    return {"public_id": skill.public_id}


def _skill(world: World) -> Values:
    """A skill of the team."""
    return _made(world, world.team)


def _own_skill(world: World) -> Values:
    return _made(world, None)


def _project_skill(world: World) -> Values:
    """A skill of a project for everyone on the team."""
    return _made(world, Project.objects.create(team=world.team, name="P", created_by=world.alice))


def _fields(world: World) -> Values:
    return {"text": f"{_TEXT}Again.", "known": "1"}


def _first(world: World) -> Values:
    return {"number": "1"}


def _path(world: World) -> Values:
    return {"path": "SKILL.md"}


def _nothing_to_import(world: World) -> Values:
    return {}


def _uploaded(world: World) -> Values:
    """Alice's upload, which is there for nobody else."""
    store_upload(world.alice, "SKILL.md", _TEXT.encode())
    return {}


def _chosen(world: World) -> Values:
    return {"skills": "report", "place": ""}


def _rights(of: str, outcome: int, viewer: int) -> Outcomes:
    return alice_only(outcome) if of == "own" else team(outcome, viewer=viewer)


SKILL_CASES = [
    Case("skills", signed_in_only(200)),
    Case("skill_import", signed_in_only(200)),
    Case("skill_import", signed_in_only(422), method="post", data=_nothing_to_import),
    Case("skill_preview", signed_in_only(302, alice=200), "upload of Alice", _uploaded),
    Case("skill_preview", signed_in_only(302), "upload of Alice", _uploaded, "post", _chosen),
    Case("skill_import_cancel", signed_in_only(302), method="post", data=_nothing_to_import),
    *(
        Case(route, _rights(of, outcome, viewer), of, kwargs, method, data)
        for of, kwargs in (("team", _skill), ("own", _own_skill), ("project", _project_skill))
        for route, method, data, outcome, viewer in (
            ("skill", "get", _path, 200, 200),
            ("skill_file", "get", _path, 200, 200),
            ("skill_download", "get", _path, 200, 200),
            ("skill_versions", "get", _path, 200, 200),
            ("skill_edit", "get", _path, 200, 403),
            ("skill_edit", "post", _fields, 302, 403),
            ("skill_use_version", "post", _first, 302, 403),
            ("skill_delete", "post", _fields, 302, 403),
        )
    ),
]
