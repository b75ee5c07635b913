"""Exports as ZIP: what is in them, for whom, and for how long."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import access
from chat.exports import zip_job
from chat.jobs import actions
from chat.jobs.chunks import open_file
from chat.models import (
    AuditEvent,
    Conversation,
    Job,
    JobChunk,
    JobStatus,
    Membership,
    Project,
    RunSegment,
    Team,
    TeamRole,
    User,
    Visibility,
)
from tests.support.rooms import Room
from tests.transfers.work import work_once

SignedIn = Callable[[User], Client]
Rooms = dict[str, Conversation]


@pytest.fixture
def rooms(db: None, team: Team, alice: User, bob: User) -> Rooms:
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
    soon = timezone.now() + timedelta(days=1)
    Conversation.objects.filter(title="Deleted").update(deleted_at=timezone.now())
    Conversation.objects.filter(title="Temporary").update(expires_at=soon)
    return rows


def start(client: Client, what: str, form: str = "json") -> int:
    data = {"what": what, "form": form, "reason": "Report 12"}
    return client.post(reverse("export_start"), data).status_code


def archive_of(job: Job) -> zipfile.ZipFile:
    with open_file(job) as file:
        return zipfile.ZipFile(io.BytesIO(file.read()))


def titles_in(job: Job) -> set[str]:
    archive = archive_of(job)
    assert archive.testzip() is None
    return {json.loads(archive.read(name))["conversation"]["title"] for name in archive.namelist()}


OWN = {"Alice’s own", "Shared by Alice"}
SHARED = {"Shared by Alice", "Shared by Bob"}


def test_own_conversations(rooms: Rooms, alice: User, signed_in: SignedIn) -> None:
    assert start(signed_in(alice), "own") == 302

    job = work_once()

    assert (job.status, job.result["exported"]) == (JobStatus.DONE, 2)
    assert titles_in(job) == OWN
    event = AuditEvent.objects.get(verb="conversation.export")
    assert (event.actor, event.subject, event.detail["count"]) == (alice, alice, 2)


def test_team_is_exported_by_its_owner_alone(
    rooms: Rooms, team: Team, alice: User, bob: User, signed_in: SignedIn
) -> None:
    assert start(signed_in(bob), team.public_id.hex) == 422
    assert start(signed_in(alice), team.public_id.hex) == 302

    assert titles_in(work_once()) == SHARED


def test_team_export_has_what_its_open_projects_share(
    rooms: Rooms, team: Team, alice: User, bob: User, signed_in: SignedIn
) -> None:
    for kind, title in (("team", "In an open project"), ("members", "In a closed project")):
        project = Project.objects.create(team=team, name=title, access=kind)
        Conversation.objects.create(
            team=team, owner=bob, title=title, visibility=Visibility.PROJECT, project=project
        )

    start(signed_in(alice), team.public_id.hex)

    assert titles_in(work_once()) == {*SHARED, "In an open project"}


def test_everything_is_exported_by_administrators_alone(
    rooms: Rooms, alice: User, administrator: User, signed_in: SignedIn
) -> None:
    assert start(signed_in(alice), "all") == 422
    assert start(signed_in(administrator), "all") == 302

    assert titles_in(work_once()) == {*OWN, *SHARED, "Bob’s own", "Of another time"}


@pytest.mark.parametrize(("form", "suffix"), [("markdown", "md"), ("html", "html")])
def test_other_forms(
    rooms: Rooms, administrator: User, signed_in: SignedIn, form: str, suffix: str
) -> None:
    start(signed_in(administrator), "all", form)

    job = work_once()

    assert (job.result["exported"], job.result["refused"]) == (5, 0)
    archive = archive_of(job)
    names = archive.namelist()
    assert all(name.endswith(f".{suffix}") for name in names)
    assert "Alice’s own" in archive.read(names[0]).decode()


def test_what_is_made_private_meanwhile_is_not_in_it(
    rooms: Rooms,
    team: Team,
    alice: User,
    signed_in: SignedIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = zip_job._add

    def add_and_hide(*args: object) -> str:
        Conversation.objects.filter(title="Shared by Bob").update(visibility=Visibility.PRIVATE)
        return add(*args)

    monkeypatch.setattr(zip_job, "_add", add_and_hide)
    start(signed_in(alice), team.public_id.hex)

    assert titles_in(work_once()) == {"Shared by Alice"}


def test_owner_who_is_demoted_meanwhile_gets_nothing(
    rooms: Rooms, team: Team, alice: User, signed_in: SignedIn
) -> None:
    start(signed_in(alice), team.public_id.hex)
    Membership.objects.filter(user=alice).update(role=TeamRole.ADMIN)

    job = work_once()

    assert job.status == JobStatus.FAILED
    assert job not in access.jobs_of(alice)


def test_nothing_to_export_is_said_at_once(db: None, charlie: User, signed_in: SignedIn) -> None:
    response = signed_in(charlie).post(reverse("export_start"), {"what": "own", "form": "json"})

    assert response.status_code == 409
    assert "There are no conversations to export." in response.content.decode()


def test_conversation_that_cannot_be_read_is_named(
    room: Room, alice: User, signed_in: SignedIn
) -> None:
    room.turn("Hello")
    RunSegment.objects.update(body=b"not a log")
    client = signed_in(alice)
    start(client, "own")

    job = work_once()

    assert (job.status, job.result["refused"]) == (JobStatus.DONE, 1)
    assert "couldn’t be exported" in client.get(reverse("data")).content.decode()


def test_export_has_a_largest_size(
    rooms: Rooms, alice: User, signed_in: SignedIn, settings: object
) -> None:
    settings.EXPORT_BYTES = 100
    start(signed_in(alice), "own")

    job = work_once()

    assert job.status == JobStatus.FAILED
    assert "larger than 100 bytes" in job.error


def test_oldest_files_of_a_person_make_room(
    rooms: Rooms, alice: User, bob: User, signed_in: SignedIn, settings: object
) -> None:
    settings.EXPORTS_PER_PERSON = 2
    start(signed_in(bob), "own")
    kept = [work_once()]
    client = signed_in(alice)
    mine = []
    for _ in range(3):
        start(client, "own")
        mine.append(work_once())
    assert set(access.jobs_of(alice)) == set(mine[1:])

    # With room for the bytes of one.
    settings.EXPORT_BYTES = 1.5 * mine[0].size_bytes
    start(client, "own")
    kept.append(work_once())

    assert set(Job.objects.filter(expires_at__gt=timezone.now())) == set(kept)
    while actions.purge_some():
        pass
    assert set(JobChunk.objects.values_list("job", flat=True)) == {job.pk for job in kept}
