"""Documents in our own exports and imports, and in forks: the file, the pages, the use, and the text as sent."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from chat.documents.actions import documents_of
from chat.documents.purge import queue_forgotten
from chat.exports.json_form import write_json
from chat.exports.reading import read_source
from chat.forks.actions import fork
from chat.models import Attachment, Conversation, Document, FileUse, Job, JobKind, Team, User
from tests.documents.work import read_queued
from tests.exports.check import html_of, markdown_of, problems_in_html, problems_in_markdown
from tests.imports.files import as_json
from tests.imports.test_importing import imported_file
from tests.imports.test_tributary import exported, restored
from tests.support.documents import PDF_BYTES, attach_document, attach_file, refuse
from tests.support.rooms import Room, end_run

HOSTILE = "<img src=x>`\u202e|.pdf"
CHOICES = [("2", "content"), ("", "tools"), ("", "content")]


@pytest.fixture
def sent(room: Room) -> Room:
    """A message with a document of which a page was sent, one for the model to read, and one that nobody can read."""
    run = room.ask("What do they say?")
    message = run.message.parent
    assert message is not None
    attach_document(message, HOSTILE, ["One.", "<b>Two</b>."], pages="2")
    attach_document(message, "long.pdf", ["All."], body=b"%PDF-2", use=FileUse.TOOLS)
    refuse(attach_file(message, "locked.pdf", b"%PDF-3").file)
    end_run(run)
    return room


def choices_in(room: Conversation) -> list[tuple[str, str]]:
    rows = Attachment.objects.filter(message__conversation=room).order_by("position")
    return list(rows.values_list("pages", "use"))


def test_json_has_what_was_sent(sent: Room, alice: User) -> None:
    (turn, _) = json.loads(exported(alice, sent.conversation))["turns"]

    pages = [(each["pages"], each["use"]) for each in turn["documents"]]
    texts = [each["text"] for each in turn["documents"]]
    assert [each["file"] for each in turn["documents"]] == turn["attachments"]
    assert pages == CHOICES
    assert "<b>Two</b>." in texts[0]
    assert "One." not in texts[0]
    assert "All." in texts[1]
    assert texts[2] is None


def test_text_of_documents_is_text_in_other_forms(sent: Room, alice: User) -> None:
    written = markdown_of(alice, sent.conversation)
    page = html_of(alice, sent.conversation)

    assert problems_in_markdown(written) == []
    assert problems_in_html(page) == []
    assert "<b>Two</b>." in written
    assert "&lt;b&gt;Two&lt;/b&gt;." in page
    assert "pages 2" in page
    assert "<img src=x>" not in page


def test_import_restores_files_pages_and_use(sent: Room, alice: User, team: Team) -> None:
    before = exported(alice, sent.conversation)

    copy = restored(alice, team, before)

    after = exported(alice, copy)
    assert choices_in(copy) == CHOICES
    assert (
        json.loads(after)["turns"][0]["documents"][0]["text"]
        == (json.loads(before)["turns"][0]["documents"][0]["text"])
    )
    files = Attachment.objects.filter(message__conversation=copy).order_by("position")
    assert [each.file.body for each in files] == [PDF_BYTES, b"%PDF-2", b"%PDF-3"]


def test_documents_of_an_import_are_read_after_it(sent: Room, alice: User, team: Team) -> None:
    body = exported(alice, sent.conversation)
    Document.objects.all().delete()

    copy = restored(alice, team, body)

    # The last one is no PDF file that could be read.
    assert Document.objects.filter(read_at=None).count() == 3
    assert not Job.objects.filter(kind=JobKind.READ).exists()
    queue_forgotten()
    assert read_queued() == 3
    files = Attachment.objects.filter(message__conversation=copy)
    assert len(documents_of(each.file for each in files)) == 3


def test_text_of_an_import_is_that_of_its_bytes_alone(sent: Room, alice: User, team: Team) -> None:
    value = json.loads(exported(alice, sent.conversation))
    for each in value["turns"][0]["documents"]:
        each["text"] = "Lies."
    documents = Document.objects.count()

    copy = restored(alice, team, json.dumps(value).encode())

    assert Document.objects.count() == documents
    assert "Lies." not in exported(alice, copy).decode()


def test_export_without_files_becomes_the_texts_that_were_sent(
    sent: Room, alice: User, team: Team
) -> None:
    body = b"".join(write_json(read_source(alice, sent.conversation), with_contents=False))

    report = imported_file(alice, team, as_json(json.loads(body)))

    copy = Conversation.objects.get(imported_from__isnull=False)
    files = Attachment.objects.filter(message__conversation=copy).order_by("position")
    assert [(each.file.name, each.file.media_type) for each in files] == [
        (f"{HOSTILE}.txt", "text/plain"),
        ("long.pdf.txt", "text/plain"),
    ]
    assert "<b>Two</b>." in files[0].file.body.decode()
    assert choices_in(copy) == [("", "content"), ("", "tools")]
    assert ["is attached instead" in note.reason for note in report.left_out] == [True, True, False]


WRONG: dict[str, Any] = {
    "pages that are none": {"pages": "<b>"},
    "too many pages": {"pages": "1, " * 100},
    "another use": {"use": "magic"},
    "a file that is not attached": {"file": "00000000-0000-4000-8000-000000000000"},
    "a text that is none": {"text": 5},
}


def test_wrong_documents_are_refused(
    sent: Room, alice: User, team: Team, subtests: pytest.Subtests
) -> None:
    body = exported(alice, sent.conversation)
    for label, members in WRONG.items():
        with subtests.test(msg=label):
            value = json.loads(body)
            value["turns"][0]["documents"][0] |= members

            report = imported_file(alice, team, as_json(value))

            assert report.created == 0


def test_forks_share_what_was_sent(sent: Room, alice: User) -> None:
    documents = Document.objects.count()

    copy = fork(alice, sent.conversation, idempotency_key=uuid.uuid4())

    assert choices_in(copy) == CHOICES
    assert Document.objects.count() == documents
    before, after = (
        json.loads(exported(alice, each))["turns"][0]["documents"]
        for each in (sent.conversation, copy)
    )
    assert [each["text"] for each in after] == [each["text"] for each in before]
