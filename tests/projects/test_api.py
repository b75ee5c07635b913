"""Programs that start conversations in projects."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from typing import Any

import pytest

from chat import access
from chat.accounts.actions import tokens
from chat.models import (
    AccessToken,
    Conversation,
    Membership,
    Project,
    ProjectAccess,
    Run,
    Team,
    TeamRole,
    Upstream,
)
from chat.public_api.answers import run_state
from chat.public_api.catalogue import project_list
from chat.public_api.errors import ApiError
from chat.public_api.requests import read_request
from chat.public_api.sending import PROJECT_LATER, send
from chat.runs.public_events import response_id_of
from tests.projects.conftest import Scene
from tests.support.rooms import end_run


@pytest.fixture
def scene(scene: Scene, upstream: Upstream) -> Scene:
    return scene


def token_of(scene: Scene, name: str) -> AccessToken:
    person = scene.people[name]
    return tokens.create_token(person, scene.project.team, name="nightly", days=7)[0]


def ask(token: AccessToken, **fields: Any) -> Run:
    body = {"model": "demo/model", "input": "Hello", **fields}
    return send(token, read_request(json.dumps(body).encode()), uuid.uuid4())


@pytest.mark.parametrize(
    ("fields", "visibility"),
    [
        ({}, "project"),
        ({"visibility": "project"}, "project"),
        ({"visibility": "private"}, "private"),
    ],
)
def test_conversation_starts_in_the_project(
    scene: Scene, fields: dict[str, str], visibility: str
) -> None:
    run = ask(token_of(scene, "writer"), project=str(scene.project.public_id), **fields)

    assert (run.conversation.project, run.conversation.visibility) == (scene.project, visibility)
    assert run_state(run)["project"] == str(scene.project.public_id)


def test_token_starts_nothing_in_a_project_of_another_team(scene: Scene, other_team: Team) -> None:
    """Its person may write there, too."""
    writer = scene.people["writer"]
    Membership.objects.create(team=other_team, user=writer, role=TeamRole.MEMBER)
    elsewhere = Project.objects.create(team=other_team, name="Weir", access=ProjectAccess.TEAM)

    with pytest.raises(ApiError) as refused:
        ask(token_of(scene, "writer"), project=str(elsewhere.public_id))

    assert refused.value.code == "project_not_found"
    assert elsewhere in access.writable_projects(writer)


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"project": 7}, 400, "invalid_type"),
        ({"project": "x"}, 404, "project_not_found"),
        ({"project": str(uuid.uuid4())}, 404, "project_not_found"),
        ({"visibility": "project"}, 400, "invalid_value"),
        ({"project": str(uuid.uuid4()), "visibility": "team"}, 400, "invalid_value"),
    ],
)
def test_bad_requests_are_refused(
    scene: Scene, fields: dict[str, Any], status: int, code: str
) -> None:
    with pytest.raises(ApiError) as refused:
        ask(token_of(scene, "writer"), **fields)

    assert (refused.value.status, refused.value.code) == (status, code)


def test_programs_reach_what_their_owner_may_write_in(
    scene: Scene, subtests: pytest.Subtests
) -> None:
    elsewhere = Project.objects.create(team=scene.project.team, name="For all")
    wanted = {
        "manager": ["Bridge", "For all"],
        "writer": ["Bridge", "For all"],
        "reader": ["For all"],
        "member": ["For all"],
        "team owner": ["For all"],
        "viewer": [],
    }

    for name, names in wanted.items():
        with subtests.test(name):
            token = AccessToken(user=scene.people[name], team=scene.project.team)
            listed = project_list(token)["projects"]

            assert [each["name"] for each in listed] == names
            for project in (scene.project, elsewhere):
                assert starts(token, project) == (project.name in names)


def starts(token: AccessToken, project: Project) -> bool:
    before = Conversation.objects.count()
    with suppress(ApiError):
        ask(token, project=str(project.public_id))
    return Conversation.objects.count() > before


def test_project_of_another_team_does_not_exist(scene: Scene, other_team: Any) -> None:
    project = Project.objects.create(team=other_team, name="Theirs")

    assert not starts(token_of(scene, "writer"), project)


def test_later_messages_stay_where_they_are(scene: Scene) -> None:
    token = token_of(scene, "writer")
    first = ask(token)
    end_run(first)

    second = ask(
        token,
        previous_response_id=response_id_of(first.public_id),
        project=str(scene.project.public_id),
    )

    assert second.conversation.project is None
    assert str(PROJECT_LATER) in second.notes
