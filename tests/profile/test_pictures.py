"""Profile pictures: encoded again in a child process, and shown to people who may know the person."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.http import HttpResponse
from django.template import Context, Template
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from PIL import Image

from chat.core.pictures import read_picture
from chat.files.purge import erase_unused
from chat.models import (
    AuditEvent,
    Conversation,
    FileContent,
    Membership,
    Participant,
    ProfilePicture,
    Team,
    TeamRole,
    User,
)
from chat.profile import actions

SignIn = Callable[[User], Client]


@pytest.fixture(autouse=True)
def _no_counts() -> None:
    cache.clear()


def picture(kind: str = "PNG", size: tuple[int, int] = (400, 300), mode: str = "RGB", **options: object) -> bytes:  # fmt: skip
    body = io.BytesIO()
    Image.new(mode, size, "red").save(body, kind, **options)
    return body.getvalue()


def upload(client: Client, body: bytes) -> HttpResponse:
    file = SimpleUploadedFile("../../me.svg", body, "image/svg+xml")
    return client.post(reverse("picture_set"), {"picture": file}, follow=True)


def address_of(user: User) -> str:
    user.refresh_from_db()
    return reverse("picture", args=[user.public_id, user.picture_version])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_picture_becomes_a_small_square(signed_in: SignIn, alice: User, kind: str) -> None:
    client = signed_in(alice)

    upload(client, picture(kind))
    answer = client.get(address_of(alice))

    facts = read_picture(answer.content)
    assert facts is not None
    assert (facts.media_type, facts.width, facts.height) == ("image/webp", 192, 192)
    assert len(answer.content) < 20_000


MODES = [
    *(("PNG", mode) for mode in ("1", "L", "LA", "P", "RGBA", "I;16")),
    *(("JPEG", mode) for mode in ("L", "CMYK")),
    *(("GIF", mode) for mode in ("L", "P", "RGBA")),
    ("WEBP", "RGBA"),
]


def test_every_kind_of_pixels_is_read(subtests: pytest.Subtests) -> None:
    for kind, mode in MODES:
        with subtests.test(f"{kind} {mode}"):
            body = io.BytesIO()
            image = Image.new("RGBA" if mode == "P" else mode, (60, 40))
            image = image.convert("P") if mode == "P" else image
            transparency = {"transparency": 0} if mode == "P" else {}
            image.save(body, kind, **transparency)

            assert actions._encoded(body.getvalue())


def test_nothing_of_the_file_remains_but_its_pixels(signed_in: SignIn, alice: User) -> None:
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    client = signed_in(alice)

    upload(client, picture("JPEG", exif=exif) + b"<script>alert(1)</script>")
    body = client.get(address_of(alice)).content

    assert b"home" not in body
    assert b"script" not in body


def test_picture_is_upright(signed_in: SignIn, alice: User) -> None:
    image = Image.new("RGB", (200, 200), "black")
    image.paste("white", (0, 0, 200, 100))
    exif = Image.Exif()
    exif[0x0112] = 3
    body = io.BytesIO()
    image.save(body, "JPEG", exif=exif)
    client = signed_in(alice)

    upload(client, body.getvalue())
    shown = Image.open(io.BytesIO(client.get(address_of(alice)).content))

    assert max(shown.getpixel((96, 20))) < 60
    assert min(shown.getpixel((96, 170))) > 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "Choose a PNG"),
        (b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\xff\xff\0\0\xff\xff" * 2, "too many pixels"),
        (picture()[:120], "can’t be read"),
        (b"\xff\xd8\xff" + b"\xc0\0\x11\x08\0\x10\0\x10" + b"\0" * 40, "can’t be read"),
    ],
    ids=["svg", "bomb", "cut", "no jpeg"],
)  # fmt: skip
def test_what_is_no_picture_is_refused(
    signed_in: SignIn, alice: User, body: bytes, words: str
) -> None:
    page = upload(signed_in(alice), body)

    assert words in page.content.decode()
    assert not ProfilePicture.objects.exists()


@pytest.mark.slow
def test_many_pixels_stay_within_the_memory_of_the_child(signed_in: SignIn, alice: User) -> None:
    client = signed_in(alice)

    upload(client, picture(size=(7000, 7000), mode="RGBA"))

    assert client.get(address_of(alice)).status_code == 200


def test_large_file_is_refused(
    signed_in: SignIn, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.profile.forms.UPLOAD_BYTES", 100)

    assert "at most" in upload(signed_in(alice), picture()).content.decode()


def test_uploads_are_limited(
    signed_in: SignIn, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "PER_MINUTE", 1)
    client = signed_in(alice)
    upload(client, picture())

    assert "Wait a minute" in upload(client, picture()).content.decode()


def test_another_picture_has_another_address_and_the_old_one_ends(
    signed_in: SignIn, alice: User
) -> None:
    client = signed_in(alice)
    upload(client, picture())
    old = address_of(alice)

    upload(client, picture(mode="L"))

    assert address_of(alice) != old
    assert client.get(old).status_code == 404
    assert client.get(address_of(alice)).status_code == 200


def test_bytes_stay_while_a_picture_has_them(signed_in: SignIn, alice: User) -> None:
    client = signed_in(alice)
    upload(client, picture())

    erase_unused()
    kept = FileContent.objects.count()
    client.post(reverse("picture_remove"))
    erase_unused()

    assert (kept, FileContent.objects.count()) == (1, 0)
    alice.refresh_from_db()
    assert alice.picture_version == ""
    verbs = set(AuditEvent.objects.values_list("verb", flat=True))
    assert verbs == {"user.picture_set", "user.picture_removed"}


def test_administrator_removes_the_picture_of_another_person(
    signed_in: SignIn, administrator: User, alice: User
) -> None:
    upload(signed_in(alice), picture())

    signed_in(administrator).post(reverse("person_picture_remove", args=[alice.public_id]))

    assert not ProfilePicture.objects.exists()
    event = AuditEvent.objects.get(verb="user.picture_removed")
    assert (event.actor, event.subject) == (administrator, alice)


def test_browser_gets_bytes_that_can_only_be_shown(signed_in: SignIn, alice: User) -> None:
    client = signed_in(alice)
    upload(client, picture())

    answer = client.get(address_of(alice))

    assert answer["Content-Type"] == "image/webp"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"].startswith("sandbox")
    assert "private" in answer["Cache-Control"]


# --- who sees it ----------------------------------------------------------------------------------


def test_people_who_leave_the_team_see_initials(
    signed_in: SignIn, alice: User, bob: User, team: Team, charlie: User
) -> None:
    upload(signed_in(alice), picture())
    path = address_of(alice)

    seen = [signed_in(each).get(path).status_code for each in (bob, charlie)]
    Membership.objects.filter(user=bob).delete()

    assert seen == [200, 404]
    assert signed_in(bob).get(path).status_code == 404
    assert Client().get(path).status_code == 302


def test_guest_sees_nobody_they_share_no_conversation_with(
    signed_in: SignIn, alice: User, charlie: User, team: Team, conversation: Conversation
) -> None:
    upload(signed_in(alice), picture())
    Membership.objects.create(user=charlie, team=team, role=TeamRole.GUEST)
    before = signed_in(charlie).get(address_of(alice)).status_code
    Participant.objects.create(conversation=conversation, person=charlie, role="reader")

    assert before == 404
    assert signed_in(charlie).get(address_of(alice)).status_code == 200


def test_avatar_needs_no_statement(signed_in: SignIn, alice: User) -> None:
    upload(signed_in(alice), picture())
    alice.refresh_from_db()

    with CaptureQueriesContext(connection) as statements:
        html = Template("{% avatar user True %}").render(Context({"user": alice}))

    assert len(statements) == 0
    assert f'<img src="{address_of(alice)}" alt="" loading="lazy">' in html
    assert ">A<" in html


def test_file_for_elsewhere_has_initials(signed_in: SignIn, alice: User) -> None:
    upload(signed_in(alice), picture())
    alice.refresh_from_db()

    html = Template("{% avatar user picture=False %}").render(Context({"user": alice}))

    assert "<img" not in html
