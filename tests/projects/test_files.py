"""Files that a project shares: who reads, adds and sends them, and how long they stay."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.test import Client
from django.utils import timezone

from chat import access
from chat.conversations.actions.messages import ModelChoice, edit_message, send_message
from chat.core.errors import ActionRefused
from chat.dialects.base import Image
from chat.exports.json_form import write_json
from chat.exports.reading import read_source
from chat.files.actions import new_file
from chat.models import (
    AuditEvent,
    Conversation,
    Document,
    Job,
    JobKind,
    Message,
    Project,
    ProjectAccess,
    QueuedFile,
    Run,
    SearchKind,
    SearchRow,
    StoredFile,
    UnsentFile,
    Upstream,
    User,
    Visibility,
)
from chat.organization.purge import erase_one
from chat.projects import files
from chat.projects.actions import delete_project, move_conversation
from chat.runs.prompt import prepare
from chat.search.sources import backfill, missing, outdated
from tests.projects.conftest import Scene
from tests.support.answers import png
from tests.support.files import add_to_draft, ids_in
from tests.support.rooms import filled_form, get_page

SignIn = Callable[[User], Client]
Say = Callable[..., Run]
OFFERED = "//button[@name='shared']/@value"

pytestmark = pytest.mark.databases(slow=True)


@pytest.fixture
def writer(scene: Scene) -> User:
    return scene.people["writer"]


@pytest.fixture
def map_file(scene: Scene, writer: User) -> StoredFile:
    return files.add_file(writer, scene.project, new_file("map.png", png()))


@pytest.fixture
def say(scene: Scene, upstream: Upstream) -> Say:
    """A message of the conversation's owner, with these files, as it is sent from the queue."""

    def say(*shared: StoredFile, room: Conversation = scene.room) -> Run:
        return send_message(
            room.owner,
            room,
            parent=None,
            text="Look at this.",
            choice=ModelChoice(upstream=upstream, model="demo/model"),
            idempotency_key=uuid.uuid4(),
            attachments=[QueuedFile(file=each) for each in shared],
        )

    return say


def readers_of(scene: Scene, file: StoredFile) -> set[str]:
    return {name for name, person in scene.people.items() if reads(person, file)}


def reads(person: User, file: StoredFile) -> bool:
    try:
        access.get_file(person, file.public_id)
    except Http404:
        return False
    return True


# --- in the project ----------------------------------------------------------------------------


def test_readers_of_the_project_read_its_files(scene: Scene, map_file: StoredFile) -> None:
    expected = {"manager", "viewing manager", "writer", "reader"}

    assert readers_of(scene, map_file) == expected
    for name, person in scene.people.items():
        offered = access.shared_files(person, scene.project.pk)
        assert list(offered) == ([map_file] if name in expected else [])


@pytest.mark.databases
def test_writers_add_and_remove_files(scene: Scene, subtests: pytest.Subtests) -> None:
    for number, (name, person) in enumerate(scene.people.items()):
        picture = new_file(f"{number}.png", png())
        with subtests.test(name):
            if name in ("manager", "writer"):
                files.remove_file(person, files.add_file(person, scene.project, picture))
            else:
                with pytest.raises(PermissionDenied):
                    files.add_file(person, scene.project, picture)
    verbs = AuditEvent.objects.order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["project.file_added", "project.file_removed"] * 2
    assert not StoredFile.objects.exists()


@pytest.mark.databases
def test_same_file_is_stored_once(scene: Scene, writer: User, map_file: StoredFile) -> None:
    again = files.add_file(writer, scene.project, new_file("map.png", png()))

    assert again == map_file
    assert scene.project.files.count() == 1


def test_number_of_files_is_limited(
    scene: Scene, writer: User, map_file: StoredFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 1)

    with pytest.raises(ActionRefused, match="up to 1 file"):
        files.add_file(writer, scene.project, new_file("other.png", png()))


# --- in messages -------------------------------------------------------------------------------


