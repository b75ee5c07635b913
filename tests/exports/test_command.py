"""``manage.py export_conversations``."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from chat.models import (
    AuditEvent,
    Conversation,
    RunSegment,
    Team,
    User,
    Visibility,
)
from tests.support.rooms import Room

pytestmark = pytest.mark.django_db


def report_of(*arguments: str, folder: Path, form: str = "json") -> dict[str, Any]:
    out = StringIO()
    call_command(
        "export_conversations",
        *arguments,
        *("--format", form, "--out", str(folder), "--json"),
        stdout=out,
    )
    return dict(json.loads(out.getvalue()))


def titles(report: dict[str, Any]) -> list[str]:
    return [file["title"] for file in report["files"]]


@pytest.fixture
def rooms(team: Team, alice: User, bob: User) -> dict[str, Conversation]:
    """Two of Alice and two of Bob, one of each shared; one deleted, and one of a team that she left."""
    left = Team.objects.create(name="Left")
    made = [
        (alice, team, "Alice’s own", Visibility.PRIVATE),
        (alice, team, "Shared by Alice", Visibility.TEAM),
        (bob, team, "Bob’s own", Visibility.PRIVATE),
        (bob, team, "Shared by Bob", Visibility.TEAM),
        (alice, left, "Of another time", Visibility.PRIVATE),
        (alice, team, "Deleted", Visibility.TEAM),
        (alice, team, "Temporary", Visibility.TEAM),
    ]
    rows = {
        title: Conversation.objects.create(owner=owner, team=of, title=title, visibility=seen)
        for owner, of, title, seen in made
    }
    Conversation.objects.filter(title="Deleted").update(deleted_at=timezone.now())
    Conversation.objects.filter(title="Temporary").update(
        expires_at=timezone.now() + timedelta(days=1)
    )
    return rows


def test_person_gets_what_they_own_and_can_read(
    rooms: dict[str, Conversation], tmp_path: Path
) -> None:
    report = report_of("--user", "ALICE@example.org", folder=tmp_path)

    assert titles(report) == ["Alice’s own", "Shared by Alice"]
    assert {path.name for path in tmp_path.iterdir()} == {each["file"] for each in report["files"]}
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes == {each["file"]: each["bytes"] for each in report["files"]}


def test_team_gets_what_is_shared_with_it(rooms: dict[str, Conversation], tmp_path: Path) -> None:
    report = report_of("--team", rooms["Bob’s own"].team.name, folder=tmp_path)

    assert titles(report) == ["Shared by Alice", "Shared by Bob"]


def test_all_are_all_but_deleted_and_temporary_ones(
    rooms: dict[str, Conversation], tmp_path: Path
) -> None:
    report = report_of("--all", folder=tmp_path)

    assert titles(report) == [title for title in rooms if title not in ("Deleted", "Temporary")]


def test_export_is_audited_without_titles(rooms: dict[str, Conversation], tmp_path: Path) -> None:
    report_of("--user", "bob@example.org", folder=tmp_path)

    event = AuditEvent.objects.get(verb="conversation.export")
    assert event.subject is not None
    assert event.subject.email == "bob@example.org"
    assert event.detail == {"count": 2}


def test_conversations_of_one_title_are_several_files(
    rooms: dict[str, Conversation], tmp_path: Path
) -> None:
    Conversation.objects.update(title="../Same")

    report = report_of("--all", folder=tmp_path, form="markdown")

    assert report["exported"] == len(list(tmp_path.glob("Same-*.md"))) == 5


def test_second_export_replaces_the_files(rooms: dict[str, Conversation], tmp_path: Path) -> None:
    first = report_of("--all", folder=tmp_path, form="html")

    assert report_of("--all", folder=tmp_path, form="html") == first
    assert len(list(tmp_path.iterdir())) == 5


def test_log_that_cannot_be_read_is_refused_and_the_rest_exported(
    room: Room, rooms: dict[str, Conversation], tmp_path: Path
) -> None:
    room.turn("Hello")
    RunSegment.objects.update(body=b"not a log")
    out = StringIO()

    with pytest.raises(SystemExit) as ending:
        call_command(
            "export_conversations",
            *("--all", "--json", "--format", "json", "--out", str(tmp_path)),
            stdout=out,
        )

    report = json.loads(out.getvalue())
    assert ending.value.code == 1
    assert report["exported"] == 5
    (refused,) = report["refused"]
    assert refused["conversation"] == str(room.conversation.public_id)
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize("whose", [("--user", "nobody@example.org"), ("--team", "Nobody’s")])
def test_unknown_person_or_team_is_an_error(
    rooms: dict[str, Conversation], tmp_path: Path, whose: tuple[str, str]
) -> None:
    with pytest.raises(CommandError):
        report_of(*whose, folder=tmp_path)


def test_team_name_must_be_unambiguous(
    rooms: dict[str, Conversation], team: Team, tmp_path: Path
) -> None:
    Team.objects.create(name=team.name)

    with pytest.raises(CommandError, match="Several teams"):
        report_of("--team", team.name, folder=tmp_path)


def test_file_in_place_of_the_folder_is_an_error(
    rooms: dict[str, Conversation], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.touch()

    with pytest.raises(CommandError, match="no folder"):
        report_of("--all", folder=path)
