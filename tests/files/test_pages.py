"""Files on pages: listed, read as source, downloaded; never run, never anybody else's."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.actions.files import Picture, attach
from chat.events import ArtifactUpdate, MediaUpdate, MessageStart, MockupUpdate
from chat.models import (
    Artifact,
    ArtifactVersion,
    Conversation,
    FetchStatus,
    Message,
    MockupFile,
    Role,
    StoredFile,
    User,
)
from tests.files.conftest import GIF, JPEG, PAGE, WEBP_LOSSY, Answer, announced_png, png

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def alice_client(alice: User, signed_in) -> Client:
    return signed_in(alice)


def stored(conversation: Conversation, body: bytes, name: str = "x.png", **fields: Any) -> str:
    file = StoredFile.objects.create(
        conversation=conversation, body=body, name=name, size_bytes=len(body), **fields
    )
    return reverse("file", args=[file.public_id])


def assert_harmless(response: HttpResponse) -> None:
    """Nothing that a browser could do with it reaches our origin."""
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert "private" in response["Cache-Control"]
    assert not response.cookies


# --- one file ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (png(), "image/png"),
        (GIF, "image/gif"),
        (JPEG, "image/jpeg"),
        (WEBP_LOSSY, "image/webp"),
    ],
    ids=["png", "gif", "jpeg", "webp"],
)
def test_real_pictures_are_shown(
    alice_client: Client, conversation: Conversation, body: bytes, media_type: str
) -> None:
    response = alice_client.get(stored(conversation, body, "anything.bin"))

    assert response["Content-Type"] == media_type
    assert response["Content-Disposition"].startswith("inline")
    assert response.content == body
    assert_harmless(response)


@pytest.mark.parametrize(
    ("body", "name", "announced"),
    [
        (PAGE, "pretty.png", "image/png"),
        (PAGE, "page.html", "text/html"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "a.svg", "image/svg+xml"),
        (b"%PDF-1.7", "a.pdf", "application/pdf"),
        (b"alert(1)", "a.js", "text/javascript"),
        (announced_png(2**31 - 1, 9), "bomb.png", "image/png"),
        (b"", "empty.png", "image/png"),
    ],
    ids=["html as png", "html", "svg", "pdf", "script", "bomb", "empty"],
)
def test_everything_else_is_a_download_of_no_type(
    alice_client: Client, conversation: Conversation, body: bytes, name: str, announced: str
) -> None:
    response = alice_client.get(stored(conversation, body, name, media_type=announced))

    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"].startswith("attachment")
    assert_harmless(response)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"RIFF\x10\n\x00\x00WAVEfmt ", "sound-2.wav"),
        (b"ID3\x04", "sound-2.mp3"),
        (b"OggS", "sound-2.ogg"),
        (b"RIFF\x10\x00\x00\x00AVI ", "sound-2.bin"),
    ],
)
def test_a_sound_of_no_type_gets_the_name_that_its_bytes_tell(
    alice_client: Client, conversation: Conversation, body: bytes, name: str
) -> None:
    address = stored(conversation, body, "sound-2.bin", media_type="audio/*")

    response = alice_client.get(f"{address}?download")

    assert response["Content-Disposition"] == f'attachment; filename="{name}"'
    assert response["Content-Type"] == "application/octet-stream"


WAVE = b"RIFF\x10\n\x00\x00WAVEfmt 0123456789"


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (WAVE, "audio/wav"),
        (b"ID3\x04", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"OggS", "audio/ogg"),
        (b"fLaC", "audio/flac"),
        (b"\x00\x00\x00\x20ftypM4A \x00", "audio/mp4"),
    ],
)
def test_real_sounds_are_played(
    alice_client: Client, conversation: Conversation, body: bytes, media_type: str
) -> None:
    response = alice_client.get(stored(conversation, body, "a.html", media_type="text/html"))

    assert response["Content-Type"] == media_type
    assert response["Content-Disposition"].startswith("inline")
    assert response["Accept-Ranges"] == "bytes"
    assert response.content == body
    assert_harmless(response)


@pytest.mark.parametrize(
    ("wanted", "status", "content", "told"),
    [
        ("bytes=0-3", 206, WAVE[:4], f"bytes 0-3/{len(WAVE)}"),
        ("bytes=20-", 206, WAVE[20:], f"bytes 20-{len(WAVE) - 1}/{len(WAVE)}"),
        ("bytes=20-9999", 206, WAVE[20:], f"bytes 20-{len(WAVE) - 1}/{len(WAVE)}"),
        ("bytes=9999-", 200, WAVE, None),
        ("bytes=5-2", 200, WAVE, None),
        ("bytes=-5", 200, WAVE, None),
        ("bytes=0-1,4-5", 200, WAVE, None),
        ("lines=0-1", 200, WAVE, None),
    ],
)
def test_a_player_gets_the_part_that_it_wants(
    alice_client: Client,
    conversation: Conversation,
    wanted: str,
    status: int,
    content: bytes,
    told: str | None,
) -> None:
    response = alice_client.get(stored(conversation, WAVE, "a.wav"), headers={"Range": wanted})

    assert (response.status_code, response.content) == (status, content)
    assert response.get("Content-Range") == told
    assert_harmless(response)


def test_a_picture_can_be_downloaded_too(alice_client: Client, conversation: Conversation) -> None:
    response = alice_client.get(stored(conversation, png(), "spring.png") + "?download")

    assert response["Content-Disposition"] == 'attachment; filename="spring.png"'
    assert response["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    "name", ['a"; filename="b.html', "a\r\nSet-Cookie: x=1", "../../x.html", "ü\u202e.gpj", ""]
)
def test_names_cannot_leave_their_header(
    alice_client: Client, conversation: Conversation, name: str
) -> None:
    response = alice_client.get(stored(conversation, PAGE, name))

    assert response.status_code == 200
    assert not response.cookies
    assert "\r" not in response["Content-Disposition"]
    assert "/" not in response["Content-Disposition"]
    assert_harmless(response)


def test_source_of_a_file_is_escaped(alice_client: Client, conversation: Conversation) -> None:
    address = stored(conversation, PAGE, "page.html", media_type="text/html")

    response = alice_client.get(f"{address}source/")

    page = response.content.decode()
    assert "alert(document.domain)" not in page.replace("&lt;", "<").split("<code>")[0]
    assert "<script>alert" not in page
    assert "hl-" in page


def test_what_is_no_text_has_no_source(alice_client: Client, conversation: Conversation) -> None:
    binary = alice_client.get(stored(conversation, b"\x00\x01\xff", "a.bin") + "source/")
    picture = alice_client.get(stored(conversation, png()) + "source/")

    assert "This is no text" in binary.content.decode()
    assert "<img" in picture.content.decode()


def test_a_long_text_is_cut_and_says_so(alice_client: Client, conversation: Conversation) -> None:
    response = alice_client.get(stored(conversation, b"x" * 500_000, "a.txt") + "source/")

    assert "The first 400000 of 500000 characters" in response.content.decode()


# --- artifacts --------------------------------------------------------------------------------


def artifact_address(route: str, number: int = 1) -> str:
    return reverse(route, args=[Artifact.objects.get().public_id, number])


def test_an_artifact_is_shown_with_its_versions(alice_client: Client, answer: Answer) -> None:
    answer(
        ArtifactUpdate(
            op="created", artifact_id="a", title="Calc <b>", language="html", content=SCRIPT
        ),
        ArtifactUpdate(op="updated", artifact_id="a", content="second"),
    )

    first = alice_client.get(artifact_address("artifact", 1)).content.decode()
    code = alice_client.get(artifact_address("artifact_code", 1)).content.decode()
    second = alice_client.get(artifact_address("artifact_code", 2)).content.decode()

    assert SCRIPT not in first
    assert SCRIPT not in code
    assert "Calc &lt;b&gt;" in first
    assert "second" in second
    assert alice_client.get(artifact_address("artifact", 3)).status_code == 404


def test_an_artifact_is_downloaded_as_text(alice_client: Client, answer: Answer) -> None:
    answer(
        ArtifactUpdate(
            op="created", artifact_id="a", title="My page", language="html", content=SCRIPT
        )
    )

    response = alice_client.get(artifact_address("artifact_raw"))

    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="My-page-v1.html"'
    assert response.content.decode() == SCRIPT
    assert_harmless(response)


@pytest.mark.parametrize(
    ("title", "language", "name"),
    [
        ("Sort", "Python", "Sort-v1.py"),
        ("app.py", "python", "app-v1.py"),
        ("", "", "a-v1.txt"),
        ("x/../y", "", "x-..-y-v1.txt"),
        ("A b", "../../x", "A-b-v1.txt"),
        ("A b", "x-rust", "A-b-v1.rs"),
    ],
)
def test_a_download_has_a_telling_name(
    alice_client: Client, answer: Answer, title: str, language: str, name: str
) -> None:
    answer(
        ArtifactUpdate(
            op="created", artifact_id="a", title=title or None, language=language, content="1"
        )
    )

    response = alice_client.get(artifact_address("artifact_raw"))

    assert response["Content-Disposition"] == f'attachment; filename="{name}"'


# --- the list -----------------------------------------------------------------------------------


@pytest.fixture
def full(answer: Answer, conversation: Conversation, alice: User) -> Message:
    """One answer with something of every kind, below a question with a picture."""
    run = answer(
        MessageStart(item=0),
        ArtifactUpdate(op="created", artifact_id="a", title="Calculator", content="1"),
        ArtifactUpdate(op="updated", artifact_id="a", content="2"),
        MockupUpdate(
            op="created",
            bundle_id="b",
            title="Shop",
            entry="index.html",
            files=[
                {"path": "index.html", "contentType": "text/html", "size": 9},
                {"path": "a.css", "contentType": "text/css", "size": 9},
                {"path": "../x", "contentType": "text/css", "size": 9},
            ],
        ),
        MediaUpdate(
            item=1, media_id="m", media_type="image/png", data=base64.b64encode(png()).decode()
        ),
    )
    body = StoredFile.objects.create(conversation=conversation, name="index.html", body=PAGE)
    MockupFile.objects.filter(path="index.html").update(status=FetchStatus.STORED, file=body)
    question = Message.objects.get(pk=run.message.parent_id)
    attach(question, alice, [Picture(name="spring.png", media_type="image/png", body=png())])
    return run.message


def test_the_page_lists_everything(
    alice_client: Client, conversation: Conversation, full: Message
) -> None:
    page = alice_client.get(reverse("conversation_files", args=[conversation.public_id]))

    text = " ".join(page.content.decode().split())
    for words in ("Calculator", "1 earlier version", "Shop", "1 of 3 files", "Being fetched"):
        assert words in text
    assert "This path cannot be part of an address" in text
    assert 'alt="picture-2.png"' in text
    assert 'alt="spring.png"' in text


def test_an_empty_page_says_what_would_be_there(
    alice_client: Client, conversation: Conversation
) -> None:
    page = alice_client.get(reverse("conversation_files", args=[conversation.public_id]))

    assert "Nothing yet" in page.content.decode()


def test_the_room_leads_there_from_the_head_the_answer_and_the_turn(
    alice_client: Client, conversation: Conversation, full: Message
) -> None:
    page = alice_client.get(reverse("conversation", args=[conversation.public_id]))

    text = page.content.decode()
    assert 'aria-label="Files: 4"' in text
    for words in ("Artifacts (1)", "Mockups (1)", "Files (1)"):
        assert words in text
    assert 'alt="spring.png"' in text


def test_a_room_without_files_says_nothing_of_them(
    alice_client: Client, conversation: Conversation, answer: Answer
) -> None:
    answer(MessageStart(item=0))

    page = alice_client.get(reverse("conversation", args=[conversation.public_id]))

    assert "head-files" not in page.content.decode()
    assert "Artifacts (" not in page.content.decode()


def test_lists_do_not_read_what_files_hold(
    alice_client: Client, conversation: Conversation, full: Message, django_assert_max_num_queries
) -> None:
    with django_assert_max_num_queries(40) as queries:
        alice_client.get(reverse("conversation_files", args=[conversation.public_id]))
        alice_client.get(reverse("conversation", args=[conversation.public_id]))

    said = [query["sql"] for query in queries.captured_queries]
    assert not any('"chat_storedfile"."body"' in sql for sql in said)
    assert not any('"chat_artifactversion"."content"' in sql for sql in said)


def test_many_turns_with_pictures_cost_no_more_queries(
    alice_client: Client,
    conversation: Conversation,
    answer: Answer,
    alice: User,
    django_assert_max_num_queries,
) -> None:
    address = reverse("conversation", args=[conversation.public_id])
    picture = Picture(name="a.png", media_type="image/png", body=png())
    last: Message | None = None

    def grow(turns: int) -> None:
        nonlocal last
        for _ in range(turns):
            update = ArtifactUpdate(op="updated", artifact_id="a", content="1")
            last = answer(MessageStart(item=0), update, below=last).message
            attach(Message.objects.get(pk=last.parent_id), alice, [picture])

    grow(1)
    with django_assert_max_num_queries(60) as few:
        alice_client.get(address)
    grow(4)
    with django_assert_max_num_queries(len(few.captured_queries)):
        alice_client.get(address)


def test_an_edit_form_that_is_cancelled_shows_the_pictures_again(
    alice_client: Client, full: Message
) -> None:
    question = Message.objects.get(role=Role.USER)
    address = reverse("message_edit", args=[question.public_id])

    response = alice_client.get(f"{address}?cancel", headers={"HX-Request": "true"})

    assert 'alt="spring.png"' in response.content.decode()


# --- other people's ----------------------------------------------------------------------------


def test_files_of_a_private_conversation_are_nobody_elses(
    bob: User, private_conversation: Conversation, answer: Answer, signed_in
) -> None:
    answer(ArtifactUpdate(op="created", artifact_id="a", content="secret"), of=private_conversation)
    address = stored(private_conversation, b"secret", "a.txt")
    client = signed_in(bob)

    for url in (
        address,
        f"{address}source/",
        artifact_address("artifact"),
        artifact_address("artifact_raw"),
        reverse("conversation_files", args=[private_conversation.public_id]),
    ):
        response = client.get(url)
        assert response.status_code == 404
        assert b"secret" not in response.content


def test_files_of_a_deleted_conversation_are_gone(
    alice_client: Client, conversation: Conversation
) -> None:
    address = stored(conversation, png())
    Conversation.objects.update(deleted_at="2026-01-01T00:00:00Z")

    assert alice_client.get(address).status_code == 404


def test_a_version_belongs_to_its_artifact_only(alice_client: Client, answer: Answer) -> None:
    answer(
        ArtifactUpdate(op="created", artifact_id="a", content="1"),
        ArtifactUpdate(op="created", artifact_id="b", content="1"),
        ArtifactUpdate(op="updated", artifact_id="b", content="2"),
    )
    first = Artifact.objects.get(artifact_id="a")

    assert ArtifactVersion.objects.filter(number=2).exists()
    assert alice_client.get(reverse("artifact", args=[first.public_id, 2])).status_code == 404
