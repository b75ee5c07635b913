"""Deleted files: their turns say so, and models still get the text that was read of them."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.documents.purge import delete_unused
from chat.files.deleting import delete_file
from chat.files.purge import erase_unused
from chat.files.storage import stored_bytes
from chat.forks.actions import fork
from chat.models import (
    Attachment,
    AuditEvent,
    Conversation,
    Document,
    FileContent,
    FileUse,
    Message,
    Project,
    StoredFile,
    Team,
    User,
)
from chat.runs.prompt import prepare
from tests.exports.check import html_of, json_of, markdown_of
from tests.imports.files import as_json
from tests.imports.test_importing import imported_file
from tests.imports.test_tributary import exported
from tests.runs.test_attached_files import question_of, request_of, text_for
from tests.support.answers import png
from tests.support.documents import attach_document, attach_file
from tests.support.rooms import Room, end_run, get_page, text_of
from tests.support.run_fixtures import MakeRun

pytestmark = pytest.mark.databases(slow=True)

KEPT = "File deleted. The model still gets its text."
LOST = "File deleted. The model doesn’t get it any more."


@pytest.fixture
def sent(room: Room, alice: User) -> Room:
    """A turn with a document, a picture and a document that is left to the model."""
    run = room.ask("What is it?")
    message = question_of(run)
    attach_document(message, "report.pdf", by=alice)
    attach_file(message, "river.png", png(), media_type="image/png", by=alice)
    attach_document(message, "long.pdf", ["All."], b"%PDF-2", by=alice, use=FileUse.TOOLS)
    end_run(run)
    return room


def files_in(room: Conversation) -> list[StoredFile]:
    rows = Attachment.objects.filter(message__conversation=room).order_by("position")
    return [each.file for each in rows.select_related("file")]


def purge() -> None:
    """All that runners delete in the background."""
    erase_unused()
    delete_unused()


def delete_all(user: User, room: Conversation) -> None:
    for file in files_in(room):
        file.conversation = room
        delete_file(user, file)
    purge()


def facts_on(client: Client, room: Room) -> list[str]:
    chips = get_page(client, room.url).xpath("//article//*[contains(@class, 'attachment-facts')]")
    return [text_of(each) for each in chips]


@pytest.mark.databases
def test_bytes_are_gone_and_the_rest_stays(sent: Room, alice: User) -> None:
    before = Conversation.objects.get(pk=sent.conversation.pk)

    delete_all(alice, sent.conversation)

    assert not FileContent.objects.exists()
    assert stored_bytes(alice) == 0
    assert [each.name for each in files_in(sent.conversation)] == [
        "report.pdf",
        "river.png",
        "long.pdf",
    ]
    assert {each.body for each in files_in(sent.conversation)} == {b""}
    assert Document.objects.count() == 2
    after = Conversation.objects.get(pk=sent.conversation.pk)
    turn = Message.objects.get(attachments__file__name="report.pdf")
    # Every open page shows the turn again.
    assert turn.revision == after.revision > before.revision
    assert after.updated_at == before.updated_at
    events = AuditEvent.objects.filter(verb="conversation.file_deleted")
    assert events.count() == 3


def test_chips_say_it(sent: Room, alice: User, as_bob: Client) -> None:
    delete_all(alice, sent.conversation)

    assert facts_on(as_bob, sent) == [KEPT, LOST, f"{KEPT} · read with tools"]
    page = get_page(as_bob, sent.url)
    assert page.xpath("//ul[@class='attached']//img") == []
    files = get_page(as_bob, reverse("conversation_files", args=[sent.conversation.public_id]))
    assert text_of(files).count("File deleted.") == 3
    assert files.xpath("//a[contains(@href, '?download')]") == []


def test_page_of_a_deleted_file_shows_its_text(sent: Room, alice: User, as_bob: Client) -> None:
    document, picture, _ = files_in(sent.conversation)
    delete_all(alice, sent.conversation)

    shown = get_page(as_bob, reverse("file_source", args=[document.public_id]))
    assert KEPT in text_of(shown)
    assert "The second page." in text_of(shown)
    assert shown.xpath("//form[contains(@action, '/delete/')]") == []
    assert LOST in text_of(get_page(as_bob, reverse("file_source", args=[picture.public_id])))
    assert as_bob.get(reverse("file", args=[document.public_id])).status_code == 404


def test_person_who_attached_it_deletes_a_file_on_its_page(
    sent: Room, as_alice: Client, as_viewer: Client
) -> None:
    file = files_in(sent.conversation)[0]
    address = reverse("file_source", args=[file.public_id])
    (form,) = get_page(as_alice, address).xpath("//form[contains(@action, '/delete/')]")
    assert get_page(as_viewer, address).xpath("//form[contains(@action, '/delete/')]") == []
    assert as_viewer.post(form.get("action")).status_code == 403

    response = as_alice.post(form.get("action"))

    assert response.url == address
    assert KEPT in text_of(get_page(as_alice, address))
    # A second tab may still show the button.
    assert as_alice.post(form.get("action")).status_code == 403


def test_model_gets_the_text_that_was_recorded(make_run: MakeRun, alice: User) -> None:
    run = make_run(dialect="openai_chat", options={"documents": "file"})
    question = question_of(run)
    attach_document(question, "report.pdf", pages="2", by=alice)
    attach_document(question, "whole.pdf", ["Whole."], b"%PDF-2", by=alice)
    attach_document(question, "long.pdf", ["All."], b"%PDF-3", by=alice, use=FileUse.TOOLS)
    attach_file(question, "river.png", png(), media_type="image/png", by=alice)
    before = text_for(run)
    delete_all(alice, run.conversation)

    parts, notes = request_of(run)

    after = text_for(run)
    assert len(parts) == 1
    assert all(each in after for each in before.split("\n\n"))
    assert "Whole." in after
    assert notes == [
        "The text of “whole.pdf” was sent: the file itself can’t be read any more.",
        "“river.png” was left out: the file was deleted.",
    ]
    assert prepare(run.pk).prompt.tools


def test_file_that_nobody_had_read_is_left_out(make_run: MakeRun, alice: User) -> None:
    run = make_run(dialect="openai_chat")
    attach_file(question_of(run), by=alice)
    delete_all(alice, run.conversation)

    assert request_of(run) == (["Hello"], ["“report.pdf” was left out: the file was deleted."])


def test_exports_keep_names_and_texts(sent: Room, alice: User, team: Team) -> None:
    delete_all(alice, sent.conversation)

    made = json_of(alice, sent.conversation)
    assert made.contents == {}
    assert all(each.deleted_at for each in made.files)
    assert "The second page." in (made.turns[0].documents[0].text or "")
    assert "report.pdf (application/pdf, file deleted)" in markdown_of(alice, sent.conversation)
    page = html_of(alice, sent.conversation)
    assert "The second page." in page
    assert page.count("file deleted") == 2

    report = imported_file(alice, team, as_json(json.loads(exported(alice, sent.conversation))))
    copy = Conversation.objects.get(imported_from__isnull=False)
    assert [each.name for each in files_in(copy)] == ["report.pdf.txt", "long.pdf.txt"]
    assert len(report.left_out) == 3


def test_downloads_and_forks_go_on(sent: Room, alice: User, as_alice: Client) -> None:
    delete_all(alice, sent.conversation)

    archive = as_alice.get(reverse("conversation_zip", args=[sent.conversation.public_id]))
    assert zipfile.ZipFile(io.BytesIO(archive.content)).namelist() == []
    copy = fork(alice, sent.conversation, idempotency_key=uuid.uuid4())
    assert facts_on(as_alice, Room(copy, sent.upstream)) == [
        KEPT,
        LOST,
        f"{KEPT} · read with tools",
    ]
    sent.conversation.delete()
    purge()
    assert Document.objects.count() == 2
    copy.delete()
    purge()
    assert not Document.objects.exists()


def test_same_bytes_elsewhere_stay(sent: Room, alice: User, make_run: MakeRun) -> None:
    other = attach_document(question_of(make_run()), "other.pdf", by=alice)

    delete_all(alice, sent.conversation)

    assert StoredFile.objects.get(pk=other.file_id).body


@pytest.mark.databases
def test_administrators_delete_old_files(
    sent: Room, team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    old, shared, _ = files_in(sent.conversation)
    past = timezone.now() - timedelta(days=40)
    StoredFile.objects.filter(pk__in=[old.pk, shared.pk]).update(created_at=past)
    project = Project.objects.create(team=team, name="Rivers")
    StoredFile.objects.filter(pk=shared.pk).update(project=project)

    call_command("delete_files", older_than=30)

    assert "Deleted 1 file" in capsys.readouterr().out
    # The file of a project stays.
    assert [each.is_deleted for each in files_in(sent.conversation)] == [True, False, False]
    call_command("delete_files", older_than=30)
    assert "Deleted 0 files" in capsys.readouterr().out
    assert AuditEvent.objects.get(verb="installation.files_deleted").detail == {"count": 1}
