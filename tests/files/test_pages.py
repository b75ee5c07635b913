"""Files on pages: listed, read as source, downloaded; never run, never shown to others."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.events import ArtifactUpdate, MediaUpdate, MessageStart, MockupUpdate
from chat.files.actions import NewFile, attach
from chat.models import (
    Artifact,
    ArtifactVersion,
    Conversation,
    FetchStatus,
    Message,
    MockupFile,
    Role,
    User,
)
from tests.support.answers import PAGE, PICTURES, Answer, announced_png, png
from tests.support.files import store_file
from tests.support.stored import rolled_back

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"
MaxQueries = Callable[[int], AbstractContextManager[Any]]


def stored(conversation: Conversation, body: bytes, name: str = "x.png", **fields: Any) -> str:
    file = store_file(
        conversation=conversation, body=body, name=name, size_bytes=len(body), **fields
    )
    return reverse("file", args=[file.public_id])


def assert_harmless(response: HttpResponse) -> None:
    """Nothing that a browser could do with it reaches our origin."""
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert "private" in response["Cache-Control"]
    assert not response.cookies


def assert_download(response: HttpResponse) -> None:
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"].startswith("attachment")
    assert_harmless(response)


# --- one file ----------------------------------------------------------------------------------


def test_pictures_are_shown(
    alice_client: Client, conversation: Conversation, subtests: pytest.Subtests
) -> None:
    for body, media_type, _ in PICTURES:
        with subtests.test(media_type):
            response = alice_client.get(stored(conversation, body, "anything.bin"))

            assert response["Content-Type"] == media_type
            assert response["Content-Disposition"].startswith("inline")
            assert response.content == body
            assert_harmless(response)


OTHER_FILES = [
    (PAGE, "pretty.png", "image/png"),
    (PAGE, "page.html", "text/html"),
    (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "a.svg", "image/svg+xml"),
    (b"%PDF-1.7", "a.pdf", "application/pdf"),
    (b"alert(1)", "a.js", "text/javascript"),
    (announced_png(2**31 - 1, 9), "bomb.png", "image/png"),
    (b"", "empty.png", "image/png"),
]


def test_other_files_are_downloads_without_a_type(
    alice_client: Client, conversation: Conversation, subtests: pytest.Subtests
) -> None:
    for body, name, media_type in OTHER_FILES:
        with subtests.test(name):
            assert_download(
                alice_client.get(stored(conversation, body, name, media_type=media_type))
            )


def test_sound_without_a_type_is_named_by_its_bytes(
    alice_client: Client, conversation: Conversation, subtests: pytest.Subtests
) -> None:
    for body, name in (
        (b"RIFF\x10\n\x00\x00WAVEfmt ", "sound-2.wav"),
        (b"ID3\x04", "sound-2.mp3"),
        (b"OggS", "sound-2.ogg"),
        (b"RIFF\x10\x00\x00\x00AVI ", "sound-2.bin"),
    ):
        with subtests.test(name):
            address = stored(conversation, body, "sound-2.bin", media_type="audio/*")

            response = alice_client.get(f"{address}?download")

            assert response["Content-Disposition"] == f'attachment; filename="{name}"'
            assert response["Content-Type"] == "application/octet-stream"


WAVE = b"RIFF\x10\n\x00\x00WAVEfmt 0123456789"
SOUNDS = [
    (WAVE, "audio/wav"),
    (b"ID3\x04", "audio/mpeg"),
    (b"\xff\xfb\x90\x00", "audio/mpeg"),
    (b"\xff\xf1\x50\x80", "audio/aac"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x00\x00\x00\x20ftypM4A \x00", "audio/mp4"),
]


def test_sounds_are_played(
    alice_client: Client, conversation: Conversation, subtests: pytest.Subtests
) -> None:
    for body, media_type in SOUNDS:
        with subtests.test(repr(body)):
            response = alice_client.get(
                stored(conversation, body, "a.html", media_type="text/html")
            )

            assert response["Content-Type"] == media_type
            assert response["Content-Disposition"].startswith("inline")
            assert response["Accept-Ranges"] == "bytes"
            assert response.content == body
            assert_harmless(response)


RANGES = [
    ("bytes=0-3", 206, WAVE[:4], f"bytes 0-3/{len(WAVE)}"),
    ("bytes=20-", 206, WAVE[20:], f"bytes 20-{len(WAVE) - 1}/{len(WAVE)}"),
    ("bytes=20-9999", 206, WAVE[20:], f"bytes 20-{len(WAVE) - 1}/{len(WAVE)}"),
    ("bytes=9999-", 200, WAVE, None),
    ("bytes=5-2", 200, WAVE, None),
    ("bytes=-5", 200, WAVE, None),
    ("bytes=0-1,4-5", 200, WAVE, None),
    ("lines=0-1", 200, WAVE, None),
]


def test_ranges_of_a_sound_are_served(
    alice_client: Client, conversation: Conversation, subtests: pytest.Subtests
) -> None:
    address = stored(conversation, WAVE, "a.wav")

    for wanted, status, content, content_range in RANGES:
        with subtests.test(wanted):
            response = alice_client.get(address, headers={"Range": wanted})

            assert (response.status_code, response.content) == (status, content)
            assert response.get("Content-Range") == content_range
            assert_harmless(response)


def test_picture_can_be_downloaded(alice_client: Client, conversation: Conversation) -> None:
    response = alice_client.get(stored(conversation, png(), "spring.png") + "?download")

    assert response["Content-Disposition"] == 'attachment; filename="spring.png"'
    assert response["Content-Type"] == "application/octet-stream"


def test_names_stay_in_their_header(
    alice_client: Client, conversation: Conversation, subtests: pytest.Subtests
) -> None:
    for name in ('a"; filename="b.html', "a\r\nSet-Cookie: x=1", "../../x.html", "ü\u202e.gpj", ""):
        with subtests.test(ascii(name)):
            response = alice_client.get(stored(conversation, PAGE, name))

            assert response.status_code == 200
            assert "\r" not in response["Content-Disposition"]
            assert "/" not in response["Content-Disposition"]
            assert_harmless(response)


# --- source ------------------------------------------------------------------------------------


def test_source_is_escaped(alice_client: Client, conversation: Conversation) -> None:
    address = stored(conversation, PAGE, "page.html", media_type="text/html")

    page = alice_client.get(f"{address}source/").content.decode()

    assert "alert(document.domain)" not in page.replace("&lt;", "<").split("<code>")[0]
    assert "<script>alert" not in page
    assert "hl-" in page


def test_binary_files_have_no_source(alice_client: Client, conversation: Conversation) -> None:
    binary = alice_client.get(stored(conversation, b"\x00\x01\xff", "a.bin") + "source/")
    picture = alice_client.get(stored(conversation, png()) + "source/")

    assert "Preview isn’t available for this file type." in binary.content.decode()
    assert "<img" in picture.content.decode()


def test_direction_marks_are_removed_from_name_and_type(
    alice_client: Client, conversation: Conversation
) -> None:
    address = stored(conversation, b"x = 1", "invoice\u202egpj.exe", media_type="text/\u202epl")

    page = alice_client.get(f"{address}source/").content.decode()

    assert "invoice" in page
    assert "\u202e" not in page


def test_long_source_is_cut(alice_client: Client, conversation: Conversation) -> None:
    response = alice_client.get(stored(conversation, b"x" * 500_000, "a.txt") + "source/")

    assert "the first 400000 of 500000 characters" in response.content.decode()


# --- artifacts ---------------------------------------------------------------------------------


def artifact_address(route: str, number: int = 1) -> str:
    return reverse(route, args=[Artifact.objects.get().public_id, number])


def created(artifact_id: str = "a", **fields: Any) -> ArtifactUpdate:
    return ArtifactUpdate(op="created", artifact_id=artifact_id, **{"content": "1", **fields})


def updated(artifact_id: str = "a", content: str = "2") -> ArtifactUpdate:
    return ArtifactUpdate(op="updated", artifact_id=artifact_id, content=content)


def test_every_version_of_an_artifact_is_shown(alice_client: Client, answer: Answer) -> None:
    answer(created(title="Calc <b>", language="html", content=SCRIPT), updated(content="second"))

    first = alice_client.get(artifact_address("artifact", 1)).content.decode()
    code = alice_client.get(artifact_address("artifact_code", 1)).content.decode()
    second = alice_client.get(artifact_address("artifact_code", 2)).content.decode()

    assert SCRIPT not in first
    assert SCRIPT not in code
    assert "Calc &lt;b&gt;" in first
    assert "second" in second
    assert alice_client.get(artifact_address("artifact", 3)).status_code == 404


def test_artifact_is_downloaded_as_text(alice_client: Client, answer: Answer) -> None:
    answer(created(title="My page", language="html", content=SCRIPT))

    response = alice_client.get(artifact_address("artifact_raw"))

    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="My-page-v1.html"'
    assert response.content.decode() == SCRIPT
    assert_harmless(response)


def test_download_is_named_by_title_and_language(
    alice_client: Client, answer: Answer, subtests: pytest.Subtests
) -> None:
    for title, language, name in (
        ("Sort", "Python", "Sort-v1.py"),
        ("app.py", "python", "app-v1.py"),
        (None, "", "a-v1.txt"),
        ("x/../y", "", "x-..-y-v1.txt"),
        ("A b", "../../x", "A-b-v1.txt"),
        ("A b", "x-rust", "A-b-v1.rs"),
    ):
        with subtests.test(f"{title} in {language}"), rolled_back():
            answer(created(title=title, language=language))

            response = alice_client.get(artifact_address("artifact_raw"))

            assert response["Content-Disposition"] == f'attachment; filename="{name}"'


# --- the list ----------------------------------------------------------------------------------


@pytest.fixture
def full(answer: Answer, conversation: Conversation, alice: User) -> Message:
    """One answer with something of every kind, below a question with a picture."""
    run = answer(
        MessageStart(item=0),
        created(title="Calculator"),
        updated(),
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
    body = store_file(conversation=conversation, name="index.html", body=PAGE)
    MockupFile.objects.filter(path="index.html").update(status=FetchStatus.STORED, file=body)
    question = Message.objects.get(pk=run.message.parent_id)
    attach(question, alice, [NewFile(name="spring.png", media_type="image/png", body=png())])
    return run.message


@pytest.fixture
def files_page(alice_client: Client, conversation: Conversation) -> Callable[[], str]:
    address = reverse("conversation_files", args=[conversation.public_id])
    return lambda: " ".join(alice_client.get(address).content.decode().split())


@pytest.fixture
def conversation_page(alice_client: Client, conversation: Conversation) -> Callable[[], str]:
    address = reverse("conversation", args=[conversation.public_id])
    return lambda: alice_client.get(address).content.decode()


def test_list_shows_every_kind_of_file(files_page: Callable[[], str], full: Message) -> None:
    page = files_page()

    for words in ("Calculator", "1 earlier version", "Shop", "1 of 3 files", "Downloading…"):
        assert words in page
    assert "This path can’t be used in a web address." in page
    assert 'alt="picture-2.png"' in page
    assert 'alt="spring.png"' in page


def test_empty_list_says_so(files_page: Callable[[], str]) -> None:
    assert "No files yet" in files_page()


def test_conversation_links_its_files(conversation_page: Callable[[], str], full: Message) -> None:
    page = conversation_page()

    assert 'aria-label="Files: 4"' in page
    assert "Files (1)" in page
    assert 'alt="spring.png"' in page


def test_conversation_without_files_links_none(
    conversation_page: Callable[[], str], answer: Answer
) -> None:
    answer(MessageStart(item=0))

    page = conversation_page()

    assert "head-files" not in page
    assert "Files (" not in page


def test_lists_do_not_read_the_contents(
    files_page: Callable[[], str],
    conversation_page: Callable[[], str],
    full: Message,
    django_assert_max_num_queries: MaxQueries,
) -> None:
    with django_assert_max_num_queries(40) as queries:
        files_page()
        conversation_page()

    statements = [query["sql"] for query in queries.captured_queries]
    assert not any('"chat_filecontent"."body"' in sql for sql in statements)
    assert not any('"chat_artifactversion"."content"' in sql for sql in statements)


def test_turns_with_pictures_cost_no_more_queries(
    conversation_page: Callable[[], str],
    answer: Answer,
    alice: User,
    django_assert_max_num_queries: MaxQueries,
) -> None:
    picture = NewFile(name="a.png", media_type="image/png", body=png())
    last: Message | None = None

    def add_turns(count: int) -> None:
        nonlocal last
        for _ in range(count):
            last = answer(MessageStart(item=0), updated(content="1"), below=last).message
            attach(Message.objects.get(pk=last.parent_id), alice, [picture])

    add_turns(1)
    with django_assert_max_num_queries(60) as few:
        conversation_page()
    add_turns(4)
    with django_assert_max_num_queries(len(few.captured_queries)):
        conversation_page()


def test_canceled_edit_shows_the_pictures_again(alice_client: Client, full: Message) -> None:
    question = Message.objects.get(role=Role.USER)
    address = reverse("message_edit", args=[question.public_id])

    response = alice_client.get(f"{address}?cancel", headers={"HX-Request": "true"})

    assert 'alt="spring.png"' in response.content.decode()


# --- access ------------------------------------------------------------------------------------


def test_version_of_another_artifact_is_404(alice_client: Client, answer: Answer) -> None:
    answer(created("a"), created("b"), updated("b"))
    first = Artifact.objects.get(artifact_id="a")

    assert ArtifactVersion.objects.filter(number=2).exists()
    assert alice_client.get(reverse("artifact", args=[first.public_id, 2])).status_code == 404
