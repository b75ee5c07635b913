"""People attach pictures to their words: looked at, stored with the message, shown in the turn."""

from __future__ import annotations

import re
import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.management.commands.serve import UPLOADS
from chat.models import Attachment, Conversation, Message, Role, StoredFile, Upstream, User
from tests.files.conftest import GIF, JPEG, PAGE, announced_png, png

pytestmark = pytest.mark.django_db


def upload(
    body: bytes = b"", name: str = "spring.png", kind: str = "image/png"
) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, body or png(), content_type=kind)


class Sender:
    """Posts what the composer posts."""

    def __init__(self, client: Client, conversation: Conversation, upstream: Upstream) -> None:
        self.client = client
        self._conversation = conversation
        self._choice = f"{upstream.public_id.hex}:demo/model"

    def send(self, *pictures: SimpleUploadedFile, **fields: str) -> HttpResponse:
        address = reverse("conversation_send", args=[self._conversation.public_id])
        return self._post(address, pictures, fields)

    def start(self, *pictures: SimpleUploadedFile, **fields: str) -> HttpResponse:
        return self._post(reverse("conversation_new"), pictures, fields)

    def edit(self, message: Message, **fields: str) -> HttpResponse:
        return self._post(reverse("message_edit", args=[message.public_id]), (), fields)

    def _post(
        self, address: str, pictures: tuple[SimpleUploadedFile, ...], fields: dict[str, str]
    ) -> HttpResponse:
        data = {
            "text": "What is this?",
            "choice": self._choice,
            "key": str(uuid.uuid4()),
            "pictures": list(pictures),
            **fields,
        }
        return self.client.post(address, data)


@pytest.fixture
def sender(alice: User, conversation: Conversation, upstream: Upstream, signed_in) -> Sender:
    return Sender(signed_in(alice), conversation, upstream)


def question() -> Message:
    return Message.objects.filter(role=Role.USER).latest("pk")


def attached(message: Message) -> list[tuple[str, str]]:
    rows = message.attachments.order_by("position")
    return list(rows.values_list("file__name", "file__media_type"))


def test_pictures_are_stored_with_the_message(sender: Sender, alice: User) -> None:
    response = sender.send(upload(), upload(JPEG, "photo.JPG", "application/x-anything"))

    assert response.status_code == 302
    assert attached(question()) == [("spring.png", "image/png"), ("photo.jpg", "image/jpeg")]
    first = question().attachments.get(position=0).file
    assert (bytes(first.body), first.created_by, first.size_bytes) == (png(), alice, len(png()))


def test_a_new_conversation_begins_with_pictures_too(sender: Sender, team) -> None:
    response = sender.start(upload(), team=team.public_id.hex)

    assert response.status_code == 302
    assert attached(question()) == [("spring.png", "image/png")]
    assert StoredFile.objects.get().conversation == question().conversation


def test_an_edit_keeps_the_pictures(sender: Sender) -> None:
    sender.send(upload(), upload(GIF, "wave.gif"))
    first = question()

    sender.edit(first, text="And this?")

    assert question() != first
    assert attached(question()) == attached(first)
    assert StoredFile.objects.count() == 2


def test_the_same_key_attaches_once(sender: Sender) -> None:
    key = str(uuid.uuid4())

    sender.send(upload(), key=key)
    again = sender.send(upload(), key=key)

    assert again.status_code == 302
    assert Attachment.objects.count() == 1


def test_a_repeated_key_with_another_picture_is_not_lost_silently(sender: Sender) -> None:
    key = str(uuid.uuid4())
    sender.send(upload(), key=key)

    again = sender.send(upload(GIF, "wave.gif"), key=key)

    assert again.status_code == 409
    assert "already been sent" in again.content.decode()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (PAGE, "is not a PNG, JPEG, WebP or GIF picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "is not a PNG"),
        (b"GIF89a", "is not a PNG"),
        (announced_png(2**31 - 1, 2**31 - 1), "more pixels"),
        (announced_png(20_000, 20_000), "more pixels"),
        (png() + bytes(6 * 1024 * 1024), "larger than 5 MB"),
    ],
    ids=["a page", "svg", "cut", "huge", "many pixels", "many bytes"],
)
def test_what_is_no_sane_picture_is_refused_and_nothing_sent(
    sender: Sender, body: bytes, sentence: str
) -> None:
    response = sender.send(upload(body, "pretty.png"))

    assert response.status_code == 409
    assert sentence in response.content.decode()
    assert "What is this?" in response.content.decode()
    assert (Message.objects.count(), StoredFile.objects.count()) == (0, 0)


def test_more_pictures_than_a_message_takes_are_refused(sender: Sender) -> None:
    response = sender.send(*[upload() for _ in range(9)])

    assert "8 pictures at most" in response.content.decode()
    assert Message.objects.count() == 0


def test_words_without_pictures_are_sent_as_ever(sender: Sender) -> None:
    assert sender.send().status_code == 302
    assert attached(question()) == []


def test_the_server_takes_large_bodies_where_the_composer_posts(conversation: Conversation) -> None:
    addresses = [
        reverse("conversation_new"),
        reverse("conversation_send", args=[conversation.public_id]),
    ]

    assert all(re.fullmatch(UPLOADS, address) for address in addresses)
    assert not re.fullmatch(UPLOADS, reverse("conversation", args=[conversation.public_id]))