def test_composer_offers_and_sends_them(
    signed_in: SignIn, scene: Scene, writer: User, upstream: Upstream, map_file: StoredFile
) -> None:
    client = signed_in(writer)
    address = f"/c/{scene.room.public_id}/"
    place = scene.room.public_id.hex

    offered = get_page(client, address).xpath(OFFERED)
    added = [add_to_draft(client, place, shared=offered[0]) for _ in range(2)]
    response = client.post(f"{address}send/", filled_form(upstream, files=ids_in(added[1])[0]))

    assert offered == [str(map_file.public_id)]
    assert response.status_code == 302
    assert [each.file for each in Message.objects.get(author=writer).attachments.all()] == [
        map_file
    ]
    assert StoredFile.objects.count() == 1


def test_new_conversation_offers_and_sends_them(
    signed_in: SignIn, scene: Scene, writer: User, upstream: Upstream, map_file: StoredFile
) -> None:
    client = signed_in(writer)
    project = scene.project

    offered = get_page(client, f"/?project={project.public_id}").xpath(OFFERED)
    added = add_to_draft(client, f"new-{project.public_id.hex}", shared=offered[0])
    data = filled_form(
        upstream,
        team=project.team.public_id,
        project=project.public_id,
        files=ids_in(added)[0],
    )
    client.post("/c/", data)

    assert offered == [str(map_file.public_id)]
    assert Message.objects.get(author=writer).attachments.get().file == map_file


def test_owner_outside_of_the_project_is_offered_none(
    signed_in: SignIn, scene: Scene, upstream: Upstream, map_file: StoredFile
) -> None:
    client = signed_in(scene.people["owner"])
    address = f"/c/{scene.room.public_id}/"
    place, shared = scene.room.public_id.hex, str(map_file.public_id)

    assert not get_page(client, address).xpath(OFFERED)
    assert add_to_draft(client, place, shared=shared).status_code == 409
    response = client.post(f"{address}send/", filled_form(upstream, files=shared))

    assert response.status_code == 409
    assert not Message.objects.exists()


def test_who_leaves_the_project_sends_none_of_its_files(
    signed_in: SignIn, scene: Scene, upstream: Upstream, map_file: StoredFile
) -> None:
    owner = scene.people["owner"]
    row = UnsentFile.objects.create(user=owner, place=scene.room.public_id.hex, file=map_file)
    data = filled_form(upstream, files=map_file.public_id)

    response = signed_in(owner).post(f"/c/{scene.room.public_id}/send/", data)

    assert response.status_code == 409
    assert not reads(owner, map_file)
    assert not access.unsent_files(owner, row.place)


def test_files_of_other_projects_are_refused(say: Say, scene: Scene, map_file: StoredFile) -> None:
    other = Project.objects.create(team=scene.project.team, name="Other")
    StoredFile.objects.update(project=other)

    with pytest.raises(ActionRefused, match="no longer in the project"):
        say(map_file)
    assert not Message.objects.exists()


def test_too_many_files_are_refused(
    signed_in: SignIn, scene: Scene, writer: User, upstream: Upstream, settings: Any
) -> None:
    settings.PICTURES_PER_MESSAGE = 1
    added = [
        files.add_file(writer, scene.project, new_file(f"{number}.png", png())) for number in "12"
    ]
    # Added by two tabs at the same moment.
    for each in added:
        UnsentFile.objects.create(user=writer, place=scene.room.public_id.hex, file=each)
    data = {**filled_form(upstream), "files": [str(each.public_id) for each in added]}

    response = signed_in(writer).post(f"/c/{scene.room.public_id}/send/", data)

    assert (response.status_code, Message.objects.count()) == (409, 0)


@pytest.mark.usefixtures("file_place")
def test_server_is_sent_the_bytes(say: Say, map_file: StoredFile) -> None:
    (turn,) = prepare(say(map_file).pk, may_read_storage=True).prompt.turns

    assert [image.media_type for image in turn.parts_of(Image)] == ["image/png"]


