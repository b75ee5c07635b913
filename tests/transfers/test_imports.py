"""Imports over HTTP: upload, report, import, undo."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from chat.conversations.actions.messages import ModelChoice, retry
from chat.imports import actions as import_actions
from chat.imports import source
from chat.jobs import actions
from chat.jobs.chunks import CHUNK_BYTES
from chat.models import (
    Conversation,
    Import,
    Job,
    JobChunk,
    JobKind,
    JobStatus,
    Membership,
    Message,
    Team,
    TeamRole,
    Upstream,
    User,
)
from tests.imports.files import as_zip
from tests.imports.writers import Said, to_chatgpt
from tests.transfers.work import work_once

SignedIn = Callable[[User], Client]


def conversation(number: int) -> dict[str, Any]:
    said = [Said(-1, f"Question {number}?"), Said(0, f"Answer {number}.")]
    return {
        **to_chatgpt(said, 1),
        "id": f"c-{number}",
        "conversation_id": f"c-{number}",
        "title": f"Number {number}",
    }


def exported(*numbers: int, extra: tuple[object, ...] = ()) -> bytes:
    return json.dumps([*(conversation(number) for number in numbers), *extra]).encode()


@pytest.fixture
def client(db: None, alice: User, signed_in: SignedIn) -> Client:
    return signed_in(alice)


def upload(client: Client, team: Team, body: bytes, name: str = "conversations.json") -> Any:
    file = SimpleUploadedFile(name, body)
    return client.post(reverse("import_file"), {"file": file, "team": team.public_id.hex})


def post(client: Client, route: str, key: UUID, **data: str) -> int:
    return client.post(reverse(route, args=[key]), data).status_code


def page(client: Client) -> str:
    return client.get(reverse("data")).content.decode()


def titles() -> set[str]:
    shown = Conversation.objects.filter(deleted_at__isnull=True)
    return set(shown.values_list("title", flat=True))


def test_import_from_upload_to_undo(client: Client, team: Team, alice: User) -> None:
    damaged = {"id": "c-9", "title": "Odd"}
    assert upload(client, team, exported(1, 2, extra=(damaged,))).status_code == 302

    job = work_once()
    result = job.result
    assert (job.kind, job.status, job.error) == (JobKind.CHECK, JobStatus.DONE, "")
    assert (result["found"], result["created"], result["unread"]) == (3, 2, 1)
    assert result["not_understood"][0]["title"] == "Odd"
    assert not Conversation.objects.exists()
    assert "Import 2 conversations" in page(client)

    assert post(client, "import_confirm", job.public_id) == 302
    job = work_once()
    assert (job.kind, job.status) == (JobKind.IMPORT, JobStatus.DONE)
    assert titles() == {"Number 1", "Number 2"}
    assert set(Conversation.objects.values_list("owner", "visibility")) == {(alice.pk, "private")}
    assert "2 conversations imported" in page(client)

    assert post(client, "import_undo", job.batch.public_id) == 302
    job = work_once()
    assert (job.kind, job.result["deleted"]) == (JobKind.UNDO, 2)
    assert titles() == set()
    assert "Undone: 2 conversations moved to the trash" in page(client)


def test_report_says_what_was_imported_before_into_this_team(
    client: Client, team: Team, alice: User
) -> None:
    other = Team.objects.create(name="Springs")
    Membership.objects.create(team=other, user=alice, role=TeamRole.MEMBER)
    upload(client, team, exported(1))
    post(client, "import_confirm", work_once().public_id)
    work_once()

    upload(client, team, exported(1, 2))
    job = work_once()
    assert (job.result["created"], job.result["skipped"]) == (1, 1)

    assert post(client, "import_check", job.public_id, team=other.public_id.hex) == 302
    job = work_once()
    assert (job.team, job.result["created"], job.result["skipped"]) == (other, 2, 0)

    # Chosen beside the button that imports.
    assert post(client, "import_confirm", job.public_id, team=team.public_id.hex) == 302
    job = work_once()
    assert (job.kind, job.team, job.result["created"]) == (JobKind.CHECK, team, 1)
    assert Conversation.objects.count() == 1


def test_whole_file_is_refused_in_words(client: Client, team: Team) -> None:
    upload(client, team, b"[{")

    job = work_once()

    assert job.status == JobStatus.FAILED
    assert "incomplete or damaged" in job.error
    assert job.error in page(client)


def test_killed_reader_is_named_and_not_tried_on_the_same_bytes_again(
    client: Client, team: Team, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(source, "_READER", "tests.core.readers:hoarding")
    upload(client, team, exported(1))

    job = work_once()

    assert job.status == JobStatus.FAILED
    assert "needs more than 768 MB of memory" in job.error
    assert job.error in page(client)

    started: list[str] = []
    read = source.read_in_child
    monkeypatch.setattr(source, "_READER", "chat.imports.reader:read_export")
    monkeypatch.setattr(
        source,
        "read_in_child",
        lambda *args, **more: (started.append(args[0]), read(*args, **more))[1],
    )
    upload(client, team, exported(1), name="once-more.json")
    assert work_once().error == job.error
    assert started == []

    # Other bytes of the same length.
    upload(client, team, exported(2))
    assert work_once().status == JobStatus.DONE
    assert len(started) == 1

    # With more memory the same bytes are read again.
    settings.IMPORT_MEMORY_BYTES *= 2
    upload(client, team, exported(1), name="more-memory.json")
    assert work_once().status == JobStatus.DONE
    assert len(started) == 2


@pytest.mark.parametrize("by", ["bob", "viewer", "charlie", "administrator"])
def test_import_exists_for_its_person_alone(
    client: Client, team: Team, by: str, request: pytest.FixtureRequest, signed_in: SignedIn
) -> None:
    upload(client, team, exported(1))
    job = work_once()
    other = signed_in(request.getfixturevalue(by))

    for route in ("import_confirm", "import_check", "job_cancel", "job_delete"):
        assert post(other, route, job.public_id) == 404
    assert job.file_name not in page(other)


def test_viewer_imports_nothing(client: Client, team: Team, alice: User) -> None:
    upload(client, team, exported(1))
    job = work_once()
    Membership.objects.filter(user=alice).update(role=TeamRole.VIEWER)
    post(client, "import_confirm", job.public_id)

    assert work_once().status == JobStatus.FAILED
    assert not Conversation.objects.exists()
    assert upload(client, team, exported(2)).status_code == 422


def test_right_that_ends_meanwhile_ends_the_import(
    client: Client, team: Team, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(client, team, exported(1, 2, 3))
    post(client, "import_confirm", work_once().public_id)
    written = import_actions._written

    def write_and_demote(*args: Any) -> bool:
        Membership.objects.filter(user=alice).update(role=TeamRole.VIEWER)
        return written(*args)

    monkeypatch.setattr(import_actions, "_written", write_and_demote)

    assert work_once().status == JobStatus.FAILED
    assert Conversation.objects.count() == 1


def test_continued_conversation_survives_the_undoing(
    client: Client, team: Team, alice: User, upstream: Upstream
) -> None:
    upload(client, team, exported(1, 2))
    post(client, "import_confirm", work_once().public_id)
    work_once()
    answer = Message.objects.filter(role="assistant").first()
    assert answer is not None
    retry(alice, answer, choice=ModelChoice(upstream=upstream, model="m"), idempotency_key=uuid4())

    post(client, "import_undo", Import.objects.get().public_id)
    job = work_once()

    assert (job.result["deleted"], job.result["kept"]) == (1, 1)
    assert "Not deleted, because they were continued" in page(client)


def test_import_of_a_command_can_be_undone_here(client: Client, team: Team, alice: User) -> None:
    import_actions.import_file(alice, team, io.BytesIO(exported(1)))
    batch = Import.objects.get()
    assert "Import from ChatGPT" in page(client)

    post(client, "import_undo", batch.public_id)
    assert work_once().kind == JobKind.UNDO
    assert titles() == set()
    # It is over: nothing is queued by pressing the button of an old page again.
    post(client, "import_undo", batch.public_id)
    assert Job.objects.get().status == JobStatus.DONE


def test_file_is_deleted_after_the_import(client: Client, team: Team) -> None:
    upload(client, team, exported(1))
    job = work_once()
    while actions.purge_some():
        pass
    assert JobChunk.objects.exists()
    post(client, "import_confirm", job.public_id)
    work_once()

    while actions.purge_some():
        pass

    assert not JobChunk.objects.exists()
    assert Job.objects.exists()


# --- uploads in pieces ----------------------------------------------------------------------------


def begin(client: Client, team: Team, size: int, name: str = "big.zip") -> Any:
    data = {"team": team.public_id.hex, "name": name, "size": size}
    return client.post(reverse("import_upload"), data)


def send(client: Client, job: Job, number: int, body: bytes) -> int:
    address = reverse("import_piece", args=[job.public_id, number])
    return client.post(address, body, content_type="application/octet-stream").status_code


def test_pieces_become_the_file(client: Client, team: Team) -> None:
    members = {"conversations.json": exported(1), "noise.bin": os.urandom(CHUNK_BYTES + 1000)}
    body = as_zip(members).getvalue()
    told = begin(client, team, len(body)).json()
    job = Job.objects.get()
    assert told["pieces"] == f"/settings/data/{job.public_id}/piece/"
    first, second = body[:CHUNK_BYTES], body[CHUNK_BYTES:]

    assert send(client, job, 1, second) == 204
    # The response was lost, and the piece comes again.
    assert send(client, job, 1, second) == 204
    assert post(client, "import_upload_end", job.public_id) == 409
    assert send(client, job, 0, first) == 204
    assert post(client, "import_upload_end", job.public_id) == 204

    assert work_once().result["created"] == 1


def test_pieces_must_fit(client: Client, team: Team) -> None:
    begin(client, team, CHUNK_BYTES + 5)
    job = Job.objects.get()

    statuses = [
        send(client, job, number, body)
        for number, body in [
            (0, b"x" * (CHUNK_BYTES - 1)),
            (0, b"x" * (CHUNK_BYTES + 1)),
            (1, b"x" * 4),
            (1, b"x" * 6),
            (2, b""),
            (2, b"x"),
            (10**9, b"x"),
        ]
    ]

    assert statuses == [409] * 7
    assert not JobChunk.objects.exists()


def test_canceled_upload_takes_no_more(
    client: Client, team: Team, bob: User, signed_in: SignedIn
) -> None:
    begin(client, team, 5)
    job = Job.objects.get()
    assert send(signed_in(bob), job, 0, b"12345") == 404

    assert post(client, "job_cancel", job.public_id) == 302

    assert send(client, job, 0, b"12345") == 404
    assert post(client, "import_upload_end", job.public_id) == 404


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "empty"), (3000, "too large"), (-1, ""), ("", "")],
)
def test_upload_of_such_a_size_is_refused(
    client: Client, team: Team, settings: Any, size: Any, words: str
) -> None:
    settings.IMPORT_BYTES = 2000

    response = begin(client, team, size)

    assert response.status_code in (409, 422)
    assert words in response.content.decode()
    assert not Job.objects.exists()


def test_too_many_imports_at_once_are_refused(client: Client, team: Team) -> None:
    for _ in range(actions.MOST_ACTIVE):
        assert begin(client, team, 5).status_code == 200

    response = begin(client, team, 5)

    assert response.status_code == 409
    assert "in progress" in response.content.decode()
