"""The downloads in a conversation's menu, and the page that is printed."""

from __future__ import annotations

from collections.abc import Callable

import lxml.html
import pytest
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import reverse

from chat.exports.names import stem_of, unique_stem_of
from chat.models import Conversation, User
from tests.support.rooms import Room

SignIn = Callable[[User], Client]


def download(client: Client, room: Room, form: str) -> HttpResponse:
    address = reverse("conversation_export", args=[room.conversation.public_id, form])
    response = client.get(address)
    assert response.status_code == 200
    return response


def content_of(response: HttpResponse) -> bytes:
    return b"".join(response)


@pytest.mark.parametrize(
    ("form", "suffix", "media_type"),
    [
        ("markdown", "md", "text/markdown; charset=utf-8"),
        ("branches", "md", "text/markdown; charset=utf-8"),
        ("json", "json", "application/json"),
        ("html", "html", "text/html; charset=utf-8"),
    ],
)
def test_download_is_a_file_with_the_title_as_name(
    room: Room, alice_client: Client, form: str, suffix: str, media_type: str
) -> None:
    room.turn("Hello")
    Conversation.objects.update(title="Rivers")

    response = download(alice_client, room, form)

    assert response["Content-Disposition"] == f'attachment; filename="Rivers.{suffix}"'
    assert response["Content-Type"] == media_type
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response["Content-Security-Policy"]
    body = content_of(response)
    assert b"Answer to: Hello" in body
    assert response["Content-Length"] == str(len(body))


@pytest.mark.django_db(transaction=True)
async def test_download_is_sent_in_chunks(room: Room, alice: User) -> None:
    client = AsyncClient()
    await client.aforce_login(alice)
    address = reverse("conversation_export", args=[room.conversation.public_id, "html"])

    response = await client.get(address)

    chunks = [chunk async for chunk in response]
    assert len(chunks) > 1
    assert b"".join(chunks).endswith(b"</html>")


def test_unknown_form_is_not_found(room: Room, alice_client: Client) -> None:
    address = reverse("conversation_export", args=[room.conversation.public_id, "pdf"])

    assert alice_client.get(address).status_code == 404


def test_deleted_conversation_is_not_found(room: Room, alice_client: Client) -> None:
    room.conversation.deleted_at = room.conversation.updated_at
    room.conversation.save()
    address = reverse("conversation_export", args=[room.conversation.public_id, "json"])

    assert alice_client.get(address).status_code == 404


def test_printed_page_links_our_styles_and_opens_the_dialog(
    room: Room, alice_client: Client
) -> None:
    room.turn("Hello")
    address = reverse("conversation_print", args=[room.conversation.public_id])

    page = lxml.html.document_fromstring(content_of(alice_client.get(address)).decode())

    assert page.xpath("//script/@src")[0].endswith("/static/pages/print.js")
    assert page.xpath("//link[@rel='stylesheet']")
    assert page.xpath("//style") == []
    assert "Answer to: Hello" in page.text_content()


def test_menu_offers_exports_to_readers_too(room: Room, viewer: User, signed_in: SignIn) -> None:
    room.turn("Hello")

    page = room.page(signed_in(viewer))

    addresses = page.xpath("//details[contains(@class, 'room-menu')]//a/@href")[1:]
    assert [address.split("/")[-2] for address in addresses] == [
        *("comments", "people", "reading", "markdown", "branches", "json", "html", "print"),
    ]
    assert page.xpath("//input[@id='title']") == []


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        ("Rivers and lakes", "Rivers and lakes"),
        ("../../etc/passwd", "etc passwd"),
        ('a/b\\c:d*e?f"g<h>i|j', "a b c d e f g h i j"),
        ("  .hidden.  ", "hidden"),
        ("con", "conversation con"),
        ("NUL.txt", "conversation NUL.txt"),
        ("\u202eevil\x00\n", "evil"),
        ("水" * 200, "水" * 53),
        ("", "conversation"),
        ("...", "conversation"),
    ],
)
def test_names_of_files_are_safe(title: str, stem: str) -> None:
    conversation = Conversation(title=title)

    assert stem_of(conversation) == stem
    assert unique_stem_of(conversation) == f"{stem}-{conversation.public_id.hex}"
