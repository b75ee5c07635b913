"""Files of drafts: whose they are, what of them is sent, and how long they wait."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.http import Http404
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import access
from chat.conversations.actions.messages import ModelChoice, edit_message
from chat.files import unsent
from chat.files.actions import ChosenUnsent, new_file
from chat.files.unsent import purge_unsent
from chat.message_queue.actions import enqueue
from chat.models import (
    Attachment,
    Conversation,
    Document,
    DocumentPage,
    FileUse,
    Job,
    JobKind,
    Message,
    QueuedFile,
    QueuedMessage,
    StoredFile,
    UnsentFile,
    Upstream,
    User,
)
from tests.support.answers import png
from tests.support.files import SCRIPT, add_to_draft, ids_in
from tests.support.rooms import Room, filled_form, get_page

pytestmark = pytest.mark.databases(slow=True)

SignIn = Callable[[User], Client]
EVIL = "<img src=x onerror=alert(1)>.txt"


@pytest.fixture
def place(conversation: Conversation) -> str:
    return conversation.public_id.hex


def test_tab_that_missed_files_asks_for_all_chips(
    as_alice: Client, as_bob: Client, place: str
) -> None:
    added = add_to_draft(as_alice, place, SimpleUploadedFile(EVIL, b"<b>"))
    address = reverse("unsent_add", args=[place])

    assert ids_in(as_alice.get(address, headers=SCRIPT)) == ids_in(added)
    assert as_bob.get(address, headers=SCRIPT).content.strip() == b""
    # A link from elsewhere leads to the page.
    assert as_alice.get(address).status_code == 302


@pytest.fixture
def report(alice: User, place: str) -> UnsentFile:
    """A document of twelve pages that was read."""
    row = unsent.upload(alice, place, new_file("report.pdf", b"%PDF-1.7 twelve pages"))
    read(row, pages=12)
    return row


def read(row: UnsentFile, *, pages: int, refusal: str = "") -> Document:
    """As if a runner had read the document."""
    document = Document.objects.get(sha256=row.file.sha256)
    texts = [f"What page {number} says. " * 10 for number in range(1, pages + 1)]
    DocumentPage.objects.bulk_create(
        DocumentPage(document=document, number=number, text=text)
        for number, text in enumerate(texts, start=1)
    )
    document.read_at, document.refusal = timezone.now(), refusal
    document.pages_count, document.characters = pages, sum(map(len, texts))
    document.save()
    return document


def address(row: UnsentFile, part: str = "file") -> str:
    return reverse(f"unsent_{part}", args=[row.place, row.file.public_id])


# --- a draft -----------------------------------------------------------------------------------


def test_document_is_read_from_its_upload_on(alice: User, place: str) -> None:
    row = unsent.upload(alice, place, new_file("notes.md", b"# Notes"))

    assert (row.file.conversation, row.file.created_by) == (None, alice)
    assert Document.objects.get().sha256 == row.file.sha256
    assert Job.objects.get().kind == JobKind.READ


def test_page_shows_the_files_of_its_draft(
    alice_client: Client, conversation: Conversation, report: UnsentFile
) -> None:
    unsent.upload(report.user, "new", new_file("elsewhere.txt", b"Text."))

    page = get_page(alice_client, f"/c/{conversation.public_id}/")

    chip = page.get_element_by_id(f"file-{report.file.public_id.hex}")
    assert "report.pdf" in chip.text_content()
    assert "12 pages" in chip.text_content()
    assert page.xpath("//input[@name='files']/@value") == [str(report.file.public_id)]


def test_chip_comes_when_its_document_was_read(
    alice_client: Client, alice: User, place: str
) -> None:
    row = unsent.upload(alice, place, new_file("broken.pdf", b"%PDF-1.7"))
    before = alice_client.get(address(row, "chip"), headers=SCRIPT)

    read(row, pages=0, refusal="This PDF is broken.")
    after = alice_client.get(address(row, "chip"), headers=SCRIPT).content.decode()

    assert before.status_code == 204
    assert "This PDF is broken." in after
    assert "data-reading" not in after


def test_refused_document_is_read_again(alice_client: Client, report: UnsentFile) -> None:
    Document.objects.update(refusal="The server was busy.")
    Job.objects.all().delete()

    answer = alice_client.post(address(report, "read"), headers=SCRIPT)

    assert "data-reading" in answer.content.decode()
    assert Job.objects.get().kind == JobKind.READ


def test_file_is_its_authors_until_it_is_sent(
    signed_in: SignIn, alice: User, bob: User, report: UnsentFile
) -> None:
    client = signed_in(bob)

    assert access.get_file(alice, report.file.public_id) == report.file
    with pytest.raises(Http404):
        access.get_file(bob, report.file.public_id)
    for part in ("file", "chip"):
        assert client.get(address(report, part)).status_code == 404
    for part in ("file", "read", "remove"):
        assert client.post(address(report, part), {"use": "tools"}).status_code == 404
    assert UnsentFile.objects.get().use == FileUse.CONTENT


def test_names_and_texts_of_others_stay_text(alice_client: Client, place: str) -> None:
    upload = SimpleUploadedFile(EVIL, b"<script>alert(1)</script>")
    shown = add_to_draft(alice_client, place, upload).content.decode()
    row = UnsentFile.objects.select_related("file").get()
    read(row, pages=0)
    DocumentPage.objects.create(document=Document.objects.get(), number=1, text="<script>alert(1)")
    Document.objects.update(pages_count=1, characters=16)

    dialog = alice_client.get(address(row), headers=SCRIPT).content.decode()
    page = alice_client.get(address(row)).content.decode()

    for html in (shown, dialog, page):
        assert "<img src=x" not in html
        assert "<script>alert" not in html


def test_removed_file_is_deleted(alice_client: Client, report: UnsentFile) -> None:
    assert alice_client.post(address(report, "remove"), headers=SCRIPT).status_code == 204

    assert (UnsentFile.objects.count(), StoredFile.objects.count()) == (0, 0)
    assert alice_client.post(address(report, "remove"), headers=SCRIPT).status_code == 404


def test_without_scripts_the_page_is_shown_again(alice_client: Client, report: UnsentFile) -> None:
    upload = SimpleUploadedFile("a.txt", b"Text.")
    posts = [
        (reverse("unsent_add", args=[report.place]), {"file": upload}),
        (address(report), {"pages": "1", "use": "content"}),
        (address(report, "remove"), {}),
    ]

    for url, fields in posts:
        response = alice_client.post(url, fields)
        assert response.url == f"/c/{uuid.UUID(report.place)}/"

    assert [row.file.name for row in UnsentFile.objects.all()] == ["a.txt"]


# --- pages -------------------------------------------------------------------------------------


def test_chosen_pages_are_shown_and_counted(alice_client: Client, report: UnsentFile) -> None:
    said = alice_client.post(
        address(report), {"pages": "3,1-2", "use": "content"}, headers=SCRIPT
    ).content.decode()
    dialog = alice_client.get(address(report), headers=SCRIPT).content.decode()

    assert "Pages 1-3 of 12, about 140 tokens" in said
    assert "What page 3 says." in dialog
    assert "What page 4 says." not in dialog


def test_pages_are_checked_while_they_are_typed(alice_client: Client, report: UnsentFile) -> None:
    typed = {
        pages: alice_client.get(address(report), {"pages": pages}, headers=SCRIPT).content.decode()
        for pages in ("7", "13", "")
    }

    assert "Pages 7 of 12" in typed["7"]
    assert "What page 7 says." in typed["7"]
    assert "There is no page 13" in typed["13"]
    assert "12 pages, about" in typed[""]
    assert UnsentFile.objects.get().pages == ""


@pytest.mark.parametrize("fields", [{"pages": "13", "use": "content"}, {"pages": "", "use": "all"}])
def test_impossible_choice_is_refused(
    alice_client: Client, report: UnsentFile, fields: dict[str, str]
) -> None:
    response = alice_client.post(address(report), fields, headers=SCRIPT)

    assert response.status_code == 409
    report.refresh_from_db()
    assert (report.pages, report.use) == ("", FileUse.CONTENT)


# --- sent --------------------------------------------------------------------------------------


def choose(row: UnsentFile) -> None:
    unsent.choose(row, pages="1-3, 7", use=FileUse.TOOLS)


def chosen(rows: Any) -> list[tuple[int, str, str]]:
    return list(rows.values_list("file", "pages", "use"))


@pytest.mark.databases
def test_choice_goes_with_the_message_and_its_edits(
    alice_client: Client, alice: User, upstream: Upstream, report: UnsentFile
) -> None:
    choose(report)
    room = uuid.UUID(report.place)
    form = filled_form(upstream, files=report.file.public_id)

    alice_client.post(f"/c/{room}/send/", form)
    question = Message.objects.get(author=alice)
    choice = ModelChoice(upstream=upstream, model="demo/model")
    edit_message(alice, question, text="Again", choice=choice, idempotency_key=uuid.uuid4())

    expected = (report.file_id, "1-3, 7", FileUse.TOOLS)
    assert chosen(Attachment.objects) == [expected, expected]
    assert StoredFile.objects.get().conversation.public_id == room
    assert not UnsentFile.objects.exists()


def test_turn_shows_what_was_chosen(
    alice_client: Client, upstream: Upstream, report: UnsentFile
) -> None:
    choose(report)
    room = f"/c/{uuid.UUID(report.place)}/"
    alice_client.post(f"{room}send/", filled_form(upstream, files=report.file.public_id))

    [chip] = get_page(alice_client, room).find_class("attached")[0].find_class("attachment")

    assert "report.pdf" in chip.text_content()
    assert "Pages 1-3, 7 of 12 · read with tools" in " ".join(chip.text_content().split())
    [link] = chip.xpath(".//a/@href")
    assert "What page 12 says." in alice_client.get(link).content.decode()
    assert "Pages 1-3, 7 of 12" in alice_client.get(f"{room}files/").content.decode()


def test_choice_goes_with_a_queued_message(room: Room, upstream: Upstream) -> None:
    alice, conversation = room.conversation.owner, room.conversation
    running = room.ask("First")
    row = unsent.upload(alice, conversation.public_id.hex, new_file("a.pdf", b"%PDF-1.7"))
    read(row, pages=12)
    choose(row)
    files = [ChosenUnsent(place=row.place, public_id=row.file.public_id)]

    for _ in range(2):
        enqueue(
            alice,
            conversation,
            parent=running.message,
            text="Later",
            choice=ModelChoice(upstream=upstream, model="demo/model"),
            idempotency_key=uuid.UUID(int=7),
            attachments=files,
        )

    assert chosen(QueuedFile.objects) == [(row.file_id, "1-3, 7", FileUse.TOOLS)]
    assert QueuedMessage.objects.count() == 1
    assert StoredFile.objects.get().conversation == conversation
    assert not UnsentFile.objects.exists()


def test_refused_message_leaves_its_files_in_the_draft(
    alice_client: Client, upstream: Upstream, report: UnsentFile
) -> None:
    form = filled_form(upstream, text=" ", files=report.file.public_id)

    alice_client.post(f"/c/{uuid.UUID(report.place)}/send/", form)

    assert UnsentFile.objects.get() == report
    assert StoredFile.objects.get().conversation is None


def test_files_of_others_are_not_sent(
    signed_in: SignIn, bob: User, upstream: Upstream, report: UnsentFile
) -> None:
    form = filled_form(upstream, files=report.file.public_id)

    response = signed_in(bob).post(f"/c/{uuid.UUID(report.place)}/send/", form)

    assert response.status_code == 409
    assert not Message.objects.filter(author=bob).exists()


# --- how long they wait --------------------------------------------------------------------------


@pytest.mark.databases
def test_files_that_are_never_sent_go_after_a_week(
    alice_client: Client, upstream: Upstream, alice: User, place: str, report: UnsentFile
) -> None:
    sent = ids_in(add_to_draft(alice_client, place, SimpleUploadedFile("a.png", png())))
    alice_client.post(f"/c/{uuid.UUID(place)}/send/", filled_form(upstream, files=sent[0]))
    fresh = unsent.upload(alice, "new", new_file("fresh.txt", b"Text."))
    UnsentFile.objects.filter(pk=report.pk).update(
        created_at=timezone.now() - unsent.KEPT_FOR - timedelta(minutes=1)
    )

    purge_unsent()

    names = set(StoredFile.objects.values_list("name", flat=True))
    assert names == {"a.png", "fresh.txt"}
    assert UnsentFile.objects.get() == fresh


@pytest.mark.databases
def test_file_that_is_being_sent_is_not_purged(alice: User, place: str, report: UnsentFile) -> None:
    """Its row has gone in the transaction that gives it to the conversation."""
    UnsentFile.objects.update(created_at=timezone.now() - timedelta(days=30))
    with transaction.atomic():
        StoredFile.objects.update(conversation=Conversation.objects.get(public_id=place))
        UnsentFile.objects.all().delete()

    purge_unsent()

    assert StoredFile.objects.get() == report.file
