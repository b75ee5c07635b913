"""Files that people attach: checked and stored when they are picked, sent by their ids, kept by an edit."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.management.commands.serve import UPLOADS
from chat.models import (
    Attachment,
    Conversation,
    Message,
    Role,
    StoredFile,
    Team,
    UnsentFile,
    Upstream,
    User,
)
from tests.support.answers import GIF, JPEG, PAGE, announced_png, png
from tests.support.files import add_to_draft, ids_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("file_place")]

Post = Callable[..., HttpResponse]


def upload(
    body: bytes = b"", name: str = "spring.png", kind: str = "image/png"
) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, body or png(), content_type=kind)


@pytest.fixture
def post(alice_client: Client, upstream: Upstream) -> Post:
    """Posts what the composer posts: ``post(address, id of a file, …)``."""

    def post_form(address: str, *files: str, **fields: str) -> HttpResponse:
        form = {
            "text": "What is this?",
            "choice": f"{upstream.public_id.hex}:demo/model",
            "key": str(uuid.uuid4()),
            "files": list(files),
        }
        return alice_client.post(address, {**form, **fields})

    return post_form


@pytest.fixture
def add(alice_client: Client, conversation: Conversation) -> Post:
    """Adds files to the message that Alice writes: ``add(upload, …)``."""
    return lambda *uploads, place=conversation.public_id.hex: add_to_draft(
        alice_client, place, *uploads
    )


@pytest.fixture
def send(post: Post, add: Post, conversation: Conversation) -> Post:
    """Sends a message to the conversation with new files: ``send(upload, …)``."""
    address = reverse("conversation_send", args=[conversation.public_id])
    return lambda *uploads, **fields: post(
        address, *(ids_in(add(*uploads)) if uploads else ()), **fields
    )


def test_upload_is_refused_while_the_storage_fails(add: Post, file_folder: Path) -> None:
    file_folder.rename(file_folder.with_name("unmounted"))

    answer = add(upload())

    assert answer.status_code == 503
    assert "Files can’t be stored at the moment" in answer.content.decode()
    assert not UnsentFile.objects.exists()


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


def test_conversation_can_begin_with_pictures(post: Post, add: Post, team: Team) -> None:
    ids = ids_in(add(upload(), place="new"))

    response = post(reverse("conversation_new"), *ids, team=team.public_id.hex)

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


def test_same_key_attaches_once(post: Post, add: Post, conversation: Conversation) -> None:
    address = reverse("conversation_send", args=[conversation.public_id])
    key, ids = str(uuid.uuid4()), ids_in(add(upload()))

    post(address, *ids, key=key)
    again = post(address, *ids, key=key)

    assert again.status_code == 302
    assert Attachment.objects.count() == 1


def test_same_key_with_another_picture_is_refused(send: Post) -> None:
    key = str(uuid.uuid4())
    send(upload(), key=key)

    again = send(upload(GIF, "wave.gif"), key=key)

    assert again.status_code == 409
    assert "was already sent" in again.content.decode()


def test_file_is_sent_once(post: Post, add: Post, conversation: Conversation) -> None:
    address = reverse("conversation_send", args=[conversation.public_id])
    ids = ids_in(add(upload()))
    post(address, *ids)

    again = post(address, *ids)

    assert again.status_code == 409
    assert "was sent or removed" in again.content.decode()
    assert Message.objects.filter(role=Role.USER).count() == 1


@pytest.mark.parametrize(
    ("body", "name", "sentence"),
    [
        (PAGE, "pretty.png", "isn’t a PNG, JPEG, WebP or GIF image"),
        (b"GIF89a", "pretty.gif", "isn’t a PNG"),
        (announced_png(2**31 - 1, 2**31 - 1), "pretty.png", "too many pixels"),
        (announced_png(20_000, 20_000), "pretty.png", "too many pixels"),
        (png() + bytes(6 * 1024 * 1024), "pretty.png", "larger than 5 MB"),
        (b"\x7fELF\x02\x01" + bytes(60), "program", "isn’t an image, a sound, or a document"),
        (b"a" * (20 * 1024 * 1024), "long.txt", "larger than 20 MB"),
    ],
    ids=["a page", "cut", "huge", "many pixels", "many bytes", "program", "long text"],
)
def test_invalid_file_is_refused(add: Post, body: bytes, name: str, sentence: str) -> None:
    response = add(upload(body, name))

    assert response.status_code == 409
    assert response["Content-Type"].startswith("text/plain")
    assert sentence in response.content.decode()
    assert (UnsentFile.objects.count(), StoredFile.objects.count()) == (0, 0)


def test_too_many_files_are_refused(add: Post, settings: Any) -> None:
    settings.PICTURES_PER_MESSAGE, settings.FILES_PER_MESSAGE = 2, 3
    for number in range(2):
        add(upload(name=f"{number}.png"))

    image = add(upload(name="2.png"))
    add(upload(b"Text.", "a.txt"))
    text = add(upload(b"Text.", "b.txt"))

    assert "up to 2 images" in image.content.decode()
    assert "up to 3 files" in text.content.decode()
    assert UnsentFile.objects.count() == 3


def test_message_without_pictures_is_sent(send: Post) -> None:
    assert send().status_code == 302
    assert attached(question()) == []


def test_server_accepts_large_bodies_where_files_are_added(conversation: Conversation) -> None:
    room, project = conversation.public_id, uuid.uuid4()
    places = ("new", f"new-{project.hex}", room.hex)
    addresses = [reverse("unsent_add", args=[place]) for place in places]

    assert all(re.fullmatch(UPLOADS, address) for address in addresses)
    assert re.fullmatch(UPLOADS, reverse("project_files", args=[project]))
    for route in ("conversation", "conversation_send"):
        assert not re.fullmatch(UPLOADS, reverse(route, args=[room]))


def test_files_to_import_are_accepted_too() -> None:
    job = uuid.uuid4()

    assert re.fullmatch(UPLOADS, reverse("import_file"))
    assert re.fullmatch(UPLOADS, reverse("import_piece", args=[job, 2047]))
    assert not re.fullmatch(UPLOADS, reverse("import_confirm", args=[job]))
