"""What exports say of a conversation's project, to those who read it and to those who don't."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from chat.conversations.actions.messages import ModelChoice, send_message
from chat.exports.json_form import write_json
from chat.exports.reading import read_source
from chat.models import Project, Run, Upstream, User
from chat.projects.actions import move_conversation
from chat.runs.prompt import prepare
from tests.projects.conftest import Scene

pytestmark = pytest.mark.databases(slow=True)


@pytest.fixture
def run(scene: Scene, upstream: Upstream) -> Run:
    """A run that was sent with the instructions of the project."""
    Project.objects.update(instructions="Answer in German.")
    run = send_message(
        scene.room.owner,
        scene.room,
        parent=None,
        text="How long is it?",
        choice=ModelChoice(upstream=upstream, model="demo/model"),
        idempotency_key=uuid.uuid4(),
    )
    prepare(run.pk)
    return run


def exported(scene: Scene, reader: User) -> tuple[str | None, str]:
    """The project's name and the instructions of the only run."""
    scene.room.refresh_from_db()
    file: Any = json.loads(b"".join(write_json(read_source(reader, scene.room))))
    (sent,) = file["turns"][1]["runs"]
    return file["conversation"]["project"], sent["instructions"]


def test_readers_of_the_project_get_its_name_and_instructions(scene: Scene, run: Run) -> None:
    assert exported(scene, scene.people["reader"]) == ("Bridge", "Answer in German.")
    assert exported(scene, scene.people["owner"]) == (None, "")


def test_instructions_stay_those_of_their_project(scene: Scene, run: Run) -> None:
    other = Project.objects.create(team=scene.project.team, name="Dam")

    move_conversation(scene.room.owner, scene.room, other)

    assert exported(scene, scene.people["reader"]) == ("Dam", "Answer in German.")
    assert exported(scene, scene.people["member"]) == ("Dam", "")
