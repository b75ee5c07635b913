"""Cases of presets."""

from __future__ import annotations

from chat.models import Project, Team
from chat.presets.actions import Content, create_preset
from tests.access_matrix.case import Case, Outcomes, Values, World, alice_only, signed_in_only
from tests.access_matrix.prompts import team


def _made(world: World, place: Team | Project | None) -> Values:
    content = Content(upstream=world.upstream, model="demo/model")
    made = create_preset(world.alice, place, name="Report", content=content)
    return {"public_id": made.preset.public_id}


def _preset(world: World) -> Values:
    """A preset of the team."""
    return _made(world, world.team)


def _own_preset(world: World) -> Values:
    return _made(world, None)


def _project_preset(world: World) -> Values:
    """A preset of a project for everyone on the team."""
    return _made(world, Project.objects.create(team=world.team, name="P", created_by=world.alice))


def _fields(world: World) -> Values:
    return {
        "name": "Report",
        "icon": "code",
        "choice": f"{world.upstream.public_id.hex}:demo/other",
        "known": "1",
        "preset_name": "Report",
    }


def _first(world: World) -> Values:
    return {"number": "1"}


def _own_place(world: World) -> Values:
    return {"place": ""}


def _team_place(world: World) -> Values:
    return {"place": f"team:{world.team.public_id}"}


def _rights(of: str, outcome: int, viewer: int) -> Outcomes:
    return alice_only(outcome) if of == "own" else team(outcome, viewer=viewer)


PRESET_CASES = [
    Case("presets", signed_in_only(200)),
    Case("preset_new", signed_in_only(200)),
    Case("preset_new", signed_in_only(302), method="post", data=_fields),
    Case("preset_save", signed_in_only(200)),
    Case("preset_save", signed_in_only(200), method="post", data=_fields),
    *(
        Case(route, _rights(of, outcome, viewer), of, kwargs, method, data)
        for of, kwargs in (("team", _preset), ("own", _own_preset), ("project", _project_preset))
        for route, method, data, outcome, viewer in (
            ("preset", "get", _fields, 200, 200),
            ("preset", "post", _fields, 302, 200),
            ("preset_choose", "get", _own_place, 200, 200),
            ("preset_versions", "get", _fields, 200, 200),
            ("preset_use_version", "post", _first, 302, 403),
            ("preset_default", "post", _own_place, 302, 302),
            ("preset_no_default", "post", _own_place, 302, 302),
            ("preset_delete", "post", _fields, 302, 403),
        )
    ),
    Case(
        "preset_default",
        signed_in_only(404, alice=302, bob=403, viewer=403),
        "default of the team",
        _preset,
        "post",
        _team_place,
    ),
]