def test_edit_keeps_them(say: Say, upstream: Upstream, map_file: StoredFile, writer: User) -> None:
    question = say(map_file).message.parent
    files.remove_file(writer, map_file)

    run = edit_message(
        question.author,
        question,
        text="Look again.",
        choice=ModelChoice(upstream=upstream, model="demo/model"),
        idempotency_key=uuid.uuid4(),
    )

    assert run.message.parent.attachments.get().file == map_file


# --- how long they stay ------------------------------------------------------------------------


def test_sent_file_is_read_by_who_reads_the_message(
    say: Say, scene: Scene, map_file: StoredFile
) -> None:
    in_project = readers_of(scene, map_file)

    say(map_file)

    assert readers_of(scene, map_file) == in_project | {"owner"}


def test_removed_file_stays_where_it_was_sent(
    say: Say, scene: Scene, writer: User, map_file: StoredFile
) -> None:
    say(map_file)

    files.remove_file(writer, map_file)

    assert not access.shared_files(writer, scene.project.pk)
    assert readers_of(scene, map_file) == {
        "manager",
        "viewing manager",
        "writer",
        "reader",
        "owner",
    }


@pytest.mark.parametrize("is_sent", [True, False])
def test_deleted_project_leaves_what_was_sent(
    say: Say, scene: Scene, map_file: StoredFile, *, is_sent: bool
) -> None:
    if is_sent:
        say(map_file)

    delete_project(scene.people["manager"], scene.project)

    assert StoredFile.objects.count() == is_sent
    assert readers_of(scene, map_file) == ({"owner"} if is_sent else set())


def test_moved_conversation_keeps_its_files(say: Say, scene: Scene, map_file: StoredFile) -> None:
    say(map_file)
    move_conversation(scene.room.owner, scene.room, None)

    assert reads(scene.room.owner, map_file)
    scene.is_for(ProjectAccess.TEAM)
    assert reads(scene.people["member"], map_file)


@pytest.mark.databases
def test_removed_file_goes_with_the_last_conversation(
    say: Say, scene: Scene, writer: User, map_file: StoredFile
) -> None:
    room = scene.room
    other = Conversation.objects.create(
        team=room.team, owner=room.owner, project=room.project, visibility=Visibility.PRIVATE
    )
    say(map_file)
    say(map_file, room=other)
    files.remove_file(writer, map_file)
    counts = []

    for erased in (room, other):
        Conversation.objects.filter(pk=erased.pk).update(
            deleted_at=timezone.now() - timedelta(days=400)
        )
        Run.objects.update(status="completed")
        assert erase_one()
        counts.append(StoredFile.objects.count())

    assert counts == [1, 0]


def test_documents_are_read_when_they_are_added(scene: Scene, writer: User) -> None:
    files.add_file(writer, scene.project, new_file("notes.md", b"# Notes"))

    assert Document.objects.get().read_at is None
    assert Job.objects.get().kind == JobKind.READ


# --- search and export -------------------------------------------------------------------------


def test_sent_file_is_found_once(say: Say, scene: Scene, map_file: StoredFile) -> None:
    room = scene.room
    other = Conversation.objects.create(
        team=room.team, owner=room.owner, project=room.project, visibility=Visibility.PRIVATE
    )
    rows = SearchRow.objects.filter(kind=SearchKind.FILE)
    assert not rows
    say(map_file)
    say(map_file, room=other)
    assert [row.conversation for row in rows.all()] == [room]

    room.delete()
    for _ in backfill():
        pass

    assert [row.conversation for row in rows.all()] == [other]
    assert (missing(SearchKind.FILE).count(), outdated().count()) == (0, 0)


def test_export_has_sent_files_only(
    say: Say, scene: Scene, writer: User, map_file: StoredFile
) -> None:
    files.add_file(writer, scene.project, new_file("unsent.png", png()))
    say(map_file)

    export = b"".join(write_json(read_source(scene.room.owner, scene.room)))

    assert b"map.png" in export
    assert b"unsent.png" not in export
