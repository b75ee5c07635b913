"""Artifacts, mockups and stored files in the administration."""

from __future__ import annotations

import pytest
from django.test import Client

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
from tests.administration.pages import list_url, row_url, text_of
from tests.support.answers import PAGE, png
from tests.support.files import store_file
from tests.support.reasons import give_reason

SCRIPT = "<script>alert(1)</script>"
READ = "conversation.read_by_administrator"


@pytest.fixture(autouse=True)
def reason(administrator: User, private_run: Run) -> None:
    give_reason(administrator, private_run.conversation)


def stored(run: Run, body: bytes, name: str = SCRIPT) -> StoredFile:
    return store_file(conversation=run.conversation, name=name, body=body, size_bytes=len(body))


@pytest.fixture
def version(private_run: Run) -> ArtifactVersion:
    artifact = Artifact.objects.create(conversation=private_run.conversation, artifact_id="a")
    return ArtifactVersion.objects.create(
        artifact=artifact, run=private_run, number=1, seq=2, title=SCRIPT, content=SCRIPT
    )


def test_reading_an_artifact_is_recorded(
    admin_client: Client, administrator: User, version: ArtifactVersion
) -> None:
    page = text_of(admin_client, row_url(version))

    assert SCRIPT not in page
    assert "&lt;script&gt;" in page
    event = AuditEvent.objects.get(verb=READ)
    assert event.actor == administrator
    assert event.detail["artifact_version"] == version.pk


def test_lists_show_no_content_and_are_not_recorded(
    admin_client: Client, version: ArtifactVersion, private_run: Run
) -> None:
    ArtifactVersion.objects.update(content="river-secret")
    stored(private_run, b"river-secret")

    for model in ("artifactversion", "storedfile", "mockupversion"):
        page = text_of(admin_client, list_url(model))
        assert "river-secret" not in page
        assert SCRIPT not in page

    assert not AuditEvent.objects.filter(verb=READ).exists()


@pytest.mark.parametrize(
    ("body", "shown"),
    [(png(), 'src="data:image/png;base64,'), (PAGE, "&lt;"), (b"\x00\xff", "SHA-256")],
    ids=["picture", "page", "binary"],
)
def test_stored_file_is_shown_by_its_bytes(
    admin_client: Client, private_run: Run, body: bytes, shown: str
) -> None:
    page = text_of(admin_client, row_url(stored(private_run, body)))

    assert shown in page
    assert "<script>alert" not in page
    assert AuditEvent.objects.filter(verb=READ).count() == 1


def test_mockup_lists_its_files(admin_client: Client, private_run: Run) -> None:
    mockup = Mockup.objects.create(conversation=private_run.conversation, bundle_id="b")
    version = MockupVersion.objects.create(mockup=mockup, run=private_run, number=1, seq=2)
    file = stored(private_run, PAGE)
    for path, status, held in (
        ("index.html", FetchStatus.STORED, file),
        (SCRIPT, FetchStatus.REFUSED, None),
    ):
        MockupFile.objects.create(version=version, path=path, status=status, file=held)

    page = text_of(admin_client, row_url(version))

    assert row_url(file) in page
    assert "Not downloaded" in page
    assert SCRIPT not in page


def test_file_without_a_conversation_is_not_found(admin_client: Client) -> None:
    stray = store_file(body=b"x")

    assert admin_client.get(row_url(stray)).status_code == 404
