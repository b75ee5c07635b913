"""Cases of prompts and personal instructions."""

from __future__ import annotations

from chat.prompts.actions import create_prompt
from tests.access_matrix.case import (
    Case,
    Outcome,
    Outcomes,
    Values,
    World,
    alice_only,
    signed_in_only,
)


def _prompt(world: World) -> Values:
    """A prompt of the team."""
    made = create_prompt(world.alice, world.team, name="Report", text="Report.", variables=[])
    return {"public_id": made.public_id}


def _own_prompt(world: World) -> Values:
    made = create_prompt(world.alice, None, name="Report", text="Report.", variables=[])
    return {"public_id": made.public_id}


def _fields(world: World) -> Values:
    return {"name": "Report", "text": "Report again.", "known": "1"}


def _first(world: World) -> Values:
    return {"number": "1"}


def _instructions(world: World) -> Values:
    return {"text": "I am brief.", "use": "all"}


def team(outcome: Outcome, *, viewer: Outcome) -> Outcomes:
    return signed_in_only(404, alice=outcome, bob=outcome, viewer=viewer)


PROMPT_CASES = [
    Case("instructions", signed_in_only(302), method="post", data=_instructions),
    Case("prompts", signed_in_only(200)),
    Case("prompt_new", signed_in_only(200)),
    Case("prompt_new", signed_in_only(302), method="post", data=_fields),
    Case("prompt_variables", signed_in_only(200), method="post", data=_fields),
    Case("prompt_find", signed_in_only(200)),
    *(
        Case(route, rights, of, kwargs, method, data)
        for of, kwargs in (("team", _prompt), ("own", _own_prompt))
        for route, method, data, outcome, viewer in (
            ("prompt", "get", _fields, 200, 200),
            ("prompt", "post", _fields, 302, 200),
            ("prompt_versions", "get", _fields, 200, 200),
            ("prompt_insert", "get", _fields, 200, 200),
            ("prompt_use_version", "post", _first, 302, 403),
            ("prompt_delete", "post", _fields, 302, 403),
        )
        for rights in [team(outcome, viewer=viewer) if of == "team" else alice_only(outcome)]
    ),
]
