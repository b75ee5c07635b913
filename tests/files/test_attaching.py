"""Pictures that people attach: checked, stored with the message, kept by an edit."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.management.commands.serve import UPLOADS
from chat.models import Attachment, Conversation, Message, Role, StoredFile, Team, Upstream, User
from tests.support.answers import GIF, JPEG, PAGE, announced_png, png

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("file_place")]

Post = Callable[..., HttpResponse]


def upload(
    body: bytes = b"", name: str = "spring.png", kind: str = "image/png"
) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, body or png(), content_type=kind)


@pytest.fixture
def post(alice_client: Client, upstream: Upstream) -> Post:
    """Posts what the composer posts: ``post(address, picture, …)``."""

    def post_form(address: str, *pictures: SimpleUploadedFile, **fields: str) -> HttpResponse:
        form = {
            "text": "What is this?",
            "choice": f"{upstream.public_id.hex}:demo/model",
            "key": str(uuid.uuid4()),
            "pictures": list(pictures),
        }
        return alice_client.post(address, {**form, **fields})

    return post_form


@pytest.fixture
def send(post: Post, conversation: Conversation) -> Post:
    """Sends a message to the conversation: ``send(picture, …)``."""
    address = reverse("conversation_send", args=[conversation.public_id])
    return lambda *pictures, **fields: post(address, *pictures, **fields)


def test_upload_is_refused_while_the_storage_fails(send: Post, file_folder: Path) -> None:
    file_folder.rename(file_folder.with_name("unmounted"))

    answer = send(upload())

    assert answer.status_code == 503
    assert "Files can’t be stored at the moment" in answer.content.decode()
    assert not Message.objects.exists()


def question() -> Message:
    return Message.objects.filter(role=Role.USER).latest("pk")


def attached(message: Message) -> list[tuple[str, str]]:
    rows = message.attachments.order_by("position")
    return list(rows.values_list("file__name", "file__media_type"))


def test_pictures_are_stored_with_the_message(send: Post, alice: User) -> None:
    response = send(upload(), upload(JPEG, "photo.JPG", "application/x-anything"))

    assert response.status_code == 302
    assert attached(question()) == [("spring.png", "image/png"), ("photo.jpg", "image/jpeg")]
    first = question().attachments.get(position=0).file
    assert (bytes(first.body), first.created_by, first.size_bytes) == (png(), alice, len(png()))


def test_conversation_can_begin_with_pictures(post: Post, team: Team) -> None:
    response = post(reverse("conversation_new"), upload(), team=team.public_id.hex)

    assert response.status_code == 302
    assert attached(question()) == [("spring.png", "image/png")]
    assert StoredFile.objects.get().conversation == question().conversation


def test_edit_keeps_the_pictures(post: Post, send: Post) -> None:
    send(upload(), upload(GIF, "wave.gif"))
    first = question()

    post(reverse("message_edit", args=[first.public_id]), text="And this?")

    assert question() != first
    assert attached(question()) == attached(first)
    assert StoredFile.objects.count() == 2


def test_same_key_attaches_once(send: Post) -> None:
    key = str(uuid.uuid4())

    send(upload(), key=key)
    again = send(upload(), key=key)

    assert again.status_code == 302
    assert Attachment.objects.count() == 1


def test_same_key_with_another_picture_is_refused(send: Post) -> None:
    key = str(uuid.uuid4())
    send(upload(), key=key)

    again = send(upload(GIF, "wave.gif"), key=key)

    assert again.status_code == 409
    assert "was already sent" in again.content.decode()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (PAGE, "isn’t a PNG, JPEG, WebP or GIF image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "isn’t a PNG"),
        (b"GIF89a", "isn’t a PNG"),
        (announced_png(2**31 - 1, 2**31 - 1), "too many pixels"),
        (announced_png(20_000, 20_000), "too many pixels"),
        (png() + bytes(6 * 1024 * 1024), "larger than 5 MB"),
    ],
    ids=["a page", "svg", "cut", "huge", "many pixels", "many bytes"],
)
def test_invalid_picture_is_refused_and_nothing_sent(
    send: Post, body: bytes, sentence: str
) -> None:
    response = send(upload(body, "pretty.png"))

    assert response.status_code == 409
    assert sentence in response.content.decode()
    assert "What is this?" in response.content.decode()
    assert (Message.objects.count(), StoredFile.objects.count()) == (0, 0)


def test_too_many_pictures_are_refused(send: Post) -> None:
    response = send(*[upload() for _ in range(9)])

    assert "up to 8 images" in response.content.decode()
    assert Message.objects.count() == 0


def test_message_without_pictures_is_sent(send: Post) -> None:
    assert send().status_code == 302
    assert attached(question()) == []


def test_server_accepts_large_bodies_where_the_composer_posts(conversation: Conversation) -> None:
    addresses = [
        reverse("conversation_new"),
        reverse("conversation_send", args=[conversation.public_id]),
    ]

    assert all(re.fullmatch(UPLOADS, address) for address in addresses)
    assert not re.fullmatch(UPLOADS, reverse("conversation", args=[conversation.public_id]))


def test_files_to_import_are_accepted_too() -> None:
    job = uuid.uuid4()

    assert re.fullmatch(UPLOADS, reverse("import_file"))
    assert re.fullmatch(UPLOADS, reverse("import_piece", args=[job, 2047]))
    assert not re.fullmatch(UPLOADS, reverse("import_confirm", args=[job]))
