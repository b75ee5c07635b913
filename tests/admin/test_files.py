from __future__ import annotations

import pytest
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from chat.models import (
    Artifact,
    ArtifactVersion,
    AuditEvent,
    FetchStatus,
    Mockup,
    MockupFile,
    MockupVersion,
    Run,
    StoredFile,
    User,
)
from tests.files.conftest import PAGE, png

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def as_administrator(administrator: User, signed_in) -> Client:
    return signed_in(administrator)


def page_of(thing: Model) -> str:
    return reverse(f"admin:chat_{thing._meta.model_name}_change", args=[thing.pk])


def stored(run: Run, body: bytes, name: str = SCRIPT) -> StoredFile:
    return StoredFile.objects.create(
        conversation=run.conversation, name=name, body=body, size_bytes=len(body)
    )


@pytest.fixture
def version(private_run: Run) -> ArtifactVersion:
    artifact = Artifact.objects.create(conversation=private_run.conversation, artifact_id="a")
    return ArtifactVersion.objects.create(
        artifact=artifact, run=private_run, number=1, seq=2, title=SCRIPT, content=SCRIPT
    )


def test_whoever_opens_an_artifact_leaves_a_row(
    as_administrator: Client, administrator: User, version: ArtifactVersion
) -> None:
    page = as_administrator.get(page_of(version)).content.decode()

    assert SCRIPT not in page
    assert "&lt;script&gt;" in page
    row = AuditEvent.objects.get(verb="conversation.read_by_administrator")
    assert row.actor == administrator
    assert row.detail["artifact_version"] == version.pk


def test_a_list_shows_no_content_and_leaves_no_row(
    as_administrator: Client, version: ArtifactVersion, private_run: Run
) -> None:
    ArtifactVersion.objects.update(content="river-secret")
    stored(private_run, b"river-secret")

    for name in ("artifactversion", "storedfile", "mockupversion"):
        page = as_administrator.get(reverse(f"admin:chat_{name}_changelist"))
        assert page.status_code == 200
        assert b"river-secret" not in page.content
        assert SCRIPT.encode() not in page.content

    assert not AuditEvent.objects.filter(verb="conversation.read_by_administrator").exists()


@pytest.mark.parametrize(
    ("body", "shown"),
    [(png(), 'src="data:image/png;base64,'), (PAGE, "&lt;"), (b"\x00\xff", "SHA-256")],
    ids=["picture", "page", "binary"],
)
def test_a_stored_file_is_shown_as_what_it_is(
    as_administrator: Client, private_run: Run, body: bytes, shown: str
) -> None:
    page = as_administrator.get(page_of(stored(private_run, body))).content.decode()

    assert shown in page
    assert "<script>alert" not in page
    assert AuditEvent.objects.filter(verb="conversation.read_by_administrator").count() == 1


def test_a_mockup_names_its_files(as_administrator: Client, private_run: Run) -> None:
    mockup = Mockup.objects.create(conversation=private_run.conversation, bundle_id="b")
    version = MockupVersion.objects.create(mockup=mockup, run=private_run, number=1, seq=2)
    file = stored(private_run, PAGE)
    for path, status, held in (
        ("index.html", FetchStatus.STORED, file),
        (SCRIPT, FetchStatus.REFUSED, None),
    ):
        MockupFile.objects.create(version=version, path=path, status=status, file=held)

    page = as_administrator.get(page_of(version)).content.decode()

    assert page_of(file) in page
    assert "Not fetched" in page
    assert SCRIPT not in page


def test_a_file_of_no_conversation_is_not_there(as_administrator: Client, db: None) -> None:
    stray = StoredFile.objects.create(body=b"x")

    assert as_administrator.get(page_of(stray)).status_code == 404
